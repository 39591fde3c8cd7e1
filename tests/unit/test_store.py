"""Text and ids on disk: nothing shifts, nothing is lost, and no damaged or stale file is ever taken for the corpus."""

import json
import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tformer.config import Config, DataConfig, FilePair, ModelConfig, TokenizerConfig
from tformer.data.corpus import CorpusReport, LeftOut
from tformer.data.store import (
    cache,
    ids,
    read_text,
    resample,
    sampling,
    store_text,
    text,
    tokenise,
)
from tformer.data.tokenizer import TokenizerPair
from tformer.errors import ConfigError, DataError
from tformer.runs.preparing import tokenise_to_measure


class Listed:
    """A reader of pairs that are in memory."""

    def __init__(self, rows, report):
        self.rows, self.report = rows, report

    def __iter__(self):
        return iter(self.rows)


class Words:
    """One id a word; counts the calls."""

    fingerprint = "words"

    def __init__(self):
        self.source = self.target = self
        self.calls = 0

    def encode_batch(self, texts):
        self.calls += 1
        return [[3 + len(word) for word in text.split()] for text in texts]

    def sample_batch(self, texts, rate, seed):
        return [[9] * 2 * len(text.split()) for text in texts]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache folder."""
    monkeypatch.setenv("TFORMER_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def two_files(tmp_path):
    """Writes both sides, and gives the source of them."""

    def write(source, target, name="train"):
        pair = FilePair(source=tmp_path / f"{name}.en", target=tmp_path / f"{name}.fr")
        pair.source.write_text(source, encoding="utf-8")
        pair.target.write_text(target, encoding="utf-8")
        return pair

    return write


@pytest.fixture
def small_groups(monkeypatch):
    """Makes batches of three pairs, so that a small corpus has several."""
    monkeypatch.setattr(text, "_PAIRS_AT_ONCE", 3)
    monkeypatch.setattr(ids, "PAIRS_AT_ONCE", 3)
    monkeypatch.setattr(sampling, "PAIRS_AT_ONCE", 3)


def listed(pairs, name="list"):
    return store_text([Listed([(n, *pair) for n, pair in enumerate(pairs, 1)], CorpusReport(name, len(pairs)))])


TEN = [(f"source {n}", f"target {n}") for n in range(10)]


# ---- Text ----


def test_pairs_come_back_as_they_were(folder, two_files, small_groups):
    source = two_files("a\nb b\n\nc\nd\ne\n", "A\nB\nC\n\nD\nE \n")
    read = read_text([source], "train", DataConfig(train=source))
    assert read.pairs() == [("a", "A"), ("b b", "B"), ("d", "D"), ("e", "E ")]
    assert read.lines.tolist() == [1, 2, 5, 6]
    assert read.source_of.tolist() == [0] * 4
    assert read.place(2) == "train.en + train.fr, line 5"
    assert read.reports == (
        CorpusReport("train.en + train.fr", 6, (LeftOut("blank on one or both sides", (3, 4), 2),)),
    )
    assert len(read) == 4
    assert read.pair(-1) == ("e", "E ")
    assert (read.sources(1, 3), read.targets(3)) == (["b b", "d"], ["E "])
    assert read.table.to_pydict() == {"source": ["a", "b b", "d", "e"], "target": ["A", "B", "D", "E "]}
    assert len(read_text([source], "test", DataConfig(train=source), drop_blank=False)) == 6
    with pytest.raises(IndexError):
        read.pair(4)


def test_several_sources_stand_one_after_the_other(folder, two_files):
    one, other = two_files("a\n", "A\n"), two_files("b\nc\n", "B\nC\n", "more").model_copy(update={"weight": 2.5})
    read = read_text([one, other], "train", DataConfig(train=[one, other]))
    assert read.pairs() == [("a", "A"), ("b", "B"), ("c", "C")]
    assert (read.lines.tolist(), read.source_of.tolist(), read.weights) == ([1, 1, 2], [0, 1, 1], (1.0, 2.5))
    assert [report.pairs_read for report in read.reports] == [1, 2]
    assert read.place(2) == "more.en + more.fr, line 2"


def test_a_report_survives_its_file(folder, two_files, tmp_path):
    """Files after each other, something left out, something noted: nested as deep as reports are."""
    one, other = two_files("a\n\n", "A\nB\n"), two_files("b\n", "B\n", "more")
    both = FilePair(source=[one.source, other.source], target=[one.target, other.target])
    tabs = tmp_path / "t.tsv"
    tabs.write_text("a\tA\tmore\nalone\n", encoding="utf-8")
    config = DataConfig.model_validate({"train": [both.model_dump(), {"tsv": tabs}]})
    first, again = (read_text(config.sources("train"), "train", config, cached=True) for _ in range(2))
    assert first.reports == again.reports
    assert again.reports[0].parts
    assert again.reports[1].notes
    assert again.place(1) == "more.en + more.fr, line 1"
    assert json.dumps([report.lines() for report in again.reports])


def test_selection_keeps_order_and_counts_what_goes_by_source(folder, small_groups):
    lists = [
        Listed([(n, *TEN[n]) for n in numbers], CorpusReport(name, 5))
        for name, numbers in (("a", range(5)), ("b", range(5, 10)))
    ]
    whole = store_text(lists)
    keep = np.array([9, 0, 1, 2, 7])
    some = whole.select(keep, "not wanted")
    assert some.pairs() == [TEN[n] for n in (0, 1, 2, 7, 9)]
    assert some.lines.tolist() == [0, 1, 2, 7, 9]
    assert [report.left_out for report in some.reports] == [
        (LeftOut("not wanted", (3, 4), 2),),
        (LeftOut("not wanted", (5, 6, 8), 3),),
    ]
    fewer = some.select(np.array([True, False, False, False, True]))
    assert (fewer.pairs(), fewer.reports) == ([TEN[0], TEN[9]], some.reports)
    assert fewer.table.to_pydict()["target"] == ["target 0", "target 9"]
    assert fewer.fingerprint == whole.fingerprint


def test_keys_are_the_same_where_they_should_be(folder):
    pairs = [
        ("Ein  Haus", "x"),
        (" ein\u00a0haus ", "x"),
        ("Ein  Haus", "y"),
        ("STRASSE", "x"),
        ("straße", "x"),
        ("a\tb", "c"),
        ("a", "b\tc"),
    ]
    read = listed(pairs)
    keys = read.source_keys.tolist()
    assert keys[0] == keys[1] == keys[2]
    assert keys[3] == keys[4]
    assert len(set(keys)) == 4
    assert len(set(read.pair_keys.tolist())) == 6, "the tab between the sides is no more than a separator"


def test_memory_is_mapped_not_copied(folder):
    import pyarrow

    before = pyarrow.total_allocated_bytes()
    read = listed([("a" * 1000, "b" * 1000)] * 1000)
    table, _part = read.table, read.select(np.arange(10, 1000)).table
    assert pyarrow.total_allocated_bytes() - before < 100_000
    assert table.nbytes > 2_000_000


anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.lists(st.tuples(anything, anything), min_size=1, max_size=25), st.data())
def test_pairs_never_shift_whatever_is_in_them_and_whatever_is_left_out(pairs, data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "_PAIRS_AT_ONCE", 9)
        patch.setattr(text, "_PAIRS_A_RUN", data.draw(st.integers(0, 3)))
        whole = listed(pairs)
        keep = np.array(data.draw(st.lists(st.booleans(), min_size=len(pairs), max_size=len(pairs))), dtype=bool)
        some = whole.select(keep, "chance")
        assert some.pairs() == [pair for pair, kept in zip(pairs, keep, strict=True) if kept]
        assert some.table.num_rows == len(some)
        assert len(some) + sum(item.count for item in some.reports[0].left_out) == len(pairs)
        assert some.lines.tolist() == (np.flatnonzero(keep) + 1).tolist()
        start, stop = sorted(data.draw(st.tuples(st.integers(0, 30), st.integers(0, 30))))
        assert some.pairs(start, stop) == some.pairs()[start:stop]


# ---- Files that are kept ----


def test_a_second_run_reads_what_the_first_kept(folder, two_files, monkeypatch):
    source = two_files("a\nb\n", "A\nB\n")
    config = DataConfig(train=source)
    first = read_text([source], "train", config, cached=True)
    assert len(list(folder.iterdir())) == 1
    monkeypatch.setattr(text, "_write_text", None)  # nothing is written again
    again = read_text([source.model_copy(update={"weight": 3.0})], "train", config, cached=True)
    assert again.pairs() == first.pairs()
    assert (again.fingerprint, again.weights) == (first.fingerprint, (3.0,))


@pytest.mark.parametrize("change", ["content", "language", "on_invalid", "blank", "other file"])
def test_whatever_changes_the_pairs_makes_another_file(folder, two_files, change):
    source = two_files("a\nb\n", "A\nB\n")
    first = read_text([source], "train", DataConfig(train=source), cached=True)
    settings = {"language": {"target_lang": "de"}, "on_invalid": {"on_invalid": "skip"}}.get(change, {})
    if change == "content":
        source = two_files("a\nc\n", "A\nC\n")
    if change == "other file":
        source = two_files("a\nb\n", "A\nB\n", "copy")
    drop_blank = change != "blank"
    again = read_text([source], "train", DataConfig(train=source, **settings), drop_blank=drop_blank, cached=True)
    assert again.fingerprint != first.fingerprint
    assert len(list(folder.iterdir())) == 2


def test_what_is_not_kept_leaves_nothing_behind(folder, two_files):
    source = two_files("a\nb\n", "A\nB\n")
    read = read_text([source], "train", DataConfig(train=source))
    tokenise(read, Words(), None)
    toy = read_text(["toy"], "test", DataConfig(), cached=True)
    if os.name != "nt":
        assert list(folder.iterdir()) == []
    assert read.pairs() == [("a", "A"), ("b", "B")]
    assert toy.fingerprint == read_text(["toy"], "test", DataConfig()).fingerprint
    assert toy.fingerprint != read_text(["toy"], "validation", DataConfig()).fingerprint
    assert len({listed(TEN).fingerprint, listed(TEN[::-1]).fingerprint, listed(TEN).fingerprint}) == 2


def test_a_pipe_is_read_once(folder, two_files):
    source = two_files("a\nb\n", "A\nB\n")
    reading, writing = os.pipe()  # as a shell makes of <(command)
    os.write(writing, b"A\nB\n")
    os.close(writing)
    through = FilePair(source=source.source, target=Path(f"/dev/fd/{reading}"))
    assert read_text([through], "train", DataConfig(train=through), cached=True).pairs() == [("a", "A"), ("b", "B")]
    os.close(reading)
    assert list(folder.iterdir()) == []


DAMAGE = {
    "truncated": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "another program's": lambda content: b"no such thing, but long enough to hold a checksum",
    "one bit flipped in the text": lambda content: content.replace(b"a long word", b"a lonG word"),
    "its end lost": lambda content: content[:-1],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_made_again(folder, two_files, damage):
    source = two_files("a long word\nb\n", "A\nB\n")
    config = DataConfig(train=source)
    tokenizers = Words()
    first = read_text([source], "train", config, cached=True)
    before = tokenise(first, tokenizers, 9, cached=True)
    for file in folder.iterdir():
        content = file.read_bytes()
        damaged = DAMAGE[damage](content)
        file.unlink()  # what is mapped must not change
        file.write_bytes(damaged if damaged != content else content[:-20] + b"x" + content[-19:])
    again = read_text([source], "train", config, cached=True)
    assert again.pairs() == [("a long word", "A"), ("b", "B")]
    after = tokenise(again, tokenizers, 9, cached=True)
    assert not after.reused
    assert after.src.ids.tolist() == before.src.ids.tolist()
    assert tokenise(read_text([source], "train", config, cached=True), tokenizers, 9, cached=True).reused


def test_a_folder_that_cannot_be_written_is_named_with_the_way_out(two_files, tmp_path, monkeypatch):
    source = two_files("a\n", "A\n")
    monkeypatch.setenv("TFORMER_CACHE", str(source.source / "below a file"))
    with pytest.raises(ConfigError, match=r"train\.en/below a file: .*Not a directory.*TFORMER_CACHE"):
        read_text([source], "train", DataConfig(train=source))


def test_a_full_disk_is_one_message_and_leaves_nothing(folder, two_files):
    source = two_files("a word\n" * 20_000, "A\n" * 20_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    read = read_text([source], "train", DataConfig(train=source))
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        with pytest.raises(ConfigError, match=r"cache: .*File too large.*TFORMER_CACHE"):
            read_text([source], "train", DataConfig(train=source), cached=True)
        with pytest.raises(ConfigError, match=r"cache: .*File too large.*TFORMER_CACHE"):
            tokenise(read, Words(), None, cached=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(folder.iterdir()) == []


def test_what_is_wrong_with_the_corpus_leaves_nothing(folder, two_files):
    source = two_files("a\nb\n", "A\n")
    with pytest.raises(DataError, match="as many lines on both sides"):
        read_text([source], "train", DataConfig(train=source), cached=True)
    assert list(folder.iterdir()) == []


def test_a_file_that_changes_while_it_is_read_is_not_kept(folder, two_files, monkeypatch):
    source = two_files("a\nb\n", "A\nB\n")
    write = text._write_text

    def write_and_change(output, readers):
        write(output, readers)
        assert [path.suffix for path in folder.iterdir()] == [".part"], "until it is whole"
        source.source.write_text("other\ntext\n", encoding="utf-8")

    monkeypatch.setattr(text, "_write_text", write_and_change)
    with pytest.raises(DataError, match=r"train\.en was changed while it was read"):
        read_text([source], "train", DataConfig(train=source), cached=True)
    assert list(folder.iterdir()) == []


PROGRAM = """
import sys
from tformer.config import DataConfig, FilePair
from tformer.data.store import read_text
source = FilePair(source=sys.argv[1], target=sys.argv[2])
for _ in range(3):
    text = read_text([source], "train", DataConfig(train=source), cached=True)
    assert len(text) == 2000 and text.pair(1999) == ("word 1999", "Wort 1999")
