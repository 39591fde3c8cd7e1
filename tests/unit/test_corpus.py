import codecs
import gzip
import io
import json
import os

import pytest

from tformer.config import DataConfig, FilePair, HubSplit, JsonlFile, ParquetFile, TsvFile
from tformer.data.corpus import (
    CorpusReport,
    LeftOut,
    arriving_lines,
    clean,
    find_file,
    iter_lines,
    read_corpus,
    read_lines,
)
from tformer.errors import ConfigError, DataError

CONFIG = DataConfig(source_lang="en", target_lang="es")


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.fixture
def two_files(tmp_path):
    """Writes train.en and train.es, and gives them as a source."""

    def make(source, target):
        return FilePair(source=write(tmp_path / "train.en", source), target=write(tmp_path / "train.es", target))

    return make


@pytest.fixture
def tsv(tmp_path):
    return lambda text: TsvFile(tsv=write(tmp_path / "train.tsv", text))


@pytest.fixture
def jsonl(tmp_path, library):
    return lambda *lines: JsonlFile(jsonl=write(tmp_path / "train.jsonl", "".join(f"{line}\n" for line in lines)))


@pytest.fixture
def library(tmp_path, monkeypatch):
    """The datasets library without a network, and with a cache that goes away again."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    return datasets


def read(source, **options):
    return read_corpus(source, "train", CONFIG, **options)


# ---- Lines ----


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\nb\n\n", ["a", "", "b", ""]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\r\nb\r", ["a", "b"]),
        (b"a\rb\n", ["a b"]),
        (b"a\0b\n", ["a b"]),
        (codecs.BOM_UTF8 + b"a\n" + codecs.BOM_UTF8 + b"b\n", ["a", "\ufeffb"]),
        (codecs.BOM_UTF8, [""]),
        (" a\tb  \u00a0\n".encode(), [" a\tb  \u00a0"]),
    ],
)
def test_lines_end_at_lf_and_nowhere_else(tmp_path, content, lines):
    assert read_lines(write(tmp_path / "text", content)) == lines
    assert list(iter_lines(io.BytesIO(content), "stdin")) == lines


@pytest.mark.parametrize("breaker", ["\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\r", "\0"])
def test_what_some_programs_take_for_a_line_end_is_a_space(tmp_path, breaker):
    assert read_lines(write(tmp_path / "text", f"left{breaker}right\nnext\n")) == ["left right", "next"]


def test_clean_makes_one_line_that_utf8_can_hold_and_leaves_the_rest():
    assert clean("a\nb\ud800c") == "a b\ufffdc"
    assert clean("\u200b<s>\t&amp;  e\u0301 \U0001f600\x07") == "\u200b<s>\t&amp;  e\u0301 \U0001f600\x07"


def test_lines_come_as_they_arrive():
    def slow_stream():
        yield b"first\n"
        pytest.fail("the second line was asked for before the first was given")

    assert next(iter_lines(slow_stream(), "stdin")) == "first"


def test_a_pipe_is_answered_at_once_and_a_file_comes_in_groups(tmp_path):
    reading, writing = os.pipe()
    os.set_blocking(reading, False)  # whoever reads when nothing is there yet fails, and does not wait for ever
    with open(reading, "rb") as stream, open(writing, "wb", buffering=0) as pipe:
        groups = arriving_lines(stream, "stdin", at_most=2)
        pipe.write(b"a\nb")
        assert next(groups) == ["a"]
        pipe.write(b"c\nd\ne\nf")
        assert next(groups) == ["bc", "d"]
        assert next(groups) == ["e"]
        pipe.close()
        assert list(groups) == [["f"]]
    with write(tmp_path / "text", "1\n2\n\n4\n5").open("rb") as stream:
        assert list(arriving_lines(stream, "text", at_most=2)) == [["1", "2"], ["", "4"], ["5"]]


def test_invalid_utf8_names_file_line_byte_and_remedy(tmp_path):
    path = write(tmp_path / "train.es", b"uno\ndos\nni\xf1o\n")
    with pytest.raises(DataError) as caught:
        read_lines(path)
    assert str(path) in str(caught.value)
    assert "line 3: expected UTF-8, got byte 0xF1 at position 3" in str(caught.value)
    assert "iconv -f ISO-8859-1 -t UTF-8" in str(caught.value)


def test_utf16_is_recognised_by_its_mark(tmp_path):
    with pytest.raises(DataError, match=r"line 1: .* iconv -f UTF-16 -t UTF-8"):
        read_lines(write(tmp_path / "text", "año\n".encode("utf-16")))


# ---- Files ----


def test_gz_is_read_by_its_name_and_in_place_of_a_missing_file(tmp_path):
    compressed = write(tmp_path / "a.txt.gz", gzip.compress(b"zipped\n"))
    assert read_lines(compressed) == ["zipped"]
    assert read_lines(tmp_path / "a.txt") == ["zipped"]
    write(tmp_path / "a.txt", "plain\n")
    assert read_lines(tmp_path / "a.txt") == ["plain"]


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-9], lambda data: b"no gzip", lambda data: data[:12] + b"\xff" * 20]
)
def test_damaged_gz_is_named(tmp_path, damage):
    path = write(tmp_path / "a.gz", damage(gzip.compress(b"some text that is long enough\n" * 9)))
    with pytest.raises(DataError, match=r"a\.gz: expected a gzip file"):
        read_lines(path)


def test_missing_file_is_named_in_full_with_near_names(tmp_path):
    write(tmp_path / "train.en.gz", gzip.compress(b"a\n"))
    write(tmp_path / "unlike", "")
    with pytest.raises(ConfigError) as caught:
        find_file(tmp_path / "trian.en")
    assert str(tmp_path / "trian.en") in str(caught.value)
    assert str(caught.value).endswith("did you mean train.en?")


def test_missing_folder_and_folder_for_a_file_are_told_apart(tmp_path):
    with pytest.raises(ConfigError, match=r"the folder .*nowhere does not exist"):
        find_file(tmp_path / "nowhere" / "train.en")
    with pytest.raises(ConfigError, match="expected a file, got a folder"):
        find_file(tmp_path)


# ---- Two files ----


def test_pairs_keep_their_order_their_numbers_and_their_text(two_files):
    corpus = read(two_files("R&D  \n<s> &quot;\n", "I+D\n\u00a0¿qué?\n"))
    assert corpus.pairs == [("R&D  ", "I+D"), ("<s> &quot;", "\u00a0¿qué?")]
    assert corpus.lines == [1, 2]
    assert corpus.report == CorpusReport("train.en + train.es", 2)
    assert corpus.report.lines() == ["train.en + train.es: all 2 pairs kept"]


def test_a_pair_blank_on_either_side_is_left_out_whole_and_counted(two_files):
    corpus = read(two_files("1\n\n3\n4\n \n6\n", "uno\ndos\n \t\u00a0\ncuatro\n\nseis"))
    assert corpus.pairs == [("1", "uno"), ("4", "cuatro"), ("6", "seis")]
    assert corpus.lines == [1, 4, 6]
    assert corpus.report.left_out == (LeftOut("blank on one or both sides", (2, 3, 5), 3),)
    assert corpus.report.lines() == [
        "train.en + train.es: 3 of 6 pairs kept; left out 3: blank on one or both sides (lines 2, 3, 5)"
    ]


def test_blank_pairs_stay_on_request(two_files):
    corpus = read(two_files("1\n\n", "uno\ndos\n"), drop_blank=False)
    assert corpus.pairs == [("1", "uno"), ("", "dos")]
    assert corpus.report.left_out == ()


def test_the_report_lists_the_first_lines_of_many(two_files):
    report = read(two_files("a\n" + "\n" * 12, "b\n" * 13)).report
    assert report.left_out[0].count == 12
    assert (
        "left out 12: blank on one or both sides (lines 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more)" in report.lines()[0]
    )


def test_unequal_line_counts_stop_with_both_paths_and_counts(two_files):
    source = two_files("a\n\nc\n", "uno\ntres\n")
    with pytest.raises(DataError) as caught:
        read(source)
    assert f"3 in {source.source} and 2 in {source.target}" in str(caught.value)


@pytest.mark.parametrize("content", [("", ""), ("\n\n \n", "a\n\n\n")])
def test_nothing_left_is_one_line(two_files, content):
    with pytest.raises(DataError) as caught:
        read(two_files(*content))
    message = str(caught.value)
    assert "\n" not in message
    if content[0]:
        assert "0 of 3 pairs kept; left out 3: blank on one or both sides (lines 1, 2, 3)" in message
    else:
        assert "train.en + " in message
        assert message.endswith(
            "train.es: expected pairs of sentences, got nothing: empty; see whether its making failed"
        )


def test_the_name_in_the_report_is_of_the_file_that_was_read(tmp_path):
    write(tmp_path / "train.en.gz", gzip.compress(b"a\n"))
    write(tmp_path / "train.es", "b\n")
    corpus = read(FilePair(source=tmp_path / "train.en", target=tmp_path / "train.es"))
    assert corpus.report.name == "train.en.gz + train.es"


# ---- TSV ----


def test_quotes_in_a_tsv_are_ordinary_text(tsv):
    corpus = read(tsv('"a\t"b\n"c" d\te "f\n,;\t"g"\n'))
    assert corpus.pairs == [('"a', '"b'), ('"c" d', 'e "f'), (",;", '"g"')]


def test_tsv_rows_with_other_than_two_columns_are_named_and_columns_never_slide(tsv):
    corpus = read(tsv("a\tb\nc\nd\te\tnote\nf\t\tnote\n\ng\th\n"))
    assert corpus.pairs == [("a", "b"), ("d", "e"), ("g", "h")]
    assert corpus.lines == [1, 3, 6]
    assert corpus.report.lines() == [
        "train.tsv: 3 of 6 pairs kept; left out 2: fewer than 2 columns (lines 2, 5); "
        "left out 1: blank on one or both sides (line 4)",
        "train.tsv: columns after the second ignored (lines 3, 4)",
    ]


def test_an_empty_tsv_is_named(tsv):
    with pytest.raises(DataError, match=r"train\.tsv: .* empty"):
        read(tsv(""))


# ---- The built-in corpus ----


def test_the_built_in_corpus_has_its_splits_in_both_directions():
    for split in ("train", "validation", "test"):
        there = read_corpus("toy", split, DataConfig(source_lang="en", target_lang="fr"))
        back = read_corpus("toy", split, DataConfig(source_lang="fr", target_lang="en"))
        assert back.pairs == [(target, source) for source, target in there.pairs]
        assert there.report.name == f"built-in corpus, {split}"
    with pytest.raises(ConfigError, match=r"got data\.source_lang de"):
        read_corpus("toy", "train", DataConfig(source_lang="de", target_lang="fr"))


# ---- JSON lines, Parquet, the hub ----


def test_json_lines_hold_the_fields_at_the_top_or_under_translation(jsonl):
    top = read(jsonl('{"en": "a\\u2028b", "es": "uno", "id": 1}', '{"es": "dos", "en": "c"}'))
    assert top.pairs == [("a b", "uno"), ("c", "dos")]
    assert top.report.lines() == ["train.jsonl: all 2 pairs kept"]
    nested = read(jsonl('{"translation": {"en": "a", "es": "uno"}}', '{"translation": {"en": "b", "es": "dos"}}'))
    assert nested.pairs == [("a", "uno"), ("b", "dos")]


def test_json_rows_without_text_are_left_out_and_counted(jsonl):
    corpus = read(jsonl('{"en": "a", "es": "uno"}', '{"en": null, "es": "dos"}', '{"en": "c"}', '{"en": 4, "es": "x"}'))
    assert corpus.pairs == [("a", "uno")]
    assert corpus.report.lines() == [
        "train.jsonl: 1 of 4 pairs kept; left out 2: blank on one or both sides (lines 2, 3); "
        "left out 1: not text (line 4)"
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"en": "a", "es":', "line 2: expected one JSON object, got what is no JSON"),
        ('["a", "b"]', "line 2: expected one JSON object, got another value"),
    ],
)
def test_a_malformed_json_line_is_named(jsonl, line, message):
    source = jsonl('{"en": "a", "es": "uno"}', line, '{"en": "c", "es": "tres"}')
    with pytest.raises(DataError, match=message):
        read(source)


def test_an_empty_or_badly_encoded_json_file_is_named(jsonl, tmp_path):
    with pytest.raises(DataError, match=r"train\.jsonl: .* empty"):
        read(jsonl())
    path = write(tmp_path / "latin.jsonl", b'{"en": "a", "es": "ni\xf1o"}\n')
    with pytest.raises(DataError, match=r"latin\.jsonl, line 1: expected UTF-8, got byte 0xF1"):
        read(JsonlFile(jsonl=path))


def test_missing_fields_are_named_with_those_that_exist(jsonl):
    with pytest.raises(DataError, match=r"expected the fields en and es, .* found fr, text;"):
        read(jsonl('{"text": "a", "fr": "un"}'))
    with pytest.raises(DataError, match=r"expected the field es, .* found translation\.en, translation\.fr;"):
        read(jsonl('{"translation": {"en": "a", "fr": "un"}}'))


def test_json_paths_are_no_patterns_and_have_a_gz_twin(tmp_path, library):
    folder = tmp_path / "odd [name] * of a folder"
    folder.mkdir()
    write(folder / "a.jsonl.gz", gzip.compress(b'{"en": "a", "es": "uno"}\n'))
    assert read(JsonlFile(jsonl=folder / "a.jsonl")).pairs == [("a", "uno")]
    with pytest.raises(ConfigError, match=r"did you mean a\.jsonl"):
        read(JsonlFile(jsonl=folder / "b.jsonl"))


def test_parquet_is_read_with_either_layout(tmp_path, library):
    path = tmp_path / "train.parquet"
    library.Dataset.from_dict({"en": ["a", ""], "es": ["uno", "dos"], "score": [1.0, 2.0]}).to_parquet(path)
    corpus = read(ParquetFile(parquet=path))
    assert (corpus.pairs, corpus.lines) == ([("a", "uno")], [1])
    translation = library.Features({"translation": library.Translation(["en", "es"])})
    rows = {"translation": [{"en": "b", "es": "dos"}]}
    library.Dataset.from_dict(rows, features=translation).to_parquet(tmp_path / "nested.parquet")
    assert read(ParquetFile(parquet=tmp_path / "nested.parquet")).pairs == [("b", "dos")]


def test_what_is_no_parquet_is_named_in_one_line(tmp_path, library):
    with pytest.raises(DataError, match=r"train\.parquet: cannot be read as Parquet \(.+\)"):
        read(ParquetFile(parquet=write(tmp_path / "train.parquet", "a\tb\n")))


def test_a_data_set_by_name_is_read_split_by_split(tmp_path, library):
    folder = tmp_path / "set"
    folder.mkdir()
    for split, word in (("train", "a"), ("test", "b")):
        write(folder / f"{split}.jsonl", json.dumps({"en": word, "es": word.upper()}) + "\n")
    corpus = read(HubSplit(hub=str(folder), split="test"))
    assert corpus.pairs == [("b", "B")]
    assert corpus.report.name == f"{folder}, test"
    with pytest.raises(ConfigError, match=r'Unknown split "dev"'):
        read(HubSplit(hub=str(folder), split="dev"))


def test_a_hub_that_cannot_be_reached_is_one_line(library):
    with pytest.raises(ConfigError) as caught:
        read(HubSplit(hub="nobody/nothing", split="train"))
    assert "nobody/nothing (split train): cannot be had from the Hugging Face hub (" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_library_says_nothing_by_itself(jsonl, capfd):
    read(jsonl('{"en": "a", "es": "uno"}'))
    with pytest.raises(DataError):
        read(jsonl('{"en": "a", "es":'))
    assert capfd.readouterr() == ("", "")
