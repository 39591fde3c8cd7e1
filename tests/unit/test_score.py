"""What is scored, by which tokenizer, and what is refused. That the numbers are the command's is a golden test."""

import json
import logging
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass

import pytest
import sacrebleu
from sacrebleu.dataset import DATASETS
from sacrebleu.tokenizers import tokenizer_ja_mecab, tokenizer_ko_mecab

from tformer.decoding.score import bleu_tokenizer, compare, pronoun_accuracy, read_testset, score_corpus
from tformer.errors import ConfigError, DataError

REFERENCES = [
    "The small cat sleeps on the mat.",
    "We will read a long book tonight.",
    "Rain falls on the old roof again.",
]


@dataclass
class Item:
    right: str
    wrong: str


def test_perfect_translations_score_100():
    scores = score_corpus(REFERENCES, REFERENCES, "en")
    assert scores.bleu == pytest.approx(100)
    assert scores.chrf == pytest.approx(100)
    assert scores.sentences == 3


def test_references_are_one_a_sentence_not_several_of_the_first():
    scores = score_corpus([REFERENCES[0], "Nothing is alike.", "Other words stand here."], REFERENCES, "en")
    assert 0 < scores.bleu < 60
    assert "nrefs:1|" in scores.signature


def test_signatures_name_tokenizer_case_and_version():
    scores = score_corpus(REFERENCES, REFERENCES, None)
    assert {"case:mixed", "tok:13a", f"version:{sacrebleu.__version__}"} <= set(scores.signature.split("|"))
    assert {"case:mixed", "nw:0", f"version:{sacrebleu.__version__}"} <= set(scores.chrf_signature.split("|"))


def test_case_counts():
    assert score_corpus([line.upper() for line in REFERENCES], REFERENCES, "en").bleu < 10


def test_the_json_form_holds_numbers_and_signatures():
    scores = score_corpus(REFERENCES, REFERENCES, "en")
    shown = json.loads(json.dumps(scores.to_json()))
    assert set(shown) == {"bleu", "chrf", "signature", "chrf_signature", "sentences"}
    assert shown["bleu"] == scores.bleu


@pytest.mark.parametrize(("hypotheses", "references"), [(REFERENCES[:2], REFERENCES), ([], REFERENCES), ([], [])])
def test_unequal_counts_and_nothing_at_all_are_refused_with_both_counts(hypotheses, references):
    message = f"got {len(hypotheses)} .* and {len(references)} references"
    with pytest.raises(DataError, match=message):
        score_corpus(hypotheses, references, "en")
    with pytest.raises(DataError, match=message):
        compare({"base": hypotheses}, references, "en")
    with pytest.raises(DataError, match=message):
        pronoun_accuracy(hypotheses, [Item("il", "elle") for _ in references])


def test_blank_translations_score_0():
    scores = score_corpus(["", " ", ""], REFERENCES, "en")
    assert (scores.bleu, scores.chrf) == (0, 0)


class Words:
    """Stands for a tokenizer whose extra package is installed."""

    def signature(self) -> str:
        return "words"


@pytest.fixture
def extras(monkeypatch):
    monkeypatch.setattr(tokenizer_ja_mecab, "TokenizerJaMecab", Words)
    monkeypatch.setattr(tokenizer_ko_mecab, "TokenizerKoMecab", Words)


@pytest.mark.usefixtures("extras")
@pytest.mark.parametrize(
    ("target_lang", "tokenizer"),
    [
        *[("fr", "13a"), (None, "13a"), ("", "13a"), ("kok", "13a")],
        *[("zh", "zh"), ("zh-CN", "zh"), ("ZH_Hant", "zh"), ("zho_Hans", "zh")],
        *[("ja", "ja-mecab"), ("jpn_Jpan", "ja-mecab"), ("ko", "ko-mecab"), ("kor_Hang", "ko-mecab")],
    ],
)
def test_the_tokenizer_follows_the_target_language(target_lang, tokenizer):
    assert bleu_tokenizer(target_lang) == (tokenizer, None)


@pytest.mark.parametrize(("lang", "module"), [("ja", tokenizer_ja_mecab), ("ko", tokenizer_ko_mecab)])
def test_without_its_extra_a_language_is_scored_by_characters_and_told_what_to_install(monkeypatch, lang, module):
    monkeypatch.setattr(module, "MeCab", None)
    scores = score_corpus(["私は音楽が好きです。"], ["私は数学が好きです。"], lang)
    assert "tok:char" in scores.signature
    assert scores.bleu > 0
    [note] = scores.notes
    assert f"pip install 'sacrebleu[{lang}]'" in note


def test_chinese_is_scored_by_its_own_tokenizer():
    hypotheses, references = ["我喜欢数学和音乐。", "他在图书馆读书。"], ["我喜欢数学与音乐。", "他在图书馆看书。"]
    scores = score_corpus(hypotheses, references, "zh")
    assert "tok:zh" in scores.signature
    assert scores.bleu > 30
    assert score_corpus(hypotheses, references, None).bleu == 0


