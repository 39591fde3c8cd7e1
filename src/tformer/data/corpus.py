"""Any source of sentence pairs → pairs, and a report of what was left out.

The rules, the same for every text file that tformer reads:

- Text is strict UTF-8, cut at LF bytes and nowhere else, so that tformer counts lines as `wc -l` does. A last line
  without LF counts. A byte order mark at the start and a CR at the end of a line are no part of the text.
- What else would break a line (U+2028, U+0085, a form feed …) stays inside its line, as a space: see `clean`.
- A pair that is blank on either side is left out whole, never one side of it, and the report says where.
- TSV has no quoting. Columns 1 and 2 are source and target; further columns are ignored, and the report says so.
"""

import codecs
import difflib
import functools
import gzip
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from tformer.config import DataConfig, FilePair, HubSplit, JsonlFile, ParquetFile, Source, TsvFile
from tformer.data.toy import make_toy_corpus
from tformer.errors import ConfigError, DataError

if TYPE_CHECKING:
    from datasets import Dataset

Pair = tuple[str, str]

BLANK = "blank on one or both sides"
TOO_FEW_COLUMNS = "fewer than two columns"
NOT_TEXT = "not text"

_MAX_LISTED = 10
_toy_corpus = functools.cache(make_toy_corpus)  # made in a second or so, and asked for split by split
_READ_AT_ONCE = 1 << 16  # bytes: what a pipe holds
_LINE_BREAKERS = re.compile("[\0\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029]")
_LONE_SURROGATES = re.compile("[\ud800-\udfff]")


def clean(line: str) -> str:
    """The line as one line: NUL and whatever some program takes for a line's end become a space.

    Those are LF, VT, FF, CR, FS, GS, RS, U+0085, U+2028 and U+2029. Halves of a surrogate pair, which no UTF-8 file can
    hold but JSON and the command line can, become U+FFFD. Everything else stays as it is.
    """
    return _LONE_SURROGATES.sub("\ufffd", _LINE_BREAKERS.sub(" ", line))


@dataclass(frozen=True)
class LeftOut:
    """The lines that share one reason; `lines` holds the first of their numbers, from 1, `count` is of them all."""

    reason: str
    lines: tuple[int, ...]
    count: int

    @classmethod
    def of(cls, reason: str, lines: list[int]) -> "LeftOut":
        """The record of all `lines` that have this reason."""
        return cls(reason, tuple(lines[:_MAX_LISTED]), len(lines))

    def sentence(self, unit: str) -> str:
        """Reason and numbers for a reader, such as `blank on one or both sides (lines 11, 41, 42)`."""
        numbers = ", ".join(map(str, self.lines))
        more = f" and {self.count - len(self.lines)} more" if self.count > len(self.lines) else ""
        return f"{self.reason} ({unit}{'s' if self.count > 1 else ''} {numbers}{more})"


@dataclass(frozen=True)
class CorpusReport:
    """What was read, what was left out of it, and what else is worth knowing (`notes`: these lines were kept)."""

    name: str
    pairs_read: int
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[LeftOut, ...] = ()
    unit: Literal["line", "row"] = "line"

    def lines(self) -> list[str]:
        """The report in sentences, the first of them about the pairs kept."""
        lost = sum(item.count for item in self.left_out)
        kept = f"{self.pairs_read - lost} of {self.pairs_read}" if lost else f"all {self.pairs_read}"
        reasons = [f"left out {item.count}: {item.sentence(self.unit)}" for item in self.left_out]
        notes = [f"{self.name}: {item.sentence(self.unit)}" for item in self.notes]
        return [f"{self.name}: " + "; ".join([f"{kept} pairs kept", *reasons]), *notes]


@dataclass(frozen=True)
class Corpus:
    """The pairs kept, in order; `lines[i]` is the number, from 1, that `pairs[i]` has in its file."""

    pairs: list[Pair]
    lines: list[int]
    report: CorpusReport


@dataclass(frozen=True)
class _Rows:
    """A source as it was read: each row is a pair, or the reason why it is none; notes as in the report."""

    name: str
    rows: list[Pair | str]
    unit: Literal["line", "row"] = "line"
    notes: tuple[LeftOut, ...] = ()


def read_corpus(
    source: Source, split_name: Literal["train", "validation", "test"], config: DataConfig, *, drop_blank: bool = True
) -> Corpus:
    """Reads one split of the corpus: its pairs, where they stood, and what was left out.

    Args:
        source: where the pairs are.
        split_name: which split of the built-in corpus is meant, where that is the source.
        config: names the languages, which are the fields of JSON lines, Parquet and hub data.
        drop_blank: whether pairs that are blank on either side are left out; a test set may want to keep its count.

    Raises:
        ConfigError: the file, the hub's data set or the split does not exist.
        DataError: the content is wrong, or no pair is left.
    """
    if isinstance(source, FilePair):
        read = _read_two_files(source)
    elif isinstance(source, TsvFile):
        read = _read_tsv(source.tsv)
    elif isinstance(source, JsonlFile):
        read = _read_jsonl(source.jsonl, config)
    elif isinstance(source, ParquetFile):
        read = _read_parquet(source.parquet, config)
    elif isinstance(source, HubSplit):
        read = _read_hub(source, config)
    else:
        read = _read_toy(split_name, config)
    return _select(read, drop_blank)


