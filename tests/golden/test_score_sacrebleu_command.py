"""Our scores against those that the sacrebleu command prints for the same lines in files, to twelve digits."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tformer.decoding.score import compare, score_corpus

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


def sacrebleu_command(folder: Path, systems: list[list[str]], references: list[str], *options: str):
    paths = []
    for name, lines in [
        ("reference", references),
        *((f"system-{place}", lines) for place, lines in enumerate(systems)),
    ]:
        paths.append(folder / name)
        paths[-1].write_bytes("".join(line + "\n" for line in lines).encode("utf-8"))
    command = [sys.executable, "-m", "sacrebleu", str(paths[0]), "-i", *map(str, paths[1:]), "-w", "12", *options]
    done = subprocess.run(command, check=True, capture_output=True, encoding="utf-8")
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("lines", "target_lang", "tokenizer"),
    [
        pytest.param(ENGLISH, "en", "13a", id="english"),
        pytest.param(CHINESE, "zh", "zh", id="chinese"),
        pytest.param(NASTY, None, "13a", id="blanks and separators"),
        pytest.param(NASTY_ENDS, None, "13a", id="odd line ends"),
    ],
)
def test_scores_and_signatures_are_those_of_the_command(tmp_path, lines, target_lang, tokenizer):
    hypotheses, references = lines
    bleu, chrf = sacrebleu_command(tmp_path, [hypotheses], references, "-m", "bleu", "chrf", "-tok", tokenizer)
    scores = score_corpus(hypotheses, references, target_lang)
    assert [bleu["name"], chrf["name"]] == ["BLEU", "chrF2"]
    assert (round(scores.bleu, 12), scores.signature) == (bleu["score"], bleu["signature"])
    assert (round(scores.chrf, 12), scores.chrf_signature) == (chrf["score"], chrf["signature"])
    assert 0 < scores.bleu <= 100.000001


def test_a_comparison_is_that_of_the_command(tmp_path):
    hypotheses, references = ENGLISH
    better = [*references[:2], *hypotheses[2:]]
    expected = sacrebleu_command(tmp_path, [hypotheses, better], references, "-m", "bleu", "--paired-bs")
    comparison = compare({"base": hypotheses, "better": better}, references, "en")
    for row, system in zip(comparison.systems, expected, strict=True):
        shown = {"score": row.bleu, "p_value": row.p_value, "mean": row.mean, "ci": row.ci}
        assert shown == system["BLEU"]
