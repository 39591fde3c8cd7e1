"""How long sentences are, and which pairs stand out: too long to be used, far longer than the rest, or ill matched."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tformer.data.check.finding import Finding, places, share

if TYPE_CHECKING:
    from tformer.data.store import TextCorpus

IntArray = npt.NDArray[np.int64]

_MANY = 0.01  # of all pairs: from here on it is a warning
_FAR = 5  # times the 95th percentile: text in sentences hardly reaches it
_DEVIATIONS = 6  # robust standard deviations from the usual ratio of lengths
_FACTOR = 2.5  # the bound on that ratio is never closer than this
_SIGMA = 1.4826  # standard deviations in a median absolute deviation, if errors are normal
_SLACK = 10  # characters added to both sides of a ratio: among short sentences ratios vary more


@dataclass(frozen=True)
class Distribution:
    """Lengths of one side: what half, 95 and 99 in 100 sentences do not exceed, and the longest."""

    median: int
    percentile_95: int
    percentile_99: int
    longest: int

    @classmethod
    def of(cls, lengths: IntArray) -> "Distribution":
        """Describe lengths, none of which is interpolated."""
        return cls(*(int(np.percentile(lengths, share, method="inverted_cdf")) for share in (50, 95, 99, 100)))


def character_lengths(corpus: "TextCorpus") -> tuple[IntArray, IntArray]:
    """Count the characters of each source and each target: [pairs] int64."""
    import pyarrow.compute as pc

    table = corpus.table
    source, target = (pc.utf8_length(table[side]).to_numpy().astype(np.int64) for side in ("source", "target"))
    return source, target


def look_at_lengths(corpus: "TextCorpus", source: IntArray, target: IntArray) -> Iterator[Finding]:
    """Find training pairs with a side far longer than the others, and those whose sides do not match in length.

    Args:
        corpus: training pairs.
        source: [pairs] int64, characters of each source.
        target: [pairs] int64, characters of each target.
    """
    bounds = [_FAR * Distribution.of(side).percentile_95 for side in (source, target)]
    rows = np.flatnonzero((source > bounds[0]) | (target > bounds[1]))
    if len(rows):
        yield Finding(
            "length_outliers",
            "note",
            f"{share(len(rows), len(corpus))} training pairs have more than {bounds[0]:,} characters of source or "
            f"{bounds[1]:,} of target, {_FAR} times what 95 in 100 have at most: see whether they are sentences",
            len(rows),
            "train",
            places(corpus, rows),
        )
    usual, factor, rows = ratio_outliers(source, target)
    if len(rows):
        yield Finding(
            "ratio_outliers",
            "warning" if len(rows) > _MANY * len(corpus) else "note",
            f"{share(len(rows), len(corpus))} training pairs are over {factor:.1f} times longer or shorter in the "
            f"target than usual ({usual:.2f} characters for one of the source): often not each other's translation",
            len(rows),
            "train",
            places(corpus, rows),
        )


def ratio_outliers(source: IntArray, target: IntArray) -> tuple[float, float, IntArray]:
    """Find pairs whose ratio of lengths is far from the corpus's own.

    Returns:
        The usual ratio, target to source; the factor by which it may be missed, 6 robust standard deviations and at
        least 2.5; the pairs beyond it.
    """
    ratios = np.log((target + _SLACK) / (source + _SLACK))
    usual = float(np.median(ratios))
    distance = np.abs(ratios - usual)
    bound = max(math.log(_FACTOR), _DEVIATIONS * _SIGMA * float(np.median(distance)))
    return math.exp(usual), math.exp(bound), np.flatnonzero(distance > bound)


def too_long(corpus: "TextCorpus", source: IntArray, target: IntArray, limit: int, setting: str) -> Iterator[Finding]:
    """Find the training pairs that are left out because a side has more pieces than are allowed.

    Args:
        corpus: training pairs.
        source: [pairs] int64, pieces of each source, EOS included.
        target: [pairs] int64, pieces of each target, EOS included.
        limit: the most pieces of a side.
        setting: what sets that limit.
    """
    longest = np.maximum(source, target)
    rows = np.flatnonzero(longest > limit)
    if len(rows):
        found = Distribution.of(longest)
        yield Finding(
            "too_long",
            "warning" if len(rows) > _MANY * len(corpus) else "note",
            f"{share(len(rows), len(corpus))} training pairs are longer than {limit:,} pieces ({setting}) and are "
            f"left out, unless that is raised; 99 in 100 have at most {found.percentile_99:,}, the longest has "
            f"{found.longest:,}",
            len(rows),
            "train",
            places(corpus, rows),
        )
