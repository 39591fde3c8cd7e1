"""The splits: what a seed makes of the grammar, with combinations held out and pronouns to be told apart."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from itertools import chain

from tformer.data.toy.because import PronounItem as PronounItem
from tformer.data.toy.because import minimal_pair
from tformer.data.toy.clauses import Sentence
from tformer.data.toy.grammar import WEIGHTS
from tformer.data.toy.phrases import Combination, Picker, UnsuitableError
from tformer.errors import DataError

DEFAULT_SEED = 1
TRAIN_SIZE = 40_000
VALIDATION_SIZE = TEST_SEEN_SIZE = TEST_COMPOSITIONAL_SIZE = 500
PAIRS_PER_KIND = 30
MIN_COUNT = 10
"""How often a word form of validation, test or pronouns is met in training at least."""
_MAX_TRIES = 100_000
_ADVICE = "add words or classes to the tables in tformer/data/toy/lexicon"

RESERVED = (
    ("I love maths.", "J'aime les maths."),
    (
        "The animal did not cross the street because it was tired.",
        "L'animal n'a pas traversé la rue parce qu'il était fatigué.",
    ),
    (
        "The animal did not cross the street because it was wide.",
        "L'animal n'a pas traversé la rue parce qu'elle était large.",
    ),
    ("The cats did not drink any milk.", "Les chats n'ont pas bu de lait."),
    ("Did Mary find her new key?", "Est-ce que Marie a trouvé sa nouvelle clé ?"),
    ("There are some old trees in the garden.", "Il y a de vieux arbres dans le jardin."),
    ("My sister went to the market yesterday.", "Ma sœur est allée au marché hier."),
    ("The apples that Peter bought are red.", "Les pommes que Pierre a achetées sont rouges."),
    ("Julia wrote the letter but did not send it.", "Julie a écrit la lettre mais ne l'a pas envoyée."),
    ("Which flowers did the queen pick?", "Quelles fleurs est-ce que la reine a cueillies ?"),
)
"""Sentences to show: they are in no split, though the grammar makes them."""

Pair = tuple[str, str]


@dataclass(frozen=True)
class ToyCorpus:
    """The corpus; `test` is its two parts one after the other, and `parts` says which indices are whose."""

    train: list[Pair]
    validation: list[Pair]
    test_seen: list[Pair]
    test_compositional: list[Pair]
    pronouns: list[PronounItem]

    @property
    def test(self) -> list[Pair]:
        """All test pairs: those of seen combinations, then those of unseen ones."""
        return self.test_seen + self.test_compositional

    @property
    def parts(self) -> dict[str, range]:
        """The indices into `test` of each part."""
        seen = len(self.test_seen)
        return {"seen": range(seen), "compositional": range(seen, seen + len(self.test_compositional))}


@dataclass(frozen=True)
class Splits:
    """The corpus before it is reduced to text: sentences know the combinations they are made of."""

    train: list[Sentence]
    validation: list[Sentence]
    test_seen: list[Sentence]
    test_compositional: list[Sentence]
    pronouns: list[PronounItem]


def words(text: str) -> list[str]:
    """The word forms of a sentence in lower case; what an apostrophe joins counts as two."""
    return re.findall(r"[^\W\d_]+(?:-[^\W\d_]+)*", text.lower())


def is_held_out(combination: Combination) -> bool:
    """Whether training must not contain the combination: about one in twenty, the same ones whatever the seed."""
    return blake2b("|".join(combination).encode(), salt=_SALT).digest()[0] < _HELD_OUT_OF_256


_HELD_OUT_OF_256 = 13
_SALT = b"1"  # one by which no reserved sentence needs a combination that is held out


def is_kept_for_show(source: str) -> bool:
    """Whether no split may contain the sentence: a reserved one, or an animal on a street that is tired or wide."""
    if source in _RESERVED_SOURCES:
        return True
    found = set(words(source))
    return all(found & some for some in ({"animal", "animals"}, {"street", "streets"}, {"tired", "wide"}))


_RESERVED_SOURCES = frozenset(source for source, _ in RESERVED)


@dataclass
class _Vocabulary:
    """What training has shown: combinations, and how often each word form of either language."""

    combinations: set[Combination] = field(default_factory=set)
    source_forms: Counter[str] = field(default_factory=Counter)
    target_forms: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, sentences: Iterable[Sentence]) -> "_Vocabulary":
        new = cls()
        for sentence in sentences:
            new.combinations |= sentence.combinations
            new.source_forms.update(words(sentence.source))
            new.target_forms.update(words(sentence.target))
        return new

    def knows_words(self, pair: Sentence | PronounItem) -> bool:
        """Whether each word form of the pair has been met often enough."""
        return all(self.source_forms[word] >= MIN_COUNT for word in words(pair.source)) and all(
            self.target_forms[word] >= MIN_COUNT for word in words(pair.target)
        )

    def knows(self, sentence: Sentence) -> bool:
        """Whether both words and combinations of the sentence have been met."""
        return sentence.combinations <= self.combinations and self.knows_words(sentence)


PronounPair = tuple[PronounItem, PronounItem, frozenset[Combination]]


def _draw_pronoun_pairs(picker: Picker) -> dict[str, list[PronounPair]]:
    """Twice as many minimal pairs as are wanted, by the pronoun of the first."""
    pairs: dict[str, list[PronounPair]] = {kind: [] for kind in ("qu'il", "qu'elle", "qu'ils", "qu'elles")}
    sources: set[str] = set()
    for _ in range(_MAX_TRIES):
        if all(len(kind) == 2 * PAIRS_PER_KIND for kind in pairs.values()):
            return pairs
        try:
            pair = first, second, combinations = minimal_pair(picker)
        except UnsuitableError:
            continue
        both = {first.source, second.source}
        kind = pairs[first.right]
        unwanted = both & sources or any(map(is_kept_for_show, both)) or any(map(is_held_out, combinations))
        if not unwanted and len(kind) < 2 * PAIRS_PER_KIND:
            sources |= both
            kind.append(pair)
    found = ", ".join(f"{len(kind)} of {pronoun}" for pronoun, kind in pairs.items())
    raise DataError(f"expected {2 * PAIRS_PER_KIND} pronoun pairs of each kind, got {found}: {_ADVICE}")


def draw_sentences(picker: Picker, taken: set[str], seen_size: int) -> tuple[list[Sentence], list[Sentence]]:
    """Distinct sentences of combinations that training may have, `seen_size` of them, and those that it may not."""
    templates, weights = list(WEIGHTS), list(WEIGHTS.values())
    seen: list[Sentence] = []
    unseen: list[Sentence] = []
    while len(seen) < seen_size:
        for template in picker.random.choices(templates, weights, k=1000):
            try:
                sentence = template(picker)
            except UnsuitableError:
                continue
            if sentence.source in taken or is_kept_for_show(sentence.source):
                continue
            taken.add(sentence.source)
            (unseen if any(map(is_held_out, sentence.combinations)) else seen).append(sentence)
    return seen, unseen


def _take(sentences: Sequence[Sentence], size: int) -> list[Sentence]:
    if len(sentences) < size:
        raise DataError(f"expected {size} sentences or more for a split, got {len(sentences)}: {_ADVICE}")
    return list(sentences[:size])


@cache
def make_splits(seed: int = DEFAULT_SEED) -> Splits:
    """All splits of a seed as sentences that know their combinations."""
    picker = Picker(seed)
    pronoun_pairs = _draw_pronoun_pairs(picker)
    taken = {item.source for pair in chain(*pronoun_pairs.values()) for item in pair[:2]}
    spare = 3 * (VALIDATION_SIZE + TEST_SEEN_SIZE)
    seen, unseen = draw_sentences(picker, taken, TRAIN_SIZE + spare)
    train = seen[:TRAIN_SIZE]
    known = _Vocabulary.of(train)
    familiar = _take([s for s in seen[TRAIN_SIZE:] if known.knows(s)], VALIDATION_SIZE + TEST_SEEN_SIZE)
    unfamiliar = _take([s for s in unseen if known.knows_words(s)], TEST_COMPOSITIONAL_SIZE)
    pronouns: list[PronounItem] = []
    for pairs in pronoun_pairs.values():
        good = [
            (first, second)
            for first, second, combinations in pairs
            if combinations <= known.combinations and known.knows_words(first) and known.knows_words(second)
        ]
        pronouns.extend(chain(*good[:PAIRS_PER_KIND]))
    return Splits(train, familiar[:VALIDATION_SIZE], familiar[VALIDATION_SIZE:], unfamiliar, pronouns)


def _pairs(sentences: list[Sentence]) -> list[Pair]:
    return [(sentence.source, sentence.target) for sentence in sentences]


@cache
def make_toy_corpus(seed: int = DEFAULT_SEED) -> ToyCorpus:
    """The built-in corpus: the same for the same seed, on any machine."""
    splits = make_splits(seed)
    return ToyCorpus(
        _pairs(splits.train),
        _pairs(splits.validation),
        _pairs(splits.test_seen),
        _pairs(splits.test_compositional),
        splits.pronouns,
    )
