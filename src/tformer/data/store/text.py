"""The text of a corpus: all pairs of its sources in one memory-mapped Arrow file, whatever they were read from.

However large the corpus is, memory holds a few numbers for each pair; the system brings in text as it is used.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from io import RawIOBase
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import xxhash

from tformer.config import DataConfig, Source
from tformer.data.corpus import CorpusReader, CorpusReport, LeftOut, Pair, find_file
from tformer.data.corpus.reader import SplitName
from tformer.data.corpus.report import Part
from tformer.data.store.cache import find_kept, fingerprint, hash_file, write_mapped
from tformer.errors import DataError

if TYPE_CHECKING:
    import pyarrow

IntArray = npt.NDArray[np.int64]
Keys = npt.NDArray[np.uint64]

_FORMAT = 1  # another number makes all files again: for when they, or the way that sources are read, change
_TEXTS = ["source", "target"]
_PAIRS_AT_ONCE = 1 << 15
_CHARACTERS_AT_ONCE = 1 << 24  # of a group of pairs, which stands in memory while it is written
_PAIRS_A_RUN = 64  # where fewer neighbours than these are kept, a copy is smaller than a list of what is where


class PairReader(Protocol):
    """What pairs are read from: a `CorpusReader`, or what looks like one."""

    @property
    def report(self) -> CorpusReport:
        """What was read and left out, once all has been read."""
        ...

    def __iter__(self) -> Iterator[tuple[int, str, str]]:
        """Give number, source and target of each pair."""
        ...


@dataclass(frozen=True, eq=False)
class TextCorpus:
    """Pairs of sentences in a memory-mapped table, of which `rows` are the ones kept, in its order.

    Attributes:
        reports: what was read and left out, one for each source.
        weights: how often an epoch shows each pair, one for each source.
        rows: [pairs] int64, the rows of the table that are kept, ascending.
        fingerprint: a hash of what was read: contents of files, and the settings that matter for reading them.
        stored: the whole table, as the file has it.
    """

    reports: tuple[CorpusReport, ...]
    weights: tuple[float, ...]
    rows: IntArray
    fingerprint: str
    stored: "tuple[pyarrow.RecordBatch, ...]"

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def lines(self) -> IntArray:
        """The number that each pair has in its source, from 1: [pairs] int64."""
        return self._column("line")

    @cached_property
    def source_of(self) -> IntArray:
        """Which source each pair comes from, as an index into `reports`: [pairs] int16."""
        return self._column("source_of")

    @cached_property
    def source_keys(self) -> Keys:
        """Hashes of the source texts, the same where only white space and case differ: [pairs] uint64."""
        return self._column("source_key")

    @cached_property
    def pair_keys(self) -> Keys:
        """Hashes of source, tab and target as they are: [pairs] uint64."""
        return self._column("pair_key")

    @property
    def table(self) -> "pyarrow.Table":
        """The kept rows' columns `source` and `target`: no copy, unless a good part of the rows between is left out."""
        import pyarrow

        return pyarrow.Table.from_batches(list(self.pieces()), self.stored[0].select(_TEXTS).schema)

    def pieces(self, start: int = 0, stop: int | None = None) -> "Iterator[pyarrow.RecordBatch]":
        """The columns `source` and `target` of pairs `start` to `stop`, in pieces that are small in memory."""
        import pyarrow

        rows = self.rows[start:stop]
        bounds = np.searchsorted(rows, self._starts)
        for batch, offset, first, last in zip(self.stored, self._starts[:-1], bounds[:-1], bounds[1:], strict=True):
            chosen, texts = rows[first:last] - offset, batch.select(_TEXTS)
            gaps = np.flatnonzero(np.diff(chosen) != 1) + 1
            if len(gaps) * _PAIRS_A_RUN <= len(chosen):
                yield from (texts.slice(run[0], len(run)) for run in np.split(chosen, gaps) if len(run))
            else:
                yield texts.take(pyarrow.array(chosen))

    def sources(self, start: int = 0, stop: int | None = None) -> list[str]:
        """The source texts of pairs `start` to `stop`."""
        return [text for piece in self.pieces(start, stop) for text in piece.column(0).to_pylist()]

    def targets(self, start: int = 0, stop: int | None = None) -> list[str]:
        """The target texts of pairs `start` to `stop`."""
        return [text for piece in self.pieces(start, stop) for text in piece.column(1).to_pylist()]

    def pairs(self, start: int = 0, stop: int | None = None) -> list[Pair]:
        """Source and target text of pairs `start` to `stop`."""
        return list(zip(self.sources(start, stop), self.targets(start, stop), strict=True))

    def pair(self, index: int) -> Pair:
        """Source and target text of one pair."""
        index = range(len(self))[index]
        return self.pairs(index, index + 1)[0]

    def place(self, index: int) -> str:
        """Where a pair stands, such as `train.en + train.fr, line 35`."""
        return self.reports[int(self.source_of[index])].place(int(self.lines[index]))

    def select(self, keep: npt.NDArray[Any], reason: str | None = None) -> "TextCorpus":
        """The same corpus with some of its pairs.

        Args:
            keep: [pairs] bool, or the indices of those that stay; they keep the corpus's order either way.
            reason: why the others go, for the report; None: they are not lost, and it says nothing of them.
        """
        kept = np.zeros(len(self), dtype=bool)
        kept[keep] = True
        reports = list(self.reports)
        if reason is not None:
            lost, source_of = self.lines[~kept], self.source_of[~kept]
            for number in np.unique(source_of).tolist():
                left_out = LeftOut.of(reason, lost[source_of == number].tolist())
                reports[number] = replace(reports[number], left_out=(*reports[number].left_out, left_out))
        return replace(self, rows=self.rows[kept], reports=tuple(reports))

    @cached_property
    def _starts(self) -> IntArray:
        """Row of the table at which each of its batches begins, and the end of the last: [batches + 1] int64."""
        return np.cumsum([0, *(batch.num_rows for batch in self.stored)], dtype=np.int64)

    def _column(self, name: str) -> npt.NDArray[Any]:
        whole = np.concatenate([batch.column(name).to_numpy() for batch in self.stored])
        return whole if len(whole) == len(self) else whole[self.rows]


