"""Scores that can be checked by other means: the sacrebleu command, hand arithmetic, the same model again."""

import gzip
import importlib.metadata
import json
import math
import os
import platform
import subprocess
import sys

import pytest
from sacrebleu.dataset import DATASETS
from sacrebleu.tokenizers import tokenizer_ja_mecab

from tformer.runs import evaluating


@pytest.fixture
def evaluate(tformer, trained):
    """Evaluates the trained model, and gives what --json prints."""

    def call(*arguments):
        result = tformer("eval", "--model", trained, "--json", *arguments)
        assert result.code == 0, result.err
        return json.loads(result.out)

    return call


@pytest.fixture
def score(tformer):
    """Scores a file of translations, and gives what --json prints."""

    def call(hypothesis, *arguments):
        result = tformer("eval", "--json", "--hypothesis", hypothesis, *arguments)
        assert result.code == 0, result.err
        return json.loads(result.out)

    return call


@pytest.fixture
def write(tmp_path):
    """Writes lines to a file, and gives its path."""

    def call(name, *lines):
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return path

    return call


def sacrebleu(reference, hypothesis, *options):
    """What the sacrebleu command says."""
    command = [sys.executable, "-m", "sacrebleu", reference, "-i", hypothesis, "-w", "10", *options]
    return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)


# ---- A model on a test set ----


def test_scores_are_those_of_the_sacrebleu_command(evaluate, harbour, tmp_path):
    hypotheses = tmp_path / "out.es"
    found = evaluate("--output", hypotheses, "--metric", "ter", "--metric", "chrf++")
    assert len(hypotheses.read_text(encoding="utf-8").splitlines()) == found["sentences"] == 30
    bleu, chrf, ter = sacrebleu(harbour / "test.es", hypotheses, "-m", "bleu", "chrf", "ter")
    chrf_words = sacrebleu(harbour / "test.es", hypotheses, "-m", "chrf", "-cw", "2")
    ours = [(found["bleu"], found["signature"]), (found["chrf"], found["chrf_signature"])]
    ours += [(found[name]["score"], found[name]["signature"]) for name in ("ter", "chrf++")]
    for (number, signature), theirs in zip(ours, (bleu, chrf, ter, chrf_words), strict=True):
        assert number == pytest.approx(theirs["score"], abs=1e-9)
        assert signature == theirs["signature"]
    assert 50 < found["bleu"] <= 100


def test_json_holds_all_that_it_takes_to_come_to_the_numbers_again(evaluate, trained):
    found = evaluate("--beam", "2", "--length-penalty", "0")
    assert found.keys() == {
        "bleu", "chrf", "signature", "chrf_signature", "sentences", "perplexity", "about", "corpus", "model",
        "decoding", "seconds", "sentences_per_second", "versions"
    }  # fmt: skip
    assert found["corpus"] == "test.en + test.es"
    assert found["model"].startswith(f"{trained} (averaged")
    assert (found["decoding"]["beam_size"], found["decoding"]["length_penalty"]) == (2, 0)
    assert found["seconds"] > 0
    assert found["sentences_per_second"] == pytest.approx(30 / found["seconds"])
    libraries = ("tformer", "torch", "sacrebleu", "sentencepiece")
    assert found["versions"] == {
        **{name: importlib.metadata.version(name) for name in libraries},
        "python": platform.python_version(),
    }


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


def test_the_file_scores_as_the_model_did(evaluate, score, harbour, tmp_path):
    hypotheses = tmp_path / "out.es"
    found = evaluate("--output", hypotheses)
    scored = score(hypotheses, "--reference", harbour / "test.es")
    for key in ("bleu", "chrf", "signature", "chrf_signature", "sentences"):
        assert scored.pop(key) == found[key]
    assert scored.keys() == {"about", "corpus", "versions"}
    assert scored["versions"].keys() == {"tformer", "sacrebleu", "sentencepiece", "python"}
    assert scored["corpus"] == "test.es"


