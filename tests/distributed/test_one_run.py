"""Runs of several processes through the command line: what one process would have done, written and said once."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from tformer import runs
from tformer.training.checkpoint import ModelFolder, load_state

CLOCKS = {"tokens_per_second", "elapsed_seconds"}


def read(name):
    """The lines of a file of the corpus."""
    return (Path(__file__).parents[1] / "data" / "harbour" / name).read_text(encoding="utf-8").splitlines()


def metrics(folder):
    """All lines, without what only the clock decides."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{name: value for name, value in line.items() if name not in CLOCKS} for line in lines]


def assert_same_run(folder, other):
    """Holds that two folders hold the same run, to what the order of float32 sums allows."""
    assert ModelFolder(folder).steps() == ModelFolder(other).steps()
    for mine, theirs in zip(metrics(folder), metrics(other), strict=True):
        assert mine.keys() == theirs.keys()
        for name, value in theirs.items():
            assert mine[name] == (pytest.approx(value, rel=1e-4) if isinstance(value, float) else value)
    for name in ("last", "best", "averaged"):
        assert (folder / name).exists() == (other / name).exists()
    mine, theirs = (load_file(path / "last" / "model.safetensors") for path in (folder, other))
    for name, array in theirs.items():
        np.testing.assert_allclose(mine[name], array, atol=1e-4)


@pytest.mark.parametrize(("count", "sharding"), [(2, "ddp"), (2, "fsdp")])
def test_many_processes_make_the_run_of_one(processes, config, alone, tmp_path, count, sharding):
    """The loss of all, not a mean of means; the same metrics, checkpoints and translations."""
    folder = tmp_path / "model"
    result = processes(count, "train", "--config", config, "--output", folder, "--set", f"training.sharding={sharding}")
    assert result.codes == [0] * count, result.err
    assert_same_run(folder, alone)
    assert result.out == [f"{folder}\n", *[""] * (count - 1)]
    assert f"{count} processes × {4 // count} = 4 batches an update" in result.err[0]
    assert result.err[1:] == [""] * (count - 1)


def test_what_four_wrote_one_resumes_and_what_one_wrote_two(processes, config, alone, tmp_path):
    """Weights, optimizer, batches and metrics go on; a checkpoint is the same whoever wrote it."""
    there, back = tmp_path / "there", tmp_path / "back"
    half, whole = "--set=training.max_steps=10", "--set=training.max_steps=20"
    assert processes(4, "train", "--config", config, "--output", there, half).codes == [0] * 4
    runs.train(str(config), [], there, resume=True, overwrite=False)
    assert_same_run(there, alone)
    runs.train(str(config), ["training.max_steps=10"], back, resume=False, overwrite=False)
    result = processes(
        2, "train", "--config", config, "--output", back, whole, "--resume", "--set=training.sharding=fsdp"
    )
    assert result.codes == [0, 0], result.err
    assert_same_run(back, alone)
    assert "processes: 1 before, 2 now; dropout draws other numbers" in result.err[0]


def test_each_process_drops_other_activations_and_resumes_its_own(processes, config, tmp_path):
    """Two that drop the same would halve what dropout is good for; k that go on as k go on digit by digit."""
    dropping = ("train", "--config", config, "--set=model.dropout=0.5", "--set=training.max_steps=10")
    assert processes(2, *dropping, "--output", tmp_path / "whole").codes == [0, 0]
    state = load_state(ModelFolder(tmp_path / "whole").checkpoint(10))
    seeds = [
        torch.Generator().set_state(each).initial_seed() for each in (state["cpu_random"], state["other_random"][0][0])
    ]
    assert seeds[0] == 1 != seeds[1]
    cut = tmp_path / "cut"
    assert processes(2, *dropping, "--output", cut, "--set=training.max_steps=5").codes == [0, 0]
    assert processes(2, *dropping, "--output", cut, "--resume").codes == [0, 0]
    whole, again = (load_file(path / "last" / "model.safetensors") for path in (tmp_path / "whole", cut))
    assert all(np.array_equal(whole[name], again[name]) for name in whole)


def test_fewer_batches_than_processes_become_one_for_each_and_the_config_says_so(processes, config, tmp_path):
    folder, settings = tmp_path / "model", ("--set=training.accumulate_batches=1", "--set=training.max_steps=2")
    result = processes(2, "train", "--config", config, "--output", folder, *settings)
    assert "2 processes × 1 = 2 batches an update; training.accumulate_batches was 1" in result.err[0]
    assert "accumulate_batches: 2" in (folder / "config.yaml").read_text(encoding="utf-8")


# ---- Measuring ----


