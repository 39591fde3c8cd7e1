"""The model folder on disk: checkpoints that are whole or absent, the best and the last of them, their mean (§6.1).

Weights are safetensors, the trainer's state is loaded with `weights_only=True`: nothing in a model folder is ever
executed, and nothing outside of it is read or written by its links. Each file is read only if it has the size and the
checksum that the manifest beside it tells.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from tformer.data.tokenizer import TOKENIZER_FILES
from tformer.errors import CheckpointError
from tformer.training.distributed import like, whole
from tformer.training.events import EVENTS
from tformer.training.files import MANIFEST, appearing, fault_of, flush_to_disk, remove, write_text

WEIGHTS = "model.safetensors"
STATE = "trainer.pt"
_TOKENIZER = "tokenizer_sha256"
_CHECKPOINT = re.compile(r"step-(\d{8})")
_HALF_WRITTEN = re.compile(
    r"\.(step-\d{8}|averaged|best|last|checkpoints|(config|environment|corpus)\.\w+)(-going)?-\d+"
)


class ModelFolder:
    """Everything of one model, in one folder that can be moved, copied and opened elsewhere.

    config.yaml, tokenizer.model (or one for each language), metrics.jsonl, environment.json, corpus.json;
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
        self.corpus = path / "corpus.json"
        self.checkpoints = path / "checkpoints"
        self.averaged = path / "averaged"

    def holds_model(self) -> bool:
        """Tell whether a run has begun here."""
        return self.config.is_file()

    def describe(self, config: str, environment: str, corpus: str) -> None:
        """Write the settings and the circumstances of a run, and what its corpus was like, each whole or as it was.

        Raises:
            CheckpointError: they cannot be written.
        """
        with _writing(self.path):
            write_text(self.environment, environment)
            write_text(self.corpus, corpus)
            write_text(self.config, config)

    def clear(self) -> None:
        """Remove a former run, and nothing else that may lie in the folder."""
        for part in self._parts():
            remove(part)
        self._clear_away()

    def refuse_links_out(self) -> None:
        """See that no part of the folder is a link that leads out of it, to be read or overwritten there.

        Raises:
            CheckpointError: one is.
        """
        folders = [self.averaged, *map(self.checkpoint, self.steps()), self.path / "best", self.path / "last"]
        inner = (folder / name for folder in folders for name in (WEIGHTS, STATE, MANIFEST))
        home = self.path.resolve()
        for part in (*self._parts(), *folders, *inner):
            if not part.resolve().is_relative_to(home):
                raise CheckpointError(
                    f"{part}: expected a part of the model, found a link to {part.resolve()}, outside of the folder; "
                    "copy what it leads to in its place, if it is to be trusted"
                )

    def _parts(self) -> list[Path]:
        """Name all that makes a model, the settings last: while they are there, the folder holds a model."""
        names = ("best", "last", "averaged", "checkpoints", "metrics.jsonl", "environment.json", "corpus.json")
        return [*(self.path / name for name in (*names, EVENTS, *TOKENIZER_FILES)), self.config]

    def steps(self) -> list[int]:
        """List the steps that have a checkpoint, in order."""
        if not self.checkpoints.is_dir():
            return []
        found = (_CHECKPOINT.fullmatch(entry.name) for entry in self.checkpoints.iterdir())
        return sorted(int(name[1]) for name in found if name)

    def newest_whole(self) -> tuple[int | None, list[str]]:
        """Find the newest step whose checkpoint is whole, and say what is wrong with each one that is newer."""
        faults: list[str] = []
        for step in reversed(self.steps()):
            fault = fault_of(self.checkpoint(step), (WEIGHTS, STATE))
            if fault is None:
                return step, faults
            faults.append(f"step {step}: {fault}")
        return None, faults

    def whole(self, steps: Iterable[int]) -> list[int]:
        """Give those of these steps whose weights are whole."""
        return [step for step in steps if fault_of(self.checkpoint(step), (WEIGHTS,)) is None]

    def checkpoint(self, step: int) -> Path:
        """Give the folder of a step's checkpoint."""
        return self.checkpoints / f"step-{step:08d}"

    def save(self, step: int, weights: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Write a checkpoint beside the others and let `last` point to it; a reader sees all of it or nothing.

        Raises:
            CheckpointError: it cannot be written; those from before are as they were.
        """
        with _writing(self.checkpoint(step)):
            with appearing(self.checkpoint(step)) as folder:
                save_file(dict(weights), folder / WEIGHTS, self._metadata)
                torch.save(dict(state), folder / STATE)
            self.point("last", step)

    def point(self, name: str, step: int) -> None:
        """Let `best` or `last` stand for a step's checkpoint: a relative link, or a copy where links are impossible.

        Raises:
            CheckpointError: it cannot be written; what it stood for is as it was.
        """
        link, target = self.path / name, self.checkpoint(step)
        fresh = self.path / f".{name}-{os.getpid()}"
        with _writing(link):
            remove(fresh)
            try:
                fresh.symlink_to(target.relative_to(self.path), target_is_directory=True)
                if link.is_dir() and not link.is_symlink():
                    remove(link)
                os.replace(fresh, link)
            except OSError:
                remove(fresh)
                with appearing(link) as folder:
                    shutil.copytree(target, folder, dirs_exist_ok=True)
            flush_to_disk(self.path)

    def average(self, steps: Sequence[int]) -> None:
        """Write the mean of these checkpoints' weights to `averaged/` (§6.1).

        Raises:
            CheckpointError: one of them is damaged, or the mean cannot be written.
        """
        weights = [load_weights(self.checkpoint(step)) for step in steps]
        # summed in float64, so that the mean does not depend on the order
        mean = {
            name: (sum(each[name].double() for each in weights) / len(weights)).to(first.dtype)  # type: ignore[union-attr]
            for name, first in weights[0].items()
        }
        with _writing(self.averaged), appearing(self.averaged) as folder:
            save_file(mean, folder / WEIGHTS, self._metadata)

    def forget_average(self) -> None:
        """Remove the mean.

        Raises:
            CheckpointError: it cannot be removed.
        """
        with _writing(self.averaged, "removed"):
            remove(self.averaged)

    def go_back(self, step: int, best_step: int) -> None:
        """Let `last` and `best` stand for what they did at a step, and forget the mean; `best_step` 0: no best yet.

        What a killed run has left half written or half removed goes too.

        Raises:
            CheckpointError: the folder cannot be changed.
        """
        with _writing(self.path, "taken back to an earlier step"):
            self._clear_away()
            remove(self.averaged)
            self.point("last", step)
            if best_step and self.checkpoint(best_step).is_dir():
                self.point("best", best_step)
            else:
                remove(self.path / "best")

    def prune(self, keep: Iterable[int]) -> None:
        """Remove the checkpoints of all other steps, and what a killed run left half written; nothing else.

        Raises:
            CheckpointError: something cannot be removed.
        """
        with _writing(self.checkpoints, "cleared of former checkpoints"):
            for step in set(self.steps()).difference(keep):
                remove(self.checkpoint(step))
            self._clear_away()

    def _clear_away(self) -> None:
        for parent in (self.path, self.checkpoints):
            for entry in list(parent.iterdir()) if parent.is_dir() else ():
                if _HALF_WRITTEN.fullmatch(entry.name):
                    remove(entry)

    def weights_to_use(self) -> Path:
        """Choose what translates: the average if the run has ended, else the best, else the last.

        Raises:
            CheckpointError: the folder holds no weights, or a link that leads out of it.
        """
        self.refuse_links_out()
        for folder in (self.averaged, self.path / "best", self.path / "last"):
            if (folder / WEIGHTS).is_file():
                return folder
        raise CheckpointError(
            f"{self.path}: expected a trained model, found none of averaged, best or last; was its training ever saved?"
        )


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Give a model's weights by name, on the CPU; tied matrices appear once, under their first name.

    Those of a model that is sharded are gathered: all processes ask together.
    """
    return {name: whole(parameter.detach()).cpu().contiguous() for name, parameter in model.named_parameters()}


def load_weights(folder: Path) -> dict[str, Tensor]:
    """Read the weights of one checkpoint, or of an average, onto the CPU.

    Raises:
        CheckpointError: there are none, or the file is damaged.
    """
    with _reading(folder, WEIGHTS) as path:
        return load_file(path)


def check_tokenizer(folder: Path, fingerprint: str) -> None:
    """See that the weights of one checkpoint, or of an average, are for these vocabularies.

    Raises:
        CheckpointError: they are for others, or cannot be read.
    """
    with _reading(folder, WEIGHTS) as path, safe_open(path, framework="pt") as file:
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
            parameter.copy_(like(parameter, weights[name]))


def load_state(folder: Path) -> dict[str, Any]:
    """Read the trainer's state of one checkpoint, as plain tensors, numbers and strings.

    Raises:
        CheckpointError: there is none, or the file is damaged.
    """
    with _reading(folder, STATE) as path:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        return state


@contextlib.contextmanager
def _reading(folder: Path, name: str) -> Iterator[Path]:
    """Give the path of a file that is whole, and make one message of whatever is wrong with it."""
    path = folder / name
    folder = folder.resolve()  # `last` may come to stand for another checkpoint meanwhile
    if fault := fault_of(folder, (name,)):
        raise CheckpointError(
            f"{path}: cannot be read ({fault.removeprefix(f'{name}: ')}); copy {path.parent} anew, or train again"
        )
    try:
        yield folder / name
    except Exception as error:  # torch raises half a dozen types for what is no file of its own
        raise CheckpointError(
            f"{path}: cannot be read (no {'weights' if name == WEIGHTS else 'trainer state'} of tformer's: "
            f"{type(error).__name__}); copy {path.parent} anew, or train again"
        ) from None


@contextlib.contextmanager
def _writing(path: Path, what: str = "written") -> Iterator[None]:
    """Make one message of whatever keeps a disk from taking something."""
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:  # each library has its own for a full disk
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise CheckpointError(
            f"{path}: cannot be {what} ({reason}); see whether the disk is full or read-only; former checkpoints are "
            "as they were, and --resume goes on from the newest"
        ) from error


def _shape(shape: torch.Size | None) -> str:
    return "none" if shape is None else str(list(shape))