def test_files_of_ones_own_are_a_test_set(evaluate, harbour):
    own = evaluate("--source", harbour / "dev.en", "--reference", harbour / "dev.es")
    split = evaluate("--split", "validation")
    assert own["bleu"] == split["bleu"]
    assert own["perplexity"] == split["perplexity"]
    assert own["bleu"] != evaluate()["bleu"]
    assert evaluate("--split", "train")["sentences"] == 300


def test_files_of_ones_own_may_be_compressed(evaluate, harbour, tmp_path):
    for name in ("dev.en", "dev.es"):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress((harbour / name).read_bytes()))
    plain = evaluate("--source", harbour / "dev.en", "--reference", harbour / "dev.es")
    packed = evaluate("--source", tmp_path / "dev.en.gz", "--reference", tmp_path / "dev.es")  # its .gz twin
    assert packed["bleu"] == plain["bleu"]
    assert packed["sentences"] == 30


def test_several_references_are_counted_and_perplexity_is_that_of_the_first(evaluate, write):
    source = write("a.en", "The girl sees the boat.", "The cook sees the boat.")
    first = write("a.es", "La niña ve el barco.", "El cocinero ve el barco.")
    second = write("b.es", "La chica ve el barco.", "")
    alone = evaluate("--source", source, "--reference", first)
    both = evaluate("--source", source, "--reference", first, "--reference", second)
    assert both["signature"].startswith("nrefs:2|")
    assert both["perplexity"] == alone["perplexity"]
    assert both["corpus"] == "a.en + a.es + b.es"
    worse_first = evaluate("--source", source, "--reference", second, "--reference", first)
    assert worse_first["bleu"] == both["bleu"]
    assert worse_first["perplexity"] > both["perplexity"]


def test_a_perplexity_beyond_all_bounds_is_null_in_json(tformer, trained, monkeypatch):
    monkeypatch.setattr(evaluating, "corpus_nll", lambda *_: 1e9)
    result = tformer("eval", "--model", trained, "--json")
    assert json.loads(result.out)["perplexity"] is None
    assert "Infinity" not in result.out
    assert "\nperplexity     inf " in tformer("eval", "--model", trained).out


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
        found.append(evaluating.evaluate([trained], "test", device="cpu", beam_size=1).perplexity)
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


# ---- Translations that are there ----


def test_one_line_right_of_three_is_no_hundred(score, write):
    hypothesis = write("hyp.es", "El gato ve al perro.", "Nada de nada hoy.", "Otra frase sin relación.")
    reference = write("ref.es", "El gato ve al perro.", "El niño pinta al caballo blanco.", "El oso llama al zorro.")
    found = score(hypothesis, "--reference", reference)
    assert found["bleu"] == pytest.approx(sacrebleu(reference, hypothesis)["score"], abs=1e-9)
    assert found["bleu"] < 60


def test_tokenised_translations_score_as_the_command_has_it_and_are_noted(tformer, write):
    lines = ["El amigo viejo llama al maestro pequeño otra vez.", "El gato pequeño pinta al oso rojo de noche."]
    tokenised = [line.replace(".", " .") for line in lines]
    hypothesis, reference = write("hyp_tok.es", *tokenised), write("test.es", *lines)
    arguments = ["eval", "--hypothesis", hypothesis, "--reference", reference]
    result = tformer(*arguments)
    theirs = sacrebleu(reference, hypothesis)
    assert result.out.splitlines()[1].split() == ["BLEU", f"{theirs['score']:.2f}", theirs["signature"]]
    assert result.err == "2 hypotheses end in ' .': BLEU is comparable on detokenised text only\n"
    as_it_is = tformer(*arguments, "--tokenize", "none", "--lowercase")
    assert "|case:lc|eff:no|tok:none|" in as_it_is.out
    assert as_it_is.err == ""


