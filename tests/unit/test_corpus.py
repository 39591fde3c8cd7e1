import bz2
import codecs
import gzip
import io
import lzma
import os

import pyarrow
import pytest

from tformer.config import DataConfig, FilePair
from tformer.data.corpus import (
    CorpusReader,
    CorpusReport,
    LeftOut,
    arriving_lines,
    clean,
    find_file,
    iter_lines,
    read_lines,
)
from tformer.data.corpus.lines import open_file
from tformer.errors import ConfigError, DataError

CONFIG = DataConfig(source_lang="en", target_lang="es")


def zstd(data):
    sink = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


COMPRESS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.fixture
def files(tmp_path):
    """Writes train.en and train.es, or a.en, b.en … where there are several, and gives them as a source."""

    def make(source, target):
        if isinstance(source, (str, bytes)):
            return FilePair(source=write(tmp_path / "train.en", source), target=write(tmp_path / "train.es", target))
        return FilePair(
            source=[write(tmp_path / f"{'abcde'[index]}.en", text) for index, text in enumerate(source)],
            target=[write(tmp_path / f"{'abcde'[index]}.es", text) for index, text in enumerate(target)],
        )

    return make


def reader(source, **settings):
    return CorpusReader(source, "train", CONFIG.model_copy(update=settings))


def pairs(source, **settings):
    return [row[1:] for row in reader(source, **settings)]


def read(source, **settings):
    """Everything of a source, and the report."""
    corpus = reader(source, **settings)
    return list(corpus), corpus.report


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
    assert "data.on_invalid" not in str(caught.value)  # that setting is of corpora


def test_utf16_is_recognised_by_its_mark(tmp_path):
    with pytest.raises(DataError, match=r"line 1: .* iconv -f UTF-16 -t UTF-8"):
        read_lines(write(tmp_path / "text", "año\n".encode("utf-16")))


# ---- Files ----


@pytest.mark.parametrize("suffix", COMPRESS)
def test_compressed_files_are_read_by_their_names_and_in_place_of_missing_ones(tmp_path, suffix):
    path = write(tmp_path / f"a.txt{suffix}", COMPRESS[suffix](b"zipped\n") + COMPRESS[suffix](b"twice\n"))
    assert read_lines(path) == read_lines(tmp_path / "a.txt") == ["zipped", "twice"]
    write(tmp_path / "a.txt", "plain\n")
    assert read_lines(tmp_path / "a.txt") == ["plain"]


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize(
    "damage", [lambda data: data[:-9], lambda data: b"no such format", lambda data: data[:12] + b"\xff" * 20]
)
def test_a_damaged_compressed_file_is_named_in_one_line(tmp_path, suffix, damage):
    data = damage(COMPRESS[suffix](b"some text that is long enough\n" * 9))
    with pytest.raises(DataError) as caught:
        read_lines(write(tmp_path / f"a{suffix}", data))
    kind = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}[suffix]
    assert str(caught.value).startswith(f"{tmp_path / 'a'}{suffix}: expected a {kind} file, got damaged data (")
    assert str(caught.value).endswith("make or download it again")
    assert "\n" not in str(caught.value)


def test_a_truncated_side_stops_although_its_lines_were_good(files, tmp_path):
    source = files("a\n" * 5000, "b\n" * 5000)
    source.target.unlink()
    write(tmp_path / "train.es.gz", gzip.compress(b"b\n" * 5000)[:-8])
    with pytest.raises(DataError, match=r"train\.es\.gz: expected a gzip file"):
        read(source)


@pytest.mark.parametrize("suffix", ["", *COMPRESS])
def test_a_file_that_the_system_does_not_give_is_a_matter_of_the_path(tmp_path, suffix):
    path = tmp_path / f"loop{suffix}"
    path.symlink_to(path)
    with pytest.raises(ConfigError, match="no such file"):
        read_lines(path)
    with pytest.raises(ConfigError, match=r"cannot be read \(.+\)$"), open_file(path):
        pass


def test_missing_file_is_named_in_full_with_near_names(tmp_path):
    write(tmp_path / "train.en.xz", lzma.compress(b"a\n"))
    write(tmp_path / "unlike", "")
    with pytest.raises(ConfigError) as caught:
        find_file(tmp_path / "trian.en")
    assert str(tmp_path / "trian.en") in str(caught.value)
    assert "nor one with .gz, .bz2, .xz, .zst behind its name" in str(caught.value)
    assert str(caught.value).endswith("did you mean train.en?")


def test_missing_folder_and_folder_for_a_file_are_told_apart(tmp_path):
    with pytest.raises(ConfigError, match=r"the folder .*nowhere does not exist"):
        find_file(tmp_path / "nowhere" / "train.en")
    with pytest.raises(ConfigError, match="expected a file, got a folder"):
        find_file(tmp_path)