def test_tokenised_text_is_noted_once_and_nothing_is_logged(caplog, capfd):
    tokenised = ["It rains ."] * 100 + REFERENCES
    with caplog.at_level(logging.WARNING):
        scores = score_corpus(tokenised, tokenised, "en")
        compare({"base": tokenised}, tokenised, "en")
    [note] = scores.notes
    assert "100 hypotheses" in note
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")
    assert score_corpus(REFERENCES, REFERENCES, "en").notes == ()


def test_a_comparison_tells_a_better_system_from_chance():
    references = [
        f"The {animal} sees the {other}." for animal in ("cat", "dog", "fox", "hen") for other in ("cow", "ant")
    ]
    worse = [line.replace("sees the", "looks at") if place % 3 else line for place, line in enumerate(references)]
    comparison = compare({"base": worse, "same": worse, "better": references}, references, "en")
    base, same, better = comparison.systems
    assert [row.name for row in comparison.systems] == ["base", "same", "better"]
    assert base.bleu == same.bleu == score_corpus(worse, references, "en").bleu
    assert better.bleu == pytest.approx(100)
    assert base.p_value is None
    assert same.p_value == 1
    assert better.p_value < 0.05
    assert base.ci > 0
    assert abs(base.mean - base.bleu) < base.ci
    assert {"bs:1000", "tok:13a"} <= set(comparison.signature.split("|"))
    json.dumps([base.mean, base.ci, better.p_value])  # plain numbers


def test_a_comparison_names_the_system_whose_lines_are_missing():
    with pytest.raises(DataError, match="got 2 translations of other and 3 references"):
        compare({"base": REFERENCES, "other": REFERENCES[:2]}, REFERENCES, "en")


@pytest.mark.parametrize(
    ("hypothesis", "right"),
    [
        ("Elle dort.", True),
        ("Où est-elle ?", True),
        ("Quand elle dort, il lit.", False),
        ("Il dort.", False),
        ("Elles dorment.", False),
        ("Elle est utile.", True),  # il inside a word is none
        ("", False),
    ],
)
def test_the_right_pronoun_has_to_stand_alone_and_without_the_wrong_one(hypothesis, right):
    assert pronoun_accuracy([hypothesis], [Item("elle", "il")]) == right


def test_pronoun_accuracy_is_the_share_of_right_sentences():
    hypotheses = ["Elle dort.", "Il dort.", "Il lit.", "On lit."]
    items = [Item("elle", "il"), Item("elle", "il"), Item("il", "elle"), Item("il", "elle")]
    assert pronoun_accuracy(hypotheses, items) == 0.5


def test_a_test_set_that_does_not_exist_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match=r"got 'wmt144'; did you mean .*wmt14"):
        read_testset("wmt144", "en-de")
    with pytest.raises(ConfigError, match=r"`sacrebleu --list` shows all"):
        read_testset("§", "en-de")


def test_a_language_pair_that_a_test_set_lacks_is_refused_with_those_it_has():
    with pytest.raises(ConfigError, match=r"pair of wmt14 \(.*de-en.*\), got 'en-xx'"):
        read_testset("wmt14", "en-xx")


def test_a_test_set_is_read_line_by_line(tmp_path, monkeypatch):
    (tmp_path / "source").write_bytes("One.\nTwo\u2028parts. \n".encode())
    (tmp_path / "reference").write_bytes(b"Un.\nDeux.\n")
    monkeypatch.setattr(sacrebleu, "get_source_file", lambda name, langpair: str(tmp_path / "source"))
    monkeypatch.setattr(sacrebleu, "get_reference_files", lambda name, langpair: [str(tmp_path / "reference")])
    assert read_testset("wmt14", "en-fr") == (["One.", "Two\u2028parts."], ["Un.", "Deux."])


def test_a_test_set_of_several_references_is_refused(monkeypatch):
    monkeypatch.setattr(sacrebleu, "get_source_file", lambda name, langpair: "source")
    monkeypatch.setattr(sacrebleu, "get_reference_files", lambda name, langpair: ["a", "b"])
    with pytest.raises(ConfigError, match="got 2 in wmt17/tworefs"):
        read_testset("wmt17/tworefs", "en-fi")


@pytest.mark.parametrize("failure", [urllib.error.URLError("no route"), SystemExit(1)])
def test_a_failed_download_is_an_error_of_one_line(tmp_path, monkeypatch, failure):
    def urlopen(*_, **__):
        raise failure

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    monkeypatch.setattr(DATASETS["wmt14"], "_outdir", str(tmp_path))
    monkeypatch.setattr(DATASETS["wmt14"], "_rawdir", str(tmp_path / "raw"))
    with pytest.raises(
        DataError, match=r"expected to download wmt14 \(en-de\) to .*, got (URLError|SystemExit)"
    ) as error:
        read_testset("wmt14", "en-de")
    assert "\n" not in str(error.value)


def test_importing_the_module_does_not_import_sacrebleu(tmp_path):
    code = "import sys, tformer.decoding.score; sys.exit('sacrebleu' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
