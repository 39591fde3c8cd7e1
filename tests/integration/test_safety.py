"""Runs that meet with an accident: no weight is poisoned, nothing is lost, and what goes on is what would have been."""

import errno
import itertools
import json
import math
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from tformer.training import checkpoint, loop
from tformer.training import metrics as metrics_file
from tformer.training.checkpoint import ModelFolder, load_state


@pytest.fixture
def same_weights(weights):
    """Holds that two folders have the same last, best and averaged weights, bit by bit."""

    def compare(one, other):
        for name in ("last", "best", "averaged"):
            assert (one / name).exists() == (other / name).exists(), name
            if (one / name).exists():
                first, second = weights(one / name), weights(other / name)
                assert all(np.array_equal(first[key], second[key]) for key in first), name

    return compare


@pytest.fixture
def spoil(monkeypatch):
    """Makes the gradients of these steps not finite."""

    def plan(steps, value=math.nan):
        true_step, count = loop.train_step, itertools.count(1)

        def step(model, *rest, **settings):
            if next(count) not in steps:
                return true_step(model, *rest, **settings)
            hook = model.output.weight.register_hook(lambda gradient: gradient * value)
            try:
                return true_step(model, *rest, **settings)
            finally:
                hook.remove()

        monkeypatch.setattr(loop, "train_step", step)

    return plan


# ---- No poisoned run ----


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_step_that_is_not_finite_is_skipped_counted_and_its_lines_are_named(
    train, tmp_path, metrics, weights, spoil, harbour, value
):
    spoil({4, 8}, value)
    folder = tmp_path / "model"
    result = train(folder)
    assert result.code == 0
    lines = [line for line in metrics(folder) if line["split"] == "train"]
    assert [line["step"] for line in lines if "skipped" in line] == [4, 8]
    assert [line["step"] for line in lines if line["loss"] is None] == [4, 8]
    warnings = [line for line in result.err.splitlines() if line.startswith("warning: step")]
    for warning, line in zip(warnings, (lines[3], lines[7]), strict=True):
        assert re.match(
            rf"warning: step {line['step']} skipped: its loss or gradient is no finite number; weights are as they "
            r"were; the batch: train\.en \+ train\.es \(lines (\d+, ){9}\d+ and \d+ more\)",
            warning,
        )
        numbers = [int(number) for number in re.findall(r"\d+", line["skipped"])]
        assert numbers == sorted(numbers)
        assert len(numbers) > 10
        assert max(numbers) <= len((harbour / "train.en").read_text(encoding="utf-8").splitlines())
    assert all(np.isfinite(array).all() for array in weights(folder / "last").values())
    assert load_state(folder / "last")["state"]["skipped_steps"] == 2


def test_a_run_with_skipped_steps_is_resumed_exactly(train, tmp_path, metrics, same_weights, spoil):
    spoil({4, 6, 7})
    train(tmp_path / "whole", training__max_steps=10)
    spoil({4, 6})
    train(tmp_path / "parts", training__max_steps=6)
    spoil({1})  # the seventh
    train(tmp_path / "parts", "--resume", training__max_steps=10)
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "parts")
    same_weights(tmp_path / "whole", tmp_path / "parts")


def test_too_many_in_a_row_stop_the_run_at_its_last_finite_checkpoint(train, tmp_path, spoil, weights):
    spoil(set(range(7, 100)))
    result = train(tmp_path / "model", training__max_steps=100, data__validation=None)
    assert (result.code, result.out) == (1, "")
    last = result.err.splitlines()[-1]
    assert re.match(
        r"tformer: step \d+: 1\d steps in a row had no finite loss or gradient; nothing of this has been saved\. "
        r"Resume from the last checkpoint, of step \d+, with a lower training\.learning_rate, a longer training\.warm",
        last,
    )
    assert ModelFolder(tmp_path / "model").steps()[-1] <= 20
    assert all(np.isfinite(array).all() for array in weights(tmp_path / "model" / "last").values())


# ---- Memory ----


