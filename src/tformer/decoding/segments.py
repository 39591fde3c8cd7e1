"""Long lines, split into segments that a model can read, and the separator that joins their translations.

The rule, in this order, each step only where the one before leaves something too long:

1. A line that the model can read stays whole.
2. It is cut at the ends of sentences: `.`, `!`, `?`, `…` and the like, with the quotes and brackets that close behind
   them, where white space follows; `。`, `！`, `？`, `।` and others that end nothing but sentences, wherever they
   stand. As many neighbouring sentences as fit are one segment.
3. A sentence that is too long by itself is cut at white space, and its words are packed likewise.
4. A word that is too long by itself is cut where the limit is, but not before a combining mark, if that can be.

White space stays with what it follows, so the segments joined are the line.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise

from tformer.data.languages import language_code

PieceCounter = Callable[[Sequence[str]], list[int]]
"""Gives the number of pieces of each text."""

# Signs that stand inside words and numbers too, so that white space has to follow: Latin, Arabic, Armenian, Ethiopic.
_BEFORE_SPACE = ".!?…‼⁇⁈⁉‽؟۔։՜՞።፧፨"
# Signs that end a sentence wherever they stand: Chinese and Japanese, Devanagari, Khmer, Burmese, Tibetan.
_ANYWHERE = "。！？｡।॥។៕။༎།"
_CLOSING = re.escape("\"')]}’”›»」』）】》〉］｝")
_SENTENCE_END = re.compile(
    rf"(?<=[{re.escape(_BEFORE_SPACE)}])[{_CLOSING}]*\s+"
    rf"|(?<=[{_ANYWHERE}])[{_CLOSING}]*\s*(?![{_ANYWHERE}{_CLOSING}\s])"
)
_WORD_END = re.compile(r"\s+")
_ZERO_WIDTH_JOINER = "\u200d"

# Chinese (Cantonese, Wu and Classical too), Japanese, Thai, Lao, Khmer, Burmese, Tibetan and Dzongkha.
_WITHOUT_SPACES = {"zh", "yue", "wuu", "lzh", "ja", "th", "lo", "km", "my", "bo", "dz"}


def separator(target_lang: str | None) -> str:
    """Give what stands between two sentences of a language: a space, or nothing where none is written.

    Args:
        target_lang: a code such as `fr`, `zh-CN` or `jpn_Jpan`; None if unknown.
    """
    return "" if language_code(target_lang or "", any_three_letters=True) in _WITHOUT_SPACES else " "


def split_line(line: str, count: PieceCounter, limit: int) -> list[str]:
    """Split a line into segments of at most `limit` pieces, by the rule at the head of this module.

    Args:
        line: any text.
        count: gives the number of pieces of each of several texts.
        limit: pieces of a segment, at least 1; only a single character of more pieces exceeds it.

    Returns:
        At least one segment; joined, they are the line.
    """
    segments = [line]
    for finer in (_at_sentences, _at_words, _at_limit):
        sizes = count(segments)
        parts = [
            [text] if size <= limit else finer(text, count, limit) for text, size in zip(segments, sizes, strict=True)
        ]
        segments = [part for each in parts for part in each]
    return segments


def _at_sentences(text: str, count: PieceCounter, limit: int) -> list[str]:
    return _packed(_cut(text, _SENTENCE_END), count, limit)


def _at_words(text: str, count: PieceCounter, limit: int) -> list[str]:
    return _packed(_cut(text, _WORD_END), count, limit)


def _cut(text: str, end: re.Pattern[str]) -> list[str]:
    """Cut a text behind every match, none of the parts being empty."""
    places = [0, *(match.end() for match in end.finditer(text)), len(text)]
    return [text[start:stop] for start, stop in pairwise(places) if start < stop]


def _packed(units: list[str], count: PieceCounter, limit: int) -> list[str]:
    """Join as many neighbours as fit, by the sum of their pieces; a unit that is too long stays alone."""
    segments: list[str] = []
    room = 0
    for unit, size in zip(units, count(units), strict=True):
        if segments and size <= room:
            segments[-1] += unit
            room -= size
        else:
            segments.append(unit)
            room = limit - size
    return segments


def _at_limit(text: str, count: PieceCounter, limit: int) -> list[str]:
    """Cut a text that has no better place into the longest parts that fit, each measured."""
    windows = []
    while text:
        span = (
            limit  # characters tried; the text behind is not looked at, so that a megabyte takes no longer by the part
        )
        while span < len(text) and count([text[:span]])[0] <= limit:
            span *= 2
        ends = range(1, min(span, len(text)) + 1)
        unbroken = [end for end in ends if end == len(text) or not _holds_together(text, end)]
        end = _last_that_fits(text, unbroken, count, limit) or _last_that_fits(text, ends, count, limit) or 1
        windows.append(text[:end])
        text = text[end:]
    return windows


def _last_that_fits(text: str, ends: Sequence[int], count: PieceCounter, limit: int) -> int | None:
    fitting = bisect_right(ends, limit, key=lambda end: count([text[:end]])[0])
    return ends[fitting - 1] if fitting else None


def _holds_together(text: str, place: int) -> bool:
    """Tell whether the characters on both sides of a place make one sign."""
    mark = unicodedata.category(text[place]).startswith("M")
    return mark or _ZERO_WIDTH_JOINER in text[place - 1 : place + 1]
