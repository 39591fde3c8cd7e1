"""Checkpoints that a disk, a copy or a stranger has damaged: each is told, passed over or refused, and none is run."""

import json
import os
import pickle
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tformer.errors import CheckpointError
from tformer.training.checkpoint import ModelFolder, load_into, load_state, load_weights, weights_of
from tformer.training.files import appearing, fault_of, remove, write_text

FILES = ("manifest.json", "model.safetensors", "trainer.pt")


@pytest.fixture
def folder(tmp_path):
    """A model with checkpoints of three steps, the second of them the best, and their mean."""
    folder = ModelFolder(tmp_path / "model")
    for step in (1, 2, 3):
        folder.save(step, weights_of(model(step)), {"step": step, "moments": torch.full((3,), step)})
    folder.point("best", 2)
    folder.average([1, 2, 3])
    return folder


def model(value):
    made = nn.Linear(3, 2)
    nn.init.constant_(made.weight, value)
    nn.init.constant_(made.bias, value)
    return made


def flip(path, bit):
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def unless_refused(load, checkpoint):
    """What is loaded, or None after one line."""
    try:
        return load(checkpoint)
    except CheckpointError as error:
        message = str(error)
    assert "\n" not in message
    return None


# ---- Which one is whole ----


def test_the_newest_whole_one_is_found_whatever_was_torn(folder):
    assert folder.newest_whole() == (3, [])
    torn = folder.checkpoint(3) / "trainer.pt"
    torn.write_bytes(torn.read_bytes()[:100])
    (folder.checkpoint(2) / "manifest.json").unlink()
    step, faults = folder.newest_whole()
    assert step == 1
    assert re.fullmatch(r"step 3: trainer\.pt: expected \d+ bytes, found 100", faults[0])
    assert faults[1:] == ["step 2: there is no manifest.json beside it"]
    shutil.rmtree(folder.checkpoint(1))
    folder.checkpoint(1).mkdir()
    assert folder.newest_whole() == (None, [*faults, "step 1: there is no model.safetensors"])
    assert folder.whole([1, 2, 3]) == [3]  # for whoever wants the weights alone


def test_each_of_a_thousand_flipped_bits_is_refused_or_harmless(folder):
    """A bit of any file of a checkpoint: weights and state are those that were saved, or none."""
    random = np.random.default_rng(1)
    checkpoint = folder.checkpoint(3)
    refused = 0
    for _ in range(1000):
        path = checkpoint / FILES[random.integers(len(FILES))]
        before = path.read_bytes()
        flip(path, int(random.integers(8 * len(before))))
        load = load_state if path.name == "trainer.pt" else load_weights
        loaded = unless_refused(load, checkpoint)
        if loaded is None:
            refused += 1
        else:
            tensors = [loaded["moments"]] if load is load_state else loaded.values()
            assert all((tensor == 3).all() for tensor in tensors)
        path.write_bytes(before)
    assert 900 < refused < 1000  # white space of a manifest may change
    assert folder.newest_whole() == (3, [])


@pytest.mark.parametrize("name", FILES)
def test_every_truncation_is_refused(folder, name):
    path = folder.checkpoint(3) / name
    content = path.read_bytes()
    for size in range(0, len(content) - 3, 7):  # a manifest without its last line end is harmless
        path.write_bytes(content[:size])
        assert folder.newest_whole()[0] == 2


@pytest.mark.parametrize(
    "manifest",
    ["[]", "{}", '{"files": []}', '{"files": {"model.safetensors": {"bytes": "x"}}}', "[" * 10**5, "\xff", "null"],
)
def test_a_manifest_that_makes_no_sense_is_refused(folder, manifest):
    (folder.checkpoint(3) / "manifest.json").write_text(manifest, encoding="latin-1")
    with pytest.raises(CheckpointError, match=r"model\.safetensors: cannot be read \(manifest\.json is damaged\)"):
        load_weights(folder.checkpoint(3))


def test_a_manifest_tells_sizes_and_checksums(folder):
    files = json.loads((folder.averaged / "manifest.json").read_text(encoding="utf-8"))["files"]
    weights = folder.averaged / "model.safetensors"
    assert files.keys() == {"model.safetensors"}
    assert files["model.safetensors"]["bytes"] == weights.stat().st_size
    assert re.fullmatch("[0-9a-f]{32}", files["model.safetensors"]["xxh3_128"])
    assert fault_of(folder.averaged, ["model.safetensors"]) is None


