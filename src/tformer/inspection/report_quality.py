"""Where translations are good and where they are not: by length, by rare words, and word for word."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from html import escape

_LENGTHS = (1, 6, 11, 16, 21, 31, 51, 101)  # the first of each group
_COUNTS = (0, 1, 5, 20, 100, 1000)
_WITHOUT_SPACES = 12  # characters between spaces, on average: Finnish has nine or so, a short Japanese sentence more
_BETWEEN_WORDS = re.compile(r"[\s\d<>'’\"!?.,;:()\[\]{}«»“”„…¿¡–—/\\-]+")  # not \W: it takes vowel signs for a gap
_PART = re.compile(r"\w+\s*|[^\w\s]\s*|\s+")


@dataclass(frozen=True)
class System:
    """One model's translations of the test set: a score of 0 to 100 for each sentence (chrF), and of any of them.

    Attributes:
        name: of the model.
        translations: one a sentence.
        sentence_scores: one a sentence.
        score: gives corpus-level BLEU and chrF of the sentences with these indices.
    """

    name: str
    translations: Sequence[str]
    sentence_scores: Sequence[float]
    score: Callable[[Sequence[int]], tuple[float, float]]


@dataclass(frozen=True)
class Group:
    """Sentences that have something in common, and each system's BLEU and chrF on them, the baseline's first."""

    label: str
    size: int
    scores: list[tuple[float, float]]


def groups(values: Sequence[int | None], starts: Sequence[int], systems: Sequence[System]) -> list[Group]:
    """Score sentences in groups by a number that each has; None is in no group, and neither are empty ones.

    Args:
        values: one a sentence.
        starts: the least number of each group, ascending; the last group has no end.
        systems: the baseline first, if there is one.
    """
    found = []
    for start, after in zip(starts, (*starts[1:], None), strict=True):
        inside = [
            index
            for index, value in enumerate(values)
            if value is not None and start <= value and (after is None or value < after)
        ]
        if inside:
            found.append(Group(_label(start, after), len(inside), [system.score(inside) for system in systems]))
    return found


def by_length(lengths: Sequence[int], systems: Sequence[System]) -> list[Group]:
    """Score sentences by the pieces of their source."""
    return groups(lengths, _LENGTHS, systems)


def by_rarest_word(sources: Sequence[str], counts: Counter[str], systems: Sequence[System]) -> list[Group]:
    """Score sentences by how often training has shown the rarest word of their source."""
    return groups([min((counts[word] for word in words(text)), default=None) for text in sources], _COUNTS, systems)


def _label(start: int, after: int | None) -> str:
    if after is None:
        return f"{start:,} and more"
    return str(start) if after == start + 1 else f"{start:,} to {after - 1:,}"


def words(text: str) -> list[str]:
    """Give the words of a text in lower case, without numbers and punctuation."""
    return [word for word in _BETWEEN_WORDS.split(text.lower()) if word]


def has_words(texts: Sequence[str]) -> bool:
    """Tell whether a language puts spaces between its words."""
    return sum(map(len, texts)) < _WITHOUT_SPACES * sum(text.count(" ") + 1 for text in texts)


def count_words(of: Iterable[str], within: Iterable[str]) -> Counter[str]:
    """Count how often the words of some texts stand in other ones, which may be many."""
    wanted = {word for text in of for word in words(text)}
    counts: Counter[str] = Counter()
    for text in within:
        counts.update(word for word in words(text) if word in wanted)
    return counts


def worst(system: System, most: int) -> list[int]:
    """Give the sentences with the lowest scores, the worst first; of equals the longer ones."""
    order = range(len(system.translations))
    return sorted(order, key=lambda index: (system.sentence_scores[index], -len(system.translations[index])))[:most]


def best(system: System, most: int) -> list[int]:
    """Give the sentences with the highest scores, the best first; of equals the longer ones, which are harder."""
    order = range(len(system.translations))
    return sorted(order, key=lambda index: (-system.sentence_scores[index], -len(system.translations[index])))[:most]


def gains(baseline: System, system: System, most: int) -> tuple[list[int], list[int]]:
    """Give the sentences on which a system gains most on the baseline, and those on which it loses most."""
    gain = [new - old for new, old in zip(system.sentence_scores, baseline.sentence_scores, strict=True)]
    order = sorted(range(len(gain)), key=lambda index: -gain[index])
    return (
        [index for index in order[:most] if gain[index] > 0],
        [index for index in order[: -most - 1 : -1] if gain[index] < 0],
    )


def marked(reference: str, hypothesis: str) -> tuple[str, str]:
    """Give both texts as HTML in which their differences are marked.

    Returns:
        The reference, with what the hypothesis lacks in <del>, and the hypothesis, with what it has instead in <ins>.
    """
    split = _PART.findall if " " in reference + hypothesis else list
    old, new = split(reference), split(hypothesis)
    matcher = SequenceMatcher(None, [part.strip() for part in old], [part.strip() for part in new], autojunk=False)
    sides: tuple[list[str], list[str]] = [], []
    for kind, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        for side, tag, parts in zip(
            sides, ("del", "ins"), (old[old_start:old_end], new[new_start:new_end]), strict=True
        ):
            text = "".join(parts)
            side.append(escape(text) if kind == "equal" else _in_element(tag, text))
    return "".join(sides[0]), "".join(sides[1])


def _in_element(tag: str, text: str) -> str:
    """Put a text into an element, and the space after it behind that."""
    alone = text.rstrip()
    return (f"<{tag}>{escape(alone)}</{tag}>" if alone else "") + text[len(alone) :]
