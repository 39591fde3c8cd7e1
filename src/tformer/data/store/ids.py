"""The ids of a corpus: all sentences of a side end to end, and where each ends, memory-mapped from a file of their own.

Cutting millions of sentences takes minutes, so that the file can be kept: its name tells text, pairs, tokenizers and
longest length.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from io import RawIOBase
from itertools import chain
from typing import IO, Any, Protocol

import numpy as np
import numpy.typing as npt
import xxhash

from tformer.data.corpus import CorpusReport, LeftOut
from tformer.data.store.cache import find_kept, fingerprint, naming_the_folder, scratch_file, write_mapped
from tformer.data.store.text import IntArray, TextCorpus
from tformer.errors import DataError
from tformer.vocabulary import EOS_ID

_FORMAT = 2  # another number makes all files again: for when they, or the way that text is cut, change
PAIRS_AT_ONCE = 50_000  # whose ids stand in memory as Python's lists


class Encoder(Protocol):
    """What turns sentences into ids: a tokenizer."""

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """Give the ids of each text."""
        ...


class Sampler(Encoder, Protocol):
    """A tokenizer that can also cut words another way each time."""

    def sample_batch(self, texts: list[str], rate: float, seed: int) -> list[list[int]]:
        """Give ids of each text that are a function of these arguments alone."""
        ...


class Encoders(Protocol):
    """The tokenizers of both sides."""

    @property
    def source(self) -> Sampler:
        """Encode sources."""
        ...

    @property
    def target(self) -> Sampler:
        """Encode targets."""
        ...

    @property
    def fingerprint(self) -> str:
        """Tell these tokenizers from others."""
        ...


@dataclass(frozen=True)
class Sentences:
    """Many sentences of ids in one array, since a million small lists would not fit.

    Attributes:
        ids: [total] int32, the sentences end to end, each ending in EOS.
        ends: [sentences] int64, where each sentence ends.
    """

    ids: npt.NDArray[np.int32]
    ends: IntArray

    @classmethod
    def pack(cls, sentences: Iterable[Sequence[int]]) -> "Sentences":
        """Pack lists of ids and close each with EOS."""
        closed = [[*ids, EOS_ID] for ids in sentences]
        ends = np.cumsum([len(ids) for ids in closed], dtype=np.int64)
        flat = np.fromiter(chain.from_iterable(closed), dtype=np.int32, count=int(ends[-1]) if closed else 0)
        return cls(flat, ends)

    @classmethod
    def join(cls, parts: Sequence["Sentences"]) -> "Sentences":
        """Lay packed sentences end to end."""
        lengths = np.concatenate([part.lengths for part in parts])
        return cls(np.concatenate([part.ids for part in parts]), np.cumsum(lengths))

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> npt.NDArray[np.int32]:
        start = self.ends[index - 1] if index else 0
        return self.ids[start : self.ends[index]]

    @cached_property
    def lengths(self) -> IntArray:
        """Pieces of each sentence, EOS included: [sentences] int64."""
        return np.diff(self.ends, prepend=0)


@dataclass(frozen=True, eq=False)
class TokenisedCorpus:
    """Sentence pairs as ids.

    Attributes:
        src: source sentences.
        tgt: target sentences; shifting them right is the batch's work.
        lines: [pairs] int64, the number that each pair has in its source, from 1.
        reports: what was read and what was left out, of text and of pieces, one for each source.
        source_of: [pairs] int16, which source each pair comes from, as an index into `reports`.
        weights: how often an epoch shows each pair, one for each source.
        rows: [pairs] int64, which pair of the text each is.
        max_length: the longest side in pieces that was asked for, EOS included; None: any.
        reused: whether a former run had kept the ids.
    """

    src: Sentences
    tgt: Sentences
    lines: IntArray
    reports: tuple[CorpusReport, ...]
    source_of: IntArray
    weights: tuple[float, ...]
    rows: IntArray
    max_length: int | None = None
    reused: bool = False

    def __len__(self) -> int:
        return len(self.src)

    @property
    def digest(self) -> str:
        """A hash of all ids."""
        parts = (self.src.ids, self.src.ends, self.tgt.ids, self.tgt.ends)
        return fingerprint(*(xxhash.xxh3_64_hexdigest(part.data) for part in parts))

    def place(self, index: int) -> str:
        """Where a pair stands, such as `train.en + train.fr, line 35`."""
        return self.reports[int(self.source_of[index])].place(int(self.lines[index]))

    def places(self, indices: IntArray, most: int | None = None) -> str:
        """Where some pairs stand, the first `most` of each source: `train.en + train.fr (lines 3, 35 and 2 more)`."""
        found = []
        for number in np.unique(self.source_of[indices]):
            lines = sorted(self.lines[indices[self.source_of[indices] == number]].tolist())
            report = self.reports[number]
            found.append(LeftOut(report.name, tuple(lines[:most]), len(lines)).sentence(report.unit, report.parts))
        return "; ".join(found)


def tokenise(
    text: TextCorpus, tokenizers: Encoders, max_length: int | None, *, cached: bool = False
) -> TokenisedCorpus:
    """Turn a corpus into ids, leaving out and counting the pairs that have too many pieces on a side, or none.

    Args:
        text: sentence pairs.
        tokenizers: turn text into ids.
        max_length: the longest side in pieces, EOS included; None keeps every pair, as evaluation must, empty ones too.
        cached: keep the ids for the next run, and use what a former run has kept of the same text and tokenizers.

    Raises:
        ConfigError: the cache folder cannot be written.
        DataError: no pair is short enough.
    """
    import pyarrow

    pairs = xxhash.xxh3_64_hexdigest(text.rows.data)
    pieces = tokenizers.fingerprint, version("sentencepiece")
    facts = fingerprint(_FORMAT, text.fingerprint, pairs, pieces, max_length)
    name = f"ids-{facts}.arrow" if cached else None
    kept = find_kept(name) if name else None
    content = kept or write_mapped(lambda output: _write_ids(output, text, tokenizers, max_length), name)
    batch = pyarrow.ipc.open_file(content).get_batch(0)
    src_ids, src_ends, tgt_ids, tgt_ends, rows, empty = (column[0].values.to_numpy() for column in batch.columns)
    short = _selected(text, rows, empty, max_length)
    return TokenisedCorpus(
        Sentences(src_ids, src_ends),
        Sentences(tgt_ids, tgt_ends),
        short.lines,
        short.reports,
        short.source_of,
        short.weights,
        rows,
        max_length,
        reused=kept is not None,
    )


def _write_ids(output: RawIOBase, text: TextCorpus, tokenizers: Encoders, max_length: int | None) -> None:
    """An Arrow file of one row, whose columns are lists: ids and ends of both sides, and which pairs they are."""
    import pyarrow

    lengths: list[list[IntArray]] = [[], []]
    kept: list[IntArray] = []
    emptied: list[IntArray] = []
    with scratch_file() as src_file, scratch_file() as tgt_file:
        for start in range(0, len(text), PAIRS_AT_ONCE):
            stop = start + PAIRS_AT_ONCE
            src = tokenizers.source.encode_batch(text.sources(start, stop))
            tgt = tokenizers.target.encode_batch(text.targets(start, stop))
            pairs = list(enumerate(zip(src, tgt, strict=True)))
            short = [
                index for index, pair in pairs if max_length is None or 0 < _least(pair) <= _most(pair) < max_length
            ]
            empty = [index for index, pair in pairs if max_length is not None and not _least(pair)]
            kept.append(np.array(short, dtype=np.int64) + start)
            emptied.append(np.array(empty, dtype=np.int64) + start)
            for ids, file, ends in ((src, src_file, lengths[0]), (tgt, tgt_file, lengths[1])):
                packed = Sentences.pack(ids[index] for index in short)
                ends.append(packed.lengths)
                with naming_the_folder():
                    file.write(packed.ids.data)
        rows = np.concatenate(kept)
        if not len(rows):
            reports = _selected(text, rows, np.concatenate(emptied), max_length).reports
            said = "; ".join(report.lines()[0] for report in reports)
            raise DataError(f"{said}: no pair is left; raise data.max_length (now {max_length})")
        src_ends, tgt_ends = (np.cumsum(np.concatenate(parts)) for parts in lengths)
        columns: list[npt.NDArray[Any]] = [_mapped_ids(src_file), src_ends, _mapped_ids(tgt_file), tgt_ends]
        columns += [rows, np.concatenate(emptied)]
        arrays = [pyarrow.LargeListArray.from_arrays([0, len(column)], pyarrow.array(column)) for column in columns]
        batch = pyarrow.record_batch(arrays, names=["src_ids", "src_ends", "tgt_ids", "tgt_ends", "rows", "empty"])
        with pyarrow.ipc.new_file(output, batch.schema) as writer:
            writer.write_batch(batch)


def _least(pair: tuple[list[int], list[int]]) -> int:
    return min(map(len, pair))


def _most(pair: tuple[list[int], list[int]]) -> int:
    return max(map(len, pair))


def _selected(text: TextCorpus, rows: IntArray, empty: IntArray, max_length: int | None) -> TextCorpus:
    """The pairs of these rows; of the others, those in `empty` go because one side has nothing to learn from."""
    rest = np.delete(np.arange(len(text)), empty)
    nothing_left = "nothing left of a side by tokenizer.normalization"
    return text.select(rest, nothing_left).select(np.searchsorted(rest, rows), f"longer than {max_length} pieces")


def _mapped_ids(file: IO[bytes]) -> npt.NDArray[np.int32]:
    with naming_the_folder():
        file.flush()
    return np.memmap(file, dtype=np.int32, mode="r")