def test_chinese_is_cut_by_its_tokenizer_where_the_language_is_told(score, write):
    hypothesis = write("hyp.zh", "我喜欢数学和音乐。", "今天天气很好。", "他在图书馆读书。")
    reference = write("ref.zh", "我喜欢数学与音乐。", "今天天气非常好。", "他在图书馆看书。")
    found = score(hypothesis, "--reference", reference, "--target-lang", "zh")
    theirs = sacrebleu(reference, hypothesis, "-tok", "zh")
    assert (found["bleu"], found["signature"]) == (pytest.approx(theirs["score"], abs=1e-9), theirs["signature"])
    assert found["bleu"] > 50


@pytest.mark.parametrize("language", ["ja", "jpn_Jpan"])
def test_japanese_without_its_extra_is_scored_by_characters_and_says_so(tformer, write, monkeypatch, language):
    monkeypatch.setattr(tokenizer_ja_mecab, "MeCab", None)
    arguments = [
        "--hypothesis",
        write("hyp.ja", "私は音楽が好きです。"),
        "--reference",
        write("ref.ja", "私は数学が好きです。"),
    ]
    result = tformer("eval", *arguments, "--target-lang", language)
    assert "|tok:char|" in result.out
    assert result.err == "BLEU counts characters: ja-mecab needs `pip install 'tformer[ja]'` to count words\n"
    insisting = tformer("eval", *arguments, "--tokenize", "ja-mecab")
    assert (insisting.code, insisting.out) == (2, "")
    assert insisting.err == "tformer: --tokenize ja-mecab: needs `pip install 'tformer[ja]'`\n"


def test_blank_translations_score_0(score, write):
    found = score(write("hyp", "", " "), "--reference", write("ref", "El gato ve.", ""))
    assert (found["bleu"], found["chrf"], found["sentences"]) == (0, 0, 2)


# ---- Comparisons ----


def test_no_model_differs_from_itself(evaluate, trained, tformer):
    comparison = evaluate("--compare", trained)["comparison"]
    baseline, system = comparison["systems"]
    for metric in ("bleu", "chrf"):
        assert baseline[metric]["p_value"] is None
        assert system[metric]["p_value"] == 1.0
        assert system[metric]["score"] == baseline[metric]["score"]
        assert "bs:1000" in comparison["signatures"][metric]
    assert "p = 1.0000" in tformer("eval", "--model", trained, "--compare", trained).out


def test_a_model_can_be_compared_with_a_file_of_translations(evaluate, harbour, write):
    reversed_words = [
        " ".join(reversed(line.split())) for line in (harbour / "test.es").read_text("utf-8").splitlines()
    ]
    worse = write("worse.es", *reversed_words)
    comparison = evaluate("--compare", worse, "--significance", "randomization")["comparison"]
    baseline, system = comparison["systems"]
    assert comparison["test"] == "randomization"
    assert "ar:10000" in comparison["signatures"]["bleu"]
    assert baseline["name"] == str(worse)
    assert baseline["bleu"]["score"] < system["bleu"]["score"]
    assert system["bleu"]["p_value"] < 0.01


def test_files_of_translations_can_be_compared(score, harbour, write):
    worse = write("worse.es", *["Nada."] * 30)
    found = score(harbour / "test.es", "--reference", harbour / "test.es", "--compare", worse)
    baseline, system = found["comparison"]["systems"]
    assert (baseline["name"], system["name"]) == (str(worse), str(harbour / "test.es"))
    assert system["bleu"]["score"] == found["bleu"] == pytest.approx(100)
    assert system["bleu"]["p_value"] < 0.01


# ---- Public test sets ----


@pytest.fixture
def public(tmp_path, monkeypatch, harbour):
    """A small test set under the name of a large one, where sacreBLEU keeps those that it has downloaded."""
    folder = tmp_path / "sacrebleu" / "wmt14"
    folder.mkdir(parents=True)
    sides = {"src": (harbour / "test.en").read_text("utf-8"), "ref": (harbour / "test.es").read_text("utf-8")}
    for field, text in {**sides, "docid": "d\n" * 30, "genre": "g\n" * 30, "origlang": "en\n" * 30}.items():
        (folder / f"wmt14.en-de.{field}").write_text(text, encoding="utf-8")
    monkeypatch.setenv("SACREBLEU", str(folder.parent))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # nobody listens there
    return folder


