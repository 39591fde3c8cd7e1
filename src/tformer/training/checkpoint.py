"""The model folder on disk: checkpoints that are whole or absent, the best and the last of them, their mean (§6.1).

Weights are safetensors, the trainer's state is loaded with `weights_only=True`: nothing in a model folder is ever
executed.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from tformer.data.tokenizer import TOKENIZER_FILES
from tformer.errors import CheckpointError

WEIGHTS = "model.safetensors"
STATE = "trainer.pt"
_TOKENIZER = "tokenizer_sha256"
_CHECKPOINT = re.compile(r"step-(\d{8})")
_HALF_WRITTEN = re.compile(r"\.(step-\d{8}|averaged|best|last)-\d+")


class ModelFolder:
    """Everything of one model, in one folder that can be moved, copied and opened elsewhere.

    config.yaml, tokenizer.model (or one for each language), metrics.jsonl, environment.json;
    checkpoints/step-00001000/ with weights and trainer state; `last` and `best` point to one of these; `averaged/`
    holds the weights' mean once a run has ended.

    Args:
        path: the folder; it need not exist yet.
        tokenizer: fingerprint of the vocabularies that the weights are for, which is written into each file of
            weights; None: not known yet.
    """

    def __init__(self, path: Path, tokenizer: str | None = None) -> None:
        self.path = path
        self._metadata = None if tokenizer is None else {_TOKENIZER: tokenizer}
        self.config = path / "config.yaml"
        self.metrics = path / "metrics.jsonl"
        self.environment = path / "environment.json"
        self.checkpoints = path / "checkpoints"
        self.averaged = path / "averaged"

    def holds_model(self) -> bool:
        """Tell whether a run has begun here."""
        return self.config.is_file()

    def clear(self) -> None:
        """Remove a former run, and nothing else that may lie in the folder."""
        for name in ("best", "last"):
            _remove(self.path / name)
        for part in (self.averaged, self.checkpoints, self.config, self.metrics, self.environment):
            _remove(part)
        for name in TOKENIZER_FILES:
            _remove(self.path / name)

    def steps(self) -> list[int]:
        """List the steps that have a checkpoint, in order."""
        if not self.checkpoints.is_dir():
            return []
        found = (_CHECKPOINT.fullmatch(entry.name) for entry in self.checkpoints.iterdir())
        return sorted(int(name[1]) for name in found if name)

    def checkpoint(self, step: int) -> Path:
        """Give the folder of a step's checkpoint."""
        return self.checkpoints / f"step-{step:08d}"

    def save(self, step: int, model: nn.Module, state: Mapping[str, Any]) -> None:
        """Write a checkpoint beside the others and let `last` point to it; a reader sees all of it or nothing.

        Raises:
            CheckpointError: it cannot be written; those from before are as they were.
        """
        try:
            with _appearing(self.checkpoint(step)) as folder:
                save_file(weights_of(model), folder / WEIGHTS, self._metadata)
                torch.save(dict(state), folder / STATE)
        except (OSError, RuntimeError, SafetensorError) as error:  # each library has its own for a full disk
            raise CheckpointError(
                f"{self.checkpoint(step)}: cannot be written ({error}); see whether the disk is full; former "
                "checkpoints are as they were, and --resume goes on from the newest"
            ) from error
        self.point("last", step)

    def point(self, name: str, step: int) -> None:
        """Let `best` or `last` stand for a step's checkpoint: a relative link, or a copy where links are impossible."""
        link, target = self.path / name, self.checkpoint(step)
        fresh = self.path / f".{name}-{os.getpid()}"
        _remove(fresh)
        try:
            fresh.symlink_to(target.relative_to(self.path), target_is_directory=True)
            if link.is_dir() and not link.is_symlink():
                _remove(link)
            os.replace(fresh, link)
        except OSError:
            _remove(fresh)
            with _appearing(link) as folder:
                shutil.copytree(target, folder, dirs_exist_ok=True)

    def average(self, steps: Iterable[int]) -> None:
        """Write the mean of these checkpoints' weights to `averaged/` (§6.1)."""
        weights = [load_weights(self.checkpoint(step)) for step in steps]
        # summed in float64, so that the mean does not depend on the order
        mean = {
            name: (sum(each[name].double() for each in weights) / len(weights)).to(first.dtype)  # type: ignore[union-attr]
            for name, first in weights[0].items()
        }
        with _appearing(self.averaged) as folder:
            save_file(mean, folder / WEIGHTS, self._metadata)

    def forget_average(self) -> None:
        """Remove the mean."""
        _remove(self.averaged)

    def forget_end(self, best_step: int) -> None:
        """Take back what the end of a run found, as it goes on: its mean and its best; `best_step` 0: none."""
        self.forget_average()
        if best_step:
            self.point("best", best_step)
        else:
            _remove(self.path / "best")

    def prune(self, keep: Iterable[int]) -> None:
        """Remove the checkpoints of all other steps, and what a killed run left half written; nothing else."""
        for step in set(self.steps()).difference(keep):
            _remove(self.checkpoint(step))
        for entry in (*self.path.iterdir(), *self.checkpoints.iterdir()):
            if _HALF_WRITTEN.fullmatch(entry.name):
                _remove(entry)

    def weights_to_use(self) -> Path:
        """Choose what translates: the average if the run has ended, else the best, else the last.

        Raises:
            CheckpointError: the folder holds no weights.
        """
        for folder in (self.averaged, self.path / "best", self.path / "last"):
            if (folder / WEIGHTS).is_file():
                return folder
        raise CheckpointError(
            f"{self.path}: expected a trained model, found none of averaged, best or last; was its training ever saved?"
        )


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Give a model's weights by name, on the CPU; tied matrices appear once, under their first name."""
    return {name: parameter.detach().cpu().contiguous() for name, parameter in model.named_parameters()}


