"""`tformer check`: what a person and a script read, and that it stops where training would and writes nothing."""

import json
from types import SimpleNamespace

import pytest

from tformer.config import Config
from tformer.data.check.settings import Schedule
from tformer.runs.checking import Check
from tformer.training.trial import Trial

SECTIONS = ["corpus", "left out", "findings", "lengths", "tokenizer", "training"]


@pytest.fixture
def check(tformer, config):
    """Checks the quick config with these settings, and gives what the command left."""
    return lambda *options, **settings: tformer(
        "check",
        "--config",
        config,
        *(f"--set={key.replace('__', '.')}={json.dumps(value)}" for key, value in settings.items()),
        *options,
    )


@pytest.fixture
def corpus(tmp_path, harbour):
    """Writes a training corpus: the harbour's, with these pairs behind it; gives the setting that names it."""

    def write(*pairs, keep=None):
        files = {}
        for column, side in enumerate(("en", "es")):
            lines = (harbour / f"train.{side}").read_text(encoding="utf-8").splitlines()[:keep]
            files[side] = tmp_path / f"mine.{side}"
            files[side].write_text("".join(f"{x}\n" for x in [*lines, *(p[column] for p in pairs)]), encoding="utf-8")
        return {"source": str(files["en"]), "target": str(files["es"])}

    return write


def test_a_person_reads_sections_of_aligned_columns(check, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    result = check()
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert [line for line in lines if line and not line.startswith(" ")] == SECTIONS
    assert max(map(len, [line for line in lines if " note " not in line and "warning " not in line])) <= 120
    header, train, validation, test = lines[1:5]
    assert header.split() == ["pairs", "read", "left", "out", "from"]
    assert train.split()[:4] == ["train", "300", "300", "0"]
    for line, name in ((train, "train"), (validation, "dev"), (test, "test")):
        assert line.index(f"{name}.en + {name}.es") == header.index("from")
    assert "estimated from 5 steps" in result.out
    assert {path.name for path in tmp_path.iterdir()} == {"quick.yaml"}


def test_a_script_reads_one_object(check, config):
    result = check("--json")
    assert (result.code, result.err) == (0, "")
    found = json.loads(result.out)
    assert list(found) == ["splits", "findings", "vocabulary", "training"]
    assert list(found["splits"]) == ["train", "validation", "test"]
    train = found["splits"]["train"]
    assert train["pairs"] == sum(source["pairs_read"] for source in train["sources"])
    assert train["pieces"]["target"]["median"] <= train["pieces"]["target"]["longest"]
    assert found["vocabulary"]["asked"] == 400
    training = found["training"]
    assert training["steps"] == 12
    assert training["epochs"] == pytest.approx(12 / training["batches_per_epoch"])
    assert 0 < training["padding_share"] < 0.5
    assert training["memory_bytes"] > 16 * training["parameters"]
    assert training["minutes"] == pytest.approx(12 * training["seconds_per_step"] / 60)
    assert {"kind", "severity", "message", "count", "split", "lines"} == set(found["findings"][0])


@pytest.mark.parametrize("settings", [{}, {"data__max_length": 12}])
def test_it_agrees_with_training(check, train, tmp_path, settings):
    found = json.loads(check("--json", **settings).out)
    told = train(tmp_path / "model", **settings).err
    training = found["training"]
    assert f"model: {training['parameters']:,} parameters, vocabulary {found['vocabulary']['sizes'][0]}" in told
    too_long = [each["count"] for each in found["findings"] if each["kind"] == "too_long"]
    assert bool(too_long) == bool(settings)
    pairs = found["splits"]["train"]["pairs"] - sum(too_long)
    assert f"{pairs} pairs in {training['batches_per_epoch']} batches an epoch" in told


def test_what_is_wrong_is_told_with_its_lines(check, corpus):
    odd = [("A &amp; B", "A &amp; B"), ("The boat is red.", ""), ("The boat is red.", "El barco es rojo.")]
    files = {"data__train": corpus(*odd, keep=100)}
    found = json.loads(check("--json", **files).out)
    by_kind = {each["kind"]: each for each in found["findings"]}
    assert by_kind["entities"]["lines"] == by_kind["copies"]["lines"] == ["mine.en + mine.es, line 101"]
    assert by_kind["entities"]["severity"] == "note"
    [left_out] = found["splits"]["train"]["sources"][0]["left_out"]
    assert (left_out["count"], left_out["lines"]) == (1, [102])

    text = check(**files)
    assert text.code == 0
    assert "(mine.en + mine.es, line 101)" in text.out
    assert "blank on one or both sides (line 102)" in text.out


def test_a_run_that_the_minutes_end_says_so(check):
    assert "training.max_minutes 0.0001 ends the run first" in check(training__max_minutes=0.0001).out


def test_estimates_are_scaled_from_the_trial():
    config = Config.model_validate({"training": {"accumulate_batches": 2, "max_tokens_per_batch": 150}})
    schedule = Schedule(batches_per_epoch=10, tokens_per_epoch=1000, padding_share=0.1, steps=600, epochs=120.0)
    trial = Trial(1000, 5, 50, seconds_per_token=0.01, seconds_per_update=0.5, bytes_per_token=20.0)
    found = Check(config, SimpleNamespace(schedule=schedule), None, trial)
    assert found.seconds_per_step == pytest.approx(2 * 100 * 0.01 + 0.5)
    assert found.minutes == pytest.approx(25.0)
    assert found.memory_bytes == 1000 * 16 + 150 * 20


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"data__train__source": "trian.en"}, 2),
        ({"tokenizer__vocab_size": 40}, 2),
        ({"model__d_model": 15}, 2),
        ({"data__max_length": 3}, 1),
    ],
)
def test_it_stops_where_training_would_with_the_same_words(check, train, tmp_path, settings, code):
    checked, trained = check(**settings), train(tmp_path / "model", **settings)
    assert (checked.code, checked.out) == (trained.code, trained.out) == (code, "")
    assert checked.err.splitlines()[-1] == trained.err.splitlines()[-1]