@pytest.fixture
def small_memory(monkeypatch):
    """Lets a batch of more pairs than so many not fit."""

    def bound(pairs):
        true_step, met = loop.train_step, []

        def step(model, batches, *rest, **settings):
            met.append(max(len(batch.indices) for batch in batches))
            if met[-1] > pairs:
                raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
            return true_step(model, batches, *rest, **settings)

        monkeypatch.setattr(loop, "train_step", step)
        return met

    return bound


def test_a_batch_that_does_not_fit_is_halved_for_good_and_the_updates_are_the_same(
    train, tmp_path, metrics, small_memory
):
    train(tmp_path / "whole", model__dropout=0.0)
    largest = small_memory(20)
    result = train(tmp_path / "halves", model__dropout=0.0)
    assert result.code == 0
    assert result.err.count("out of memory") == 1
    assert "going on with each batch in halves" in result.err
    assert [size > 20 for size in largest].count(True) == 1
    whole, halves = (
        [line for line in metrics(tmp_path / name) if line["split"] == "train"] for name in ("whole", "halves")
    )
    assert [line["loss"] for line in halves] == pytest.approx([line["loss"] for line in whole], rel=1e-4)


def test_what_does_not_fit_in_halves_either_is_told_in_numbers(train, tmp_path, small_memory):
    small_memory(1)
    result = train(tmp_path / "model")
    assert (result.code, result.out) == (1, "")
    assert re.match(
        r"tformer: step 1: out of memory, with \d+ pairs of up to \d+ and \d+ pieces at once; set "
        r"training\.max_tokens_per_batch: 64 and training\.accumulate_batches: 4",
        result.err.splitlines()[-1],
    )


# ---- Disks ----


@pytest.fixture
def failing_saves(monkeypatch):
    """Lets the weights of these saves meet a full disk, counted from 1."""

    def plan(numbers):
        save, count = checkpoint.save_file, itertools.count(1)

        def full(*arguments):
            if next(count) in numbers:
                raise OSError(errno.ENOSPC, "No space left on device")
            save(*arguments)

        monkeypatch.setattr(checkpoint, "save_file", full)

    return plan


def test_training_goes_on_after_a_save_that_failed(train, tmp_path, metrics, same_weights, failing_saves):
    train(tmp_path / "whole", data__validation=None, training__save_every_steps=3)
    failing_saves({1, 2})
    folder = tmp_path / "model"
    result = train(folder, data__validation=None, training__save_every_steps=3)
    assert result.code == 0
    warnings = [line for line in result.err.splitlines() if "training goes on" in line]
    assert [
        re.search(r"step-0*(\d+): cannot be written \(No space left on device\)", line)[1] for line in warnings
    ] == ["3", "6"]
    assert ModelFolder(folder).steps() == [9, 12]
    assert metrics(folder) == metrics(tmp_path / "whole")


def test_after_three_saves_in_a_row_that_failed_the_run_ends(train, tmp_path, failing_saves):
    failing_saves({2, 4, 5, 6})
    folder = tmp_path / "model"
    result = train(folder, data__validation=None, training__save_every_steps=1)
    assert (result.code, result.out) == (1, "")
    assert result.err.count("training goes on") == 3
    assert result.err.splitlines()[-1].startswith(
        f"tformer: {folder}/checkpoints/step-00000006: cannot be written (No space"
    )
    assert ModelFolder(folder).newest_whole() == (3, [])


def test_a_last_save_that_fails_is_a_failure(train, tmp_path, failing_saves):
    failing_saves({3})  # of steps 5, 10, 12
    result = train(tmp_path / "model", data__validation=None)
    assert (result.code, result.out) == (1, "")
    assert "step-00000012: cannot be written" in result.err.splitlines()[-1]
    assert ModelFolder(tmp_path / "model").newest_whole() == (10, [])
    assert train(tmp_path / "model", "--resume", data__validation=None).code == 0


def test_the_best_is_the_best_that_could_be_saved(train, tmp_path, failing_saves):
    failing_saves({2})  # of steps 5, 6 (the first validation), 10, 12
    folder = tmp_path / "model"
    result = train(folder, training__best_metric="nll", training__max_steps=11)
    assert result.code == 0
    state = load_state(folder / "checkpoints" / "step-00000010")["state"]
    assert (state["best_score"], state["best_step"]) == (None, 0)
    assert train(folder, "--resume", training__best_metric="nll", training__max_steps=12).code == 0
    assert (folder / "best").readlink().name == "step-00000012"