def read_lines(path: Path) -> list[str]:
    """All lines of a text file (or of its .gz twin), blank ones too: line n is the list's item n - 1.

    Raises:
        ConfigError: there is no such file, or it may not be read.
        DataError: it is not UTF-8, or a damaged .gz file.
    """
    path = find_file(path)
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            return list(iter_lines(stream, str(path)))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(
            f"{path}: expected a gzip file, got damaged data ({error}); make or download it again"
        ) from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error


def iter_lines(stream: Iterable[bytes], name: str) -> Iterator[str]:
    """Lines of a binary stream as they arrive, under the rules at the head of this module; `name` is for messages.

    Raises:
        DataError: a line is not UTF-8.
    """
    for number, raw in enumerate(stream, start=1):
        body = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
        body = body.removesuffix(b"\n").removesuffix(b"\r")
        try:
            line = body.decode("utf-8")
        except UnicodeDecodeError as error:
            utf_16 = number == 1 and body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            encoding = "UTF-16" if utf_16 else "ISO-8859-1"
            raise DataError(
                f"{name}, line {number}: expected UTF-8, got byte 0x{body[error.start]:02X} at position "
                f"{error.start + 1}; mend that line, or convert the file, if it is {encoding}: "
                f"iconv -f {encoding} -t UTF-8 OLD > NEW"
            ) from error
        yield clean(line)


def arriving_lines(stream: IO[bytes], name: str, at_most: int) -> Iterator[list[str]]:
    """Groups of lines as they arrive: who waits at the other end of a pipe is answered, a file comes in large groups.

    Args:
        stream: an open file or pipe, such as standard input's `buffer`.
        name: what messages call it.
        at_most: lines in a group.

    Raises:
        DataError: a line is not UTF-8.
    """
    none_waits = False

    def raw_lines() -> Iterator[bytes]:
        nonlocal none_waits
        rest = b""
        while chunk := os.read(stream.fileno(), _READ_AT_ONCE):
            *whole, rest = (rest + chunk).split(b"\n")
            for index, line in enumerate(whole, start=1):
                none_waits = index == len(whole) and len(chunk) < _READ_AT_ONCE
                yield line
        none_waits = True
        if rest:
            yield rest

    group: list[str] = []
    for line in iter_lines(raw_lines(), name):
        group.append(line)
        if none_waits or len(group) == at_most:
            yield group
            group = []
    if group:
        yield group


def find_file(path: Path) -> Path:
    """The file that is read for `path`: the file itself, or else the one with .gz behind its name.

    Raises:
        ConfigError: neither exists; the message has the nearest names of that folder.
    """
    for candidate in (path, path.with_name(path.name + ".gz")):
        if candidate.exists() and not candidate.is_dir():
            return candidate
    if path.is_dir():
        raise ConfigError(f"{path}: expected a file, got a folder; name a file in it")
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: no such file, and the folder {path.parent} does not exist either")
    names = {file.name.removesuffix(".gz") for file in path.parent.iterdir() if file.is_file()}
    near = difflib.get_close_matches(path.name, sorted(names), n=3, cutoff=0.5)
    advice = f"; did you mean {' or '.join(near)}?" if near else ""
    raise ConfigError(f"{path}: no such file, nor one with .gz behind its name{advice}")


def _select(read: _Rows, drop_blank: bool) -> Corpus:
    """Keeps what is a pair, and files what is none under its reason."""
    pairs: list[Pair] = []
    numbers: list[int] = []
    left_out: dict[str, list[int]] = {}
    for number, row in enumerate(read.rows, start=1):
        if isinstance(row, str):
            left_out.setdefault(row, []).append(number)
        elif drop_blank and not (row[0].strip() and row[1].strip()):
            left_out.setdefault(BLANK, []).append(number)
        else:
            pairs.append(row)
            numbers.append(number)
    records = tuple(LeftOut.of(reason, lines) for reason, lines in left_out.items())
    report = CorpusReport(read.name, len(read.rows), records, read.notes, read.unit)
    if not read.rows:
        raise DataError(f"{read.name}: expected pairs of sentences, got nothing: empty; see whether its making failed")
    if not pairs:
        raise DataError(f"nothing is left to use of {report.lines()[0]}")
    return Corpus(pairs, numbers, report)


def _read_two_files(source: FilePair) -> _Rows:
    source_path, target_path = find_file(source.source), find_file(source.target)
    source_lines, target_lines = read_lines(source_path), read_lines(target_path)
    if len(source_lines) != len(target_lines):
        raise DataError(
            f"expected as many lines on both sides, got {len(source_lines)} in {source_path} "
            f"and {len(target_lines)} in {target_path}; find the line that one side lost: all after it are shifted"
        )
    if not source_lines:
        raise DataError(f"{source_path} and {target_path} are empty; expected a sentence on each line")
    return _Rows(f"{source_path.name} + {target_path.name}", list(zip(source_lines, target_lines, strict=True)))


