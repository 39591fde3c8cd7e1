"""What is scored, by which recipe, and what is refused. That the numbers are the command's is a golden test."""

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

from tformer.decoding.score import (
    Evaluation,
    Recipe,
    compare,
    pronoun_accuracy,
    read_testset,
    score_corpus,
    sentence_chrf,
)
from tformer.decoding.score.metrics import choose_tokenizer
from tformer.errors import ConfigError, DataError

REFERENCES = [
    "The small cat sleeps on the mat.",
    "We will read a long book tonight.",
    "Rain falls on the old roof again.",
]
EN = Recipe("en")


@dataclass
class Item:
    right: str
    wrong: str


# ---- Scores and their signatures ----


def test_perfect_translations_score_100():
    scores = score_corpus(REFERENCES, [REFERENCES], EN)
    assert scores.bleu == pytest.approx(100)
    assert scores.chrf == pytest.approx(100)
    assert scores.sentences == 3


def test_references_are_one_a_sentence_not_several_of_the_first():
    hypotheses = ["El gato ve al perro.", "Nada de nada hoy.", "Otra frase sin relación."]
    references = ["El gato ve al perro.", "El niño pinta al caballo blanco.", "El oso llama al zorro."]
    scores = score_corpus(hypotheses, [references], Recipe("es"))
    assert 20 < scores.bleu < 60
    assert "nrefs:1|" in scores.signature


def test_references_nested_by_sentence_are_refused():
    hypotheses = [*REFERENCES[:2], "Other words stand here."]
    with pytest.raises(DataError, match="got 3 hypotheses and 1 and 1 and 1 references"):
        score_corpus(hypotheses, [[reference] for reference in REFERENCES], EN)


def test_a_second_translator_can_only_help_bleu_and_chrf_and_is_counted_in_the_signatures():
    hypotheses = ["The little cat sleeps on the mat.", *REFERENCES[1:]]
    alone = score_corpus(hypotheses, [REFERENCES], EN)
    both = score_corpus(hypotheses, [REFERENCES, hypotheses], EN)
    assert both.bleu == pytest.approx(100)
    assert alone.bleu < both.bleu
    assert alone.chrf < both.chrf
    assert both.signature.startswith("nrefs:2|")
    assert both.chrf_signature.startswith("nrefs:2|")


def test_a_sentences_chrf_is_that_of_a_corpus_of_it_alone():
    hypotheses = ["The small cat sleeps.", REFERENCES[1], ""]
    scores = sentence_chrf(hypotheses, REFERENCES, EN)
    alone = [score_corpus([line], [[right]], EN).chrf for line, right in zip(hypotheses, REFERENCES, strict=True)]
    assert scores == pytest.approx(alone)
    assert (scores[1], scores[2]) == (100.0, 0.0)
    with pytest.raises(DataError, match="got 1 hypotheses and 3 references"):
        sentence_chrf(hypotheses[:1], REFERENCES, EN)


def test_signatures_name_tokenizer_case_and_version():
    scores = score_corpus(REFERENCES, [REFERENCES], Recipe())
    assert {"case:mixed", "tok:13a", f"version:{sacrebleu.__version__}"} <= set(scores.signature.split("|"))
    assert {"case:mixed", "nw:0", f"version:{sacrebleu.__version__}"} <= set(scores.chrf_signature.split("|"))


def test_case_counts_unless_it_is_ignored_and_then_the_signatures_say_so():
    upper = [line.upper() for line in REFERENCES]
    assert score_corpus(upper, [REFERENCES], EN).bleu < 10
    scores = score_corpus(upper, [REFERENCES], Recipe("en", lowercase=True, further=("chrf++",)))
    assert scores.bleu == pytest.approx(100)
    assert scores.chrf == scores.further["chrf++"].score == pytest.approx(100)
    for signature in (scores.signature, scores.chrf_signature, scores.further["chrf++"].signature):
        assert "|case:lc|" in signature


