"""What can go wrong in a way that a user can mend. Each message says: expected, got, where, what to do next."""


class TformerError(Exception):
    """Content that is wrong: data, a checkpoint, a run. The command line prints the message alone.

    Attributes:
        said: another process of the run prints it.
    """

    exit_code = 1
    said = False


class ConfigError(TformerError):
    """A request that cannot be met: a setting, an option, or a path that does not exist."""

    exit_code = 2


class DataError(TformerError):
    """A corpus that cannot be used as it is."""


class CheckpointError(TformerError):
    """A model folder or checkpoint that is missing a part, damaged, or made for something else."""


class InterruptedRun(TformerError):  # noqa: N818 - it is no error: the run was asked to end, and has
    """A signal ended a run, after everything was saved.

    Args:
        message: how to go on.
        signal_number: the exit code is 128 more, as shells have it.
    """

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number