@pytest.mark.parametrize("command", ["eval", "translate"])
def test_every_sentence_is_translated_and_counted_once(processes, alone, tmp_path, command):
    """37 lines over 2 processes: as many translations, in order, and the scores of one process."""
    lines = [[line for name in ("test", "dev") for line in read(f"{name}.{side}")][:37] for side in ("en", "es")]
    for name, texts in zip(("s.en", "s.es"), lines, strict=True):
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    found = []
    for count in (1, 2):
        output = tmp_path / f"out.{count}"
        arguments = ["--model", alone, "--beam", "1", "--output", output, "--device", "cpu"]
        if command == "eval":
            arguments += ["--source", tmp_path / "s.en", "--reference", tmp_path / "s.es", "--json"]
        else:
            arguments += ["--input", tmp_path / "s.en"]
        result = processes(count, command, *arguments)
        assert result.codes == [0] * count, result.err
        assert result.out[1:] == [""] * (count - 1)
        found.append((output.read_text(encoding="utf-8"), result.out[0]))
    assert found[0][0] == found[1][0]
    assert found[0][0].count("\n") == 37
    if command == "eval":
        one, two = (json.loads(out) for _, out in found)
        assert {name: one[name] for name in ("bleu", "chrf", "sentences")} == {
            name: two[name] for name in ("bleu", "chrf", "sentences")
        }
        assert two["perplexity"] == pytest.approx(one["perplexity"], rel=1e-9)


def test_standard_input_cannot_be_shared(processes, alone):
    result = processes(2, "translate", "--model", alone, "--device", "cpu")
    assert result.codes in ([2, 2], [2, 1])
    assert "".join(result.err).count("standard input cannot be shared by several processes; give --input FILE") == 1


# ---- Endings ----


def test_a_fault_that_all_meet_is_said_once(processes, config, tmp_path):
    result = processes(2, "train", "--config", config, "--output", tmp_path / "model", "--set=data.train={tsv: no.tsv}")
    assert result.codes in ([2, 2], [2, 1])  # whoever is still joining only sees that the primary has gone
    assert "".join(result.err).count("no.tsv") == 1
    assert "Traceback" not in "".join(result.err)


def test_a_fault_of_the_primary_alone_ends_all(processes, config, alone, tmp_path):
    """Here a folder that cannot be made: the others have nothing to say."""
    (tmp_path / "file").write_text("")
    result = processes(2, "train", "--config", config, "--output", tmp_path / "file" / "model")
    assert 0 not in result.codes
    assert "".join(result.err).count("tformer: ") == 1


def test_a_signal_to_all_is_obeyed_at_one_step_and_saved_once(processes, config, tmp_path):
    folder = tmp_path / "model"
    train = ("train", "--config", config, "--output", folder)
    first = folder / "checkpoints" / "step-00000005"
    result = processes(2, *train, "--set=training.max_steps=100000", kill=[None, signal.SIGTERM, str(first)])
    assert result.codes == [143, 143], result.err
    assert "".join(result.err).count("all saved; to go on: torchrun") == 1
    step = ModelFolder(folder).steps()[-1]
    result = processes(2, *train, f"--set=training.max_steps={step + 2}", "--resume")
    assert result.codes == [0, 0], result.err
    steps = [line["step"] for line in metrics(folder) if line["split"] == "train"]
    assert steps == list(range(1, step + 3))


def test_a_killed_process_ends_the_run_with_one_message(processes, config, tmp_path):
    folder = tmp_path / "model"
    first = folder / "checkpoints" / "step-00000005"
    arguments = ("train", "--config", config, "--output", folder, "--set=training.max_steps=100000")
    result = processes(3, *arguments, kill=[1, signal.SIGKILL, str(first)])
    assert result.codes == [1, -signal.SIGKILL, 1]
    assert "".join(result.err).count("another process of this run has ended") == 1
    assert "Traceback" not in "".join(result.err)


def test_torchrun_starts_a_killed_run_again_from_its_newest_checkpoint(config, alone, tmp_path):
    """Elastic restart: the same command, and neither --resume nor --overwrite."""
    folder, mark = tmp_path / "model", tmp_path / "killed"
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from tformer import cli\n"
        "from tformer.training import loop\n"
        "step = loop.train_step\n"
        "def dying(*arguments):\n"
        f"    if os.environ['RANK'] == '1' and Path({str(folder / 'checkpoints' / 'step-00000010')!r}).exists():\n"
        f"        if not Path({str(mark)!r}).exists():\n"
        f"            Path({str(mark)!r}).touch()\n"
        "            os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return step(*arguments)\n"
        "loop.train_step = dying\n"
        "cli.main()\n"
    )
    (tmp_path / "dying.py").write_text(code)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    command = [*torchrun, str(tmp_path / "dying.py"), "train", "--config", str(config), "--output", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert mark.exists()
    assert done.returncode == 0, done.stderr
    assert f"resumed {folder} at step 10" in done.stderr
    assert_same_run(folder, alone)
