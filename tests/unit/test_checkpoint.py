"""The model folder: whole or absent, movable, and nothing in it is ever executed."""

import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch import nn

from tformer.errors import CheckpointError
from tformer.training import checkpoint
from tformer.training.checkpoint import ModelFolder, check_tokenizer, load_into, load_state, load_weights, weights_of


class Tied(nn.Module):
    """Two layers that share a matrix, and a bias."""

    def __init__(self, value=0.0):
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.second = nn.Linear(2, 2, bias=False)
        self.second.weight = self.first.weight
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.fill_(value)


@pytest.fixture
def folder(tmp_path):
    return ModelFolder(tmp_path / "model")


def save(folder, *steps):
    for step in steps:
        folder.save(step, weights_of(Tied(step)), {"step": step, "moments": torch.full((3,), step)})


def names(path):
    return sorted(entry.name for entry in path.iterdir())


# ---- Saving and loading ----


def test_what_is_saved_is_loaded(folder):
    save(folder, 3)
    assert names(folder.checkpoint(3)) == ["manifest.json", "model.safetensors", "trainer.pt"]
    assert load_file(folder.checkpoint(3) / "model.safetensors").keys() == {"first.weight", "first.bias"}
    model = Tied()
    load_into(model, folder.checkpoint(3))
    assert all((parameter == 3).all() for parameter in model.parameters())
    assert model.second.weight is model.first.weight
    state = load_state(folder.checkpoint(3))
    assert state["step"] == 3
    assert torch.equal(state["moments"], torch.full((3,), 3))


def test_weights_know_the_tokenizer_they_are_for(tmp_path):
    folder = ModelFolder(tmp_path / "model", "a" * 64)
    save(folder, 1, 2)
    folder.average([1, 2])
    for weights in (folder.checkpoint(2), folder.path / "last", folder.averaged):
        check_tokenizer(weights, "a" * 64)
        with pytest.raises(
            CheckpointError, match=r"model\.safetensors: expected the tokenizer .*\(aaaaaaaaaaaa…\)"
        ) as caught:
            check_tokenizer(weights, "b" * 64)
        assert "(bbbbbbbbbbbb…); put that one back" in str(caught.value)
        assert "\n" not in str(caught.value)


def test_weights_that_know_no_tokenizer_take_any(folder):
    save(folder, 1)
    check_tokenizer(folder.checkpoint(1), "b" * 64)
    with pytest.raises(CheckpointError, match="cannot be read"):
        check_tokenizer(folder.checkpoint(2), "b" * 64)


def test_the_last_is_a_relative_link_to_the_newest(folder):
    save(folder, 3)
    save(folder, 7)
    assert (folder.path / "last").readlink() == Path("checkpoints") / "step-00000007"
    folder.point("best", 3)
    assert (folder.path / "best").readlink() == Path("checkpoints") / "step-00000003"
    assert folder.steps() == [3, 7]


def test_where_links_are_impossible_there_are_copies(folder, monkeypatch):
    def refuse(*_, **__):
        raise OSError("no links here")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "symlink_to", refuse)
        save(folder, 1, 2)
        folder.point("best", 1)
        for name, step in (("last", 2), ("best", 1)):
            assert not (folder.path / name).is_symlink()
            assert (load_weights(folder.path / name)["first.bias"] == step).all()
    folder.point("best", 2)  # a link where a copy was
    assert (load_weights(folder.path / "best")["first.bias"] == 2).all()
    assert names(folder.path) == ["best", "checkpoints", "last"]


def test_a_folder_works_where_it_is_moved(folder, tmp_path):
    save(folder, 1)
    moved = ModelFolder(Path(shutil.move(folder.path, tmp_path / "elsewhere")))
    assert (load_weights(moved.weights_to_use())["first.bias"] == 1).all()