def test_the_json_form_holds_numbers_and_signatures():
    scores = score_corpus(REFERENCES, [REFERENCES], Recipe("en", further=("ter", "chrf++")))
    shown = json.loads(json.dumps(scores.to_json()))
    assert set(shown) == {"bleu", "chrf", "signature", "chrf_signature", "chrf++", "ter", "sentences"}
    assert shown["bleu"] == scores.bleu
    assert shown["ter"] == {"score": 0, "signature": scores.further["ter"].signature}
    assert shown["chrf++"]["score"] == pytest.approx(100)
    assert "nw:2" in shown["chrf++"]["signature"]


def test_a_person_reads_each_metric_with_its_signature():
    scores = score_corpus(REFERENCES, [REFERENCES], Recipe("en", further=("ter", "chrf++")))
    lines = [line.split() for line in scores.lines()]
    assert [name for name, _, _ in lines] == ["BLEU", "chrF", "chrF++", "TER"]
    assert [number for _, number, _ in lines] == ["100.00", "100.00", "100.00", "0.00"]
    assert [signature for _, _, signature in lines] == [
        scores.signature, scores.chrf_signature, *(each.signature for each in scores.further.values())
    ]  # fmt: skip


@pytest.mark.parametrize(("hypotheses", "references"), [(REFERENCES[:2], REFERENCES), ([], REFERENCES), ([], [])])
def test_unequal_counts_and_nothing_at_all_are_refused_with_both_counts(hypotheses, references):
    message = f"got {len(hypotheses)} .* and {len(references)} references"
    with pytest.raises(DataError, match=message):
        score_corpus(hypotheses, [references], EN)
    with pytest.raises(DataError, match=message):
        compare([("base", hypotheses)], [references], EN)
    with pytest.raises(DataError, match=message):
        pronoun_accuracy(hypotheses, [Item("il", "elle") for _ in references])


def test_a_second_reference_that_is_shorter_is_refused():
    with pytest.raises(DataError, match="got 3 hypotheses and 3 and 2 references"):
        score_corpus(REFERENCES, [REFERENCES, REFERENCES[:2]], EN)


@pytest.mark.parametrize("references", [REFERENCES, ["", "  ", ""]])
def test_blank_translations_score_0(references):
    scores = score_corpus(["", " ", ""], [references], EN)
    assert (scores.bleu, scores.chrf, scores.sentences) == (0, 0, 3)


def test_references_that_are_all_blank_score_0():
    scores = score_corpus(REFERENCES, [["", " ", ""]], Recipe("en", further=("ter",)))
    assert (scores.bleu, scores.chrf, scores.further["ter"].score) == (0, 0, 100)


def test_a_metric_that_there_is_not_is_refused():
    with pytest.raises(ConfigError, match=r"--metric: expected chrf\+\+ or ter, got bluert, chrf; BLEU and chrF are"):
        score_corpus(REFERENCES, [REFERENCES], Recipe("en", further=("chrf", "bluert")))


def test_tokenised_text_is_noted_once_and_nothing_is_logged(caplog, capfd):
    tokenised = ["It rains ."] * 100 + REFERENCES
    with caplog.at_level(logging.WARNING):
        scores = score_corpus(tokenised, [tokenised], EN)
        compare([("base", tokenised)], [tokenised], EN)
    [note] = scores.notes
    assert "100 hypotheses" in note
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")
    assert score_corpus(REFERENCES, [REFERENCES], EN).notes == ()
    assert score_corpus(tokenised, [tokenised], Recipe("en", tokenize="none")).notes == ()  # it was said already


# ---- How BLEU cuts words ----


class Words:
    """Stands for a tokenizer whose extra package is installed."""

    def signature(self) -> str:
        return "words"


@pytest.fixture
def extras(monkeypatch):
    monkeypatch.setattr(tokenizer_ja_mecab, "TokenizerJaMecab", Words)
    monkeypatch.setattr(tokenizer_ko_mecab, "TokenizerKoMecab", Words)


@pytest.fixture
def no_extras(monkeypatch):
    for module in (tokenizer_ja_mecab, tokenizer_ko_mecab):
        monkeypatch.setattr(module, "MeCab", None)  # as it is where the import failed