def test_metrics_wait_for_a_disk_that_is_full(train, tmp_path, metrics, monkeypatch):
    train(tmp_path / "whole", training__max_steps=40, data__validation=None, training__save_every_steps=100)
    truncate, tries = metrics_file.MetricsFile._write, itertools.count(1)

    def full(self, to_disk=False):
        if next(tries) <= 2:
            with self._path.open("ab") as file:
                file.write(self._waiting[:30])  # it takes a part
            raise OSError(errno.ENOSPC, "No space left on device")
        truncate(self, to_disk)

    monkeypatch.setattr(metrics_file.MetricsFile, "_write", full)
    folder = tmp_path / "model"
    result = train(folder, training__max_steps=40, data__validation=None, training__save_every_steps=100)
    assert result.code == 0
    assert (
        result.err.count("metrics.jsonl: cannot be written (No space left on device); its lines wait until it can") == 1
    )
    assert metrics(folder) == metrics(tmp_path / "whole")


def test_metrics_that_are_lost_are_told_of(train, tmp_path):
    folder = tmp_path / "model"
    train(folder, training__max_steps=2)
    (folder / "metrics.jsonl").write_text("", encoding="utf-8")
    result = train(folder, "--resume", training__max_steps=3)
    assert result.code == 0
    assert re.search(r"metrics\.jsonl: expected \d+ bytes, found 0; lines of earlier steps are lost", result.err)


@pytest.mark.parametrize("fault", [errno.EACCES, errno.EROFS])
def test_a_folder_that_cannot_be_written_is_one_message(train, tmp_path, monkeypatch, fault):
    def refuse(path, *_):
        raise OSError(fault, os.strerror(fault), str(path))

    monkeypatch.setattr(os, "open", refuse)
    result = train(tmp_path / "model")
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        f"tformer: {tmp_path / 'model'}: cannot be written ({os.strerror(fault)}); make it writable, or give another "
        "--output\n"
    )


# ---- Stopped or killed while it measures ----


@pytest.fixture
def in_validation(monkeypatch):
    """Does something in the course of these validations, counted from 1."""
    from tformer.runs import training

    def plan(numbers, what):
        score, count = training.corpus_nll, itertools.count(1)

        def measure(*arguments, **settings):
            if next(count) in numbers:
                what()
            return score(*arguments, **settings)

        monkeypatch.setattr(training, "corpus_nll", measure)

    return plan


def stop():
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)  # cut short by the signal


class Killed(BaseException):
    """Ends a run as a kill would, in this process."""


def kill():
    raise Killed


@pytest.mark.parametrize("which", [1, 2, 3], ids=["in the middle", "at the end", "of the average"])
@pytest.mark.parametrize("settings", [{}, {"training__save_every_steps": 6}], ids=["no save due", "a save due"])
def test_a_signal_does_not_wait_for_a_validation(
    train, tmp_path, metrics, same_weights, in_validation, which, settings
):
    settings = {"training__max_steps": 11, "training__best_metric": "nll", **settings}
    train(tmp_path / "whole", **settings)
    in_validation({which}, stop)
    started = time.monotonic()
    stopped = train(tmp_path / "parts", **settings)
    assert stopped.code == 143
    assert "all saved; to go on" in stopped.err
    assert time.monotonic() - started < 9
    in_validation((), stop)
    assert train(tmp_path / "parts", "--resume", **settings).code == 0
    assert metrics(tmp_path / "parts") == metrics(tmp_path / "whole")
    same_weights(tmp_path / "whole", tmp_path / "parts")
    for step in ModelFolder(tmp_path / "whole").steps():
        one, other = (load_state(tmp_path / name / "checkpoints" / f"step-{step:08d}") for name in ("whole", "parts"))
        for state in (one["state"], other["state"]):
            del state["elapsed_seconds"], state["metrics_bytes"]
        assert one["state"] == other["state"]


