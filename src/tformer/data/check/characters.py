"""Signs of text that was damaged on its way: replaced characters, control characters, UTF-8 read as Latin-1."""

import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tformer.data.check.finding import Finding, called, places, share
from tformer.data.check.survey import matching, named

if TYPE_CHECKING:
    from tformer.data.splits import Splits

_ROWS_AT_ONCE = 100_000  # lines whose characters are counted together
_MANY = 0.001  # of all pairs: from here on damage is a warning
_CODE_POINTS = 0x110000
_NAMED = 5  # control characters that a message names

# How Windows-1252, or Latin-1, shows the bytes 0x80 to 0xBF, which follow the first byte of a longer UTF-8 character.
_FOLLOWING = "".join(bytes([byte]).decode("cp1252", errors="ignore") + chr(byte) for byte in range(0x80, 0xC0))
_MISREAD_FIRST = set("ÂÃÐÑâï")
# Â and Ã begin Latin letters, Ð and Ñ Cyrillic ones, â€ typographic signs; the last two are U+FEFF and U+FFFD
_MISREAD = f"[ÂÃÐÑ][{_FOLLOWING}]|â[€\x80][{_FOLLOWING}]|ï»¿|ï¿½"


def look_at_characters(splits: "Splits") -> Iterator[Finding]:
    """Find pairs with damaged text, in every split."""
    for name, corpus in named(splits):
        sides = corpus.table["source"], corpus.table["target"]
        there = {chr(code) for side in sides for code in np.flatnonzero(count_characters(side))}
        for kind, pattern, what in _looks(there):
            rows = np.flatnonzero(matching(sides[0], pattern) | matching(sides[1], pattern))
            if len(rows):
                message = f"{share(len(rows), len(corpus))} {called(name)} pairs hold {what}"
                severe = len(rows) > _MANY * len(corpus)
                yield Finding(kind, "warning" if severe else "note", message, len(rows), name, places(corpus, rows))


def count_characters(column: Any) -> npt.NDArray[np.int64]:  # noqa: ANN401 (a pyarrow column of text)
    """Count every character of a column: [code points] int64."""
    counts = np.zeros(_CODE_POINTS, dtype=np.int64)
    for start in range(0, len(column), _ROWS_AT_ONCE):
        text = "".join(column.slice(start, _ROWS_AT_ONCE).to_pylist())
        points = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
        found = np.bincount(points)
        counts[: len(found)] += found
    return counts


def _looks(there: set[str]) -> Iterator[tuple[str, str, str]]:
    """Give kind, pattern and meaning of what may be wrong, where the characters for it are there at all."""
    if "\ufffd" in there:
        what = "U+FFFD, which stands where bytes could not be read; convert the original file to UTF-8 anew"
        yield "replaced_characters", "\ufffd", what
    if control := sorted(filter(_is_control, there)):
        names = ", ".join(f"U+{ord(each):04X}" for each in control[:_NAMED])
        what = f"control characters ({names}), which nobody sees and the model learns to write; delete them"
        yield "control_characters", "[" + "".join(rf"\x{{{ord(each):x}}}" for each in control) + "]", what
    if there & _MISREAD_FIRST:
        what = (
            "signs such as Ã© or â€™, which are UTF-8 that was once read as Latin-1 and saved; read the original as "
            "UTF-8 (the Python library ftfy mends what cannot be had anew)"
        )
        yield "misread_encoding", _MISREAD, what


def _is_control(character: str) -> bool:
    """Tell what no one sees in a line: category Cc but for the tab, and a byte order mark inside a text."""
    return (unicodedata.category(character) == "Cc" and character != "\t") or character == "\ufeff"