@pytest.mark.usefixtures("extras")
@pytest.mark.parametrize(
    ("target_lang", "tokenizer"),
    [
        *[("fr", "13a"), (None, "13a"), ("", "13a"), ("kok", "13a")],
        *[("zh", "zh"), ("zh-CN", "zh"), ("ZH_Hant", "zh"), ("zho_Hans", "zh"), ("yue_Hant", "zh")],
        *[("ja", "ja-mecab"), ("jpn_Jpan", "ja-mecab"), ("ja-JP", "ja-mecab")],
        *[("ko", "ko-mecab"), ("kor_Hang", "ko-mecab"), ("ko-KR", "ko-mecab")],
    ],
)
def test_the_tokenizer_follows_the_target_language(target_lang, tokenizer):
    assert choose_tokenizer(Recipe(target_lang)) == (tokenizer, None)
    assert choose_tokenizer(Recipe(target_lang, tokenize="intl")) == ("intl", None)


@pytest.mark.usefixtures("no_extras")
@pytest.mark.parametrize(
    ("target_lang", "extra"),
    [("ja", "ja"), ("jpn", "ja"), ("ja-JP", "ja"), ("ko", "ko"), ("kor_Hang", "ko")],
)
def test_without_its_extra_a_language_is_scored_by_characters_and_told_what_to_install(target_lang, extra):
    scores = score_corpus(["私は音楽が好きです。"], [["私は数学が好きです。"]], Recipe(target_lang))
    assert "|tok:char|" in scores.signature
    assert scores.bleu > 0
    [note] = scores.notes
    assert note == (f"BLEU counts characters: {extra}-mecab needs `pip install 'tformer[{extra}]'` to count words")


@pytest.mark.usefixtures("no_extras")
@pytest.mark.parametrize("extra", ["ja", "ko"])
def test_a_tokenizer_that_was_asked_for_is_not_replaced(extra):
    with pytest.raises(ConfigError, match=rf"--tokenize {extra}-mecab: needs `pip install 'tformer\[{extra}\]'`"):
        score_corpus(REFERENCES, [REFERENCES], Recipe("en", tokenize=f"{extra}-mecab"))


@pytest.mark.usefixtures("no_extras")
def test_spaces_in_a_japanese_hypothesis_change_nothing_where_characters_are_counted():
    plain, spaced = (
        score_corpus([line], [["私は数学が好きです。"]], Recipe("ja"))
        for line in ("私は音楽が好きです。", "私 は 音楽 が 好き です 。 ")
    )
    assert (plain.bleu, plain.chrf) == (spaced.bleu, spaced.chrf)


@pytest.mark.parametrize(("lang", "library"), [("ja", "MeCab"), ("ko", "mecab_ko")])
def test_with_its_extra_a_language_is_scored_by_words(lang, library):
    pytest.importorskip(library)
    hypothesis, reference = {
        "ja": ("私は音楽が好きです。", "私は数学が好きです。"),
        "ko": ("나는 음악을 좋아합니다.", "나는 수학을 좋아합니다."),
    }[lang]
    scores = score_corpus([hypothesis], [[reference]], Recipe(lang))
    assert f"|tok:{lang}-mecab-" in scores.signature
    assert scores.notes == ()
    assert 30 < scores.bleu < 60
    if lang == "ja":
        assert score_corpus(["私 は 音楽 が 好き です 。"], [[reference]], Recipe(lang)).bleu == scores.bleu


def test_chinese_is_scored_by_its_own_tokenizer():
    hypotheses = ["我喜欢数学和音乐。", "今天天气很好。", "他在图书馆读书。"]
    references = ["我喜欢数学与音乐。", "今天天气非常好。", "他在图书馆看书。"]
    scores = score_corpus(hypotheses, [references], Recipe("zh", further=("ter",)))
    assert "tok:zh" in scores.signature
    assert scores.bleu > 50
    assert 0 < scores.further["ter"].score < 40  # of characters, or every sentence would be one wrong word
    assert "asian:yes" in scores.further["ter"].signature
    assert score_corpus(hypotheses, [references], Recipe()).bleu == 0


def test_a_tokenizer_that_there_is_not_is_refused_with_those_there_are():
    with pytest.raises(ConfigError, match=r"--tokenize: expected one of none, zh, 13a, .*, got moses"):
        score_corpus(REFERENCES, [REFERENCES], Recipe("en", tokenize="moses"))


