"""What a person sees while something runs, on stderr: one tqdm line on a terminal, plain lines in a file."""

import math
import os
import sys
import time

from tqdm import tqdm

_PLAIN_LINES = 20  # progress lines of a whole run where there is no terminal
_LONG_FILE = 3000  # lines: what is shorter is translated before one wonders


def say(line: str = "") -> None:
    """Write one line for a person; results alone go to stdout. Of several processes of a run, one speaks."""
    if _is_primary():
        tqdm.write(line, file=sys.stderr)


class TrainingProgress:
    """Step, loss, tokens a second, learning rate and time left.

    Args:
        total_steps: the run's last step.
        first_step: steps done before, where a run is resumed.
    """

    def __init__(self, total_steps: int, first_step: int = 0) -> None:
        self._bar = tqdm(
            total=total_steps,
            initial=first_step,
            unit="step",
            file=sys.stderr,
            dynamic_ncols=True,
            disable=not (_is_primary() and sys.stderr.isatty()),
            bar_format="step {n_fmt}/{total_fmt} |{bar:10}| {remaining} left{desc}",
        )
        self._total_steps = total_steps
        self._first_step = first_step
        self._started = time.monotonic()
        self._due = first_step + self._interval()

    def set_total(self, total_steps: int) -> None:
        """Tell where the run ends, once that is known."""
        self._total_steps = self._bar.total = total_steps

    def update(self, step: int, loss: float, tokens_per_second: float, learning_rate: float) -> None:
        """Show the newest step; loss in nats a token, label smoothing included."""
        shown = f"loss {loss:.3f} · {tokens_per_second:,.0f} tokens/s · learning rate {learning_rate:.2e}"
        if not self._bar.disable:
            self._bar.set_description_str(f" · {shown}", refresh=False)
            self._bar.update(step - self._bar.n)
        elif step >= self._due:
            seconds_a_step = (time.monotonic() - self._started) / (step - self._first_step)
            left = seconds_a_step * (self._total_steps - step)
            say(f"step {step}/{self._total_steps} · {shown} · {_clock(left)} left")
            self._due = step + self._interval()

    def close(self) -> None:
        """Leave the terminal as it was found."""
        self._bar.close()

    def _interval(self) -> int:
        return max(1, min(self._total_steps // _PLAIN_LINES, 1000))


class LineProgress:
    """Lines translated, and the time left; plain lines, where there is no terminal, for long files only.

    Args:
        total_lines: of the whole file; 0: not known, and nothing is shown.
    """

    def __init__(self, total_lines: int) -> None:
        self._bar = tqdm(
            total=total_lines,
            unit="line",
            file=sys.stderr,
            dynamic_ncols=True,
            disable=not (_is_primary() and total_lines and sys.stderr.isatty()),
            bar_format="line {n_fmt}/{total_fmt} |{bar:10}| {remaining} left",
        )
        self._total_lines = total_lines
        self._started = time.monotonic()
        self._interval = max(_LONG_FILE, total_lines // _PLAIN_LINES)
        self._due = self._interval if total_lines else math.inf

    def update(self, line: int) -> None:
        """Show the number of the newest line."""
        if not self._bar.disable:
            self._bar.update(line - self._bar.n)
        elif line >= self._due:
            seconds = time.monotonic() - self._started
            left = seconds / line * (self._total_lines - line)
            say(f"line {line}/{self._total_lines} · {line / seconds:,.1f} lines/s · {_clock(left)} left")
            self._due = line + self._interval

    def close(self) -> None:
        """Leave the terminal as it was found."""
        self._bar.close()


def _is_primary() -> bool:
    """Tell whether this process is the one that speaks, of those that torchrun started."""
    return "MASTER_ADDR" not in os.environ or os.environ.get("RANK", "0") == "0"


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes:02d}:{seconds:02d}"