def _read_tsv(path: Path) -> _Rows:
    path = find_file(path)
    rows: list[Pair | str] = []
    longer: list[int] = []
    for number, line in enumerate(read_lines(path), start=1):
        columns = line.split("\t")
        rows.append((columns[0], columns[1]) if len(columns) > 1 else TOO_FEW_COLUMNS)
        if len(columns) > 2:
            longer.append(number)
    notes = (LeftOut.of("columns after the second ignored", longer),) if longer else ()
    return _Rows(path.name, rows, "row", notes)


def _read_toy(split_name: Literal["train", "validation", "test"], config: DataConfig) -> _Rows:
    pairs: list[Pair | str] = list(getattr(_toy_corpus(), split_name))
    if (config.source_lang, config.target_lang) == ("fr", "en"):
        pairs = [(pair[1], pair[0]) for pair in pairs]
    elif (config.source_lang, config.target_lang) != ("en", "fr"):
        raise ConfigError(
            f"data.{split_name}: the built-in corpus is English and French, got data.source_lang {config.source_lang} "
            f"and data.target_lang {config.target_lang}; set them to en and fr, or name files of your own"
        )
    return _Rows(f"built-in corpus, {split_name}", pairs)


def _read_jsonl(path: Path, config: DataConfig) -> _Rows:
    path = find_file(path)
    try:
        return _dataset_rows(_load_dataset("json", data_files=escape(str(path)), split="train"), path.name, config)
    except DataError:
        raise
    except Exception as error:  # whatever the library meets in the file, the reader of the message wants the line
        _blame_json_line(path)
        raise DataError(f"{path}: cannot be read as JSON lines ({_cause(error)})") from error


def _blame_json_line(path: Path) -> None:
    """Finds the line that is not a JSON object, since the library tells no line number."""
    lines = read_lines(path)
    if not any(line.strip() for line in lines):
        raise DataError(f"{path} is empty; expected a JSON object on each line")
    for number, line in enumerate(lines, start=1):
        try:
            wrong = bool(line.strip()) and not isinstance(json.loads(line), dict)
            got = "another value"
        except ValueError as error:
            wrong, got = True, f"what is no JSON ({error})"
        if wrong:
            raise DataError(f"{path}, line {number}: expected one JSON object, got {got}; mend or delete that line")


def _read_parquet(path: Path, config: DataConfig) -> _Rows:
    path = find_file(path)
    try:
        return _dataset_rows(_load_dataset("parquet", data_files=escape(str(path)), split="train"), path.name, config)
    except DataError:
        raise
    except Exception as error:  # the library lets the errors of several others through
        raise DataError(f"{path}: cannot be read as Parquet ({_cause(error)}); make or download it again") from error


def _read_hub(source: HubSplit, config: DataConfig) -> _Rows:
    try:
        dataset = _load_dataset(source.hub, name=source.name, split=source.split)
    except Exception as error:  # no network, no such name, no such split: each has an error class of its own
        raise ConfigError(
            f"{source.hub} (split {source.split}): cannot be had from the Hugging Face hub ({_cause(error)}); "
            "see whether name and split are right and the network can be reached"
        ) from error
    return _dataset_rows(dataset, f"{source.hub}, {source.split}", config)


def _load_dataset(path: str, **arguments: Any) -> "Dataset":  # noqa: ANN401 (the library's own arguments)
    import datasets

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)  # its errors arrive as exceptions as well
    return datasets.load_dataset(path, **arguments)


def _cause(error: BaseException) -> str:
    """What went wrong at the bottom of a chain of exceptions, in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split()) or type(error).__name__


def _dataset_rows(dataset: "Dataset", name: str, config: DataConfig) -> _Rows:
    """The two languages' fields of every row, at its top level or under `translation`."""
    languages = (config.source_lang, config.target_lang)
    wanted = [column for column in dataset.column_names if column in (*languages, "translation")]
    rows: list[Pair | str] = []
    seen: set[str] = set()
    for row in dataset.select_columns(wanted) if wanted else ():
        nested = row.get("translation")
        fields = {**row, **nested} if isinstance(nested, dict) else row
        seen.update(fields)
        values = [fields.get(language) for language in languages]
        texts = ["" if value is None else clean(value) for value in values if value is None or isinstance(value, str)]
        rows.append((texts[0], texts[1]) if len(texts) == 2 else NOT_TEXT)
    missing = [language for language in languages if language not in seen]
    if missing and len(dataset):
        there = ", ".join(sorted(set(dataset.column_names) | (seen - set(wanted))))
        raise DataError(
            f"{name}: expected the fields {' and '.join(languages)}, at the top or under translation, found {there}; "
            "set data.source_lang and data.target_lang to the fields' names"
        )
    return _Rows(name, rows, "row")