@pytest.mark.parametrize("name", ["word " * 100, "a/" * 3000 + "b", "a\0b"])
def test_what_no_file_can_be_called_is_missing_as_well(tmp_path, name):
    with pytest.raises(ConfigError, match="no such file"):
        find_file(tmp_path / name)


def test_a_missing_file_is_known_before_anything_is_read(files):
    source = files("a\n", "b\n")
    source.target.unlink()
    with pytest.raises(ConfigError, match=r"train\.es: no such file"):
        reader(source)


# ---- Aligned text ----


def test_pairs_keep_their_order_their_numbers_and_their_text(files):
    rows, report = read(files("R&D  \n<s> &quot;\n", "I+D\n\u00a0¿qué?\n"))
    assert rows == [(1, "R&D  ", "I+D"), (2, "<s> &quot;", "\u00a0¿qué?")]
    assert report == CorpusReport("train.en + train.es", 2)
    assert report.lines() == ["train.en + train.es: all 2 pairs kept"]


def test_windows_line_ends_and_a_mark_on_one_side_change_nothing(files):
    plain = pairs(files("one\ntwo\n", "uno\ndos\n"))
    assert pairs(files("\ufeffone\ntwo\n", "uno\r\ndos\r\n")) == plain == [("one", "uno"), ("two", "dos")]


def test_a_long_line_is_a_line(files):
    assert [len(text) for text in pairs(files("a\n" + "b " * 300_000 + "\n", "x\ny\n"))[1]] == [600_000, 1]


def test_a_pair_blank_on_either_side_is_left_out_whole_and_counted(files):
    rows, report = read(files("1\n\n3\n4\n \n6\n", "uno\ndos\n \t\u00a0\ncuatro\n\nseis"))
    assert rows == [(1, "1", "uno"), (4, "4", "cuatro"), (6, "6", "seis")]
    assert report.left_out == (LeftOut("blank on one or both sides", (2, 3, 5), 3),)
    assert report.lines() == [
        "train.en + train.es: 3 of 6 pairs kept; left out 3: blank on one or both sides (lines 2, 3, 5)"
    ]


def test_blank_pairs_stay_on_request(files):
    corpus = CorpusReader(files("1\n\n", "uno\ndos\n"), "test", CONFIG, drop_blank=False)
    assert list(corpus) == [(1, "1", "uno"), (2, "", "dos")]
    assert corpus.report.left_out == ()


def test_the_report_counts_all_and_lists_the_first_lines(files):
    _, report = read(files("a\n" + "\n" * 12, "b\n" * 13))
    assert report.left_out == (LeftOut("blank on one or both sides", tuple(range(2, 12)), 12),)
    assert "blank on one or both sides (lines 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more)" in report.lines()[0]
    assert LeftOut.of("too long", range(1, 13)) == LeftOut("too long", tuple(range(1, 11)), 12)


def test_pairs_come_as_they_are_read_and_again_when_asked_again(files):
    corpus = reader(files("1\n\n3\n", "uno\ndos\n"))
    rows = iter(corpus)
    assert next(rows) == (1, "1", "uno")
    assert corpus.report.pairs_read == 1
    for _ in range(2):
        with pytest.raises(DataError, match="as many lines on both sides"):
            list(corpus)
    assert corpus.report.left_out[0].count == 1


@pytest.mark.parametrize(("sources", "targets"), [(3, 2), (1, 4), (0, 2), (2, 0)])
def test_unequal_line_counts_stop_with_both_paths_and_counts(files, sources, targets):
    source = files("a\n" * sources, "\n" * (targets - 1) + "z" * min(targets, 1))
    with pytest.raises(DataError) as caught:
        read(source)
    assert f"got {sources} in {source.source} and {targets} in {source.target};" in str(caught.value)


def test_the_longer_file_is_counted_whatever_is_in_it(files):
    with pytest.raises(DataError, match=r"got 1 in .*train\.en and 4 in "):
        read(files("a\n", b"x\n\n\xff\n\xff"))


@pytest.mark.parametrize("content", [("", ""), ("\n\n \n", "a\n\n\n")])
def test_nothing_left_is_one_line(files, content):
    source = files(*content)
    with pytest.raises(DataError) as caught:
        read(source)
    if content[0]:
        expected = "0 of 3 pairs kept; left out 3: blank on one or both sides (lines 1, 2, 3)"
        assert str(caught.value) == f"nothing is left to use of train.en + train.es: {expected}"
    else:
        assert str(caught.value).startswith(f"{source.source} + {source.target}: expected pairs of sentences, got noth")


