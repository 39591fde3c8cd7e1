"""Our scores against those that the sacrebleu command prints for the same lines in files, to twelve digits."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from sacrebleu.dataset import DATASETS

from tformer.decoding.score import Recipe, compare, read_testset, score_corpus

ENGLISH = (
    ["The cat sleeps on the mat.", "We read a long book tonight.", "It's 3.5 km, isn't it?", '"Yes", he said - twice.'],
    [
        "The cat slept on a mat.",
        "We will read a long book tonight.",
        "It is 3.5 km, isn't it?",
        '"Yes," he said twice.',
    ],
)
CHINESE = (
    ["我喜欢数学和音乐。", "今天天气很好。", "他在图书馆读书 ABC。"],
    ["我喜欢数学与音乐。", "今天天气非常好。", "他在图书馆看书 ABC。"],
)
NASTY = (
    [
        "",
        "  ",
        "trailing spaces here   ",
        "a\ttab\tinside the line",
        "two\u2028parts of one line",
        "\ufeffmark at the start",
    ],
    [
        "blank before me.",
        "blank too",
        "trailing spaces here ",
        "a tab inside the line\t",
        "two parts of one\u2028line",
        "mark at",
    ],
)
NASTY_ENDS = (
    ["form\x0cfeed and next\x85line", "carriage return\r", "&quot;quoted&amp; text", "no\u00a0break space\u00a0"],
) * 2


FIRST_LINE_RIGHT = (
    ["El gato ve al perro.", "Nada de nada hoy.", "Otra frase sin relación."],
    ["El gato ve al perro.", "El niño pinta al caballo blanco.", "El oso llama al zorro."],
)
TOKENISED = (
    ["El gato pequeño pinta al oso rojo de noche .", "El amigo viejo llama al maestro ."],
    ["El gato pequeño pinta al oso rojo de día .", "El amigo viejo llama al maestro otra vez ."],
)
JAPANESE = (["私は音楽が 好きです。", "今日は雨だ。"], ["私は数学が好きです。", "今日は晴れだ。"])


def command_output(folder: Path, systems: list[list[str]], references: list[list[str]], *options: str) -> str:
    """What the command says of these lines in files, or of hypotheses alone where the options name a test set."""
    paths = {}
    for kind, files in (("reference", references), ("system", systems)):
        for place, lines in enumerate(files):
            path = folder / f"{kind}-{place}"
            path.write_bytes("".join(line + "\n" for line in lines).encode("utf-8"))
            paths.setdefault(kind, []).append(str(path))
    command = [sys.executable, "-m", "sacrebleu", *paths.get("reference", ()), "-i", *paths["system"], "-w", "12"]
    environment = {**os.environ, "SACREBLEU": str(folder)}
    return subprocess.run(
        [*command, *options], check=True, capture_output=True, encoding="utf-8", env=environment
    ).stdout


def sacrebleu_command(folder: Path, hypotheses: list[str], references: list[list[str]], *options: str):
    return json.loads(command_output(folder, [hypotheses], references, *options))


@pytest.mark.parametrize(
    ("lines", "recipe", "options"),
    [
        pytest.param(ENGLISH, Recipe("en"), [], id="english"),
        pytest.param(CHINESE, Recipe("zh"), ["-tok", "zh", "--ter-asian-support", "--ter-normalized"], id="chinese"),
        pytest.param(JAPANESE, Recipe(tokenize="char"), ["-tok", "char"], id="japanese by characters"),
        pytest.param(NASTY, Recipe(), [], id="blanks and separators"),
        pytest.param(NASTY_ENDS, Recipe(), [], id="odd line ends"),
        pytest.param(FIRST_LINE_RIGHT, Recipe("es"), [], id="one line right of three"),
        pytest.param(ENGLISH, Recipe("en", lowercase=True), ["-lc", "--chrf-lowercase"], id="lower case"),
        pytest.param(TOKENISED, Recipe("es"), ["-tok", "13a"], id="tokenised"),
        pytest.param(TOKENISED, Recipe("es", tokenize="none"), ["-tok", "none"], id="tokenised, as it is"),
        pytest.param(ENGLISH, Recipe("en", tokenize="intl"), ["-tok", "intl"], id="another tokenizer"),
    ],
)
def test_scores_and_signatures_are_those_of_the_command(tmp_path, lines, recipe, options):
    hypotheses, references = lines
    bleu, chrf, ter = sacrebleu_command(tmp_path, hypotheses, [references], "-m", "bleu", "chrf", "ter", *options)
    scores = score_corpus(hypotheses, [references], replace(recipe, further=("ter",)))
    assert [bleu["name"], chrf["name"]] == ["BLEU", "chrF2"]
    assert (round(scores.bleu, 12), scores.signature) == (bleu["score"], bleu["signature"])
    assert (round(scores.chrf, 12), scores.chrf_signature) == (chrf["score"], chrf["signature"])
    assert (round(scores.further["ter"].score, 12), scores.further["ter"].signature) == (ter["score"], ter["signature"])
    assert 0 < scores.bleu <= 100.000001


@pytest.mark.parametrize("name", ["ja", "ko"])
def test_words_of_japanese_and_korean_are_those_of_the_command(tmp_path, name):
    pytest.importorskip({"ja": "MeCab", "ko": "mecab_ko"}[name])
    hypotheses, references = JAPANESE
    bleu = sacrebleu_command(tmp_path, hypotheses, [references], "-tok", f"{name}-mecab")
    scores = score_corpus(hypotheses, [references], Recipe(name))
    assert (round(scores.bleu, 12), scores.signature) == (bleu["score"], bleu["signature"])


@pytest.mark.parametrize(
    ("lines", "recipe", "options"),
    [(ENGLISH, Recipe("en", lowercase=True), ["--chrf-lowercase"]), (NASTY, Recipe(), [])],
    ids=["lower case", "blanks and separators"],
)
def test_chrf_with_words_is_that_of_the_command(tmp_path, lines, recipe, options):
    hypotheses, references = lines
    options = ["-m", "chrf", "--chrf-word-order", "2", *options]
    theirs = sacrebleu_command(tmp_path, hypotheses, [references], *options)
    ours = score_corpus(hypotheses, [references], replace(recipe, further=("chrf++",))).further["chrf++"]
    assert (round(ours.score, 12), ours.signature) == (theirs["score"], theirs["signature"])
    assert 0 < ours.score < 100


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(
            ["A cat sleeps on the mat.", "We read a book.", "It's 3.5 km, right?", '"Yes", he said.'], id="full"
        ),
        pytest.param(["", "We read a book.", "", '"Yes", he said.'], id="missing on two lines"),
        pytest.param(["", "", "", ""], id="missing everywhere"),
    ],
)
def test_several_references_count_as_they_do_for_the_command(tmp_path, second):
    hypotheses, first = ENGLISH
    hypotheses = ["Cat.", *hypotheses[1:]]  # so short that a missing reference is the nearest in length
    options = ["-m", "bleu", "chrf", "ter"]
    bleu, chrf, ter = sacrebleu_command(tmp_path, hypotheses, [first, second], *options)
    scores = score_corpus(hypotheses, [first, second], Recipe("en", further=("ter",)))
    assert (round(scores.bleu, 12), scores.signature) == (bleu["score"], bleu["signature"])
    assert (round(scores.chrf, 12), scores.chrf_signature) == (chrf["score"], chrf["signature"])
    assert round(scores.further["ter"].score, 12) == ter["score"]
    assert scores.signature.startswith("nrefs:2|")
    alone = score_corpus(hypotheses, [first], Recipe("en", further=("ter",)))
    assert alone.bleu != scores.bleu
    assert alone.further["ter"].score != scores.further["ter"].score


@pytest.mark.parametrize(("test", "option"), [("bootstrap", "--paired-bs"), ("randomization", "--paired-ar")])
def test_a_comparison_is_that_of_the_command(tmp_path, test, option):
    hypotheses, references = ENGLISH
    systems = [hypotheses, [*references[:3], "He said it."]]
    options = ["-m", "bleu", "chrf", option, "-f", "text", "-nc"]  # its JSON fails at a bootstrapped chrF
    lines = command_output(tmp_path, systems, [references], *options).splitlines()
    comparison = compare([("a", systems[0]), ("b", systems[1])], [references], Recipe("en"), test)
    paired = [[system.scores[metric] for metric in ("bleu", "chrf")] for system in comparison.systems]
    numbers = [number for line in lines for number in re.findall(r"\d+\.\d{12}", line)]
    shown = [value for row in paired for each in row for value in (each.score, each.mean, each.ci) if value is not None]
    assert numbers == [f"{value:.12f}" for value in shown]
    assert len(numbers) == (12 if test == "bootstrap" else 4)
    chances = [number for line in lines for number in re.findall(r"\(p = (\d\.\d{4})\)", line)]
    assert chances == [f"{each.p_value:.4f}" for each in paired[1]]
    signatures = [line.split()[-1] for line in lines if line.startswith(" - ") and "nrefs:" in line]
    assert signatures == list(comparison.signatures.values())


def test_a_public_test_set_is_scored_as_by_the_command(tmp_path, monkeypatch):
    source, reference = ["Eins.", "Das ist ein Haus."], ["One.", "This is a house."]
    folder = tmp_path / "wmt14"
    folder.mkdir()
    for part, lines in {
        "src": source,
        "ref": reference,
        "docid": "ab",
        "genre": "nn",
        "origlang": ["de", "de"],
    }.items():
        text = "".join(f"{line}\n" for line in lines)
        (folder / f"wmt14.de-en.{part}").write_text(text, encoding="utf-8")
    monkeypatch.setattr(DATASETS["wmt14"], "_outdir", str(folder))
    hypotheses = ["One.", "This is the house."]
    theirs = sacrebleu_command(tmp_path, hypotheses, [], "-t", "wmt14", "-l", "de-en")
    assert read_testset("wmt14", "de-en") == (source, [reference])
    scores = score_corpus(hypotheses, [reference], Recipe("en"))
    assert (round(scores.bleu, 12), scores.signature) == (theirs["score"], theirs["signature"])
