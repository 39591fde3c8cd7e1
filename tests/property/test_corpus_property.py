import bz2
import gzip
import io
import json
import lzma
from xml.sax.saxutils import escape

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tformer.config import DataConfig, FilePair, JsonlFile, TmxFile, TsvFile
from tformer.data.corpus import CorpusReader, clean, iter_lines, read_lines

CONFIG = DataConfig(source_lang="en", target_lang="es")
COMPRESS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}

# Anything that a UTF-8 file can hold within one line, with more than a fair share of what is known to break readers.
TROUBLE = "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029\0\ufeff\t\"'\u00a0 ▁<>"
line = st.text(st.one_of(st.sampled_from(TROUBLE), st.characters(exclude_categories=["Cs"], exclude_characters="\n")))
unhurried = settings(deadline=None)
one_file_each = settings(unhurried, suppress_health_check=[HealthCheck.function_scoped_fixture])


def encoded(lines, ending="\n"):
    return "".join(f"{text}{ending}" for text in lines).encode()


@one_file_each
@given(st.lists(line), st.sampled_from(sorted(COMPRESS)))
def test_as_many_lines_come_out_as_went_in(tmp_path, lines, suffix):
    path = tmp_path / "lines.txt"
    path.write_bytes(encoded(lines))
    (tmp_path / f"lines{suffix}").write_bytes(COMPRESS[suffix](encoded(lines)))
    read = read_lines(path)
    assert len(read) == len(lines)
    assert read == read_lines(tmp_path / f"lines{suffix}") == list(iter_lines(io.BytesIO(encoded(lines)), "stdin"))
    assert all(len(text.splitlines()) <= 1 for text in read)


@unhurried
@given(st.lists(line))
def test_windows_line_ends_a_mark_and_an_unfinished_last_line_change_nothing(lines):
    assume(not lines or not lines[0].startswith("\ufeff"))
    expected = [clean(text.removesuffix("\r")) for text in lines]

    def lines_of(data):
        return list(iter_lines(io.BytesIO(data), "stdin"))

    assert lines_of(encoded(lines)) == expected
    assert lines_of(encoded(lines, "\r\n")) == [clean(text) for text in lines]
    if lines:
        assert lines_of(b"\xef\xbb\xbf" + encoded(lines)) == expected
    if lines and lines[-1]:
        assert lines_of(encoded(lines)[:-1]) == expected


@unhurried
@given(st.text())
def test_cleaning_twice_is_cleaning_once_and_keeps_the_length(text):
    assert clean(clean(text)) == clean(text)
    assert len(clean(text)) == len(text)
    clean(text).encode("utf-8")


# ---- Every format: what it can hold of a text, and how to write rows in it ----


def write_text(folder, rows):
    (folder / "train.en").write_bytes(encoded(source for source, _ in rows))
    (folder / "train.es").write_bytes(encoded((target for _, target in rows), "\r\n"))
    return FilePair(source=folder / "train.en", target=folder / "train.es")


def write_compressed_text(folder, rows):
    (folder / "packed.en.gz").write_bytes(gzip.compress(encoded(source for source, _ in rows)))
    (folder / "packed.es.xz").write_bytes(lzma.compress(encoded(target for _, target in rows)))
    return FilePair(source=folder / "packed.en", target=folder / "packed.es")


def write_tsv(folder, rows):
    (folder / "train.tsv").write_bytes(encoded("\t".join(row) for row in rows))
    return TsvFile(tsv=folder / "train.tsv")


def write_jsonl(folder, rows):
    objects = [json.dumps({"en": source, "es": target}, ensure_ascii="<" in source) for source, target in rows]
    (folder / "train.jsonl").write_bytes(encoded(objects))
    return JsonlFile(jsonl=folder / "train.jsonl")


def write_tmx(folder, rows):
    variant = '<tuv xml:lang="{}"><seg>{}</seg></tuv>'.format
    units = "".join(f"<tu>{variant('es', escape(es))}{variant('EN-gb', escape(en))}</tu>\n" for en, es in rows)
    (folder / "train.tmx").write_bytes(f"<tmx>\n<body>\n{units}</body>\n</tmx>\n".encode())
    return TmxFile(tmx=folder / "train.tmx")


def whole(text):
    return text


def without_tabs(text):
    return text.replace("\t", "")


def xml_characters(text):
    return "".join(c for c in text if c in "\t\r" or (c >= " " and c not in "\ufffe\uffff"))