"""


def test_processes_at_once_do_not_harm_each_other(folder, two_files):
    source = two_files("".join(f"word {n}\n" for n in range(2000)), "".join(f"Wort {n}\n" for n in range(2000)))
    command = [
        sys.executable,
        "-c",
        PROGRAM.replace(
            "source=sys.argv[1], target=sys.argv[2]", "source=Path(sys.argv[1]), target=Path(sys.argv[2])"
        ).replace("import sys", "import sys\nfrom pathlib import Path"),
        source.source,
        source.target,
    ]
    processes = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert [path.suffix for path in folder.iterdir()] == [".arrow"]


def test_a_file_is_on_the_disk_before_it_has_its_name(folder, two_files, monkeypatch):
    events = []
    for name in ("fsync", "replace"):
        done = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *of, name=name, done=done: (events.append(name), done(*of)))
    source = two_files("a\n", "A\n")
    read_text([source], "train", DataConfig(train=source), cached=True)
    assert events[:2] == ["fsync", "replace"]


def test_half_written_files_of_killed_processes_go_in_the_end(folder, two_files):
    folder.mkdir()
    fresh, old = folder / "text-a.x.part", folder / "text-b.y.part"
    for path in (fresh, old):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    listed(TEN)
    assert [path.name for path in folder.iterdir()] == [fresh.name]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"TFORMER_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/tformer"),
        ({"HOME": "/c"}, "/c/.cache/tformer"),
        ({"TFORMER_CACHE": "", "XDG_CACHE_HOME": "", "HOME": "/c"}, "/c/.cache/tformer"),
    ],
)
def test_where_the_files_are(monkeypatch, variables, expected):
    for name in ("TFORMER_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache.cache_folder().as_posix() == expected


# ---- Ids ----


def test_ids_are_those_of_each_sentence_alone(folder, small_groups):
    tokenizers = TokenizerPair.train([s for s, _ in TEN], [t for _, t in TEN], TokenizerConfig(vocab_size=300))
    corpus = tokenise(listed(TEN), tokenizers, None)
    assert len(corpus) == 10
    for index, (source, target) in enumerate(TEN):
        assert corpus.src[index].tolist() == [*tokenizers.source.encode(source), 2]
        assert corpus.tgt[index].tolist() == [*tokenizers.target.encode(target), 2]
    assert not corpus.src.ids.flags.owndata


def test_more_threads_give_the_same_ids(folder):
    tokenizers = TokenizerPair.train([s for s, _ in TEN], [t for _, t in TEN], TokenizerConfig(vocab_size=300))
    texts = [source for source, _ in TEN] * 50
    processor = tokenizers.source._processor
    alone = processor.encode(texts, num_threads=1)
    assert processor.encode(texts, num_threads=4) == alone == tokenizers.source.encode_batch(texts)


def test_pairs_too_long_are_left_out_and_counted_in_their_source(folder, small_groups):
    a = Listed([(3, "a b", "c"), (5, "a b c", "d"), (8, "a", "b c d")], CorpusReport("a", 9))
    b = Listed([(1, "a b", "c d"), (2, "a b c d", "d")], CorpusReport("b", 2))
    whole = store_text([a, b], weights=[1.0, 2.0])
    corpus = tokenise(whole, Words(), 3)
    assert (corpus.lines.tolist(), corpus.source_of.tolist(), corpus.rows.tolist()) == ([3, 1], [0, 1], [0, 3])
    assert (corpus.src.lengths.tolist(), corpus.tgt.lengths.tolist()) == ([3, 3], [2, 3])
    assert (corpus.weights, corpus.max_length) == ((1.0, 2.0), 3)
    assert [report.left_out for report in corpus.reports] == [
        (LeftOut("longer than 3 pieces", (5, 8), 2),),
        (LeftOut("longer than 3 pieces", (2,), 1),),
    ]
    assert corpus.place(1) == "b, line 1"
    assert len(tokenise(whole, Words(), None)) == 5
    with pytest.raises(
        DataError, match=r"a: .* left out 3: longer than 2 pieces .*no pair is left; raise data\.max_length \(now 2\)"
    ):
        tokenise(whole, Words(), 2)


def test_what_perplexity_leaves_out_is_told_of_each_source(folder, capsys):
    sources = [Listed([(1, "a b c", "d"), (2, "e", "f")], CorpusReport(name, 2)) for name in ("one", "other")]
    config = Config(model=ModelConfig(positions="learned", max_positions=3), data=DataConfig(max_length=3))
    assert len(tokenise_to_measure(store_text(sources), Words(), config)) == 2
    told = capsys.readouterr().err
    assert "perplexity: one: 1 of 2 pairs kept" in told
    assert "perplexity: other: 1 of 2 pairs kept" in told


def test_pairs_without_a_piece_on_a_side_are_left_out_and_counted(folder, small_groups):
    pairs = [("a", "b"), ("a b c d e f", "c"), ("d", "e"), ("f", "g"), (" ", "h"), ("i", " ")]
    corpus = tokenise(listed(pairs), Words(), 4)
    assert corpus.rows.tolist() == [0, 2, 3]
    assert corpus.reports[0].left_out == (
        LeftOut("nothing left of a side by tokenizer.normalization", (5, 6), 2),
        LeftOut("longer than 4 pieces", (2,), 1),
    )
    assert len(tokenise(listed(pairs), Words(), None)) == 6, "a test set keeps its count"


def test_a_second_run_cuts_nothing(folder, small_groups):
    words = Words()
    whole = listed([*TEN, ("far too long for this", "x")])
    first = tokenise(whole, words, 4, cached=True)
    calls = words.calls
    again = tokenise(whole, words, 4, cached=True)
    assert (first.reused, again.reused, words.calls) == (False, True, calls)
    for name in ("ids", "ends"):
        assert getattr(again.src, name).tolist() == getattr(first.src, name).tolist()
        assert getattr(again.tgt, name).tolist() == getattr(first.tgt, name).tolist()
    assert (again.reports, again.rows.tolist(), again.lines.tolist()) == (
        first.reports,
        first.rows.tolist(),
        first.lines.tolist(),
    )


@pytest.mark.parametrize("change", ["text", "pairs", "tokenizers", "length"])
def test_whatever_changes_the_ids_makes_another_file(folder, change):
    words, whole = Words(), listed(TEN)
    tokenise(whole, words, 4, cached=True)
    if change == "tokenizers":
        words.fingerprint = "others"
    changed = {"text": listed(TEN[::-1]), "pairs": whole.select(np.arange(9))}.get(change, whole)
    assert not tokenise(changed, words, 5 if change == "length" else 4, cached=True).reused


# ---- Cut anew each epoch ----


LINES = [
    (f"the old house number {n} stood near the river", f"das alte Haus Nummer {n} stand am Fluss") for n in range(40)
]


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def tokenizers(request):
    config = TokenizerConfig(vocab_size=320, algorithm=request.param)
    return TokenizerPair.train([s for s, _ in LINES], [t for _, t in LINES], config)


def test_a_new_cut_is_a_function_of_seed_and_epoch(folder, tokenizers, small_groups):
    whole = listed(LINES)
    corpus = tokenise(whole, tokenizers, None)

    def cut(seed, epoch):
        new = resample(whole, corpus, tokenizers, 0.2, seed, epoch)
        return new.src.ids.tolist(), new.tgt.ids.tolist()

    first, others = cut(1, 0), [cut(1, 1), cut(2, 0), (corpus.src.ids.tolist(), corpus.tgt.ids.tolist())]
    assert cut(1, 0) == first, "also after other sampling in between"
    for side in (0, 1):
        assert len({str(each[side]) for each in (first, *others)}) == 4


def test_a_new_cut_reads_the_same(folder, tokenizers):
    whole = listed(LINES)
    corpus = tokenise(whole, tokenizers, None)
    cut = resample(whole, corpus, tokenizers, 0.3, 1, 1)
    assert [(tokenizers.source.decode(cut.src[n]), tokenizers.target.decode(cut.tgt[n])) for n in range(40)] == LINES
    assert all(cut.src[n][-1] == 2 for n in range(40))
    assert (cut.rows is corpus.rows, cut.reports) == (True, corpus.reports)


def test_sides_and_groups_are_cut_by_numbers_of_their_own(folder, tokenizers, small_groups):
    whole = listed([LINES[0]] * 3 + [LINES[0]] * 3)
    cut = resample(whole, tokenise(whole, tokenizers, None), tokenizers, 0.5, 1, 0)
    groups = [[cut.src[n].tolist() for n in group] for group in (range(3), range(3, 6))]
    assert groups[0] != groups[1]


def test_a_new_cut_too_long_leaves_the_pair_as_it_was(folder, small_groups):
    """The sampler cuts each word in two; four pieces with EOS are allowed, on either side."""
    words = Words()
    whole = listed([("a", "b"), ("cc dddd", "e"), ("f f f f", "g"), ("h", "i i i"), ("j", "kk"), ("l", "m m")])
    corpus = tokenise(whole, words, 4)
    assert corpus.rows.tolist() == [0, 1, 3, 4, 5]
    cut = resample(whole, corpus, words, 0.1, 0, 0)
    assert [cut.src[n].tolist() for n in range(5)] == [[9, 9, 2], [5, 7, 2], [4, 2], [9, 9, 2], [4, 2]]
    assert [cut.tgt[n].tolist() for n in range(5)] == [[9, 9, 2], [4, 2], [4, 4, 4, 2], [9, 9, 2], [4, 4, 2]]
    unbounded = resample(whole, replace(corpus, max_length=None), words, 0.1, 0, 0)
    assert unbounded.src.lengths.tolist() == [3, 5, 3, 3, 3]