def test_the_name_in_the_report_is_of_the_file_that_was_read(files, tmp_path):
    source = files("a\n", "b\n")
    source.source.unlink()
    write(tmp_path / "train.en.zst", zstd(b"a\n"))
    assert read(source)[1].name == "train.en.zst + train.es"


# ---- Several files on each side ----


def test_several_files_follow_one_another_and_every_number_has_its_place(files):
    corpus = reader(files(["1\n\n3", "4\n"], ["uno\ndos\ntres\n", "cuatro"]))
    assert list(corpus) == [(1, "1", "uno"), (3, "3", "tres"), (4, "4", "cuatro")]
    assert [corpus.place(number) for number in (1, 3, 4)] == [
        "a.en + a.es, line 1",
        "a.en + a.es, line 3",
        "b.en + b.es, line 1",
    ]
    assert corpus.report.name == "a.en + a.es, b.en + b.es"


def test_a_place_in_a_single_file_bears_its_name(files):
    corpus = reader(files("a\n", "b\n"))
    list(corpus)
    assert corpus.place(1) == corpus.report.place(1) == "train.en + train.es, line 1"


def test_what_is_left_out_of_several_files_is_told_by_file(files):
    _, report = read(files(["1\n\n\n", "4\n\n"], ["uno\ndos\n\n", "x\n\n"]))
    [item] = report.left_out
    assert item.lines == (2, 3, 5)
    assert report.lines()[0].endswith(
        "left out 3: blank on one or both sides (a.en + a.es, lines 2, 3; b.en + b.es, line 2)"
    )


def test_each_file_must_have_as_many_lines_as_its_partner(files):
    source = files(["1\n2\n", "3\n"], ["uno\n", "dos\ntres\n"])
    with pytest.raises(DataError) as caught:
        read(source)
    assert f"got 2 in {source.source[0]} and 1 in {source.target[0]};" in str(caught.value)


def test_one_empty_pair_of_several_files_is_named(files):
    source = files(["1\n", ""], ["uno\n", ""])
    with pytest.raises(DataError) as caught:
        read(source)
    assert str(caught.value).startswith(f"{source.source[1]} + {source.target[1]}: expected pairs of sentences")


def test_many_files_have_a_short_name(files):
    source = files(["a"] * 5, ["b"] * 5)
    assert read(source)[1].name == "a.en + a.es, b.en + b.es, c.en + c.es and 2 more"


# ---- Bytes that are no UTF-8 ----

LATIN = ("one\ntwo\nyear\n", b"uno\ndos\na\xf1o \xe2\x82\n")


def test_a_corpus_that_is_not_utf8_stops_and_names_the_setting(files):
    with pytest.raises(DataError) as caught:
        read(files(*LATIN))
    assert "train.es, line 3: expected UTF-8, got byte 0xF1 at position 2;" in str(caught.value)
    assert "set data.on_invalid to replace or skip" in str(caught.value)


def test_bytes_that_are_no_utf8_are_replaced_on_request_and_counted(files):
    rows, report = read(files(*LATIN), on_invalid="replace")
    assert rows == [(1, "one", "uno"), (2, "two", "dos"), (3, "year", "a\ufffdo \ufffd")]
    assert report.lines() == [
        "train.en + train.es: all 3 pairs kept",
        "train.en + train.es: not UTF-8, bytes replaced by U+FFFD (line 3)",
    ]


def test_a_pair_that_is_not_utf8_is_skipped_on_request_and_counted(files):
    rows, report = read(files(b"one\n\xff\nthree\nfour\n", b"uno\ndos\n\xff\ncuatro"), on_invalid="skip")
    assert rows == [(1, "one", "uno"), (4, "four", "cuatro")]
    assert report.lines() == ["train.en + train.es: 2 of 4 pairs kept; left out 2: not UTF-8 (lines 2, 3)"]


@pytest.mark.parametrize("on_invalid", ["stop", "replace", "skip"])
def test_utf16_is_no_matter_of_a_few_lines(files, on_invalid):
    with pytest.raises(DataError, match=r"train\.en, line 1: .*; mend that line, or convert the file, if it is UTF-16"):
        read(files("one\n".encode("utf-16"), "uno\n"), on_invalid=on_invalid)


# ---- The built-in corpus ----


def test_the_built_in_corpus_has_its_splits_in_both_directions():
    for split in ("train", "validation", "test"):
        there = CorpusReader("toy", split, DataConfig(source_lang="en", target_lang="fr"))
        back = CorpusReader("toy", split, DataConfig(source_lang="fr", target_lang="en"))
        assert list(back) == [(number, target, source) for number, source, target in there]
        assert there.report.name == f"built-in corpus, {split}"
    with pytest.raises(ConfigError, match=r"got data\.source_lang de"):
        CorpusReader("toy", "train", DataConfig(source_lang="de", target_lang="fr"))


# ---- All at once ----
