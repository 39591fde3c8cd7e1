"""The script that writes the built-in corpus as files."""

import importlib.util
import sys
from pathlib import Path

import pytest

from tformer.data.toy import PronounItem, ToyCorpus

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch):
    """The script as a module, with a corpus small enough to compare with its files."""
    spec = importlib.util.spec_from_file_location("make_toy_corpus", ROOT / "scripts" / "make_toy_corpus.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    item = PronounItem("It was so.", "Il dit qu'il l'était.", "qu'il", "qu'elle")

    def make(seed):
        return ToyCorpus([(f"Seed {seed}.", "Graine.")], [("b", "B")], [("c", "C")], [("d", "D"), ("e", "É")], [item])

    monkeypatch.setattr(module, "make_toy_corpus", make)
    return module


def run(script, monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["make_toy_corpus.py", *map(str, arguments)])
    return script.main()


def test_writes_each_side_of_each_split(script, monkeypatch, tmp_path):
    assert run(script, monkeypatch, "--output", tmp_path / "new" / "toy", "--seed", 3) == 0
    written = {path.name: path.read_bytes().decode() for path in (tmp_path / "new" / "toy").iterdir()}
    assert written == {
        "train.en": "Seed 3.\n",
        "train.fr": "Graine.\n",
        "validation.en": "b\n",
        "validation.fr": "B\n",
        "test.seen.en": "c\n",
        "test.seen.fr": "C\n",
        "test.compositional.en": "d\ne\n",
        "test.compositional.fr": "D\nÉ\n",
        "pronouns.tsv": "It was so.\tIl dit qu'il l'était.\tqu'il\tqu'elle\n",
    }


@pytest.mark.parametrize("name", ["full/kept.txt", "full"])
def test_refuses_what_is_not_an_empty_folder_in_one_line(script, monkeypatch, tmp_path, capsys, name):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "kept.txt").write_text("mine")
    assert run(script, monkeypatch, "--output", tmp_path / name) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert str(tmp_path / name) in errors
    assert [path.name for path in tmp_path.rglob("*")] == ["full", "kept.txt"]
    assert (tmp_path / "full" / "kept.txt").read_text() == "mine"
