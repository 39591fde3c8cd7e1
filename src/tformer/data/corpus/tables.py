"""Tables of sentence pairs: lines with tabs, JSON lines, Parquet, and data sets of the Hugging Face hub.

TSV has no quoting: columns stand between tabs, whatever else is in them. Records (JSON lines, Parquet, the hub) hold
their texts in two named fields, a.b for one inside another: those that the source names, else fields called as the two
languages are, at the top or under `translation`. A field that is null or missing in one row is blank there; one that is
in no row at all is an error.
"""

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tformer.config import DataConfig, HubSplit, JsonlFile, ParquetFile, TsvFile
from tformer.data.corpus.lines import OnInvalid, clean, decode_lines, find_file, open_file
from tformer.data.corpus.report import NOT_TEXT, Ledger, Unit
from tformer.errors import ConfigError, DataError

if TYPE_CHECKING:
    import pyarrow
    from datasets import Dataset, IterableDataset

_MAX_NAMED = 30  # fields and columns in a message
_ROWS_AT_ONCE = 1024  # of a Parquet file
_ABSENT = object()


class TabbedLines:
    """A text file with tabs between its columns, which have numbers, or names in the first line."""

    unit: Unit = "line"

    def __init__(self, source: TsvFile, on_invalid: OnInvalid) -> None:
        self._path = find_file(source.tsv)
        self._fields = (source.source_field, source.target_field)
        self._on_invalid = on_invalid
        self.name, self.where = self._path.name, str(self._path)

    def rows(self, ledger: Ledger) -> Iterator[tuple[int, str, str]]:
        """The two columns of each line."""
        lines = _numbered_lines(self._path, self._on_invalid, ledger)
        if isinstance(self._fields[0], str):
            fields = self._header(*next(lines, (1, "\t".join(map(str, self._fields)))))  # an empty file lacks no column
        else:
            fields = [int(field) - 1 for field in self._fields]
        source, target = fields
        needed = max(source, target) + 1
        for number, line in lines:
            columns = line.split("\t")
            if len(columns) < needed:
                ledger.leave_out(f"fewer than {needed} columns", number)
                continue
            if len(columns) > needed and self._fields == (1, 2):
                ledger.note("columns after the second ignored", number)
            yield number, columns[source], columns[target]

    def _header(self, number: int, line: str) -> list[int]:
        """Finds the fields in the first line."""
        if number != 1:
            raise DataError(f"{self._path}, line 1: expected names of columns, got what is not UTF-8; mend that line")
        names = [name.strip() for name in line.split("\t")]
        for field in map(str, self._fields):
            if field not in names:
                near = difflib.get_close_matches(field, names, n=1, cutoff=0.4)
                advice = f"; did you mean {near[0]}?" if near else "; set source_field and target_field to two of these"
                raise ConfigError(f"{self._path}: expected a column {field}, line 1 has {_listed(names)}{advice}")
        return [names.index(str(field)) for field in self._fields]


def _numbered_lines(path: Path, on_invalid: OnInvalid, ledger: Ledger) -> Iterator[tuple[int, str]]:
    """The lines that are used, each with its number."""
    with open_file(path) as stream:
        for number, (text, valid) in enumerate(decode_lines(stream, str(path), on_invalid), start=1):
            if ledger.admits(number, valid=valid, on_invalid=on_invalid):
                yield number, text


def _listed(names: Iterable[str]) -> str:
    known = list(names)
    more = f" and {len(known) - _MAX_NAMED} more" if len(known) > _MAX_NAMED else ""
    return ", ".join(known[:_MAX_NAMED]) + more


