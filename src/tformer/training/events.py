"""TensorBoard's event files, from the same lines as metrics.jsonl, where `training.tensorboard` asks for them."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from tformer.errors import ConfigError

EVENTS = "tensorboard"  # the folder, within the model's


def check_tensorboard() -> None:
    """Refuse to promise event files where what writes them is missing.

    Raises:
        ConfigError: it is.
    """
    if find_spec("tensorboard") is None:
        raise ConfigError(
            "training.tensorboard: expected the package tensorboard, which writes the event files, found none; "
            "pip install 'tformer[tensorboard]', or set it to false (tformer report shows the same curves)"
        )


@contextlib.contextmanager
def event_writer(folder: Path, step: int) -> Iterator[Callable[[Mapping[str, object]], None]]:
    """Give what adds a line of metrics to the event files of a model folder.

    Args:
        folder: the model's.
        step: where the run goes on; what a former one has written of later steps no longer counts.
    """
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder / EVENTS), purge_step=step + 1)

    def add(line: Mapping[str, object]) -> None:
        what = line["split"] if line.get("weights", "last") == "last" else line["weights"]
        for name, value in line.items():
            if isinstance(value, float) and name != "elapsed_seconds":
                writer.add_scalar(f"{what}/{name}", value, line["step"])

    try:
        yield add
    finally:
        writer.close()
