"""What a run takes from a model that is there: all of it after a crash, its weights alone to be tuned finer."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from tformer.config import load_config
from tformer.training import lock
from tformer.training.checkpoint import ModelFolder, load_state
from tformer.training.lock import only_one

HOLD = """
import sys
from pathlib import Path
from tformer.training.lock import only_one
with only_one(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that trains in the folder `model`, by all that its lock tells."""
    command = [sys.executable, "-c", HOLD, tmp_path / "model"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


# ---- After a crash ----


def test_a_torn_checkpoint_is_passed_over_and_the_run_is_the_same(train, tmp_path, metrics, weights):
    for name in ("whole", "torn"):
        train(tmp_path / name, training__max_steps=12)
    folder = tmp_path / "torn"
    torn = folder / "checkpoints" / "step-00000012" / "model.safetensors"
    torn.write_bytes(torn.read_bytes()[:-1])
    (folder / "checkpoints" / "step-00000010" / "trainer.pt").unlink()
    result = train(folder, "--resume", training__max_steps=12)
    assert result.code == 0
    told = result.err.splitlines()[0]
    assert re.fullmatch(
        r"resuming from step 5, the newest whole checkpoint; passed over: step 12: model\.safetensors: expected \d+ "
        r"bytes, found \d+; step 10: trainer\.pt: No such file or directory",
        told,
    )
    assert metrics(folder) == metrics(tmp_path / "whole")
    for name in ("last", "averaged"):
        one, other = weights(folder / name), weights(tmp_path / "whole" / name)
        assert all(np.array_equal(one[key], other[key]) for key in one)
    assert ModelFolder(folder).newest_whole() == (12, [])


def test_a_folder_without_a_whole_checkpoint_is_left_as_it_is(train, tmp_path, snapshot):
    folder = tmp_path / "model"
    train(folder, training__max_steps=2)
    (folder / "last" / "trainer.pt").write_bytes(b"")
    before = snapshot(folder)
    result = train(folder, "--resume")
    assert (result.code, result.out) == (1, "")
    [message] = result.err.splitlines()
    assert re.search(r"none of its checkpoints is whole \(step 2: trainer\.pt: expected \d+ bytes, found 0\)", message)
    assert snapshot(folder) == before


def test_a_damaged_checkpoint_is_left_out_of_the_average(train, tmp_path):
    folder = tmp_path / "model"
    train(folder, data__validation=None, training__max_steps=11)
    (folder / "checkpoints" / "step-00000005" / "model.safetensors").write_bytes(b"")
    result = train(folder, "--resume", data__validation=None, training__max_steps=12)
    assert result.code == 0
    assert "step 5 is damaged, and left out of the average" in result.err
    assert "the average of the last 2 checkpoints (steps 10 to 12)" in result.err


def test_a_link_in_a_model_that_leads_out_of_it_is_not_followed(train, tmp_path):
    folder, treasure = tmp_path / "model", tmp_path / "treasure"
    train(folder, training__max_steps=2)
    treasure.write_text("keep\n", encoding="utf-8")
    (folder / "metrics.jsonl").unlink()
    (folder / "metrics.jsonl").symlink_to(treasure)
    result = train(folder, "--resume", training__max_steps=3)
    assert result.code == 1
    assert f"{folder}/metrics.jsonl: expected a part of the model, found a link to {treasure}" in result.err
    assert treasure.read_text(encoding="utf-8") == "keep\n"


# ---- One process at a time ----


def test_a_second_process_is_refused_by_the_first_ones_name(train, tmp_path, holder, snapshot):
    before = snapshot(tmp_path / "model")
    for options in ([], ["--resume"], ["--overwrite"]):
        result = train(tmp_path / "model", *options)
        assert (result.code, result.out) == (1, "")
        [message] = result.err.splitlines()
        assert f"found process {holder.pid} on {os.uname().nodename} training in it" in message
    assert snapshot(tmp_path / "model") == before


def test_a_lock_ends_with_its_process_even_a_killed_one(train, tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (tmp_path / "model" / lock.LOCK).exists()
    assert train(tmp_path / "model", training__max_steps=1).code == 0
    assert not (tmp_path / "model" / lock.LOCK).exists()


def test_a_lock_that_is_let_go_of_between_opening_and_locking_is_taken_anew(tmp_path, monkeypatch):
    """Else two processes could hold two files of one name."""
    path, take, taken = tmp_path / lock.LOCK, lock._lock, []

    def slow(descriptor):
        taken.append(descriptor)
        if len(taken) == 1:
            path.unlink()
        take(descriptor)

    monkeypatch.setattr(lock, "_lock", slow)
    with only_one(tmp_path):
        assert len(taken) == 2
        assert path.read_text(encoding="utf-8").startswith(f"process {os.getpid()} on ")


def test_a_file_system_without_locks_is_told_of(tmp_path, monkeypatch, capsys):
    import fcntl

    def refuse(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with only_one(tmp_path):
        pass
    assert "this file system has no locks (No locks available)" in capsys.readouterr().err


def test_nothing_is_left_of_a_folder_that_came_to_nothing(tmp_path):
    with only_one(tmp_path / "runs" / "model"):
        assert (tmp_path / "runs" / "model").is_dir()
    assert not (tmp_path / "runs").exists()


# ---- Other weights to start from ----


@pytest.fixture
def parent(train, tmp_path):
    """A model to start from, averaged."""
    train(tmp_path / "parent", training__max_steps=12)
    return tmp_path / "parent"


def test_a_run_may_start_from_the_weights_of_another(train, parent, tmp_path, metrics, weights, harbour):
    settings = {"data__train": {"source": f"{harbour}/dev.en", "target": f"{harbour}/dev.es"}, "model__dropout": 0.3}
    settings |= {"training__learning_rate": 1e-12, "training__max_steps": 2, "data__validation": None}
    before = {path: path.read_bytes() for path in parent.rglob("*") if path.is_file()}
    result = train(tmp_path / "child", "--init-from", parent, training__warmup_steps=1, **settings)
    assert result.code == 0, result.err
    assert f"starting from the weights and the vocabulary of {parent} (averaged); optimizer and" in result.err
    child = tmp_path / "child"
    assert (child / "tokenizer.model").read_bytes() == (parent / "tokenizer.model").read_bytes()
    one, other = weights(child / "last"), weights(parent / "averaged")
    assert all(np.allclose(one[name], other[name], atol=1e-9) for name in one)
    assert [line["step"] for line in metrics(child)] == [1, 2]
    assert load_config(child / "config.yaml").model.dropout == 0.3
    assert json.loads((child / "environment.json").read_text(encoding="utf-8"))["init_from"] == str(parent)
    assert {path: path.read_bytes() for path in parent.rglob("*") if path.is_file()} == before

    shutil.rmtree(parent)  # not needed any more
    settings["training__max_steps"] = 3
    assert train(child, "--resume", training__warmup_steps=1, **settings).code == 0
    assert load_state(child / "last")["state"]["step"] == 3


def test_the_vocabulary_of_the_other_model_counts(train, parent, tmp_path):
    child, settings = tmp_path / "child", {"tokenizer__vocab_size": 500, "tokenizer__algorithm": "unigram"}
    result = train(child, "--init-from", parent, training__max_steps=1, **settings)
    assert result.code == 0, result.err
    assert re.search(r"tokenizer\.algorithm +unigram|tokenizer\.algorithm +bpe +unigram +the model\n", result.err)
    assert re.search(r"tokenizer\.vocab_size +400 +500 +the model\n", result.err)
    assert load_config(child / "config.yaml").tokenizer == load_config(parent / "config.yaml").tokenizer
    assert train(child, "--resume", training__max_steps=2, **settings).code == 0


def test_another_architecture_cannot_start_from_these_weights(train, parent, tmp_path):
    result = train(tmp_path / "child", "--init-from", parent, model__num_heads=4, model__d_ff=64)
    assert (result.code, result.out) == (2, "")
    [message] = result.err.splitlines()
    assert message.endswith(
        f"--init-from {parent}: its weights are for another architecture than the config's; set model.d_ff: 32, not "
        "64; model.num_heads: 2, not 4"
    )
    assert not (tmp_path / "child").exists()


@pytest.mark.parametrize("what", ["nothing", "itself", "damaged"])
def test_what_is_no_model_cannot_be_started_from(train, parent, tmp_path, what):
    origin, code = {"nothing": (tmp_path / "nowhere", 2), "itself": (parent, 2), "damaged": (parent, 1)}[what]
    if what == "damaged":
        (parent / "averaged" / "model.safetensors").write_bytes(b"half of it")
    result = train(parent if what == "itself" else tmp_path / "child", "--overwrite", "--init-from", origin)
    assert (result.code, result.out) == (code, "")
    assert str(origin) in result.err.splitlines()[-1]
    assert "Traceback" not in result.err
    assert not (tmp_path / "child").exists()
    assert parent.is_dir()