def test_a_public_test_set_is_read_where_sacrebleu_keeps_it(shell, trained, public, evaluate):
    arguments = ["eval", "--model", trained, "--json", "--testset", "wmt14", "--langpair", "en-de"]
    result = shell(*arguments, "--output", public / "out.de")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert found["corpus"] == "wmt14 en-de"
    assert found["sentences"] == 30
    assert (found["bleu"], found["perplexity"]) == (evaluate()["bleu"], pytest.approx(evaluate()["perplexity"]))
    command = [sys.executable, "-m", "sacrebleu", "-t", "wmt14", "-l", "en-de", "-i", public / "out.de", "-w", "10"]
    theirs = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60, env=os.environ).stdout)
    assert (pytest.approx(theirs["score"], abs=1e-9), theirs["signature"]) == (found["bleu"], found["signature"])


def test_a_public_test_set_that_is_not_there_takes_a_network_or_a_copy(shell, trained, public):
    result = shell("eval", "--model", trained, "--testset", "wmt14", "--langpair", "en-fr")
    assert (result.code, result.out) == (1, "")
    [line] = result.err.splitlines()
    assert f"expected wmt14 (en-fr) in {public}, or to download it from {DATASETS['wmt14'].data[0]}, got " in line
    assert f"copy its ~/.sacrebleu/wmt14 to {public}" in line


def test_the_language_of_a_public_test_set_decides_on_the_tokenizer(score, write, tmp_path, monkeypatch):
    monkeypatch.setattr(DATASETS["wmt18"], "_outdir", str(tmp_path))
    for field in ("src", "ref", "docid", "genre", "origlang"):
        write(f"wmt18.en-zh.{field}", "我喜欢数学与音乐。")
    arguments = [write("hyp", "我喜欢数学和音乐。"), "--testset", "wmt18", "--langpair", "en-zh"]
    found = score(*arguments)
    assert found["corpus"] == "wmt18 en-zh"
    assert "|tok:zh|" in found["signature"]
    assert "|tok:13a|" in score(*arguments, "--target-lang", "de")["signature"]


