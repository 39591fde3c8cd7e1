"""One source of sentence pairs, read row by row: what is kept is passed on, what is left out is counted."""

import functools
from collections.abc import Iterator
from itertools import zip_longest
from typing import Literal, Protocol

from tformer.config import DataConfig, FilePair, HubSplit, JsonlFile, ParquetFile, Source, TmxFile, TsvFile
from tformer.data.corpus.lines import OnInvalid, decode_lines, find_file, open_file
from tformer.data.corpus.report import BLANK, CorpusReport, Ledger, Unit
from tformer.data.corpus.tables import HubTable, JsonLines, ParquetTable, TabbedLines
from tformer.data.corpus.tmx import TranslationMemory
from tformer.data.toy import make_toy_corpus
from tformer.errors import ConfigError, DataError

SplitName = Literal["train", "validation", "test"]
Pair = tuple[str, str]

_MAX_NAMED = 3  # of many files, in a name
_toy_corpus = functools.cache(make_toy_corpus)  # made in a second or so, and asked for split by split


class _Format(Protocol):
    """One kind of source. `name` is for reports, `where` for errors: it has the whole paths."""

    name: str
    where: str
    unit: Unit

    def rows(self, ledger: Ledger) -> Iterator[tuple[int, str, str]]:
        """Number, source and target of each row that is a pair; the ledger learns of the others."""
        ...


class CorpusReader:
    """The pairs of one source, as often as they are asked for; nothing is kept.

    Args:
        source: where the pairs are.
        split_name: which split of the built-in corpus is meant, where that is the source.
        config: names the languages, and says what is done with lines that are not UTF-8.
        drop_blank: whether pairs that are blank on either side are left out; a test set may want to keep its count.

    Raises:
        ConfigError: the file does not exist.
    """

    def __init__(self, source: Source, split_name: SplitName, config: DataConfig, *, drop_blank: bool = True) -> None:
        self._format = _open(source, split_name, config)
        self._drop_blank = drop_blank
        self._ledger = Ledger()

    def __iter__(self) -> Iterator[tuple[int, str, str]]:
        """Number in the source (line or row, from 1), source text and target text of each pair.

        Raises:
            ConfigError: the source cannot be read, or lacks what the settings name.
            DataError: the content is wrong; or, once all has been read, no pair was left.
        """
        self._ledger = ledger = Ledger()
        for row in self._format.rows(ledger):
            if self._drop_blank and not (row[1].strip() and row[2].strip()):
                ledger.leave_out(BLANK, row[0])
            else:
                ledger.kept += 1
                yield row
        report = ledger.report(self._format.name, self._format.unit)
        if not report.pairs_read:
            raise _empty(self._format.where)
        if not ledger.kept:
            raise DataError(f"nothing is left to use of {report.lines()[0]}")

    @property
    def report(self) -> CorpusReport:
        """What was read and left out; complete once all has been read."""
        return self._ledger.report(self._format.name, self._format.unit)

    def place(self, number: int) -> str:
        """Where the pair of this number stands, such as `b.en + b.fr, line 17`, as far as has been read."""
        return self.report.place(number)


def _open(source: Source, split_name: SplitName, config: DataConfig) -> _Format:
    if isinstance(source, FilePair):
        return _AlignedLines(source, config.on_invalid)
    if isinstance(source, TsvFile):
        return TabbedLines(source, config.on_invalid)
    if isinstance(source, JsonlFile):
        return JsonLines(source, config)
    if isinstance(source, ParquetFile):
        return ParquetTable(source, config)
    if isinstance(source, TmxFile):
        return TranslationMemory(source, config)
    if isinstance(source, HubSplit):
        return HubTable(source, config)
    return _BuiltIn(split_name, config)


def _empty(where: str) -> DataError:
    return DataError(f"{where}: expected pairs of sentences, got nothing: empty; see whether its making failed")


class _AlignedLines:
    """Text files, line by line each other's translation; the numbers of several run through."""

    unit: Unit = "line"

    def __init__(self, source: FilePair, on_invalid: OnInvalid) -> None:
        self._files = [(find_file(one), find_file(other)) for one, other in source.pairs]
        self._on_invalid = on_invalid
        self._names = [f"{one.name} + {other.name}" for one, other in self._files]
        more = len(self._names) - _MAX_NAMED
        self.name = ", ".join(self._names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
        self.where = ", ".join(f"{one} + {other}" for one, other in self._files)

    def rows(self, ledger: Ledger) -> Iterator[tuple[int, str, str]]:
        """The pairs of one file after the other."""
        read = 0
        for index, name in enumerate(self._names):
            if len(self._names) > 1:
                ledger.begin_part(read, name)
            before = read
            for text, translation, valid in self._pairs(index):
                read += 1
                if ledger.admits(read, valid=valid, on_invalid=self._on_invalid):
                    yield read, text, translation
            if read == before:
                raise _empty(" + ".join(map(str, self._files[index])))

    def _pairs(self, index: int) -> Iterator[tuple[str, str, bool]]:
        """Both texts, and whether both are UTF-8."""
        source_path, target_path = self._files[index]
        with open_file(source_path) as sources, open_file(target_path) as targets:
            source_lines = decode_lines(sources, str(source_path), self._on_invalid)
            target_lines = decode_lines(targets, str(target_path), self._on_invalid)
            for number, (one, other) in enumerate(zip_longest(source_lines, target_lines), start=1):
                if one is None or other is None:
                    longer = number + sum(1 for _ in (targets if one is None else sources))
                    counts = (number - 1, longer) if one is None else (longer, number - 1)
                    raise DataError(
                        f"expected as many lines on both sides, got {counts[0]} in {source_path} and {counts[1]} in "
                        f"{target_path}; find the line that one side lost: all after it are shifted"
                    )
                yield one[0], other[0], one[1] and other[1]


class _BuiltIn:
    """One split of the built-in corpus, in either direction."""

    unit: Unit = "line"

    def __init__(self, split_name: SplitName, config: DataConfig) -> None:
        self._split_name = split_name
        self.name = self.where = f"built-in corpus, {split_name}"
        self._languages = (config.source_lang, config.target_lang)
        if self._languages not in (("en", "fr"), ("fr", "en")):
            raise ConfigError(
                f"data.{split_name}: the built-in corpus is English and French, got data.source_lang "
                f"{config.source_lang} and data.target_lang {config.target_lang}; set them to en and fr, or name files "
                "of your own"
            )

    def rows(self, ledger: Ledger) -> Iterator[tuple[int, str, str]]:  # noqa: ARG002 (as in every format)
        """The pairs of the split; none is ever left out."""
        pairs: list[Pair] = getattr(_toy_corpus(), self._split_name)
        for number, (english, french) in enumerate(pairs, start=1):
            yield (number, english, french) if self._languages[0] == "en" else (number, french, english)