def load_weights(folder: Path) -> dict[str, Tensor]:
    """Read the weights of one checkpoint, or of an average, onto the CPU.

    Raises:
        CheckpointError: there are none, or the file is damaged.
    """
    with _reading(folder / WEIGHTS):
        return load_file(folder / WEIGHTS)


def check_tokenizer(folder: Path, fingerprint: str) -> None:
    """See that the weights of one checkpoint, or of an average, are for these vocabularies.

    Raises:
        CheckpointError: they are for others, or cannot be read.
    """
    with _reading(folder / WEIGHTS), safe_open(folder / WEIGHTS, framework="pt") as file:
        expected = (file.metadata() or {}).get(_TOKENIZER, fingerprint)  # weights from elsewhere may not say
    if fingerprint != expected:
        raise CheckpointError(
            f"{folder / WEIGHTS}: expected the tokenizer it was trained with ({expected[:12]}…), got another beside it "
            f"({fingerprint[:12]}…); put that one back, or train again"
        )


def load_into(model: nn.Module, folder: Path) -> None:
    """Put a checkpoint's weights into a model of the same shape.

    Raises:
        CheckpointError: the weights are damaged, or made for a model of other sizes.
    """
    weights = load_weights(folder)
    expected = {name: parameter.shape for name, parameter in model.named_parameters()}
    found = {name: tensor.shape for name, tensor in weights.items()}
    if expected != found:
        differing = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
        raise CheckpointError(
            f"{folder / WEIGHTS}: made for a model of other sizes ({len(differing)} tensors differ, the first is "
            f"{differing[0]}: expected {_shape(expected.get(differing[0]))}, got {_shape(found.get(differing[0]))}); "
            "is its config.yaml the one it was trained with?"
        )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])


def load_state(folder: Path) -> dict[str, Any]:
    """Read the trainer's state of one checkpoint, as plain tensors, numbers and strings.

    Raises:
        CheckpointError: there is none, or the file is damaged.
    """
    try:
        state: dict[str, Any] = torch.load(folder / STATE, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises half a dozen types for a damaged file
        raise CheckpointError(
            f"{folder / STATE}: cannot be read ({type(error).__name__}); remove {folder} to resume from the one before"
        ) from None
    return state


@contextlib.contextmanager
def _reading(weights: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{weights}: cannot be read ({error}); copy it anew, or train again") from None


def _shape(shape: torch.Size | None) -> str:
    return "none" if shape is None else str(list(shape))


@contextlib.contextmanager
def _appearing(folder: Path) -> Iterator[Path]:
    """Let a folder appear all at once: filled under another name, flushed to the disk, then renamed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = folder.with_name(f".{folder.name}-{os.getpid()}")
    _remove(fresh)
    fresh.mkdir()
    try:
        yield fresh
        for part in (*fresh.iterdir(), fresh):
            _flush_to_disk(part)
        _remove(folder)
        fresh.rename(folder)
        _flush_to_disk(folder.parent)
    finally:
        _remove(fresh)


def _flush_to_disk(path: Path) -> None:
    if os.name == "nt" and path.is_dir():  # Windows opens no folders
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
