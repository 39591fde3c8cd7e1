"""What became of the rows of a corpus: how many were read, which were left out, and what else is worth knowing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NamedTuple

from tformer.data.corpus.lines import OnInvalid

Unit = Literal["line", "row"]

BLANK = "blank on one or both sides"
NOT_TEXT = "not text"
NOT_UTF8 = "not UTF-8"
REPLACED = "not UTF-8, bytes replaced by U+FFFD"

_MAX_LISTED = 10


class Part(NamedTuple):
    """One of several files that are read one after the other: the numbers of its rows are those above `before`."""

    before: int
    name: str


@dataclass(frozen=True)
class LeftOut:
    """The lines that share one reason; `lines` holds the first of their numbers, from 1, `count` is of them all."""

    reason: str
    lines: tuple[int, ...]
    count: int

    @classmethod
    def of(cls, reason: str, lines: Sequence[int]) -> "LeftOut":
        """The record of all `lines` that have this reason."""
        return cls(reason, tuple(lines[:_MAX_LISTED]), len(lines))

    def sentence(self, unit: Unit, parts: Iterable[Part] = ()) -> str:
        """Reason and numbers for a reader, such as `blank on one or both sides (lines 11, 41, 42)`."""
        places = []
        for part, group in groupby(self.lines, lambda number: _part_of(number, parts)):
            numbers = [number - part.before for number in group]
            name = f"{part.name}, " if part.name else ""
            places.append(f"{name}{unit}{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}")
        more = f" and {self.count - len(self.lines)} more" if self.count > len(self.lines) else ""
        return f"{self.reason} ({'; '.join(places)}{more})"


@dataclass(frozen=True)
class CorpusReport:
    """What was read, what was left out of it, and what else is worth knowing.

    Attributes:
        name: the source, for messages.
        pairs_read: rows that were met, those left out included.
        left_out: the rows that are none of the pairs, by reason.
        notes: rows that were kept, though something is to be said of them.
        unit: what the numbers count.
        parts: the files, where there are several; numbers run through all of them.
    """

    name: str
    pairs_read: int
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[LeftOut, ...] = ()
    unit: Unit = "line"
    parts: tuple[Part, ...] = ()

    def lines(self) -> list[str]:
        """The report in sentences, the first of them about the pairs kept."""
        lost = sum(item.count for item in self.left_out)
        kept = f"{self.pairs_read - lost} of {self.pairs_read}" if lost else f"all {self.pairs_read}"
        reasons = [f"left out {item.count}: {item.sentence(self.unit, self.parts)}" for item in self.left_out]
        notes = [f"{self.name}: {item.sentence(self.unit, self.parts)}" for item in self.notes]
        return [f"{self.name}: " + "; ".join([f"{kept} pairs kept", *reasons]), *notes]

    def place(self, number: int) -> str:
        """Where the row of this number stands, such as `b.en + b.fr, line 17`."""
        part = _part_of(number, self.parts)
        return f"{part.name or self.name}, {self.unit} {number - part.before}"


class Ledger:
    """Counts what becomes of the rows as they are read; of each reason it keeps the count and the first numbers."""

    def __init__(self) -> None:
        self.kept = 0
        self._left_out: dict[str, LeftOut] = {}
        self._notes: dict[str, LeftOut] = {}
        self._parts: list[Part] = []

    def leave_out(self, reason: str, number: int) -> None:
        """Counts a row that is not used."""
        _add(self._left_out, reason, number)

    def note(self, reason: str, number: int) -> None:
        """Counts a row that is used, though something is to be said of it."""
        _add(self._notes, reason, number)

    def begin_part(self, before: int, name: str) -> None:
        """The next of several files begins, after `before` rows."""
        self._parts.append(Part(before, name))

    def admits(self, number: int, *, valid: bool, on_invalid: OnInvalid) -> bool:
        """Whether a row is used by what data.on_invalid says; one that is not valid UTF-8 is counted either way."""
        if not valid and on_invalid == "skip":
            self.leave_out(NOT_UTF8, number)
            return False
        if not valid:
            self.note(REPLACED, number)
        return True

    def report(self, name: str, unit: Unit) -> CorpusReport:
        """What has been counted so far."""
        left_out, notes = tuple(self._left_out.values()), tuple(self._notes.values())
        read = self.kept + sum(item.count for item in left_out)
        return CorpusReport(name, read, left_out, notes, unit, tuple(self._parts))


def _add(records: dict[str, LeftOut], reason: str, number: int) -> None:
    record = records.get(reason, LeftOut(reason, (), 0))
    lines = record.lines if len(record.lines) == _MAX_LISTED else (*record.lines, number)
    records[reason] = LeftOut(reason, lines, record.count + 1)


def _part_of(number: int, parts: Iterable[Part]) -> Part:
    return next((part for part in reversed(tuple(parts)) if part.before < number), Part(0, ""))
