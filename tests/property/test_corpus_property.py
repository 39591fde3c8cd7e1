import gzip
import io

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tformer.config import DataConfig, FilePair, TokenizerConfig, TsvFile
from tformer.data.corpus import clean, iter_lines, read_corpus, read_lines
from tformer.data.tokenizer import Tokenizer
from tformer.vocabulary import BOS_ID, EOS_ID, PAD_ID, UNK_ID

CONFIG = DataConfig(source_lang="en", target_lang="es")

# Anything that a UTF-8 file can hold within one line, with more than a fair share of what is known to break readers.
TROUBLE = "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029\0\ufeff\t\"'\u00a0 ▁<>"
line = st.text(st.one_of(st.sampled_from(TROUBLE), st.characters(exclude_categories=["Cs"], exclude_characters="\n")))
unhurried = settings(deadline=None)
one_file_each = settings(unhurried, suppress_health_check=[HealthCheck.function_scoped_fixture])


def encoded(lines, ending="\n"):
    return "".join(f"{text}{ending}" for text in lines).encode()


@one_file_each
@given(st.lists(line))
def test_as_many_lines_come_out_as_went_in(tmp_path, lines):
    path = tmp_path / "lines.txt"
    path.write_bytes(encoded(lines))
    (tmp_path / "lines.gz").write_bytes(gzip.compress(encoded(lines)))
    read = read_lines(path)
    assert len(read) == len(lines)
    assert read == read_lines(tmp_path / "lines.gz") == list(iter_lines(io.BytesIO(encoded(lines)), "stdin"))
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


@one_file_each
@given(st.lists(st.tuples(line, line, st.sampled_from(["both", "source", "target", "neither"])), min_size=1))
def test_pairs_never_shift(tmp_path, rows):
    """Row i carries its number on both sides, save where a side is blank; the two numbers of each pair must agree."""
    sources = [f"{i}:{s}" if kept in ("both", "source") else " " for i, (s, _, kept) in enumerate(rows, 1)]
    targets = [f"{i}:{t}" if kept in ("both", "target") else "" for i, (_, t, kept) in enumerate(rows, 1)]
    kept = [i for i, row in enumerate(rows, 1) if row[2] == "both"]
    assume(kept)
    source, target = tmp_path / "train.en", tmp_path / "train.es"
    source.write_bytes(encoded(sources))
    target.write_bytes(encoded(targets, "\r\n"))
    corpus = read_corpus(FilePair(source=source, target=target), "train", CONFIG)
    assert corpus.lines == kept
    for number, pair in zip(corpus.lines, corpus.pairs, strict=True):
        assert all(side.startswith(f"{number}:") for side in pair)
    assert sum(item.count for item in corpus.report.left_out) == len(rows) - len(kept)


@one_file_each
@given(st.lists(st.lists(line.map(lambda text: text.replace("\t", "")), max_size=4), min_size=1))
def test_tsv_columns_never_slide(tmp_path, rows):
    numbered = [[f"{i}.{column}:{text}" for column, text in enumerate(row, 1)] for i, row in enumerate(rows, 1)]
    kept = [i for i, row in enumerate(rows, 1) if len(row) >= 2]
    assume(kept)
    path = tmp_path / "train.tsv"
    path.write_bytes(encoded("\t".join(row) for row in numbered))
    corpus = read_corpus(TsvFile(tsv=path), "train", CONFIG)
    assert corpus.lines == kept
    for number, (source, target) in zip(corpus.lines, corpus.pairs, strict=True):
        assert source.startswith(f"{number}.1:")
        assert target.startswith(f"{number}.2:")


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def tokenizer(request):
    """Changes no character but white space, knows few of them, and has bytes for the rest."""
    config = TokenizerConfig(vocab_size=300, normalization="identity", algorithm=request.param)
    return Tokenizer.train(["a small corpus of few words", "un petit corpus de peu de mots"] * 9, config)


def folded(text):
    """What is left of white space: plain spaces, single, between words. ▁ is SentencePiece's sign for a space."""
    return " ".join(word for word in clean(text).split(" ") if word)


@unhurried
@given(st.text(st.one_of(st.sampled_from("abcdefw <>/s0x4▁"), st.characters())))
def test_text_comes_back_from_its_ids(tokenizer, text):
    ids = tokenizer.encode(text)
    assert not {PAD_ID, BOS_ID, EOS_ID, UNK_ID} & set(ids)
    back = tokenizer.decode(ids)
    if "▁" in text:
        assert folded(back) == folded(text.replace("▁", " "))
    else:
        assert back == folded(text)


@unhurried
@given(st.data())
def test_any_ids_decode_to_one_line(tokenizer, data):
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1)))
    text = tokenizer.decode(ids)
    assert len(text.splitlines()) <= 1
    assert "\0" not in text
    text.encode("utf-8")
