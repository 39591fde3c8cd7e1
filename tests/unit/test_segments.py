"""Long lines in segments that a model can read: where they are cut, and that nothing of them is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tformer.config import TokenizerConfig
from tformer.data.tokenizer import Tokenizer
from tformer.decoding.segments import separator, split_line


def words(texts):
    """One piece a word."""
    return [len(text.split()) for text in texts]


def characters(texts):
    """One piece a character, white space not counted."""
    return [len("".join(text.split())) for text in texts]


# ---- Where a line is cut ----


@pytest.mark.parametrize("line", ["", "  ", "One.", "One. Two. Three four.", "a b c d e"])
def test_a_line_that_fits_stays_whole(line):
    assert split_line(line, words, 5) == [line]


def test_as_many_sentences_as_fit_are_one_segment():
    line = "One two. Three. Four five six! Seven? Eight nine ten. Eleven… Twelve"
    assert split_line(line, words, 4) == [
        "One two. Three. ", "Four five six! Seven? ", "Eight nine ten. Eleven… ", "Twelve"
    ]  # fmt: skip


def test_a_sentence_that_is_too_long_is_cut_at_words_and_its_neighbours_are_not():
    assert split_line("One two. a b c d e f g. Three.", words, 3) == ["One two. ", "a b c ", "d e f ", "g. ", "Three."]


def test_a_word_that_is_too_long_is_cut_at_the_limit_and_its_neighbours_are_not():
    assert split_line("ab abcdefghij cd", characters, 4) == ["ab ", "abcd", "efgh", "ij ", "cd"]


@pytest.mark.parametrize(
    ("line", "sentences"),
    [
        ("Is it 3.14 or v1.2? Yes, it is.", ["Is it 3.14 or v1.2? ", "Yes, it is."]),
        (
            "«Oh oui.» (Ah non!) 'Not so.' \"O da?\" Na ja.",
            ["«Oh oui.» ", "(Ah non!) ", "'Not so.' ", '"O da?" ', "Na ja."],
        ),
        ("Wait a bit... What was that?! No idea.", ["Wait a bit... ", "What was that?! ", "No idea."]),
        ("你好。「我很好。」他说？！再见", ["你好。", "「我很好。」", "他说？！", "再见"]),
        ("これは猫です。 それは犬です！はい。", ["これは猫です。 ", "それは犬です！", "はい。"]),
        ("ما هذا؟ هذا كتاب. نعم", ["ما هذا؟ ", "هذا كتاب. ", "نعم"]),
        ("यह घर है।वह पेड़ है। हाँ", ["यह घर है।", "वह पेड़ है। ", "हाँ"]),
        ("ខ្ញុំទៅ។គាត់មក។", ["ខ្ញុំទៅ។", "គាត់មក។"]),
    ],
)
def test_sentences_end_where_their_script_ends_them(line, sentences):
    assert split_line(line, lambda texts: [1 if text in sentences else 2 for text in texts], 1) == sentences


@pytest.mark.parametrize("unit", ["e\u0301", "क\u093f", "👩\u200d🚜", "ก\u0e33\u0e48"])
def test_no_sign_is_cut_in_two_where_that_can_be_helped(unit):
    for limit in range(len(unit), 3 * len(unit)):
        for segment in split_line(unit * 20, characters, limit):
            assert len(segment) <= limit
            assert segment.count(unit) * len(unit) == len(segment) or unit.endswith("\u0e48")
    assert split_line("a" + "\u0301" * 9, characters, 4) == ["a\u0301\u0301\u0301", "\u0301" * 4, "\u0301\u0301"]


def test_a_character_of_more_pieces_than_the_limit_stands_alone():
    assert split_line("aab", lambda texts: [3 * len(text) for text in texts], 2) == ["a", "a", "b"]


def test_a_segment_that_has_more_pieces_than_its_sentences_is_cut_again():
    def superadditive(texts):
        return [len(text) + (len(text) > 5) for text in texts]

    assert split_line("一二。三四。五六。", superadditive, 6) == ["一二。三四", "。", "五六。"]


@pytest.mark.parametrize(
    "line", ["." * 200_000, ".'" * 100_000, "x" * 200_000, "a. " * 60_000, "。" * 200_000, " a" * 90_000]
)
def test_the_longest_lines_take_a_number_of_counts_that_grows_with_them_alone(line):
    counted = 0

    def count(texts):
        nonlocal counted
        counted += sum(map(len, texts))
        return characters(texts)

    assert "".join(split_line(line, count, 100)) == line
    assert counted < 40 * len(line)


# ---- Nothing is lost ----


@pytest.fixture(scope="module")
def tokenizer():
    lines = ["the old sailor sees a red boat at night.", "Wer? Ich! Du… 你好。再见！", "e\u0301 ñ ü ½ 10³"]
    return Tokenizer.train(lines, TokenizerConfig(vocab_size=330))


scripts = st.text(st.sampled_from("ab .!?…。！।؟\"')»  \t\u3000\u0301\u200d😀ﷺe"), max_size=120)


@given(scripts | st.text(max_size=60), st.integers(1, 12))
def test_the_segments_are_the_line_and_none_is_too_long(tokenizer, line, limit):
    segments = split_line(line, lambda texts: [len(ids) for ids in tokenizer.encode_batch(list(texts))], limit)
    assert "".join(segments) == line
    for segment in segments:
        assert len(tokenizer.encode(segment)) <= limit or len(segment) == 1
    assert all(segments) or line == ""


@given(st.text(st.sampled_from("ab \t\u3000"), max_size=60), st.integers(1, 8))
def test_words_fill_every_segment_of_a_sentence_but_the_last(line, limit):
    *full, last = words(split_line(line, words, limit))
    assert full == [limit] * len(full)
    assert last <= limit


# ---- How translations are joined ----


@pytest.mark.parametrize(
    ("target_lang", "between"),
    [
        ("fr", " "),
        ("ko", " "),
        (None, " "),
        ("zh", ""),
        ("zh-CN", ""),
        ("jpn_Jpan", ""),
        ("TH", ""),
        ("yue", ""),
        ("zha", " "),
    ],
)
def test_parts_are_joined_as_the_language_writes_sentences(target_lang, between):
    assert separator(target_lang) == between
