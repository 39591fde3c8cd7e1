"""Scores that can be checked by other means: the sacrebleu command, hand arithmetic, the same model again."""

import json
import math
import subprocess
import sys

import pytest

from tformer.runs import evaluating


@pytest.fixture
def evaluate(tformer, trained):
    """Evaluates the trained model, and gives what --json prints."""

    def call(*arguments):
        result = tformer("eval", "--model", trained, "--json", *arguments)
        assert result.code == 0, result.err
        return json.loads(result.out)

    return call


def sacrebleu(reference, hypothesis, metric):
    """What the sacrebleu command says."""
    command = [sys.executable, "-m", "sacrebleu", reference, "-i", hypothesis, "-m", metric, "-w", "10"]
    return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)


def test_scores_are_those_of_the_sacrebleu_command(evaluate, harbour, tmp_path):
    hypotheses = tmp_path / "out.es"
    found = evaluate("--output", hypotheses)
    assert len(hypotheses.read_text(encoding="utf-8").splitlines()) == found["sentences"] == 30
    for metric in ("bleu", "chrf"):
        theirs = sacrebleu(harbour / "test.es", hypotheses, metric)
        assert found[metric] == pytest.approx(theirs["score"], abs=1e-9)
        ours = found["signature" if metric == "bleu" else "chrf_signature"]
        assert ours == theirs["signature"]
    assert 50 < found["bleu"] <= 100


def test_json_has_the_documented_fields(evaluate):
    assert evaluate().keys() == {
        "bleu", "chrf", "signature", "chrf_signature", "sentences", "perplexity", "about"
    }  # fmt: skip


def test_a_person_reads_the_same(tformer, trained, evaluate):
    result = tformer("eval", "--model", trained)
    assert result.code == 0
    lines = result.out.splitlines()
    found = evaluate()
    assert lines[0] == found["about"]
    assert lines[0].endswith("; test.en + test.es, 30 sentences; beam 4, length penalty 0.6")
    assert lines[1].split() == ["BLEU", f"{found['bleu']:.2f}", found["signature"]]
    assert lines[2].split() == ["chrF", f"{found['chrf']:.2f}", found["chrf_signature"]]
    assert lines[3].split()[:2] == ["perplexity", f"{found['perplexity']:.2f}"]


def test_the_file_scores_as_the_model_did(tformer, evaluate, harbour, tmp_path):
    hypotheses = tmp_path / "out.es"
    found = evaluate("--output", hypotheses)
    again = tformer("eval", "--json", "--hypothesis", hypotheses, "--reference", harbour / "test.es")
    assert again.code == 0
    scored = json.loads(again.out)
    assert scored == {key: found[key] for key in scored if key != "about"} | {"about": scored["about"]}
    assert "perplexity" not in scored


def test_files_of_ones_own_are_a_test_set(evaluate, harbour):
    own = evaluate("--source", harbour / "dev.en", "--reference", harbour / "dev.es")
    split = evaluate("--split", "validation")
    assert own["bleu"] == split["bleu"]
    assert own["perplexity"] == split["perplexity"]
    assert own["bleu"] != evaluate()["bleu"]


def test_validation_while_training_says_what_eval_says(evaluate, trained, metrics):
    line = metrics(trained)[-1]
    assert line["weights"] == "averaged"
    assert (trained / "averaged").exists()
    found = evaluate("--split", "validation", "--beam", "1")
    assert found["bleu"] == pytest.approx(line["bleu"], abs=1e-9)
    assert found["perplexity"] == pytest.approx(line["perplexity"], rel=1e-5)


def test_perplexity_does_not_depend_on_batches(trained, monkeypatch):
    found = []
    for tokens in (1, 60, 4096):
        monkeypatch.setattr(evaluating, "_TOKENS_AT_ONCE", tokens)
        found.append(evaluating.evaluate([trained], "test", "cpu", beam_size=1).perplexity)
    assert found == pytest.approx([found[0]] * 3, rel=1e-5)
    assert 1 < found[0] < math.exp(1)


