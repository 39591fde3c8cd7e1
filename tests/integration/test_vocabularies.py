"""One vocabulary or two, through the commands: trained, resumed, and refused where they are not the weights' own."""

import json
import shutil

import pytest

from tformer.config import load_config

SENTENCE = "The red boat is old."
SEPARATE = {"tokenizer__shared": False, "model__tie_embeddings": "decoder", "training__max_steps": 6}


@pytest.fixture
def separate(train, tmp_path):
    """A model with a vocabulary for each language, and what its training said."""
    result = train(tmp_path / "separate", **SEPARATE)
    assert result.code == 0, result.err
    return tmp_path / "separate", result.err


def test_a_vocabulary_for_each_language_is_trained_and_used(tformer, separate):
    folder, said = separate
    assert "vocabularies 400 and 400" in said
    assert (folder / "tokenizer.source.model").read_bytes() != (folder / "tokenizer.target.model").read_bytes()
    assert not (folder / "tokenizer.model").exists()
    translated = tformer("translate", "--model", folder, SENTENCE, "")
    assert (translated.code, len(translated.out.splitlines())) == (0, 2)
    scored = tformer("eval", "--model", folder, "--json")
    assert scored.code == 0, scored.err
    assert json.loads(scored.out)["perplexity"] < 400


def test_a_run_with_two_vocabularies_resumes_as_if_it_had_not_stopped(train, tformer, separate, tmp_path, weights):
    folder, _ = separate
    learnt = [(folder / f"tokenizer.{side}.model").stat().st_mtime_ns for side in ("source", "target")]
    assert train(folder, "--resume", **{**SEPARATE, "training__max_steps": 12}).code == 0
    assert train(tmp_path / "straight", **{**SEPARATE, "training__max_steps": 12}).code == 0
    resumed, straight = weights(folder / "last"), weights(tmp_path / "straight" / "last")
    assert all((resumed[name] == straight[name]).all() for name in straight)
    assert learnt == [(folder / f"tokenizer.{side}.model").stat().st_mtime_ns for side in ("source", "target")]


def test_one_vocabulary_for_both_languages_leaves_no_trace_of_two(train, separate):
    folder, _ = separate
    assert train(folder, "--overwrite", training__max_steps=1).code == 0
    assert sorted(path.name for path in folder.glob("tokenizer*")) == ["tokenizer.model"]


@pytest.mark.parametrize("command", ["translate", "eval", "train"])
def test_weights_refuse_another_tokenizer_in_one_line(train, tformer, trained, tmp_path, snapshot, command):
    folder = tmp_path / "model"
    train(folder, training__max_steps=2, tokenizer__normalization="identity")  # as many pieces, so that all shapes fit
    shutil.copy(trained / "tokenizer.model", folder)
    before = snapshot(folder)
    if command == "train":
        result = tformer("train", "--resume", "--output", folder, "--set", "training.max_steps=4")
    else:
        result = tformer(command, "--model", folder, *([SENTENCE] if command == "translate" else []))
    assert (result.code, result.out) == (1, "")
    changes = [line for line in result.err.splitlines() if line.startswith("changed since the run began")]
    [line] = result.err.splitlines()[len(changes) :]
    assert "model.safetensors: expected the tokenizer it was trained with (" in line
    assert snapshot(folder) == before


def test_a_mixture_of_tokenizer_files_is_refused_in_one_line(tformer, trained, separate):
    folder, _ = separate
    shutil.copy(trained / "tokenizer.model", folder)
    result = tformer("translate", "--model", folder, SENTENCE)
    assert (result.code, result.out) == (1, "")
    [line] = result.err.splitlines()
    assert "found tokenizer.model and tokenizer.source.model and tokenizer.target.model; copy" in line


@pytest.mark.parametrize("shared", [True, False])
def test_the_folder_says_how_large_the_vocabulary_became_and_resumes_with_what_was_asked(
    train, tformer, tmp_path, shared
):
    folder = tmp_path / "model"
    settings = {"tokenizer__shared": shared, "model__tie_embeddings": "decoder", "tokenizer__vocab_size": 32000}
    first = train(folder, training__max_steps=2, **settings)
    assert first.code == 0, first.err
    notes = [line for line in first.err.splitlines() if "vocabulary 32000 -> " in line]
    sizes = [int(line.split("-> ")[1].split(":")[0]) for line in notes]
    assert len(sizes) == (1 if shared else 2)
    for steps in (3, 4):
        assert load_config(folder / "config.yaml").tokenizer.vocab_size == max(sizes)
        facts = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
        assert facts["vocab_size_asked"] == 32000
        again = train(folder, "--resume", training__max_steps=steps, **settings)
        assert again.code == 0, again.err
        assert "vocab_size" not in again.err
    without = tformer("train", "--resume", "--output", folder, "--set", "training.max_steps=5")
    assert (without.code, "vocab_size" in without.err) == (0, False)
    other = train(folder, "--resume", **{**settings, "tokenizer__vocab_size": 31999})
    assert other.code == 2
    assert f"tokenizer.vocab_size {max(sizes)} -> 31999" in other.err


def test_a_lost_environment_asks_for_the_size_there_is(train, tmp_path):
    folder = tmp_path / "model"
    train(folder, training__max_steps=2, tokenizer__vocab_size=32000)
    size = load_config(folder / "config.yaml").tokenizer.vocab_size
    for damage in (lambda path: path.write_text("{", encoding="utf-8"), lambda path: path.unlink()):
        damage(folder / "environment.json")
        refused = train(folder, "--resume", training__max_steps=3, tokenizer__vocab_size=32000)
        assert f"tokenizer.vocab_size {size} -> 32000" in refused.err
    assert train(folder, "--resume", training__max_steps=3, tokenizer__vocab_size=size).code == 0