FORMATS = {
    "text": (write_text, whole),
    "compressed": (write_compressed_text, whole),
    "tsv": (write_tsv, without_tabs),
    "jsonl": (write_jsonl, whole),
    "tmx": (write_tmx, xml_characters),
}


def same(text, written):
    """Whether a text came back, whatever became of the white space that clean, CRLF and TMX may fold."""
    return clean(text).split() == clean(written).split()


@pytest.mark.parametrize("name", FORMATS)
@one_file_each
@given(st.lists(st.tuples(line, line, st.sampled_from(["both", "source", "target", "neither"])), min_size=1))
def test_pairs_never_shift(tmp_path, name, rows):
    """Row i carries its number on both sides, save where a side is blank; the two numbers of each pair must agree."""
    write, fit = FORMATS[name]
    sources = [f"{i}:{fit(s)}" if kept in ("both", "source") else " " for i, (s, _, kept) in enumerate(rows, 1)]
    targets = [f"{i}:{fit(t)}" if kept in ("both", "target") else "" for i, (_, t, kept) in enumerate(rows, 1)]
    kept = [i for i, row in enumerate(rows, 1) if row[2] == "both"]
    assume(kept)
    corpus = CorpusReader(write(tmp_path, list(zip(sources, targets, strict=True))), "train", CONFIG)
    read = list(corpus)
    assert len(read) == len(kept)
    if name != "tmx":  # which begins with other lines, and has more where a CR stands in a text
        assert [number for number, _, _ in read] == kept
    for i, (_, source, target) in zip(kept, read, strict=True):
        assert same(source, sources[i - 1])
        assert same(target, targets[i - 1])
        assert len(f"{source}{target}".splitlines()) == 1
    assert corpus.report.pairs_read == len(rows)


@pytest.mark.parametrize("name", ["text", "tsv", "jsonl"])
@one_file_each
@given(
    st.lists(st.tuples(line, line, st.sampled_from([None, None, "source", "target", "both"])), min_size=1),
    st.sampled_from([b"\xff", b"\xe2\x82", b"\xc0\xaf", b"\xed\xa0\x80"]),
)
def test_bytes_that_are_no_utf8_shift_nothing(tmp_path, name, rows, damage):
    write, fit = FORMATS[name]
    sources = [f"{i}:{'#bad#' * (bad in ('source', 'both'))}{fit(s)}" for i, (s, _, bad) in enumerate(rows, 1)]
    targets = [f"{i}:{'#bad#' * (bad in ('target', 'both'))}{fit(t)}" for i, (_, t, bad) in enumerate(rows, 1)]
    source = write(tmp_path, list(zip(sources, targets, strict=True)))
    for path in source.files:
        path.write_bytes(path.read_bytes().replace(b"#bad#", damage))
    valid = [i for i, row in enumerate(rows, 1) if row[2] is None]
    marks = damage.decode(errors="replace")
    for on_invalid, kept in (("replace", list(range(1, len(rows) + 1))), ("skip", valid)):
        if not kept:
            continue
        corpus = CorpusReader(source, "train", CONFIG.model_copy(update={"on_invalid": on_invalid}))
        read = list(corpus)
        assert [number for number, _, _ in read] == kept
        for i, text, translation in read:
            assert same(text, sources[i - 1].replace("#bad#", marks))
            assert same(translation, targets[i - 1].replace("#bad#", marks))
        told = corpus.report.notes if on_invalid == "replace" else corpus.report.left_out
        assert sum(item.count for item in told) == len(rows) - len(valid)


@one_file_each
@given(st.lists(st.lists(line.map(without_tabs), max_size=4), min_size=1))
def test_tsv_columns_never_slide(tmp_path, rows):
    numbered = [[f"{i}.{column}:{text}" for column, text in enumerate(row, 1)] for i, row in enumerate(rows, 1)]
    kept = [i for i, row in enumerate(rows, 1) if len(row) >= 2]
    assume(kept)
    path = tmp_path / "train.tsv"
    path.write_bytes(encoded("\t".join(row) for row in numbered))
    read = list(CorpusReader(TsvFile(tsv=path), "train", CONFIG))
    assert [number for number, _, _ in read] == kept
    for number, source, target in read:
        assert source.startswith(f"{number}.1:")
        assert target.startswith(f"{number}.2:")