def test_a_kill_at_any_moment_leaves_a_whole_checkpoint(tmp_path):
    """Kills a save at each thing that it does to the disk, one after the other."""
    code = """
import os, shutil, signal, sys
from pathlib import Path
import torch
from torch import nn
from tformer.training.checkpoint import ModelFolder, load_into, load_state, weights_of

def model(value):
    made = nn.Linear(2, 2)
    nn.init.constant_(made.weight, value)
    nn.init.constant_(made.bias, value)
    return made

def save(folder, step):
    folder.save(step, weights_of(model(step)), {"step": step})
    folder.point("best", step)
    folder.prune(keep=[step])

def child(folder, moment):
    done = 0
    def hook(event, _):
        nonlocal done
        done += event == "open" or event.startswith(("os.", "shutil."))
        if done == moment:
            os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)
    save(folder, 2)
    os._exit(0)

killed = 0
while True:
    folder = ModelFolder(Path(sys.argv[1]) / f"model-{killed}")
    save(folder, 1)
    process = os.fork()
    if process == 0:
        child(folder, killed + 1)
    if os.waitpid(process, 0)[1] == 0:
        break
    killed += 1
    newest = folder.steps()[-1]
    for whole in (folder.checkpoint(newest), folder.path / "last", folder.path / "best"):
        step = load_state(whole)["step"]
        loaded = model(0)
        load_into(loaded, whole)
        assert (loaded.weight == step).all(), whole
    save(folder, 3)
    assert not list(folder.path.rglob(".*")), list(folder.path.rglob(".*"))
    assert folder.steps() == [3]
print(killed)
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, timeout=120)
    assert done.stderr == b""
    assert int(done.stdout) > 20


def test_a_full_disk_is_told_and_harms_nothing(folder, monkeypatch):
    save(folder, 1)
    before = names(folder.checkpoints)

    def fail(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", fail)
    with pytest.raises(CheckpointError, match=r"step-00000002: cannot be written \(No space left on device\).*resume"):
        save(folder, 2)
    assert names(folder.checkpoints) == before
    assert (folder.path / "last").readlink().name == "step-00000001"


# ---- What is kept ----


def test_pruning_removes_other_steps_and_halves_and_nothing_else(folder):
    save(folder, 1, 2, 3, 4)
    foreign = [folder.checkpoints / "step-00000001-copy", folder.checkpoints / "step-old", folder.path / ".notes"]
    halves = [folder.checkpoints / ".step-00000005-99", folder.path / ".averaged-99", folder.path / ".best-99"]
    for each in (*foreign, *halves):
        each.mkdir()
    assert folder.steps() == [1, 2, 3, 4]
    folder.prune(keep=[2, 4, 9])
    assert folder.steps() == [2, 4]
    assert all(each.is_dir() for each in foreign)
    assert not any(each.exists() for each in halves)


def test_clearing_removes_the_model_and_nothing_else(folder):
    save(folder, 1)
    folder.point("best", 1)
    folder.average([1])
    parts = ("config.yaml", "tokenizer.model", "tokenizer.source.model", "tokenizer.target.model", "metrics.jsonl")
    for path in (
        folder.path / name for name in (*parts, "environment.json", "corpus.json", "tensorboard", "notes.txt")
    ):
        path.write_text("x", encoding="utf-8")
    assert folder.holds_model()
    folder.clear()
    assert names(folder.path) == ["notes.txt"]
    assert not folder.holds_model()


def test_a_run_that_goes_on_takes_back_its_end(folder):
    save(folder, 1, 2, 3)
    folder.average([1, 2, 3])
    folder.point("best", 3)
    (folder.path / ".averaged-going-99").mkdir()
    (folder.checkpoints / ".step-00000004-99").mkdir()
    folder.go_back(2, best_step=1)
    assert not folder.averaged.exists()
    assert not list(folder.path.rglob(".*"))
    assert (folder.path / "best").readlink().name == "step-00000001"
    assert (folder.path / "last").readlink().name == "step-00000002"
    for best_step in (0, 9):  # none yet, and one that is lost
        folder.go_back(2, best_step)
        assert not os.path.lexists(folder.path / "best")


# ---- Averages, and what translates ----


def test_the_average_is_the_arithmetic_mean(folder):
    generator = torch.Generator().manual_seed(1)
    for step in (1, 2, 3):
        model = Tied()
        with torch.no_grad():
            model.first.weight.normal_(generator=generator)
        folder.save(step, weights_of(model), {})
    arrays = [load_file(folder.checkpoint(step) / "model.safetensors")["first.weight"] for step in (1, 2, 3)]
    folder.average([1, 2, 3])
    mean = load_file(folder.averaged / "model.safetensors")["first.weight"]
    assert mean.dtype == np.float32
    np.testing.assert_array_equal(
        mean, np.mean([array.astype(np.float64) for array in arrays], axis=0).astype(np.float32)
    )
    folder.average([3, 1, 2])
    np.testing.assert_array_equal(load_file(folder.averaged / "model.safetensors")["first.weight"], mean)
    assert names(folder.averaged) == ["manifest.json", "model.safetensors"]


def test_the_average_translates_else_the_best_else_the_last(folder):
    save(folder, 1, 2)
    assert folder.weights_to_use() == folder.path / "last"
    folder.point("best", 1)
    assert folder.weights_to_use() == folder.path / "best"
    folder.average([1, 2])
    assert folder.weights_to_use() == folder.averaged
    folder.forget_average()
    assert folder.weights_to_use() == folder.path / "best"


def test_a_folder_without_weights_says_so(folder):
    with pytest.raises(CheckpointError, match="expected a trained model, found none of averaged, best or last"):
        folder.weights_to_use()
    assert folder.steps() == []


# ---- What is wrong ----


@pytest.mark.parametrize("content", [None, b"", b"not safetensors", "truncated"])
def test_damaged_weights_are_refused(folder, content):
    save(folder, 1)
    path = folder.checkpoint(1) / "model.safetensors"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-4] if content == "truncated" else content)
    with pytest.raises(CheckpointError, match=re.escape(f"{path}: cannot be read (")):
        load_weights(folder.checkpoint(1))


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (nn.ModuleDict({"first": nn.Linear(3, 2)}), "first.weight: expected [2, 3], got [2, 2]"),
        (nn.ModuleDict({"first": nn.Linear(2, 2, bias=False)}), "first.bias: expected none, got [2]"),
        (nn.ModuleDict({"first": nn.Linear(2, 2), "more": nn.Linear(1, 1)}), "more.bias: expected [1], got none"),
    ],
)  # fmt: skip
def test_weights_of_another_model_are_refused(folder, other, difference):
    save(folder, 1)
    before = [parameter.clone() for parameter in other.parameters()]
    with pytest.raises(CheckpointError, match="made for a model of other sizes") as error:
        load_into(other, folder.checkpoint(1))
    assert difference in str(error.value)
    assert all(map(torch.equal, before, other.parameters()))


class Malicious:
    """Runs a command where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("writer", [torch.save, lambda made, path: path.write_bytes(pickle.dumps(made))])
def test_a_pickle_is_refused_without_being_run(folder, tmp_path, writer):
    save(folder, 1)
    path, trace = folder.checkpoint(1) / "trainer.pt", tmp_path / "trace"
    writer({"step": Malicious(trace)}, path)
    with pytest.raises(CheckpointError, match=re.escape(f"{path}: cannot be read (")):
        load_state(folder.checkpoint(1))
    assert not trace.exists()


@pytest.mark.parametrize("content", [None, b"", b"nonsense", "truncated"])
def test_a_damaged_state_is_refused(folder, content):
    save(folder, 1)
    path = folder.checkpoint(1) / "trainer.pt"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-100] if content == "truncated" else content)
    with pytest.raises(
        CheckpointError, match=rf"trainer\.pt: cannot be read .*; copy {folder.checkpoint(1)} anew, or train again"
    ):
        load_state(folder.checkpoint(1))