def read_text(
    sources: Sequence[Source],
    split_name: SplitName,
    config: DataConfig,
    *,
    drop_blank: bool = True,
    cached: bool = False,
) -> TextCorpus:
    """Read sources one after the other into one corpus on disk.

    Args:
        sources: where the pairs are.
        split_name: which split is read.
        config: how sources are read.
        drop_blank: whether pairs that are blank on either side are left out.
        cached: keep the file for the next run, and use what a former run has kept, if the sources' contents are the
            same; what comes from no files is read each time.

    Raises:
        ConfigError: a source does not exist, or the cache folder cannot be written.
        DataError: the content is wrong, or no pair is left.
    """
    settings = ["toy" if source == "toy" else source.model_dump(mode="json", exclude={"weight"}) for source in sources]
    facts = [_FORMAT, settings, split_name, config.source_lang, config.target_lang, config.on_invalid, drop_blank]
    weights = tuple(1.0 if source == "toy" else source.weight for source in sources)
    files = [[] if source == "toy" else [find_file(path) for path in source.files] for source in sources]
    rereadable = all(paths and all(path.is_file() for path in paths) for paths in files)  # a pipe is not
    readers = [CorpusReader(source, split_name, config, drop_blank=drop_blank) for source in sources]
    if not rereadable:
        return store_text(readers, facts, weights)
    paths = list(chain(*files))
    before = [_version(path) for path in paths]
    contents = fingerprint(*facts, [hash_file(path) for path in paths])
    name = f"text-{contents}.arrow" if cached else None
    if name and (content := find_kept(name)) is not None:
        return _open_text(content, weights, contents)

    def write(output: RawIOBase) -> None:
        _write_text(output, readers)
        for path, version in zip(paths, before, strict=True):
            if _version(path) != version:
                raise DataError(f"{path} was changed while it was read; start again when its writing is over")

    return _open_text(write_mapped(write, name), weights, contents)


