"""What a look at a corpus or its settings brought up: one thing, in one sentence, with the lines it is about."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from tformer.data.store import TextCorpus

Severity = Literal["note", "warning"]

_MAX_LISTED = 10


@dataclass(frozen=True)
class Finding:
    """One thing found.

    Attributes:
        kind: a name that stays, for scripts.
        severity: a warning is likely to cost quality or time; a note is worth knowing.
        message: what it means and what to do, one sentence for a person.
        count: pairs, lines or characters concerned; 0 where nothing is counted.
        split: "train", "validation" or "test"; None where it is about settings.
        lines: where the first of them stand.
    """

    kind: str
    severity: Severity
    message: str
    count: int = 0
    split: str | None = None
    lines: tuple[str, ...] = ()

    def sentence(self) -> str:
        """The message, and behind it the places, those of one file together."""
        if not self.lines:
            return self.message
        files: dict[str, list[str]] = {}
        for place in self.lines:
            file, _, number = place.rpartition(" ")
            files.setdefault(file, []).append(number)
        places = "; ".join(
            f"{file}{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}" for file, numbers in files.items()
        )
        return f"{self.message} ({places}{' …' if self.count > len(self.lines) else ''})"


def places(corpus: "TextCorpus", rows: npt.NDArray[np.int64]) -> tuple[str, ...]:
    """Say where the first of these pairs stand."""
    return tuple(corpus.place(int(row)) for row in rows[:_MAX_LISTED])


def called(split: str) -> str:
    """What a split's pairs are called in a sentence."""
    return "training" if split == "train" else split


def share(count: int, total: int) -> str:
    """A count beside what it is of, such as `30 of 170 (18 %)`."""
    percent = 100 * count / total
    shown = f"{percent:.0f}" if percent >= 10 else f"{percent:.2g}" if percent >= 0.01 or not count else "under 0.01"
    return f"{count:,} of {total:,} ({shown} %)"
