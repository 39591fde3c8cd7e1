"""What a person's files are, by their names and by a look inside: a source as a config names it, and its languages.

A file is what its suffix says, behind a .gz, .bz2, .xz or .zst; any other is looked at.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from xml.parsers import expat

from tformer.config import FilePair, FileSource, JsonlFile, ParquetFile, TmxFile, TsvFile
from tformer.data.corpus import find_file
from tformer.data.corpus.lines import decode_lines, open_file
from tformer.data.languages import language_code
from tformer.data.sides import (
    Languages,
    choose_sides,
    language_of,
    languages_of_file,
    languages_of_files,
    plain_name,
    sides_in,
    text_columns,
    which_sides,
)
from tformer.errors import ConfigError, DataError

_SAMPLE = 1_000  # lines or records looked at
_HEAD = 1 << 20  # bytes of a translation memory looked at
_SUFFIXES = {
    "tsv": {".tsv", ".tab"},
    "jsonl": {".jsonl", ".ndjson", ".json"},
    "parquet": {".parquet", ".pq"},
    "tmx": {".tmx"},
}
_NEARLY_ALL = 0.95  # of the lines have tabs, in a table
_COLUMN_NAME = re.compile(r"[^\W\d][\w.-]*")  # one word, without the signs of a sentence


@dataclass(frozen=True)
class Found:
    """A person's files.

    Attributes:
        source: the files, with paths as they were given, and which fields of them.
        languages: what the names say that source and target are in; None where they say nothing.
        what: one line on what was found, for a person.
    """

    source: FileSource
    languages: Languages
    what: str


def sniff(first: Path, second: Path | None, asked: Languages) -> Found:
    """What one file, or two side by side, are.

    Args:
        first: a file of pairs, or of source sentences.
        second: the target sentences, where they have a file of their own.
        asked: the languages that a person named, which choose among several columns, fields or variants.

    Raises:
        ConfigError: no such file, or which of its columns are meant cannot be told.
        DataError: a file that does not hold pairs, or is damaged.
    """
    path = find_file(first)
    if second is None:
        found = _LOOKS[_kind(path) or _kind_inside(path)](path, asked)
        return found if any(found.languages) else Found(found.source, languages_of_file(path), found.what)
    other = find_file(second)
    for each in (path, other):
        if _kind(each) in ("parquet", "tmx"):
            raise ConfigError(f"{each}: expected a text file beside another, got a file of pairs; give it alone")
    pair = FilePair(source=path, target=other)
    return Found(pair, languages_of_files(path, other), f"{path.name} + {other.name}: text, line by line")


def _kind(path: Path) -> str | None:
    suffix = Path(plain_name(path)).suffix.lower()
    return next((kind for kind, suffixes in _SUFFIXES.items() if suffix in suffixes), None)


def _kind_inside(path: Path) -> str:
    with open_file(path) as stream:
        head = stream.read(1024)
    if head.startswith(b"PAR1"):
        return "parquet"
    if b"<tmx" in head.replace(b"\0", b""):  # UTF-16 has a zero beside each letter
        return "tmx"
    lines = [line for line in _head(path) if line.strip()]
    if not lines:
        raise DataError(f"{path}: expected pairs of sentences, got nothing: empty; see whether its making failed")
    if all(isinstance(record, dict) for record in _parsed(lines)):
        return "jsonl"
    if sum("\t" in line for line in lines) >= _NEARLY_ALL * len(lines):
        return "tsv"
    raise ConfigError(
        f"{path}: expected pairs of sentences (two columns with a tab between, JSON lines, Parquet or TMX), got other "
        f"text; if it is one side of a corpus, name the other too: tformer init {path.name} TARGET"
    )


def _head(path: Path) -> list[str]:
    with open_file(path) as stream:
        return [text for text, _ in islice(decode_lines(stream, str(path), "replace"), _SAMPLE)]


def _parsed(lines: Iterable[str]) -> Iterator[object]:
    """What each line holds as JSON; None where it is none."""
    for line in lines:
        try:
            record = json.loads(line, strict=False)
        except (ValueError, RecursionError):
            record = None
        yield record


# ---- Lines with tabs ----


def _look_at_tsv(path: Path, asked: Languages) -> Found:
    rows = [line.split("\t") for line in _head(path) if line.strip()]
    width = Counter(map(len, rows)).most_common(1)[0][0] if rows else 0
    header = [name.strip() for name in rows[0]] if rows else []
    if len(set(header)) == len(header) > 1 and all(map(_COLUMN_NAME.fullmatch, header)):
        sides = choose_sides(path, _columns(header, rows[1:]), asked)
        if sides:
            what = f"{path.name}: a table; its first line names the columns, of which {' and '.join(sides)} are taken"
            return Found(TsvFile(tsv=path, source_field=sides[0], target_field=sides[1]), _languages(sides), what)
    numbers = [str(number) for number in range(1, width + 1)]
    taken = numbers if width == 2 else text_columns(_columns(numbers, rows))
    if len(taken) < 2:
        raise DataError(
            f"{path}: expected two columns of text with a tab between, got {len(taken)} among {width}; see whether the "
            "columns are cut by something else"
        )
    one, two = int(taken[0]), int(taken[1])
    source = TsvFile(tsv=path, source_field=one, target_field=two)
    return Found(source, (None, None), f"{path.name}: a table of {width} columns, of which {one} and {two} are taken")


def _columns(names: Sequence[str], rows: Iterable[Sequence[str]]) -> dict[str, list[str]]:
    columns: dict[str, list[str]] = {name: [] for name in names}
    for row in rows:
        for name, value in zip(names, row, strict=False):  # a row may be short
            columns[name].append(value)
    return columns


def _languages(sides: tuple[str, str]) -> Languages:
    source, target = map(language_of, sides)
    return source, target


# ---- Records with fields ----


def _look_at_jsonl(path: Path, asked: Languages) -> Found:
    records = [record for record in _parsed(_head(path)) if isinstance(record, dict)]
    if not records:
        raise DataError(f"{path}: expected one JSON object on each line, found none in the first {_SAMPLE:,}")
    sides = _fields(path, records, asked)
    source = JsonlFile(jsonl=path) if _named_as_languages(sides) else _jsonl(path, sides)
    return Found(source, _languages(sides), f"{path.name}: JSON lines with {sides[0]} and {sides[1]}")


def _jsonl(path: Path, sides: tuple[str, str]) -> JsonlFile:
    return JsonlFile(jsonl=path, source_field=sides[0], target_field=sides[1])


def _look_at_parquet(path: Path, asked: Languages) -> Found:
    import pyarrow
    from pyarrow import parquet

    with open_file(path) as stream:
        try:
            batch = next(parquet.ParquetFile(stream).iter_batches(_SAMPLE), None)
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise DataError(f"{path}: cannot be read as Parquet ({error}); make or download it again") from error
    if batch is None:
        raise DataError(f"{path}: expected pairs of sentences, got nothing: empty; see whether its making failed")
    sides = _fields(path, batch.to_pylist(), asked)
    if _named_as_languages(sides):
        source = ParquetFile(parquet=path)
    else:
        source = ParquetFile(parquet=path, source_field=sides[0], target_field=sides[1])
    return Found(source, _languages(sides), f"{path.name}: Parquet with {sides[0]} and {sides[1]}")


def _fields(path: Path, records: Iterable[Mapping[str, Any]], asked: Languages) -> tuple[str, str]:
    """The two fields that are source and target, a.b for one inside another."""
    columns: dict[str, list[str]] = {}
    for record in records:
        for name, value in record.items():
            inner = {f"{name}.{below}": text for below, text in value.items()} if isinstance(value, dict) else {}
            for full, text in (inner or {name: value}).items():
                if isinstance(text, str):
                    columns.setdefault(full, []).append(text)
    sides = choose_sides(path, columns, asked)
    texts = list(columns) if len(columns) == 2 else text_columns(columns)
    if not sides and len(texts) != 2:
        raise which_sides(path, texts or list(columns))
    return sides or (texts[0], texts[1])


def _named_as_languages(sides: tuple[str, str]) -> bool:
    """Whether a reader finds the fields by the languages alone."""
    names = [name.removeprefix("translation.") for name in sides]
    return list(map(language_code, names)) == names


# ---- Translation memories ----


def _look_at_tmx(path: Path, asked: Languages) -> Found:
    first, tags = _languages_inside(path)
    tags.sort(key=lambda tag: tag.lower() != first.lower())
    fronts = {tag: re.split("[-_]", tag.lower())[0] for tag in tags}
    # zh-CN and zh-TW are told apart by the whole tags, en-US and fr-FR by their fronts
    names = list(dict.fromkeys(fronts.values() if len(set(fronts.values())) > 1 else tags))
    if len(names) < 2:
        raise DataError(f"{path}: expected segments in two languages, found {' and '.join(names) or 'none'}")
    sides = sides_in(path, {name: language_code(name) or name for name in names}, asked)
    return Found(TmxFile(tmx=path), sides, f"{path.name}: a translation memory in {sides[0]} and {sides[1]}")


def _languages_inside(path: Path) -> tuple[str, list[str]]:
    """The source language of a memory's header, and those of the variants near its beginning, as they are spelt."""
    header: list[str] = []
    tags: dict[str, None] = {}

    def start(name: str, attributes: dict[str, str]) -> None:
        if name == "header":
            header.append(attributes.get("srclang", ""))
        elif name == "tuv" and (tag := attributes.get("xml:lang", attributes.get("lang"))):
            tags[tag] = None

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    with open_file(path) as stream:
        try:
            parser.Parse(stream.read(_HEAD), False)
        except (expat.ExpatError, LookupError, ValueError) as error:
            raise DataError(f"{path}: expected a translation memory (TMX), cannot read it as XML ({error})") from error
    return "".join(header[:1]), list(tags)


_LOOKS: dict[str, Callable[[Path, Languages], Found]] = {
    "tsv": _look_at_tsv,
    "jsonl": _look_at_jsonl,
    "parquet": _look_at_parquet,
    "tmx": _look_at_tmx,
}
