"""What a corpus is like, gathered in one pass over it: how much of it there is, how long, in which characters."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

SAMPLE = 2_000  # pairs kept, to tell the languages by
_NEARLY_ALL = 0.999  # of the pairs have their longer side within `longest_characters`
_WRITTEN_WITHOUT_SPACES = 20  # characters a word, from which on a text has no spaces between its words


@dataclass(frozen=True)
class CorpusFacts:
    """What a recipe is chosen by.

    Attributes:
        num_pairs: how many pairs there are.
        num_sources: how many of their source texts are different.
        num_duplicates: how many pairs were there before, word for word.
        mean_characters: of one side of a pair.
        longest_characters: within these are both sides of nearly all pairs.
        num_alphabet: different characters, of both sides together.
        spaced: whether both languages put spaces between words.
        sample: the source texts and the target texts of the first pairs.
    """

    num_pairs: int
    num_sources: int
    num_duplicates: int
    mean_characters: float
    longest_characters: int
    num_alphabet: int
    spaced: bool = True
    sample: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())


def gather_facts(rows: Iterable[tuple[int, str, str]]) -> CorpusFacts:
    """Reads all rows (number, source, target), keeps a sample and a few bytes of each, and says what they are like."""
    sources, pairs, lengths = array("q"), array("q"), array("Q")
    alphabet: set[str] = set()
    characters, spaces = [0, 0], [0, 0]
    sample: list[tuple[str, str]] = []
    for _, *pair in rows:
        source, target = pair
        sources.append(hash(source))
        pairs.append(hash((source, target)))
        lengths.append(max(len(source), len(target)))
        alphabet.update(source, target)
        for side, text in enumerate(pair):
            characters[side] += len(text)
            spaces[side] += text.count(" ")
        if len(sample) < SAMPLE:
            sample.append((source, target))
    count = len(pairs)
    return CorpusFacts(
        num_pairs=count,
        num_sources=len(np.unique(sources)),
        num_duplicates=count - len(np.unique(pairs)),
        mean_characters=sum(characters) / (2 * count),
        longest_characters=int(np.quantile(lengths, _NEARLY_ALL, method="higher")),
        num_alphabet=len(alphabet),
        spaced=all(
            whole < _WRITTEN_WITHOUT_SPACES * (gaps + count) for whole, gaps in zip(characters, spaces, strict=True)
        ),
        sample=(tuple(source for source, _ in sample), tuple(target for _, target in sample)),
    )