def test_a_checkpoint_that_is_replaced_while_it_is_read_is_not_mistaken_for_damaged(folder, monkeypatch):
    """`last` may move on between the reading of a manifest and of the file that it describes."""
    read = Path.read_text

    def read_and_move_on(path, *arguments, **settings):
        text = read(path, *arguments, **settings)
        folder.save(4, weights_of(model(4)), {})
        return text

    monkeypatch.setattr(Path, "read_text", read_and_move_on)
    assert (load_weights(folder.path / "last")["bias"] == 3).all()


# ---- Writing and removing ----


def test_what_cannot_be_written_leaves_what_was(folder, monkeypatch, tmp_path):
    path = tmp_path / "config.yaml"
    write_text(path, "old\n")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_text(path, "new\n")
    with pytest.raises(OSError, match="No space"), appearing(folder.averaged) as fresh:
        (fresh / "model.safetensors").write_bytes(b"new")
    assert path.read_text(encoding="utf-8") == "old\n"
    assert (load_weights(folder.averaged)["bias"] == 2).all()
    assert not list(tmp_path.rglob(".*"))


def test_a_folder_that_is_removed_is_gone_at_once(folder, monkeypatch):
    """A kill in the middle of it leaves nothing that could be taken for a checkpoint."""

    def killed(path, *_, **__):
        assert Path(path).is_dir()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            remove(folder.checkpoint(2))
    assert folder.steps() == [1, 3]
    folder.prune(keep=[1, 3])
    assert not list(folder.path.rglob(".*"))


# ---- What leads out of the folder ----


PARTS = ("best", "last", "averaged", "checkpoints", "metrics.jsonl", "config.yaml", "tokenizer.model")
PARTS += ("environment.json", "corpus.json")
PARTS += tuple(f"{place}/{name}" for place in ("checkpoints/step-00000003", "averaged") for name in FILES[:2])


@pytest.mark.parametrize("name", PARTS)
def test_a_link_that_leads_out_of_the_folder_is_refused(folder, tmp_path, name):
    outside = tmp_path / "outside"
    shutil.copytree(folder.path, outside)
    path = folder.path / name
    remove(path)
    path.symlink_to(outside / name)
    with pytest.raises(CheckpointError, match=r"expected a part of the model, found a link to .* outside"):
        folder.refuse_links_out()
    with pytest.raises(CheckpointError, match="outside of the folder"):
        folder.weights_to_use()


def test_a_folder_that_is_itself_a_link_is_a_model(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder.path)
    linked = ModelFolder(tmp_path / "link")
    linked.refuse_links_out()
    assert (load_weights(linked.weights_to_use())["bias"] == 2).all()


# ---- What would be run ----


class Malicious:
    """Runs something where it is unpickled."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("writer", [torch.save, lambda made, path: path.write_bytes(pickle.dumps(made))])
def test_a_pickle_is_refused_without_being_run_even_where_the_manifest_vouches_for_it(folder, tmp_path, writer, name):
    with appearing(folder.checkpoint(3)) as fresh:
        folder_of_old = folder.checkpoint(2)
        for each in FILES[1:]:
            shutil.copy(folder_of_old / each, fresh / each)
        if name != "manifest.json":
            writer({"step": Malicious(tmp_path / "trace")}, fresh / name)
    if name == "manifest.json":
        writer({"files": Malicious(tmp_path / "trace")}, folder.checkpoint(3) / name)
    for load in (load_state, load_weights):
        if unless_refused(load, folder.checkpoint(3)) is not None:
            assert name == ("model.safetensors" if load is load_state else "trainer.pt")
    assert not (tmp_path / "trace").exists()


def test_a_state_of_another_device_is_loaded_onto_the_cpu(tmp_path, monkeypatch):
    """Tensors tagged as a GPU's, on a machine that has none."""
    folder = ModelFolder(tmp_path / "model")
    monkeypatch.setattr(torch.serialization, "location_tag", lambda _: "cuda:0")
    folder.save(1, weights_of(model(1)), {"moments": torch.ones(3)})
    monkeypatch.undo()
    assert b"cuda:0" in (folder.checkpoint(1) / "trainer.pt").read_bytes()
    assert load_state(folder.checkpoint(1))["moments"].device.type == "cpu"
    fresh = model(0)
    load_into(fresh, folder.checkpoint(1))
    assert (fresh.weight == 1).all()