def test_a_blank_line_counts(evaluate, tmp_path):
    (tmp_path / "a.en").write_text("The girl sees the boat.\n\nThe cook sees the boat.\n", encoding="utf-8")
    (tmp_path / "a.es").write_text("La niña ve el barco.\nNada.\nEl cocinero ve el barco.\n", encoding="utf-8")
    hypotheses = tmp_path / "out.es"
    options = ["--source", tmp_path / "a.en", "--reference", tmp_path / "a.es", "--output", hypotheses]
    assert evaluate(*options)["sentences"] == 3
    assert hypotheses.read_text(encoding="utf-8") == "La niña ve el barco.\n\nEl cocinero ve el barco.\n"


def test_a_pair_beyond_learned_positions_has_no_perplexity(train, tformer, tmp_path):
    folder = tmp_path / "model"
    settings = {"model__positions": "learned", "model__max_positions": 32, "data__max_length": 32}
    assert train(folder, training__max_steps=1, **settings).code == 0
    for language in ("en", "es"):
        (tmp_path / f"a.{language}").write_text("no\n" + "no no no no " * 20 + "\n", encoding="utf-8")
    options = ["--source", tmp_path / "a.en", "--reference", tmp_path / "a.es", "--json"]
    result = tformer("eval", "--model", folder, *options)
    assert json.loads(result.out)["sentences"] == 2
    told = "perplexity: a.en + a.es: 1 of 2 pairs kept; left out 1: longer than 32 pieces (line 2)\n"
    assert told in result.err


def test_several_models_have_no_perplexity_of_their_own(evaluate, trained):
    alone, voting = evaluate(), evaluate("--model", trained)
    assert voting["bleu"] == alone["bleu"]
    assert "perplexity" not in voting


def test_no_model_differs_from_itself(evaluate, trained, tformer):
    comparison = evaluate("--compare", trained)["comparison"]
    baseline, system = comparison["systems"]
    assert baseline["p_value"] is None
    assert system["p_value"] == 1.0
    assert system["bleu"] == baseline["bleu"]
    assert "bs:1000" in comparison["signature"]
    assert "p = 1.0000" in tformer("eval", "--model", trained, "--compare", trained).out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--split", "tset"], "--split: expected train, validation or test, got tset"),
        (["--testset", "wmt14"], "give --source and --reference together, or --testset and --langpair together"),
        (["--langpair", "en-de"], "give --source and --reference together, or --testset and --langpair together"),
        (["--source", "dev.en"], "give --source and --reference together, or --testset and --langpair together"),
        (["--testset", "wmt41", "--langpair", "en-de"], "expected a test set of sacreBLEU, got 'wmt41'; did you mean"),
        (["--testset", "wmt14", "--langpair", "en-xx"], "expected a language pair of wmt14"),
        (["--hypothesis", "dev.es"], "--hypothesis goes with --reference alone"),
        (["--hypothesis", "dev.es", "--reference", "dve.es"], "did you mean dev.es"),
        (["--source", "dve.en", "--reference", "dev.es"], "did you mean dev.en"),
        (["--output", "nowhere/out.txt"], "--output nowhere/out.txt: the folder"),
        (["--compare", "nope"], "nope: no such model folder"),
    ],
)
def test_what_cannot_be_asked_for(tformer, trained, harbour, monkeypatch, options, message):
    monkeypatch.chdir(harbour)
    result = tformer("eval", "--model", trained, *options)
    assert (result.code, result.out) == (2, "")
    assert len(result.err.splitlines()) == 1
    assert message in result.err


def test_unequal_counts_are_content_that_is_wrong(tformer, trained, harbour):
    result = tformer("eval", "--hypothesis", harbour / "train.es", "--reference", harbour / "test.es")
    assert (result.code, result.out) == (1, "")
    assert "got 300 hypotheses and 30 references" in result.err
    result = tformer("eval", "--model", trained, "--source", harbour / "train.en", "--reference", harbour / "test.es")
    assert (result.code, result.out) == (1, "")
    assert "got 300 in" in result.err


def test_a_split_that_the_config_does_not_name(train, tformer, tmp_path):
    train(tmp_path / "model", data__test=None, training__max_steps=1)
    result = tformer("eval", "--model", tmp_path / "model")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("tformer: this model's config names no data.test; give --source and --reference")
