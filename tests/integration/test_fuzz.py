"""The short form of scripts/fuzz.py, and that it can fail."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "fuzz.py"


@pytest.fixture(scope="module")
def fuzz():
    spec = importlib.util.spec_from_file_location("fuzz", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", ["configs", "corpora"])
def test_random_input_is_taken_or_refused_in_plain_words(fuzz, kind, capsys, monkeypatch):
    monkeypatch.setenv("TFORMER_CACHE", "replaced by the script's own")
    assert fuzz.main(["--only", kind, "--count", "40", "--seed", "5"]) == 0, capsys.readouterr().out


def test_a_shift_is_seen(fuzz, capsys, monkeypatch):
    monkeypatch.setenv("TFORMER_CACHE", "replaced by the script's own")
    shift = lambda pairs, chance, folder: fuzz.aligned(  # noqa: E731
        [(source, pairs[number - 1][1]) for number, (source, _) in enumerate(pairs)], chance, folder
    )
    monkeypatch.setattr(fuzz, "FORMATS", [shift])
    assert fuzz.main(["--only", "corpora", "--count", "10"]) == 1
    assert "a pair that shifted" in capsys.readouterr().out


def test_another_exception_is_seen(fuzz, capsys, monkeypatch):
    def break_down(*_):
        raise RecursionError("too deep")

    monkeypatch.setenv("TFORMER_CACHE", "replaced by the script's own")
    monkeypatch.setattr(fuzz, "load_config", break_down)
    assert fuzz.main(["--only", "configs", "--count", "2"]) == 1
    assert "configs --seed 1 --case 0: RecursionError: too deep" in capsys.readouterr().out
