"""Languages by name and by text: what is told is right, and what cannot be told is not guessed."""

import pytest

from tformer.data.languages import contradicts, guess_language, language_code, language_name

ENGLISH = ["The ship leaves the harbour in the morning.", "Nobody knows when it will come back."] * 20
GERMAN = ["Das Schiff verlässt den Hafen am Morgen.", "Niemand weiß, wann es wiederkommen wird."] * 20


@pytest.mark.parametrize(("name", "code"), [
    ("en", "en"), ("EN", "en"), ("eng", "en"), ("English", "en"), (" sw ", "sw"), ("swa", "sw"), ("swh", "sw"),
    ("ger", "de"), ("deu", "de"), ("pt_BR", "pt"), ("zh-Hans-CN", "zh"), ("cmn", "zh"), ("nob", "no"), ("no", "no"),
    ("South Ndebele", "nr"), ("xq", None), ("txt", None), ("", None), ("sentence", None),
])  # fmt: skip
def test_a_language_has_one_code_whatever_it_is_called(name, code):
    assert language_code(name) == code


@pytest.mark.parametrize(("name", "code"), [
    ("scn", "scn"), ("SCN", "scn"), ("swa", "sw"), ("src", None), ("txt", None), ("en1", None), ("abcd", None),
])  # fmt: skip
def test_three_letters_may_be_a_language_without_two(name, code):
    assert language_code(name, any_three_letters=True) == code


def test_a_code_is_shown_with_its_name():
    assert language_name("nr") == "South Ndebele (nr)"
    assert language_name("scn") == "scn"


@pytest.mark.parametrize(("lines", "language"), [
    (ENGLISH, "en"),
    (GERMAN, "de"),
    (["今日は天気がいいですね。", "私は昨日、図書館で本を読みました。"], "ja"),
    ([*ENGLISH, *GERMAN], None),
    (["12 34 56 78 90", "!!! ??? ... 100 200 300"], None),
    (["Go."], None),
    ([], None),
])  # fmt: skip
def test_a_text_is_guessed_where_it_tells(lines, language):
    assert guess_language(lines) == language


@pytest.mark.parametrize(("code", "lines", "language"), [
    ("en", ENGLISH, None),
    ("fr", ENGLISH, "en"),
    ("en", GERMAN, "de"),
    ("scn", ENGLISH, None),
    ("pcm", ENGLISH, None),
    ("fr", ["12 34"], None),
])  # fmt: skip
def test_a_text_contradicts_its_name_only_where_it_is_clear(code, lines, language):
    assert contradicts(code, lines) == language
