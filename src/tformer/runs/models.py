"""Trained models, found and opened, for the commands that run one."""

from collections.abc import Sequence
from pathlib import Path

from tformer.config import Config
from tformer.decoding.translator import Translator, open_models
from tformer.errors import ConfigError
from tformer.training.checkpoint import ModelFolder

RUNS = Path("runs")


def load(*models: str | Path, device: str = "auto", **decoding: float | None) -> Translator:
    """Open trained models as one translator; several vote.

    Args:
        models: model folders; none: the newest in ./runs.
        device: where to compute: auto, cpu, cuda, cuda:N or mps.
        decoding: settings under `decoding` that replace the first model's own; None leaves them.

    Raises:
        ConfigError: no such folder or device.
        CheckpointError: a folder that holds no model, or models that cannot vote together.
    """
    return open_translator([Path(model) for model in models], device, **decoding)[0]


def open_translator(models: Sequence[Path], device: str, **decoding: float | None) -> tuple[Translator, Config, str]:
    """Open these models, or else the newest in ./runs: as `open_models`, which says what is given."""
    return open_models([ModelFolder(model) for model in models] or [newest_model()], device, **decoding)


def newest_model() -> ModelFolder:
    """Find the model in ./runs that was written to last.

    Raises:
        ConfigError: there is none.
    """
    folders = [ModelFolder(path) for path in RUNS.iterdir()] if RUNS.is_dir() else []
    trained = [folder for folder in folders if folder.holds_model() and folder.steps()]
    if not trained:
        raise ConfigError(f"no model in {RUNS.absolute()}; train one (tformer train), or name its folder with --model")
    return max(trained, key=lambda folder: folder.checkpoint(folder.steps()[-1]).stat().st_mtime)


def newest_run() -> ModelFolder:
    """Find the run in ./runs that was written to last, whether it has a checkpoint or not.

    Raises:
        ConfigError: there is none.
    """
    folders = [ModelFolder(path) for path in RUNS.iterdir()] if RUNS.is_dir() else []
    begun = [folder for folder in folders if folder.holds_model()]
    if not begun:
        raise ConfigError(f"no run in {RUNS.absolute()}; begin one (tformer train), or name its folder with --model")
    return max(begun, key=lambda folder: max(_written(folder.config), _written(folder.metrics)))


def _written(path: Path) -> float:
    return path.stat().st_mtime if path.is_file() else 0.0


def search_name(translator: Translator) -> str:
    """Name the search in a few words, for what is said and reported."""
    beam_size = translator.decoding.beam_size
    return f"beam {beam_size}, length penalty {translator.decoding.length_penalty:g}" if beam_size > 1 else "greedy"
