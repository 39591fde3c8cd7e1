"""Runs that are repeated, stopped, resumed and ended: digit by digit what they would have been."""

import json
import math
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tformer.config import TrainingConfig
from tformer.data.batching import BatchStream, Window, collate
from tformer.errors import TformerError
from tformer.runs import training
from tformer.runtime import prepare
from tformer.training import loop
from tformer.training.checkpoint import ModelFolder, load_into, load_state
from tformer.training.loop import Trainer, Validation

CLOCKS = {"elapsed_seconds", "metrics_bytes"}
HARBOUR = Path(__file__).parents[1] / "data" / "harbour"


def equal(one, other):
    """Compares what a trainer's state is made of, tensors bit by bit."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return one == other


@pytest.fixture
def same_run(metrics, weights):
    """Holds that two folders hold the same run, but for clocks and speeds."""

    def compare(one, other):
        assert metrics(one) == metrics(other)
        folders = [ModelFolder(path) for path in (one, other)]
        assert folders[0].steps() == folders[1].steps()
        for step in folders[0].steps():
            states = [load_state(folder.checkpoint(step)) for folder in folders]
            for state in states:
                state["state"] = {key: value for key, value in state["state"].items() if key not in CLOCKS}
                if step != folders[0].steps()[-1]:  # a run that was to end earlier knew so
                    del state["state"]["max_steps"], state["state"]["last_step"]
            assert equal(*states)
        for name in ("last", "best", "averaged"):
            assert (one / name).exists() == (other / name).exists()
            if (one / name).exists():
                arrays = [weights(path / name) for path in (one, other)]
                assert all(np.array_equal(arrays[0][key], arrays[1][key]) for key in arrays[0])
            if (one / name).is_symlink():
                assert (one / name).readlink() == (other / name).readlink()

    return compare


# ---- What is written down ----


def test_metrics_have_their_fields(trained):
    lines = [json.loads(line) for line in (trained / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    steps = [line for line in lines if line["split"] == "train"]
    assert [line["step"] for line in steps] == list(range(1, 141))
    fields = {"step", "split", "loss", "nll", "learning_rate", "tokens_per_second", "elapsed_seconds"}
    assert all(line.keys() == fields for line in steps)
    validations = [line for line in lines if line["split"] == "validation"]
    assert [(line["step"], line["weights"]) for line in validations] == [
        (70, "last"),
        (140, "last"),
        (140, "averaged"),
    ]
    for line in validations:
        fields = {"step", "split", "weights", "nll", "perplexity", "bleu", "chrf", "samples", "elapsed_seconds"}
        assert line.keys() == fields
        assert len(line["samples"]) == 5
        assert all(len(sample) == 3 for sample in line["samples"])
        assert line["perplexity"] == pytest.approx(math.exp(line["nll"]))
    assert [line["elapsed_seconds"] for line in lines] == sorted(line["elapsed_seconds"] for line in lines)
    assert steps[-1]["nll"] < 0.2 < 5 < steps[0]["nll"]


def test_the_logged_rate_is_the_schedule(trained, metrics):
    rates = {line["step"]: line["learning_rate"] for line in metrics(trained) if line["split"] == "train"}
    for step, rate in rates.items():
        assert rate == pytest.approx(64**-0.5 * min(step**-0.5, step * 50**-1.5))


def test_a_folder_tells_how_it_was_made(trained):
    facts = json.loads((trained / "environment.json").read_text(encoding="utf-8"))
    assert facts["torch"] == torch.__version__
    assert (facts["device"], facts["precision"], facts["seed"]) == ("cpu", "fp32", 1)


# ---- The same again ----


def test_one_seed_is_one_run(train, tmp_path, same_run, metrics):
    for name in ("one", "other"):
        assert train(tmp_path / name).code == 0
    same_run(tmp_path / "one", tmp_path / "other")
    assert train(tmp_path / "another", seed=2).code == 0
    assert metrics(tmp_path / "another") != metrics(tmp_path / "one")


def test_the_seed_decides_the_order_of_batches_too(train, tmp_path, monkeypatch, metrics):
    draw = torch.manual_seed
    monkeypatch.setattr(torch, "manual_seed", lambda _: draw(1))
    for seed in (1, 2):
        train(tmp_path / str(seed), seed=seed, training__max_steps=1)
    assert metrics(tmp_path / "1")[0]["loss"] != metrics(tmp_path / "2")[0]["loss"]


@pytest.mark.parametrize(
    ("stop", "settings"),
    [
        (7, {"model__dropout": 0.1}),
        (10, {"model__dropout": 0.1}),
        (7, {"training__accumulate_batches": 2, "training__best_metric": "nll", "training__patience": 2}),
        (8, {"training__save_every_steps": 3, "model__norm_placement": "pre", "training__clip_norm": 1.0}),
        (7, {"data__validation": None, "training__average_last": 1}),
    ],
)
def test_resumed_is_uninterrupted(train, tmp_path, same_run, stop, settings):
    settings = {"training__validate_every_steps": 4, **settings}
    assert train(tmp_path / "whole", training__max_steps=14, **settings).code == 0
    assert train(tmp_path / "parts", training__max_steps=stop, **settings).code == 0
    assert load_state(tmp_path / "parts" / "last")["state"]["taken"] > 0  # in the middle of an epoch
    resumed = train(tmp_path / "parts", "--resume", training__max_steps=14, **settings)
    assert resumed.code == 0
    assert re.search(
        rf"setting +checkpoint  config  what counts\ntraining.max_steps  {stop} +14 +config\n", resumed.err
    )
    same_run(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"tokenizer__sampling": 0.1},
        {
            "data__train": [
                {"source": f"{HARBOUR}/train.en", "target": f"{HARBOUR}/train.es", "weight": 0.5},
                {"source": f"{HARBOUR}/dev.en", "target": f"{HARBOUR}/dev.es", "weight": 2},
            ],
            "data__validation": {"from_train": 20},
        },
    ],
    ids=["plain", "pieces cut anew each epoch", "weighted sources"],
)
def test_a_run_resumed_in_a_later_epoch_is_uninterrupted(train, tmp_path, same_run, settings):
    settings = {"training__max_tokens_per_batch": 1024, **settings}
    assert train(tmp_path / "whole", training__max_steps=12, **settings).code == 0
    for stop in (6, 11, 12):
        assert train(tmp_path / "parts", "--resume", training__max_steps=stop, **settings).code == 0
    assert load_state(tmp_path / "parts" / "last")["state"]["epoch"] > 0
    same_run(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_saves_and_the_run_goes_on(train, config, tmp_path, same_run, number, code):
    folder = tmp_path / "my model"
    command = [sys.executable, "-m", "tformer", "train", "--config", config, "--output", folder]
    rare = {"validate_every_steps": 1000, "save_every_steps": 1000}  # only the signal makes it save
    command += [f"--set=training.{key}={value}" for key, value in {"max_steps": 400, **rare}.items()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        said = []
        for line in process.stderr:
            said.append(line)
            if line.startswith("step 20/"):
                process.send_signal(number)
        assert process.stdout.read() == ""
    assert process.returncode == code
    step = load_state(folder / "last")["state"]["step"]
    assert (
        said[-1]
        == f"tformer: stopped at step {step}, all saved; to go on: tformer train --resume --output '{folder}'\n"
    )
    assert 20 <= step < 400

    settings = {f"training__{key}": value for key, value in {"max_steps": step + 3, **rare}.items()}
    resumed = train(folder, "--resume", **settings)
    assert resumed.code == 0
    assert f"resumed {folder} at step {step}\n" in resumed.err
    assert train(tmp_path / "whole", **settings).code == 0
    same_run(folder, tmp_path / "whole")


def test_a_second_signal_quits_at_once(config, tmp_path):
    code = (
        "import sys, time\n"
        "from tformer import cli\n"
        "from tformer.training import loop\n"
        "def stuck(*_): print('stuck', flush=True); time.sleep(40)\n"
        "loop.train_step = stuck\n"
        "sys.argv = ['tformer', *sys.argv[1:]]\n"
        "cli.main()\n"
    )
    command = [sys.executable, "-c", code, "train", "--config", config, "--output", tmp_path / "model"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "stuck\n"
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)  # as timeout and its kin do: the same wish, sent twice
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.8)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 143
        assert "Traceback" not in process.stderr.read()


# ---- Resume: what is said, what is refused ----


def test_resume_where_nothing_is_starts_from_the_beginning(train, tmp_path, same_run):
    folder = tmp_path / "model"
    result = train(folder, "--resume")
    assert result.code == 0
    assert f"{folder} has no checkpoint to resume from; starting from the beginning\n" in result.err
    assert train(tmp_path / "fresh").code == 0
    same_run(folder, tmp_path / "fresh")


def test_resume_at_the_end_changes_nothing(train, tmp_path, snapshot):
    folder = tmp_path / "model"
    train(folder)
    before = snapshot(folder)
    result = train(folder, "--resume")
    assert (result.code, result.out) == (0, f"{folder}\n")
    assert result.err == "already at step 12 of 12; raise training.max_steps to train on\n"
    assert snapshot(folder) == before


def test_resume_needs_no_config(train, tformer, tmp_path):
    train(tmp_path / "model")
    result = tformer("train", "--resume", "--output", tmp_path / "model", "--set", "training.max_steps=13")
    assert result.code == 0
    assert "finished step 13 of 13" in result.err


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model__d_model": 32}, "model.d_model 16 -> 32"),
        ({"tokenizer__vocab_size": 500}, "tokenizer.vocab_size 400 -> 500"),
        ({"data__target_lang": "fr"}, "data.target_lang es -> fr"),
    ],
)
def test_settings_that_weights_depend_on_cannot_change(train, tmp_path, snapshot, settings, words):
    folder = tmp_path / "model"
    train(folder, training__max_steps=2)
    before = snapshot(folder)
    result = train(folder, "--resume", **settings)
    assert (result.code, result.out) == (2, "")
    assert len(result.err.splitlines()) == 1
    assert f"trained with other settings that its weights depend on ({words})" in result.err
    assert snapshot(folder) == before


def test_how_pieces_are_sampled_may_change(train, tmp_path):
    train(tmp_path / "model", training__max_steps=2)
    result = train(tmp_path / "model", "--resume", training__max_steps=3, tokenizer__sampling=0.1)
    assert result.code == 0
    assert re.search("tokenizer.sampling +0.0 +0.1 +config\n", result.err)


def test_other_settings_may_change_and_are_told(train, tmp_path, metrics):
    folder = tmp_path / "model"
    train(folder, training__max_steps=10)
    settings = {"training__max_steps": 12, "training__learning_rate": 0.25, "training__max_tokens_per_batch": 4096}
    result = train(folder, "--resume", **settings)  # an epoch has fewer batches now than have been taken
    assert result.code == 0
    assert result.err.splitlines()[:4] == [
        "setting                        checkpoint  config  what counts",
        "training.learning_rate         null        0.25    config",
        "training.max_steps             10          12      config",
        "training.max_tokens_per_batch  256         4096    config",
    ]
    rates = [line["learning_rate"] for line in metrics(folder) if line["split"] == "train"]
    assert rates[10:] == pytest.approx([0.25 * 11 / 50, 0.25 * 12 / 50])


def test_what_a_killed_run_left_is_passed_over_and_cleared_away(train, tmp_path, same_run):
    folder = tmp_path / "model"
    train(folder, training__max_steps=7)
    for name in ("checkpoints/.step-00000009-123", ".averaged-123", ".last-123"):
        (folder / name).mkdir()
        (folder / name / "model.safetensors").write_bytes(b"half of it")
    with (folder / "metrics.jsonl").open("ab") as file:  # lines of steps that no checkpoint knows
        file.write(b'{"step": 8, "split": "train"}\n{"step": 9, "spl')
    assert train(folder, "--resume", training__max_steps=14).code == 0
    assert not list(folder.rglob(".*"))
    train(tmp_path / "whole", training__max_steps=14)
    same_run(folder, tmp_path / "whole")


# ---- The end of a run ----


def test_minutes_become_steps_once(train, tmp_path, monkeypatch, metrics):
    clock = SimpleNamespace(now=0.0)

    def monotonic():
        clock.now += 0.125
        return clock.now

    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=monotonic))
    folder, settings = tmp_path / "model", {"training__max_steps": 10**6, "training__schedule": "linear"}
    settings |= {"data__validation": None, "training__save_every_steps": 40, "training__warmup_steps": 5}
    result = train(folder, training__max_minutes=0.5, **settings)
    assert result.code == 0
    horizon = load_state(folder / "last")["state"]["last_step"]
    assert 50 < horizon < 1000
    assert f"0.5 minutes allow {horizon} steps; the schedule ends there\n" in result.err
    assert f"finished step {horizon} of {horizon}\n" in result.err
    rates = [line["learning_rate"] for line in metrics(folder)]
    assert len(rates) == horizon
    assert rates[-1] == pytest.approx(rates[-2] / 2)  # a decaying schedule has gone down to its end

    longer = train(folder, "--resume", training__max_minutes=1.0, **settings)
    assert longer.code == 0
    assert load_state(folder / "last")["state"]["last_step"] > 1.5 * horizon
    assert re.search("training.max_minutes  0.5 +1.0 +config\n", longer.err)


def test_a_hitch_at_the_start_does_not_decide_how_long_a_run_is(train, tmp_path, monkeypatch):
    """The machine is ten times slower for the first twenty steps: so many as these must not shorten ten minutes."""
    clock = SimpleNamespace(now=0.0, steps=0)
    true_step = loop.train_step

    def step(*arguments):
        clock.steps += 1
        clock.now += 10.0 if clock.steps <= 20 else 1.0
        return true_step(*arguments)

    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(loop, "train_step", step)
    settings = {"training__max_steps": 10**6, "training__schedule": "linear", "training__warmup_steps": 200}
    settings |= {"data__validation": None, "training__save_every_steps": 1000}
    result = train(tmp_path / "model", training__max_minutes=10, **settings)
    assert result.code == 0
    assert load_state(tmp_path / "model" / "last")["state"]["last_step"] > 220


def test_minutes_that_are_over_end_a_run(train, tmp_path, monkeypatch):
    clock = SimpleNamespace(now=0.0)

    def monotonic():
        clock.now += 1.0
        return clock.now

    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=monotonic))
    result = train(tmp_path / "model", training__max_minutes=0.5, training__max_steps=10**6, data__validation=None)
    assert result.code == 0
    step = load_state(tmp_path / "model" / "last")["state"]["step"]
    assert 5 < step < 40
    assert f"stopped at step {step}: 0.5 minutes are over\n" in result.err


@pytest.fixture
def trainer(tmp_path, tiny_model, tokenised):
    """A trainer of a tiny model, validated by a list of BLEU scores; `batches` replaces its stream."""
    pairs = [[4 + (start + offset) % 9 for offset in range(2 + start % 5)] for start in range(24)]
    runtime = prepare("cpu", "fp32", 1)

    def make(scores=None, batches=None, folder="model", **settings):
        coming = iter(scores or ())
        validate = None if scores is None else lambda: Validation(1.0, math.e, next(coming), 0.0, [])
        settings = {"max_steps": 40, "warmup_steps": 4, "validate_every_steps": 2, "save_every_steps": 2, **settings}
        model = tiny_model(seed=1)
        (tmp_path / folder).mkdir(exist_ok=True)
        stream = batches or BatchStream(tokenised(pairs, pairs[::-1]), max_tokens_per_batch=24, seed=1)
        return Trainer(model, stream, TrainingConfig(**settings), runtime, ModelFolder(tmp_path / folder), validate)

    return make


def test_patience_counts_validations_after_the_best(trainer, capsys):
    run = trainer([0.0, 0.0, 0.0, 0.0, 0.0, 3.0, 2.0, 1.0, 3.0, 9.0], patience=3, average_last=1)
    assert run.train() == "stopped at step 18: 3 validations without a better bleu than at step 12"
    assert run.folder.path.joinpath("best").readlink().name == "step-00000012"
    assert "step 12 · validation" in capsys.readouterr().err


def test_patience_survives_a_stop(trainer):
    first = trainer([3.0, 2.0, 1.0], patience=3, average_last=1, max_steps=6)
    first.train()
    second = trainer([0.5, 9.0], patience=3, average_last=1)
    checkpoint = second.folder.checkpoint(6)
    load_into(second.model, checkpoint)
    second.resume(load_state(checkpoint))
    assert second.train() == "stopped at step 8: 3 validations without a better bleu than at step 2"


@pytest.mark.parametrize(("averaged", "kept"), [(5.0, True), (4.9, False)])
def test_an_average_worse_than_the_best_is_not_kept(trainer, capsys, averaged, kept):
    run = trainer([5.0, 4.0, 3.0, averaged], max_steps=6, average_last=3)
    run.train()
    assert run.folder.averaged.exists() == kept
    assert run.folder.weights_to_use().name == ("averaged" if kept else "best")
    said = "is what translates from now on" if kept else "is worse than step 2 (perplexity 2.72 · BLEU 4.9 greedy)"
    assert f"the average of the last 3 checkpoints (steps 2 to 6) {said}" in capsys.readouterr().err


def test_the_end_of_a_run_may_be_its_best_until_it_goes_on(trainer):
    run = trainer([1.0, 5.0, 4.0], max_steps=3, average_last=2)
    run.train()
    assert run.folder.path.joinpath("best").readlink().name == "step-00000003"
    assert not run.folder.averaged.exists()
    going_on = trainer([0.5, 0.6, 0.0], max_steps=6, average_last=2)
    going_on.resume(load_state(going_on.folder.checkpoint(3)))
    going_on.train()
    assert going_on.folder.path.joinpath("best").readlink().name == "step-00000002"


def test_one_checkpoint_has_no_average(trainer):
    run = trainer(max_steps=2)
    run.train()
    assert run.folder.weights_to_use().name == "last"


def test_the_average_is_the_mean_of_the_last(train, tmp_path, weights):
    folder = tmp_path / "model"
    train(folder, data__validation=None, training__max_steps=21)
    steps = [weights(folder / "checkpoints" / f"step-{step:08d}") for step in (15, 20, 21)]
    averaged = weights(folder / "averaged")
    assert averaged.keys() == steps[0].keys()
    for name, mean in averaged.items():
        np.testing.assert_allclose(mean, np.mean([step[name].astype(np.float64) for step in steps], axis=0), rtol=1e-6)
        assert mean.dtype == np.float32


# ---- Numbers that are none ----


def test_an_update_that_breaks_the_weights_is_not_saved(trainer, monkeypatch):
    train_step = loop.train_step

    def breaking(model, *rest):
        sums = train_step(model, *rest)
        if run.state.step == 4:
            with torch.no_grad():
                model.output.weight[0, 0] = math.nan
        return sums

    monkeypatch.setattr(loop, "train_step", breaking)
    run = trainer([1.0])
    told = "step 4: a weight is no longer a finite number; nothing of this has been saved. Resume from .* of step 2,"
    with pytest.raises(TformerError, match=told):
        run.train()
    assert run.folder.steps() == [2]


def test_a_model_that_has_run_away_is_still_measured(train, tmp_path, monkeypatch, metrics):
    monkeypatch.setattr(training, "corpus_nll", lambda *_: 1000.0)
    result = train(tmp_path / "model")
    assert result.code == 0
    assert "perplexity inf" in result.err
    assert metrics(tmp_path / "model")[-1]["perplexity"] is None


# ---- Accumulation ----


def test_batches_that_add_up_are_one_batch(trainer, tokenised, metrics, weights):
    pairs = [[4 + (start + offset) % 9 for offset in range(1 + start % 7)] for start in range(24)]
    corpus = tokenised(pairs, pairs[::-1])
    cut = [np.arange(start, start + size) for start, size in ((0, 2), (2, 9), (11, 3), (14, 10))]
    settings = {"max_steps": 6, "average_last": 1}
    trainers = [
        trainer(folder="whole", batches=Repeating(corpus, [np.arange(24)]), **settings),
        trainer(folder="cut", batches=Repeating(corpus, cut), accumulate_batches=4, **settings),
    ]
    for run in trainers:
        run.train()
    whole, parts = (metrics(run.folder.path) for run in trainers)
    assert [line["loss"] for line in parts] == pytest.approx([line["loss"] for line in whole], rel=1e-5)
    assert [line["nll"] for line in parts] == pytest.approx([line["nll"] for line in whole], rel=1e-5)
    arrays = [weights(run.folder.path / "last") for run in trainers]
    for name in arrays[0]:
        np.testing.assert_allclose(arrays[1][name], arrays[0][name], atol=2e-3)


class Repeating:
    """A stream that gives the same batches for each update."""

    epoch = taken = 0

    def __init__(self, corpus, plan):
        self._batches = [collate(corpus, indices) for indices in plan]

    def next_window(self, num_batches):
        assert num_batches == len(self._batches)
        pairs = np.concatenate([batch.indices for batch in self._batches])
        return Window(self._batches, sum(batch.num_tokens for batch in self._batches), pairs)