class _Fields:
    """Finds the two texts in a record."""

    def __init__(self, source: JsonlFile | ParquetFile | HubSplit, config: DataConfig) -> None:
        chosen, languages = (source.source_field, source.target_field), (config.source_lang, config.target_lang)
        self._names = [name or language for name, language in zip(chosen, languages, strict=True)]
        self._paths = [
            [(name,), tuple(name.split("."))] if named else [(name,), ("translation", name)]
            for name, named in zip(self._names, chosen, strict=True)
        ]
        self._chosen = {name for name in chosen if name}
        self._unmet = set(self._names)
        self._there: set[str] = set()

    def columns(self, there: Sequence[str], where: str) -> list[str]:
        """Those of the columns (a.b: inside a) that the texts stand in.

        Raises:
            DataError: a text stands in none.
        """
        wanted = [[".".join(path) for path in paths] for paths in self._paths]
        met = {name for name, columns in zip(self._names, wanted, strict=True) if not set(columns).isdisjoint(there)}
        self._unmet -= met
        self.check(where, there)
        return [name for name in there if any(name in columns for columns in wanted)]

    def top_columns(self, there: Sequence[str]) -> list[str]:
        """Those of the columns that a text may stand in or inside of."""
        wanted = {path[0] for paths in self._paths for path in paths}
        return [name for name in there if name in wanted]

    def pair(self, record: Mapping[str, Any]) -> tuple[str, str] | None:
        """Both texts, blank where null or missing; None: one is something else."""
        if self._unmet:
            self._meet(record)
        source, target = (self._value(record, paths) for paths in self._paths)
        if not (isinstance(source, str) and isinstance(target, str)):
            return None
        return clean(source), clean(target)

    def check(self, where: str, there: Iterable[str] = ()) -> None:
        """Refuses a source in which a field was in no row; `there`: its columns, where they are known.

        Raises:
            DataError: it names what there is.
        """
        missing = [name for name in self._names if name in self._unmet]
        found = sorted({*there, *self._there})
        if missing and found:
            within = "" if self._chosen.issuperset(missing) else ", at the top or under translation"
            raise DataError(
                f"{where}: expected the field{'s' if len(missing) > 1 else ''} {' and '.join(missing)}{within}; found "
                f"{_listed(found)}; set this source's source_field and target_field to the fields' names"
            )

    def _value(self, record: object, paths: list[tuple[str, ...]]) -> object:
        values = (_at(record, path) for path in paths)
        value = next((value for value in values if value is not _ABSENT), None)
        return "" if value is None else value

    def _meet(self, record: Mapping[str, Any]) -> None:
        for name, paths in zip(self._names, self._paths, strict=True):
            if any(_at(record, path) is not _ABSENT for path in paths):
                self._unmet.discard(name)
        if len(self._there) <= _MAX_NAMED:
            self._there.update(_dotted(record))


def _at(record: object, path: tuple[str, ...]) -> object:
    for name in path:
        if not isinstance(record, dict) or name not in record:
            return _ABSENT
        record = record[name]
    return record


def _dotted(record: Mapping[str, Any]) -> Iterator[str]:
    """The names of a record's fields, and a.b for those one level down."""
    for name, value in record.items():
        inner = value if isinstance(value, dict) else {}
        yield from (f"{name}.{below}" for below in inner)
        if not inner:
            yield name


class JsonLines:
    """A text file with one JSON object a line; blank lines are none."""

    unit: Unit = "line"

    def __init__(self, source: JsonlFile, config: DataConfig) -> None:
        self._path = find_file(source.jsonl)
        self._source, self._config = source, config
        self.name, self.where = self._path.name, str(self._path)

    def rows(self, ledger: Ledger) -> Iterator[tuple[int, str, str]]:
        """The two fields of each line."""
        fields = _Fields(self._source, self._config)
        for number, line in _numbered_lines(self._path, self._config.on_invalid, ledger):
            if not line.strip():
                continue
            pair = fields.pair(self._object(line, number))
            if pair is None:
                ledger.leave_out(NOT_TEXT, number)
            else:
                yield number, *pair
        fields.check(self.where)

    def _object(self, line: str, number: int) -> dict[str, Any]:
        got = "another value"
        try:
            value = json.loads(line, strict=False)  # a control character is text, as in every other format
        except ValueError as error:
            value, got = None, f"what is no JSON ({error})"
        except RecursionError:
            value, got = None, "too many brackets in each other"
        if isinstance(value, dict):
            return value
        raise DataError(f"{self._path}, line {number}: expected one JSON object, got {got}; mend or delete that line")