@pytest.fixture
def no_network(monkeypatch):
    """Makes every download fail; the failure can be chosen."""
    failures = [urllib.error.URLError("no route")]

    def urlopen(*_, **__):
        raise failures[-1]

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    return failures.append


@pytest.mark.usefixtures("no_network")
def test_a_tokenizer_that_cannot_be_downloaded_is_an_error_of_one_line(tmp_path, monkeypatch):
    from sacrebleu.tokenizers import tokenizer_spm

    monkeypatch.setattr(tokenizer_spm, "SACREBLEU_DIR", str(tmp_path))
    with pytest.raises(DataError, match=r"download the tokenizer flores200 to .*, got URLError.*copy that") as error:
        score_corpus(REFERENCES, [REFERENCES], Recipe("en", tokenize="flores200"))
    assert "\n" not in str(error.value)


# ---- Comparisons ----


@pytest.mark.parametrize("test", ["bootstrap", "randomization"])
def test_a_comparison_tells_a_better_system_from_chance(test):
    references = [
        f"The {animal} sees the {other}." for animal in ("cat", "dog", "fox", "hen") for other in ("cow", "ant")
    ]
    worse = [line.replace("sees the", "looks at") if place % 3 else line for place, line in enumerate(references)]
    comparison = compare([("base", worse), ("same", worse), ("better", references)], [references], EN, test)
    assert [system.name for system in comparison.systems] == ["base", "same", "better"]
    scores = score_corpus(worse, [references], EN)
    for metric, score in (("bleu", scores.bleu), ("chrf", scores.chrf)):
        base, same, better = (system.scores[metric] for system in comparison.systems)
        assert base.score == same.score == score
        assert better.score == pytest.approx(100)
        assert base.p_value is None
        assert same.p_value == 1
        assert better.p_value < 0.05
        if test == "bootstrap":
            assert base.ci > 0
            assert abs(base.mean - base.score) < base.ci
    samples = {"bootstrap": "bs:1000", "randomization": "ar:10000"}[test]
    assert {samples, "seed:12345", "tok:13a"} <= set(comparison.signatures["bleu"].split("|"))
    assert {samples, "seed:12345", "nw:0"} <= set(comparison.signatures["chrf"].split("|"))
    json.dumps(comparison.to_json())  # plain numbers


def test_a_comparison_is_told_metric_by_metric():
    worse = ["A cat sleeps.", *REFERENCES[1:]]
    comparison = compare([("base", worse), ("best", REFERENCES)], [REFERENCES], Recipe("en", further=("ter",)))
    head, *rows = comparison.lines()
    assert head == "paired bootstrap with 95% intervals, the baseline first"
    assert [row.split()[0] for row in rows[::3]] == ["BLEU", "chrF", "TER"]
    assert [row.split()[1] for row in rows[::3]] == list(comparison.signatures.values())
    assert all(row.endswith(" baseline: base") for row in rows[1::3])
    assert all(": best" in row and "p = 0." in row for row in rows[2::3])
    drawn = compare([("base", worse), ("best", REFERENCES)], [REFERENCES], EN, "randomization").lines()
    assert drawn[0] == "paired randomization, the baseline first"
    assert not any("±" in line for line in drawn)
    shown = comparison.to_json()
    assert shown["test"] == "bootstrap"
    assert shown["systems"][0].keys() == {"name", "bleu", "chrf", "ter"}
    assert shown["systems"][1]["ter"].keys() == {"score", "mean", "ci", "p_value"}


def test_two_systems_of_one_name_are_two():
    assert len(compare([("a", REFERENCES), ("a", REFERENCES)], [REFERENCES], EN).systems) == 2


def test_a_comparison_names_the_system_whose_lines_are_missing():
    with pytest.raises(DataError, match="got 2 translations of other and 3 references"):
        compare([("base", REFERENCES), ("other", REFERENCES[:2])], [REFERENCES], EN)


# ---- The report ----