@pytest.mark.parametrize("which", [1, 2, 3])
def test_a_run_that_is_killed_while_it_measures_its_end_comes_to_it(
    train, tmp_path, metrics, same_weights, in_validation, which
):
    train(tmp_path / "whole", training__max_steps=11)
    in_validation({which}, kill)
    with pytest.raises(Killed):
        train(tmp_path / "parts", training__max_steps=11)
    in_validation((), kill)
    assert train(tmp_path / "parts", "--resume", training__max_steps=11).code == 0
    assert metrics(tmp_path / "parts") == metrics(tmp_path / "whole")
    same_weights(tmp_path / "whole", tmp_path / "parts")
    assert "already at step 11 of 11" in train(tmp_path / "parts", "--resume", training__max_steps=11).err


def test_what_a_run_killed_between_saving_and_pruning_left_is_pruned(train, tmp_path, monkeypatch):
    settings = {"data__validation": None, "training__save_every_steps": 1, "training__average_last": 2}
    with monkeypatch.context() as patch:
        patch.setattr(ModelFolder, "prune", lambda *_, **__: None)
        train(tmp_path / "model", training__max_steps=4, **settings)
    assert ModelFolder(tmp_path / "model").steps() == [1, 2, 3, 4]
    (tmp_path / "model" / "environment.json").unlink()  # so that it has not come to its end
    assert train(tmp_path / "model", "--resume", training__max_steps=4, **settings).code == 0
    assert ModelFolder(tmp_path / "model").steps() == [3, 4]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_training_leaves_nothing_and_no_traceback(config, tmp_path, number):
    code = (
        "import os, sys, time\n"
        "from tformer import cli\n"
        "from tformer.runs import training\n"
        "def stuck(*_): print('stuck', flush=True); time.sleep(40)\n"
        "training.train_tokenizers = stuck\n"
        "sys.argv = ['tformer', *sys.argv[1:]]\n"
        "cli.main()\n"
    )
    command = [sys.executable, "-c", code, "train", "--config", config, "--output", tmp_path / "model"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "stuck\n"
        process.send_signal(number)
        assert process.wait(20) in (128 + number, -number)
        assert "Traceback" not in process.stderr.read()
    assert not (tmp_path / "model" / "config.yaml").exists()


# ---- Clocks ----


def test_a_clock_that_jumps_decides_nothing(train, tmp_path, metrics, same_weights, monkeypatch):
    train(tmp_path / "whole", training__max_minutes=60)
    jumps = itertools.cycle([0.0, 2e9, -1e6, 4e9])
    for name in ("time", "time_ns"):
        true = getattr(time, name)
        monkeypatch.setattr(time, name, lambda true=true: true() + next(jumps))
    assert train(tmp_path / "model", training__max_minutes=60).code == 0
    assert metrics(tmp_path / "model") == metrics(tmp_path / "whole")
    lines = [
        json.loads(line) for line in (tmp_path / "model" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert all(0 < line["elapsed_seconds"] < 3600 for line in lines)
    same_weights(tmp_path / "whole", tmp_path / "model")


# ---- The pickle door ----


class Malicious:
    """Runs something where it is unpickled."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


def test_a_pickle_in_any_place_of_a_model_is_never_run(train, tformer, tmp_path):
    pristine, folder, trace = (tmp_path / name for name in ("pristine", "model", "trace"))
    train(pristine, training__max_steps=11)
    places = [path.relative_to(pristine) for path in sorted(pristine.rglob("*")) if path.is_file()]
    assert {path.name for path in places} >= {"config.yaml", "tokenizer.model", "metrics.jsonl", "environment.json",
        "model.safetensors", "trainer.pt", "manifest.json"}  # fmt: skip
    for place in places:
        shutil.copytree(pristine, folder, symlinks=True)
        with (folder / place).open("wb") as file:
            (torch.save if place.suffix == ".pt" else pickle.dump)(Malicious(trace), file)
        for command in (
            ["translate", "--model", folder, "The boat is red."],
            ["train", "--resume", "--output", folder, "--set", "training.max_steps=12"],
        ):
            result = tformer(*command)
            assert "Traceback" not in result.err
            assert not trace.exists(), (place, command)
        shutil.rmtree(folder)
