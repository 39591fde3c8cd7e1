"""Files looked at: which they are, and which columns and languages, where suffixes and names alone would mislead."""

import json

import pytest

from tformer.config import JsonlFile, TsvFile
from tformer.data.sides import languages_of_file, languages_of_files, text_columns
from tformer.data.sniff import sniff
from tformer.errors import ConfigError, DataError

UNASKED = (None, None)


@pytest.fixture
def look(tmp_path):
    """Writes lines into a file, and tells what it is seen as."""

    def at(lines, name="pairs.txt", asked=UNASKED):
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        found = sniff(path, None, asked)
        return found.source.model_dump(exclude={"tsv", "jsonl", "weight"}), found.languages, type(found.source)

    return at


SENTENCES = [("I see a dog.", "Je vois un chien."), ("We sing.", "Nous chantons."), ("Come in!", "Entrez !")]
FIRST_TWO = {"source_field": 1, "target_field": 2}


def test_short_sentences_are_not_taken_for_names_of_columns(look):
    rows = [("Hi", "No"), ("Go", "Va"), *SENTENCES]
    assert look(["\t".join(row) for row in rows]) == (FIRST_TWO, UNASKED, TsvFile)


def test_a_line_without_tabs_among_many_does_not_hide_a_table(look):
    rows = ["\t".join(row) for row in SENTENCES * 10]
    assert look([*rows, "a heading", "", *rows])[0] == FIRST_TWO
    with pytest.raises(ConfigError, match="name the other too"):
        look([*rows[:5], *(["no tab here"] * 5)])


def test_two_columns_are_the_sides_whatever_is_in_them(look):
    assert look(["1\t2", "3\t4"], "numbers.tsv")[0] == FIRST_TWO


def test_numbers_addresses_codes_and_remarks_are_no_text(look):
    columns = {
        "score": ["0.71", "0.55", "0.98"],
        "place": ["https://a.org/x", "https://b.org/y", "http://c.org/z"],
        "code": ["eng", "eng", "eng"],
        "remark": ["CC-BY 2.0 (France) by Ann", "CC-BY 2.0 (France) by Bob", "CC-BY 2.0 (France) by Cem"],
        "text": ["I see a dog.", "We sing.", "Come in!"],
        "empty": [],
        "日本語": ["犬が見えます。", "歌います。", "お入りください。"],
    }
    assert text_columns(columns) == ["text", "日本語"]


def test_a_column_called_id_is_no_indonesian_unless_it_is(look):
    numbered = [("id", "en", "fr"), *((str(number), *row) for number, row in enumerate(SENTENCES))]
    fields = {"source_field": "en", "target_field": "fr"}
    assert look(["\t".join(row) for row in numbered])[:2] == (fields, ("en", "fr"))
    indonesian = [("id", "en"), ("Saya melihat anjing.", "I see a dog."), ("Silakan masuk!", "Come in!")]
    assert look(["\t".join(row) for row in indonesian])[1] == ("id", "en")


def test_fields_named_as_the_codes_are_need_no_mention(look):
    unsaid = {"source_field": None, "target_field": None}
    for wrap in (lambda record: record, lambda record: {"translation": record}):
        lines = [json.dumps(wrap({"en": one, "fr": two})) for one, two in SENTENCES]
        assert look(lines) == (unsaid, ("en", "fr"), JsonlFile)
    lines = [json.dumps({"eng": one, "fra": two}) for one, two in SENTENCES]
    assert look(lines) == ({"source_field": "eng", "target_field": "fra"}, ("en", "fr"), JsonlFile)


def test_of_two_fields_one_language_asked_for_settles_both(look):
    lines = [json.dumps({"en": one, "fr": two}) for one, two in SENTENCES]
    assert look(lines, asked=(None, "en"))[1] == ("fr", "en")
    assert look(lines, asked=("fr", None))[1] == ("fr", "en")


def test_roles_are_read_in_whichever_order_they_stand(look):
    lines = [json.dumps({"tgt_text": two, "n": "1", "src_text": one}) for one, two in SENTENCES]
    assert look(lines)[0] == {"source_field": "src_text", "target_field": "tgt_text"}


def test_more_texts_than_two_without_a_name_are_asked_about(look):
    lines = [json.dumps({"a": one, "b": two, "c": two[::-1]}) for one, two in SENTENCES]
    with pytest.raises(ConfigError, match=r"a, b, c;.*--source-lang"):
        look(lines)


@pytest.mark.parametrize(("lines", "name", "fault"), [
    (["nonsense", "[]"], "pairs.jsonl", "JSON object"),
    (["1\tonly this is text\t2", "3\tand this\t4"], "pairs.tsv", "got 1 among 3"),
    ([], "pairs.tsv", "got 0 among 0"),
    (["<tmx><header srclang='en'/><body><tu><tuv xml:lang='en'/></tu></body></tmx>"], "a.tmx", "two languages"),
])  # fmt: skip
def test_what_holds_no_pairs_is_refused(look, lines, name, fault):
    with pytest.raises(DataError, match=fault):
        look(lines, name)


def test_two_variants_of_one_language_are_told_apart_by_the_whole_tag(tmp_path):
    units = "".join(
        f"<tu><tuv xml:lang='{tag}'><seg>{text}</seg></tuv></tu>" for tag, text in [("zh-TW", "臺"), ("zh-CN", "台")]
    )
    (tmp_path / "a.tmx").write_text(f"<tmx><header srclang='ZH-CN'/><body>{units}</body></tmx>", encoding="utf-8")
    assert sniff(tmp_path / "a.tmx", None, UNASKED).languages == ("zh-CN", "zh-TW")


def test_the_other_encoding_of_a_memory_is_no_obstacle(tmp_path):
    unit = "<tu><tuv xml:lang='en'/><tuv xml:lang='fr'/></tu>"
    head = "<?xml version='1.0' encoding='UTF-16'?><tmx><header srclang='en'/>"
    text = f"{head}<body>{unit}</body></tmx>"
    (tmp_path / "memory").write_bytes(text.encode("utf-16"))
    assert sniff(tmp_path / "memory", None, UNASKED).languages == ("en", "fr")


def test_names_of_files_say_languages_only_where_they_do(tmp_path):
    def of(source, target):
        return languages_of_files(tmp_path / source, tmp_path / target)

    assert of("a.en", "a.fr") == ("en", "fr")
    assert of("a.en.gz", "a.fr.xz") == ("en", "fr")
    assert of("a.en-fr.en", "a.en-fr.fr") == ("en", "fr")
    assert of("en/text.txt", "scn/text.txt") == ("en", None)
    assert of("a.en", "b.en") == UNASKED
    assert of("a.src", "a.tgt") == UNASKED
    assert of("eng_news.txt", "fra_news.txt") == ("en", "fr")
    assert languages_of_file(tmp_path / "wiki.en-sw.tsv.gz") == ("en", "sw")
    assert languages_of_file(tmp_path / "fra.txt") == UNASKED
