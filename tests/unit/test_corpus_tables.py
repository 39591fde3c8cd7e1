"""Tables of sentence pairs: TSV, JSON lines, Parquet, and data sets of the hub, read from a folder."""

import gzip
import json

import pyarrow
import pytest
from pyarrow import parquet

from tformer.config import DataConfig, HubSplit, JsonlFile, ParquetFile, TsvFile
from tformer.data.corpus import CorpusReader
from tformer.errors import ConfigError, DataError

CONFIG = DataConfig(source_lang="en", target_lang="es")


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(source, **settings):
    """Everything of a source, and the report."""
    corpus = CorpusReader(source, "train", CONFIG.model_copy(update=settings))
    return list(corpus), corpus.report


def pairs(source, **settings):
    return [row[1:] for row in read(source, **settings)[0]]


@pytest.fixture
def tsv(tmp_path):
    return lambda text, **fields: TsvFile(tsv=write(tmp_path / "train.tsv", text), **fields)


@pytest.fixture
def jsonl(tmp_path):
    def make(*lines, **fields):
        return JsonlFile(jsonl=write(tmp_path / "train.jsonl", "".join(f"{line}\n" for line in lines)), **fields)

    return make


@pytest.fixture
def table(tmp_path):
    """Writes columns to a Parquet file."""

    def make(columns, **fields):
        parquet.write_table(pyarrow.table(columns), tmp_path / "train.parquet")
        return ParquetFile(parquet=tmp_path / "train.parquet", **fields)

    return make