# ---- What is refused ----


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--split", "tset"], "--split: expected train, validation or test, got tset"),
        (["--testset", "wmt14"], "give --testset and --langpair together"),
        (["--langpair", "en-de"], "give --testset and --langpair together"),
        (["--source", "dev.en"], "give --source and --reference together, or --hypothesis and --reference"),
        (["--reference", "dev.es"], "give --source and --reference together, or --hypothesis and --reference"),
        (["--source", "dev.en", "--reference", "dev.es", "--split", "test"], "give one test set: --split, or"),
        (["--split", "test", "--testset", "wmt14", "--langpair", "en-de"], "give one test set: --split, or"),
        (["--testset", "wmt41", "--langpair", "en-de"], "expected a test set of sacreBLEU, got 'wmt41'; did you mean"),
        (["--testset", "wmt14", "--langpair", "en-xx"], "expected a language pair of wmt14"),
        (["--source", "dve.en", "--reference", "dev.es"], "did you mean dev.en"),
        (["--source", "dev.en", "--reference", "dev.es", "--reference", "dve.es"], "did you mean dev.es"),
        (["--output", "nowhere/out.txt"], "--output nowhere/out.txt: the folder"),
        (["--compare", "nope"], "nope: no such model folder"),
        (["--significance", "bootstrap"], "--significance says how to --compare; give both, or neither"),
        (["--compare", "dev.es", "--significance", "t"], "--significance: expected bootstrap or randomization, got t"),
        (["--metric", "bleu"], "--metric: expected chrf++ or ter, got bleu; BLEU and chrF are always there"),
        (["--tokenize", "moses"], "--tokenize: expected one of none, zh, 13a"),
    ],
)
def test_what_cannot_be_asked_of_a_model_is_refused_before_it_translates(
    tformer, trained, harbour, monkeypatch, options, message
):
    monkeypatch.chdir(harbour)
    monkeypatch.delattr("tformer.decoding.translator.Translator.translate")
    result = tformer("eval", "--model", trained, *options)
    assert (result.code, result.out) == (2, "")
    assert len(result.err.splitlines()) == 1
    assert message in result.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--hypothesis goes with --reference, or with --testset and --langpair"),
        (["--reference", "dve.es"], "did you mean dev.es"),
        (["--reference", "dev.es", "--compare", "dve.es"], "did you mean dev.es"),
        (["--reference", "dev.es", "--testset", "wmt14", "--langpair", "en-de"], "give one test set"),
        (["--reference", "dev.es", "--source", "dev.en"], "--source is for a model, and --hypothesis runs none"),
        (["--split", "test"], "--split is for a model, and --hypothesis runs none"),
        (["--reference", "dev.es", "--model", "runs/x"], "--model is for a model, and --hypothesis runs none"),
        (["--reference", "dev.es", "--beam", "1"], "--beam is for a model, and --hypothesis runs none"),
        (["--reference", "dev.es", "--length-penalty", "0"], "--length-penalty is for a model, and --hypothesis runs"),
        (["--reference", "dev.es", "--output", "x.es"], "--output is for a model, and --hypothesis runs none"),
    ],
)
def test_what_cannot_be_asked_of_translations_that_are_there(tformer, harbour, monkeypatch, options, message):
    monkeypatch.chdir(harbour)
    result = tformer("eval", "--hypothesis", "dev.es", *options)
    assert (result.code, result.out) == (2, "")
    assert len(result.err.splitlines()) == 1
    assert message in result.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--hypothesis", "train.es", "--reference", "test.es"], "got 300 in train.es and 30 in test.es"),
        (
            ["--hypothesis", "test.es", "--reference", "test.es", "--reference", "train.es"],
            "got 300 in train.es and 30",
        ),
        (["--hypothesis", "test.es", "--reference", "test.es", "--compare", "train.es"], "got 300 in train.es and 30"),
        (["--source", "train.en", "--reference", "test.es"], "got 300 in"),
        (["--source", "test.en", "--reference", "test.es", "--reference", "train.es"], "got 300 in train.es and 30"),
        (["--compare", "train.es"], "got 300 in train.es and 30 in test.en + test.es"),
        (["--hypothesis", os.devnull, "--reference", os.devnull], "got 0 hypotheses and 0 references"),
    ],
)
def test_unequal_counts_are_content_that_is_wrong(tformer, trained, harbour, monkeypatch, options, message):
    monkeypatch.chdir(harbour)
    model = [] if "--hypothesis" in options else ["--model", trained]
    result = tformer("eval", *model, *options)
    assert (result.code, result.out) == (1, "")
    assert message in result.err
    assert len(result.err.splitlines()) == 1


def test_a_split_that_the_config_does_not_name(train, tformer, tmp_path):
    train(tmp_path / "model", data__test=None, training__max_steps=1)
    result = tformer("eval", "--model", tmp_path / "model")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("tformer: this model's config names no data.test; give --source and --reference")


def test_training_says_which_sentences_of_a_test_set_it_has_seen(train, write, harbour, tmp_path):
    files = {}
    for language in ("en", "es"):
        seen = (harbour / f"train.{language}").read_text("utf-8").splitlines()[:20]
        unseen = (harbour / f"dev.{language}").read_text("utf-8").splitlines()[:20]
        files[language] = str(write(f"dev.{language}", *seen, *unseen))
    settings = {"data__validation": {"source": files["en"], "target": files["es"]}, "training__max_steps": 1}
    result = train(tmp_path / "model", **settings)
    assert result.code == 0
    assert "warning: 20 of 40 validation pairs are in training too" in result.err
    assert "train: train.en + train.es: all 300 pairs kept" in result.err