class ParquetTable:
    """A Parquet file, of which only the columns that are needed are read."""

    unit: Unit = "row"

    def __init__(self, source: ParquetFile, config: DataConfig) -> None:
        self._path = find_file(source.parquet)
        self._source, self._config = source, config
        self.name, self.where = self._path.name, str(self._path)

    def rows(self, ledger: Ledger) -> Iterator[tuple[int, str, str]]:
        """The two fields of each row."""
        fields = _Fields(self._source, self._config)
        for number, record in enumerate(self._records(fields), start=1):
            pair = fields.pair(record)
            if pair is None:
                ledger.leave_out(NOT_TEXT, number)
            else:
                yield number, *pair

    def _records(self, fields: _Fields) -> Iterator[dict[str, Any]]:
        import pyarrow
        from pyarrow import parquet

        with open_file(self._path) as stream:
            try:
                table = parquet.ParquetFile(stream, page_checksum_verification=True)
                there = list(_columns(table.schema_arrow))
                for batch in table.iter_batches(_ROWS_AT_ONCE, columns=fields.columns(there, self.where)):
                    yield from batch.to_pylist()
            except (pyarrow.ArrowException, OSError, ValueError) as error:
                raise DataError(
                    f"{self._path}: cannot be read as Parquet ({_cause(error)}); make or download it again"
                ) from error


def _columns(fields: "Iterable[pyarrow.Field]", above: str = "") -> Iterator[str]:
    """The names of all columns, a.b for one inside another."""
    import pyarrow

    for field in fields:
        if pyarrow.types.is_struct(field.type):
            yield from _columns(field.type, f"{above}{field.name}.")
        else:
            yield f"{above}{field.name}"


class HubTable:
    """One split of a data set on the Hugging Face hub, or in a folder laid out as one."""

    unit: Unit = "row"

    def __init__(self, source: HubSplit, config: DataConfig) -> None:
        self._source, self._config = source, config
        self.name = self.where = f"{source.hub}, {source.split}"

    def rows(self, ledger: Ledger) -> Iterator[tuple[int, str, str]]:
        """The two fields of each row."""
        fields = _Fields(self._source, self._config)
        table = self._load()
        there: list[str] = list(table.column_names or ())  # unknown at first for some that arrive as they are read
        if wanted := fields.top_columns(there):
            table = table.select_columns(wanted)
        elif there:
            fields.check(self.where, there)
        for number, record in enumerate(self._records(table), start=1):
            pair = fields.pair(record)
            if pair is None:
                ledger.leave_out(NOT_TEXT, number)
            else:
                yield number, *pair
        fields.check(self.where, there)

    def _load(self) -> "Dataset | IterableDataset":
        import datasets

        datasets.disable_progress_bars()
        datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # its errors arrive as exceptions as well
        hub, name, split = self._source.hub, self._source.name, self._source.split
        try:
            return datasets.load_dataset(hub, name=name, split=split, streaming=self._source.streaming)
        except Exception as error:  # no network, no such name, no such split: each has an error class of its own
            raise ConfigError(
                f"{hub} (split {split}): cannot be had from the Hugging Face hub ({_cause(error)}); "
                "see whether name and split are right and the network can be reached"
            ) from error

    def _records(self, table: "Dataset | IterableDataset") -> Iterator[dict[str, Any]]:
        try:
            yield from table
        except Exception as error:  # the library lets the errors of several others through
            raise DataError(
                f"{self.where}: reading stopped ({_cause(error)}); see whether the network can be reached and the "
                "data set's files are whole"
            ) from error


def _cause(error: BaseException) -> str:
    """What went wrong at the bottom of a chain of exceptions, in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split()) or type(error).__name__