@pytest.mark.parametrize(("perplexity", "read"), [(float("inf"), "inf"), (float("nan"), "nan"), (2.5, "2.50")])
def test_a_perplexity_beyond_all_bounds_is_null_in_json_and_inf_to_a_person(perplexity, read):
    evaluation = Evaluation("about", "set", score_corpus(REFERENCES, [REFERENCES], EN), {}, perplexity=perplexity)
    shown = json.loads(json.dumps(evaluation.to_json(), allow_nan=False))
    assert shown["perplexity"] == (2.5 if read == "2.50" else None)
    assert evaluation.lines()[-1].split()[:2] == ["perplexity", read]


def test_what_does_not_apply_is_left_out():
    evaluation = Evaluation("about", "set", score_corpus(REFERENCES, [REFERENCES], EN), {"tformer": "1"})
    assert evaluation.to_json().keys() == {
        "bleu", "chrf", "signature", "chrf_signature", "sentences", "about", "corpus", "versions"
    }  # fmt: skip
    assert len(evaluation.lines()) == 3


# ---- Pronouns ----


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


# ---- Public test sets ----


def test_a_test_set_that_does_not_exist_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match=r"got 'wmt144'; did you mean .*wmt14"):
        read_testset("wmt144", "en-de")
    with pytest.raises(ConfigError, match=r"`sacrebleu --list` shows all"):
        read_testset("§", "en-de")


def test_a_language_pair_that_a_test_set_lacks_is_refused_with_those_it_has():
    with pytest.raises(ConfigError, match=r"pair of wmt14 \(.*de-en.*\), got 'en-xx'"):
        read_testset("wmt14", "en-xx")


@pytest.fixture
def testset(tmp_path, monkeypatch):
    """Puts files where sacreBLEU finds those of any test set: the source, then references."""

    def put(*contents):
        for place, content in enumerate(contents):
            (tmp_path / str(place)).write_bytes(content)
        paths = [str(tmp_path / str(place)) for place in range(len(contents))]
        monkeypatch.setattr(sacrebleu, "get_source_file", lambda name, langpair: paths[0])
        monkeypatch.setattr(sacrebleu, "get_reference_files", lambda name, langpair: paths[1:])

    return put


def test_a_test_set_is_read_line_by_line(testset):
    testset("One.\nTwo\u2028parts. \n".encode(), b"Un.\nDeux.\n")
    assert read_testset("wmt14", "en-fr") == (["One.", "Two\u2028parts."], [["Un.", "Deux."]])


def test_a_test_set_may_have_several_references(testset):
    testset(b"One.\nTwo.\n", b"Yksi.\nKaksi.\n", b"Eka.\n\n")
    assert read_testset("wmt17/tworefs", "en-fi") == (["One.", "Two."], [["Yksi.", "Kaksi."], ["Eka.", ""]])


def test_a_test_set_without_references_is_refused(testset):
    testset(b"One.\n")
    with pytest.raises(ConfigError, match="wmt14 has no references for en-de"):
        read_testset("wmt14", "en-de")


def test_a_test_set_that_was_copied_in_part_is_refused(testset):
    testset(b"One.\nTwo.\n", b"Un.\n")
    with pytest.raises(DataError, match=r"got 2 in .*0 and 1 in .*1; delete or copy"):
        read_testset("wmt14", "en-fr")


@pytest.mark.parametrize("failure", [urllib.error.URLError("no route"), SystemExit(1), OSError("two\nlines")])
def test_a_failed_download_is_an_error_of_one_line_that_says_how_to_do_without(
    tmp_path, monkeypatch, no_network, failure
):
    no_network(failure)
    monkeypatch.setattr(DATASETS["wmt14"], "_outdir", str(tmp_path))
    monkeypatch.setattr(DATASETS["wmt14"], "_rawdir", str(tmp_path / "raw"))
    message = (
        r"expected wmt14 \(en-de\) in .*, or to download it from https://.*, got (URLError|SystemExit|OSError).*copy"
    )
    with pytest.raises(DataError, match=message) as error:
        read_testset("wmt14", "en-de")
    assert "\n" not in str(error.value)
    assert DATASETS["wmt14"].data[0] in str(error.value)
    assert "`sacrebleu -t wmt14 -l en-de --echo src`" in str(error.value)


def test_importing_the_package_does_not_import_sacrebleu(tmp_path):
    code = "import sys, tformer.decoding.score; sys.exit('sacrebleu' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