def store_text(
    readers: Sequence[PairReader], facts: object = None, weights: Sequence[float] | None = None
) -> TextCorpus:
    """Read pairs from anywhere into a corpus whose file is gone when the process ends.

    Args:
        readers: where the pairs come from, one for each source.
        facts: settings that become part of the fingerprint, besides the text.
        weights: one for each source; None: 1 each.

    Raises:
        ConfigError: the cache folder cannot be written.
        DataError: what a reader raises.
    """
    content = write_mapped(lambda output: _write_text(output, readers), None)
    text = _open_text(content, tuple(weights or [1.0] * len(readers)), "")
    read = hashlib.blake2b(text.lines.tobytes() + text.pair_keys.tobytes(), digest_size=16).hexdigest()
    return replace(text, fingerprint=fingerprint(facts, read))


def store_pairs(pairs: Sequence[Pair], name: str) -> TextCorpus:
    """Put pairs that are in memory already into a corpus of that name, each on the line of its place among them."""
    return store_text([_Listed(pairs, CorpusReport(name, len(pairs)))])


@dataclass(frozen=True)
class _Listed:
    """A list of pairs, as a reader."""

    listed: Sequence[Pair]
    report: CorpusReport

    def __iter__(self) -> Iterator[tuple[int, str, str]]:
        return ((number, *pair) for number, pair in enumerate(self.listed, start=1))


def _write_text(output: RawIOBase, readers: Sequence[PairReader]) -> None:
    """An Arrow file in batches; the last one is empty and carries the reports, which are complete only then."""
    import pyarrow

    schema = pyarrow.schema(
        [
            ("source", pyarrow.large_string()),
            ("target", pyarrow.large_string()),
            ("line", pyarrow.int64()),
            ("source_of", pyarrow.int16()),
            ("source_key", pyarrow.uint64()),
            ("pair_key", pyarrow.uint64()),
        ]
    )
    with pyarrow.ipc.new_file(output, schema) as writer:
        for number, reader in enumerate(readers):
            for rows in _groups(reader):
                lines, sources, targets = (list(column) for column in zip(*rows, strict=True))
                source_keys = [xxhash.xxh3_64_intdigest(" ".join(text.split()).casefold().encode()) for text in sources]
                pair_keys = [xxhash.xxh3_64_intdigest(f"{source}\t{target}".encode()) for _, source, target in rows]
                columns = [sources, targets, lines, [number] * len(rows), source_keys, pair_keys]
                arrays = [pyarrow.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
                writer.write_batch(pyarrow.record_batch(arrays, schema=schema))
        reports = json.dumps([asdict(reader.report) for reader in readers])
        writer.write_batch(pyarrow.RecordBatch.from_pylist([], schema), custom_metadata={"reports": reports})


def _groups(reader: Iterable[tuple[int, str, str]]) -> Iterator[list[tuple[int, str, str]]]:
    """Rows in groups of bounded size."""
    group: list[tuple[int, str, str]] = []
    characters = 0
    for row in reader:
        group.append(row)
        characters += len(row[1]) + len(row[2])
        if len(group) == _PAIRS_AT_ONCE or characters > _CHARACTERS_AT_ONCE:
            yield group
            group, characters = [], 0
    if group:
        yield group


def _open_text(content: "pyarrow.Buffer", weights: tuple[float, ...], contents: str) -> TextCorpus:
    import pyarrow

    file = pyarrow.ipc.open_file(content)
    batches = tuple(file.get_batch(index) for index in range(file.num_record_batches))
    last = file.get_batch_with_custom_metadata(file.num_record_batches - 1)
    reports = tuple(map(_report, json.loads(last.custom_metadata[b"reports"])))
    rows = np.arange(sum(batch.num_rows for batch in batches), dtype=np.int64)
    return TextCorpus(reports, weights, rows, contents, batches)


def _report(fields: dict[str, Any]) -> CorpusReport:
    """What `asdict` and JSON have made of a report, as a report again."""
    for name in ("left_out", "notes"):
        fields[name] = tuple(LeftOut(item["reason"], tuple(item["lines"]), item["count"]) for item in fields[name])
    return CorpusReport(**{**fields, "parts": tuple(Part(*part) for part in fields["parts"])})


def _version(path: Path) -> tuple[int, int]:
    """What changes when a file does."""
    state = path.stat()
    return state.st_size, state.st_mtime_ns