@pytest.fixture
def library(tmp_path, monkeypatch):
    """The datasets library without a network, and with a cache that goes away again."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    return datasets


@pytest.fixture
def hub(tmp_path, library):
    """Makes a folder that the library takes for a data set, with one file of JSON lines for each split."""
    folder = tmp_path / "set"
    folder.mkdir()

    def make(splits, **options):
        for name, records in splits.items():
            write(folder / f"{name}.jsonl", "".join(json.dumps(record) + "\n" for record in records))
        return HubSplit(hub=str(folder), **{"split": "train", **options})

    return make


# ---- TSV ----


def test_quotes_in_a_tsv_are_ordinary_text(tsv):
    assert pairs(tsv('"a\t"b\n"c" d\te "f\n,;\t"g"\n')) == [('"a', '"b'), ('"c" d', 'e "f'), (",;", '"g"')]


def test_tsv_lines_with_other_than_two_columns_are_named_and_columns_never_slide(tsv):
    rows, report = read(tsv("a\tb\nc\nd\te\tnote\nf\t\tnote\n\ng\th\n"))
    assert rows == [(1, "a", "b"), (3, "d", "e"), (6, "g", "h")]
    assert report.lines() == [
        "train.tsv: 3 of 6 pairs kept; left out 2: fewer than 2 columns (lines 2, 5); "
        "left out 1: blank on one or both sides (line 4)",
        "train.tsv: columns after the second ignored (lines 3, 4)",
    ]


def test_tsv_columns_may_be_chosen_by_number(tsv):
    rows, report = read(tsv("1\tuno\tone\tx\n2\tdos\n", source_field=3, target_field=2))
    assert rows == [(1, "one", "uno")]
    assert report.lines() == ["train.tsv: 1 of 2 pairs kept; left out 1: fewer than 3 columns (line 2)"]


def test_tsv_columns_may_be_chosen_by_the_names_in_the_first_line(tsv):
    text = "\ufeffid\tSpanish \tEnglish\tscore\r\n1\tuno\tone\t0.5\r\n2\tdos\r\n3\ttres\tthree\r\n"
    rows, report = read(tsv(text, source_field="English", target_field="Spanish"))
    assert rows == [(2, "one", "uno"), (4, "three", "tres")]
    assert report.lines() == ["train.tsv: 2 of 3 pairs kept; left out 1: fewer than 3 columns (line 3)"]
    assert pairs(tsv("id\ten\n1\tone\n", source_field="id", target_field="en")) == [("1", "one")]


def test_an_unknown_column_is_named_with_what_there_is_and_the_nearest(tsv):
    with pytest.raises(ConfigError) as caught:
        read(tsv("id\tEnglish\tSpanish\n", source_field="english", target_field="Spanish"))
    assert str(caught.value).endswith(
        "train.tsv: expected a column english, line 1 has id, English, Spanish; did you mean English?"
    )
    with pytest.raises(ConfigError, match="line 1 has a, b; set source_field and target_field to two of these"):
        read(tsv("a\tb\n", source_field="English", target_field="Spanish"))


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("", {}),
        ("", {"source_field": "a", "target_field": "b"}),
        ("a\tb\n", {"source_field": "a", "target_field": "b"}),
    ],
)
def test_a_tsv_without_rows_is_named(tsv, text, fields):
    with pytest.raises(DataError, match=r"train\.tsv: expected pairs of sentences, got nothing"):
        read(tsv(text, **fields))


def test_tsv_lines_that_are_no_utf8_are_treated_as_the_setting_says(tsv):
    source = tsv(b"a\tb\nc\xff\td\ne\tf\n")
    with pytest.raises(DataError, match=r"train\.tsv, line 2: expected UTF-8, got byte 0xFF at position 2"):
        read(source)
    assert read(source, on_invalid="replace")[0] == [(1, "a", "b"), (2, "c\ufffd", "d"), (3, "e", "f")]
    rows, report = read(source, on_invalid="skip")
    assert rows == [(1, "a", "b"), (3, "e", "f")]
    assert report.lines() == ["train.tsv: 2 of 3 pairs kept; left out 1: not UTF-8 (line 2)"]


def test_a_header_that_is_no_utf8_is_not_skipped(tsv):
    source = tsv(b"a\xff\tb\na\tb\nx\ty\n", source_field="a", target_field="b")
    with pytest.raises(DataError, match=r"train\.tsv, line 1: expected names of columns"):
        read(source, on_invalid="skip")


# ---- JSON lines ----


def test_json_lines_hold_the_fields_at_the_top_or_under_translation(jsonl):
    rows, report = read(jsonl('{"en": "a\\u2028b", "es": "uno", "id": 1}', '{"es": "dos", "en": "c"}'))
    assert rows == [(1, "a b", "uno"), (2, "c", "dos")]
    assert report.lines() == ["train.jsonl: all 2 pairs kept"]
    nested = jsonl('{"translation": {"en": "a", "es": "uno"}}', '{"translation": {"en": "b", "es": "dos"}}')
    assert pairs(nested) == [("a", "uno"), ("b", "dos")]


def test_json_fields_may_be_chosen_by_their_path(jsonl):
    line = '{"text": {"orig": {"t": "a"}}, "es": "uno", "dotted.name": "dos"}'
    assert pairs(jsonl(line, source_field="text.orig.t")) == [("a", "uno")]
    assert pairs(jsonl(line, source_field="dotted.name", target_field="text.orig.t")) == [("dos", "a")]


def test_json_numbers_are_those_of_the_lines_and_blank_lines_are_no_rows(jsonl):
    rows, report = read(jsonl("", '{"en": "a", "es": "uno"}', " \t\r", '{"en": "b", "es": "dos"}', '{"en": "c"}', ""))
    assert rows == [(2, "a", "uno"), (4, "b", "dos")]
    assert report.lines() == ["train.jsonl: 2 of 3 pairs kept; left out 1: blank on one or both sides (line 5)"]


def test_json_rows_without_text_are_left_out_and_counted(jsonl):
    lines = '{"en": "a", "es": "uno"}', '{"en": null, "es": "dos"}', '{"en": "c"}', '{"en": 4, "es": "x"}'
    rows, report = read(jsonl(*lines, '{"translation": null}', '{"en": ["a"], "es": ""}'))
    assert rows == [(1, "a", "uno")]
    assert report.lines() == [
        "train.jsonl: 1 of 6 pairs kept; left out 3: blank on one or both sides (lines 2, 3, 5); "
        "left out 2: not text (lines 4, 6)"
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"en": "a", "es":',
            r"line 2: expected one JSON object, got what is no JSON \(.+\); mend or delete that line",
        ),
        ('["a", "b"]', "line 2: expected one JSON object, got another value"),
        ('{"en": "a"} {"en": "b"}', "line 2: expected one JSON object, got what is no JSON"),
        ("[" * 100_000, "line 2: expected one JSON object, got (too many brackets|what is no JSON)"),
        ('{"n": 1' + "0" * 5000 + "}", "line 2: expected one JSON object, got what is no JSON"),
    ],
)
def test_a_malformed_json_line_is_named(jsonl, line, message):
    source = jsonl('{"en": "a", "es": "uno"}', line, '{"en": "c", "es": "tres"}')
    with pytest.raises(DataError, match=message):
        read(source)


@pytest.mark.parametrize("lines", [[], ["", " "]])
def test_a_json_file_without_rows_is_named(jsonl, lines):
    with pytest.raises(DataError, match=r"train\.jsonl: expected pairs of sentences, got nothing"):
        read(jsonl(*lines))


def test_odd_characters_in_json_are_text(jsonl):
    line = '{"en": "a\\ud800\\u0000b\u2028c\x07\td", "es": "\\ud83d\\ude00"}'
    assert pairs(jsonl(line)) == [("a\ufffd b c\x07\td", "\U0001f600")]


def test_json_lines_that_are_no_utf8_are_treated_as_the_setting_says(tmp_path):
    lines = b'{"en": "a", "es": "ni\xf1o"}\n{"en": "b", "es": "c"}\n'
    source = JsonlFile(jsonl=write(tmp_path / "latin.jsonl", lines))
    with pytest.raises(DataError, match=r"latin\.jsonl, line 1: expected UTF-8, got byte 0xF1"):
        read(source)
    rows, report = read(source, on_invalid="replace")
    assert rows == [(1, "a", "ni\ufffdo"), (2, "b", "c")]
    assert report.notes[0].sentence("line") == "not UTF-8, bytes replaced by U+FFFD (line 1)"
    rows, report = read(source, on_invalid="skip")
    assert rows == [(2, "b", "c")]
    assert report.left_out[0].sentence("line") == "not UTF-8 (line 1)"


def test_fields_that_are_in_no_row_are_named_with_those_that_exist(jsonl):
    with pytest.raises(DataError) as caught:
        read(jsonl('{"text": "a"}', '{"fr": "un"}'))
    assert str(caught.value).endswith(
        "train.jsonl: expected the fields en and es, at the top or under translation; found fr, text; "
        "set this source's source_field and target_field to the fields' names"
    )
    with pytest.raises(DataError, match=r"expected the field es, .*; found translation\.en, translation\.fr;"):
        read(jsonl('{"translation": {"en": "a", "fr": "un"}}'))
    with pytest.raises(DataError, match=r"expected the field text\.es; found es, text\.en;"):
        read(jsonl('{"text": {"en": "a"}, "es": "uno"}', source_field="text.en", target_field="text.es"))


def test_of_very_many_fields_the_first_are_named(jsonl):
    with pytest.raises(DataError) as caught:
        read(jsonl(*(json.dumps({f"key {number}": "a"}) for number in range(1000))))
    assert "key 10, key 11" in str(caught.value)
    assert len(str(caught.value)) < 700


def test_a_path_is_no_pattern_and_has_a_compressed_twin(tmp_path):
    folder = tmp_path / "odd [name] * of a folder"
    folder.mkdir()
    write(folder / "a.jsonl.gz", gzip.compress(b'{"en": "a", "es": "uno"}\n'))
    assert pairs(JsonlFile(jsonl=folder / "a.jsonl")) == [("a", "uno")]
    with pytest.raises(ConfigError, match=r"did you mean a\.jsonl"):
        read(JsonlFile(jsonl=folder / "b.jsonl"))


# ---- Parquet ----


def test_parquet_is_read_with_either_layout(table):
    rows, report = read(table({"en": ["a", "", "c"], "score": [1.0, 2.0, 3.0], "es": ["uno", "dos", None]}))
    assert rows == [(1, "a", "uno")]
    assert report.lines() == ["train.parquet: 1 of 3 pairs kept; left out 2: blank on one or both sides (rows 2, 3)"]
    assert pairs(table({"translation": [{"en": "b", "es": "d\x85s", "fr": "deux"}]})) == [("b", "d s")]


def test_parquet_fields_may_be_chosen_by_their_path(table):
    columns = {"text": [{"orig": {"t": "a"}, "n": 1}], "dotted.name": ["uno"]}
    assert pairs(table(columns, source_field="text.orig.t", target_field="dotted.name")) == [("a", "uno")]


def test_only_the_columns_that_are_needed_are_read(table, monkeypatch):
    source = table({"en": ["a"], "es": ["uno"], "image": [b"\xff" * 99], "translation": [{"fr": "x"}]})
    asked = []
    whole = parquet.ParquetFile.iter_batches
    monkeypatch.setattr(
        parquet.ParquetFile,
        "iter_batches",
        lambda self, *args, columns: asked.append(columns) or whole(self, *args, columns=columns),
    )
    assert pairs(source) == [("a", "uno")]
    assert asked == [["en", "es"]]


def test_parquet_columns_without_text_are_left_out_or_named(table):
    with pytest.raises(
        DataError, match=r"left out 1: not text \(row 1\); left out 1: blank on one or both sides \(row 2\)"
    ):
        read(table({"en": ["a", "b"], "es": [["x"], None]}))
    with pytest.raises(DataError, match=r"expected the field es, at the top or under translation; found en, es\.a;"):
        read(table({"en": ["a"], "es": [{"a": "b"}]}))


def test_what_is_no_parquet_is_named_in_one_line(tmp_path, table):
    source = table({"en": ["a" * 50] * 50, "es": [str(number) * 9 for number in range(50)]})
    whole = source.parquet.read_bytes()
    for damaged in (b"a\tb\n", b"", whole[:-9], whole[:60] + b"\xff" * 60 + whole[120:]):
        write(source.parquet, damaged)
        with pytest.raises(DataError, match=r"train\.parquet: cannot be read as Parquet \(.+\); make or download") as e:
            read(source)
        assert "\n" not in str(e.value)


# ---- The hub ----


@pytest.mark.parametrize("streaming", [False, True])
def test_a_data_set_by_name_is_read_split_by_split(hub, streaming):
    words = {split: [{"en": word, "es": word.upper(), "id": 1}] for split, word in (("train", "a"), ("test", "b"))}
    source = hub(words, split="test", streaming=streaming)
    rows, report = read(source)
    assert rows == [(1, "b", "B")]
    assert report.name == f"{source.hub}, test"
    assert report.lines() == [f"{source.hub}, test: all 1 pairs kept"]


@pytest.mark.parametrize("streaming", [False, True])
def test_fields_of_a_data_set_follow_the_same_rules(hub, streaming):
    rows = [{"translation": {"en": "a", "es": "uno"}, "n": 1}, {"translation": {"en": None, "es": "dos"}, "n": 2}]
    kept, report = read(hub({"train": rows}, streaming=streaming))
    assert kept == [(1, "a", "uno")]
    assert report.left_out[0].sentence(report.unit) == "blank on one or both sides (row 2)"
    source = hub({"train": rows}, streaming=streaming, source_field="translation.es", target_field="n")
    with pytest.raises(DataError, match=r"left out 2: not text \(rows 1, 2\)"):
        read(source)


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(
    ("record", "found"),
    [
        ({"de": "a", "fr": "b"}, "fields en and es, .*; found de, fr;"),
        ({"en": "a", "fr": "b"}, "field es, .*; found en"),
    ],
)
def test_fields_that_a_data_set_lacks_are_named(hub, streaming, record, found):
    with pytest.raises(DataError, match=f"expected the {found}"):
        read(hub({"train": [record]}, streaming=streaming))


@pytest.mark.parametrize("streaming", [False, True])
def test_a_split_that_is_not_there_is_one_line(hub, streaming):
    source = hub({"train": [{"en": "a", "es": "b"}]}, split="dev", streaming=streaming)
    with pytest.raises(ConfigError) as caught:
        read(source)
    assert f"{source.hub} (split dev): cannot be had from the Hugging Face hub (" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_hub_that_cannot_be_reached_is_one_line(library):
    with pytest.raises(ConfigError) as caught:
        read(HubSplit(hub="nobody/nothing", split="train"))
    assert "nobody/nothing (split train): cannot be had from the Hugging Face hub (" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_breaks_while_a_data_set_arrives_is_one_line_and_the_library_is_silent(hub, capfd):
    source = hub({"train": [{"en": "a", "es": "b"}]}, streaming=True)
    with open(f"{source.hub}/train.jsonl", "a") as stream:
        stream.write('{"en": "a", "es":\n')
    with pytest.raises(DataError) as caught:
        read(source)
    assert str(caught.value).startswith(f"{source.hub}, train: reading stopped (")
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")
