"""Minutes turned into steps, once: schedules depend on steps only."""

import statistics

from tformer.config import TrainingConfig

_WINDOWS = 6  # by whose median pace minutes are turned into steps,
_SHARE = 0.05  # and of the minutes, lest a hitch decide, if warm-up lasts so long
_TRAINING_SHARE = 0.9  # of the minutes; validation has the rest


class Pace:
    """How long steps take, from a few windows of them.

    Args:
        config: with `max_minutes`.
    """

    def __init__(self, config: TrainingConfig) -> None:
        self._config = config
        self._windows: list[float] = []

    def note(self, seconds: float, steps: int) -> None:
        """Take a window of so many steps into account."""
        self._windows.append(seconds / steps)

    def is_known(self, step: int, timed_seconds: float) -> bool:
        """Tell whether enough has been seen; until warm-up is over no schedule asks where the run will end.

        Args:
            step: updates done.
            timed_seconds: how long this process has trained.
        """
        assert self._config.max_minutes is not None
        if len(self._windows) < _WINDOWS:
            return False
        return timed_seconds >= _SHARE * self._config.max_minutes * 60 or step >= self._config.warmup_steps

    @property
    def seconds_a_step(self) -> float:
        """The median over the windows."""
        return statistics.median(self._windows)

    def last_step(self, step: int, elapsed_seconds: float) -> int:
        """Say where the run will end.

        Args:
            step: updates done.
            elapsed_seconds: of the whole run, before a resume too.
        """
        assert self._config.max_minutes is not None
        seconds_left = self._config.max_minutes * 60 - elapsed_seconds
        steps = step + int(_TRAINING_SHARE * seconds_left / self.seconds_a_step)
        return min(max(step, self._config.warmup_steps + 1, steps), self._config.max_steps)
