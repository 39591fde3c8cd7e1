"""Noun phrases in both languages, and the picker that draws their words evenly."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import TypeVar

from tformer.data.toy import french
from tformer.data.toy.lexicon import Adjective, Noun, load_lexicon

H = TypeVar("H", bound=Hashable)
Combination = tuple[str, str, str]
PEOPLE = frozenset({"person", "kin"})
JE, IL, NOUS, VOUS, ILS = range(5)


class UnsuitableError(Exception):
    """What was drawn so far cannot be completed to a sentence; the caller draws again."""


class Picker:
    """Draws from a seed so that words come up about equally often: of two options the one used less so far."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self._uses: Counter[Hashable] = Counter()

    def one(self, options: Sequence[H]) -> H:
        """One of the options.

        Raises:
            UnsuitableError: there are none.
        """
        if not options:
            raise UnsuitableError
        uses, size = self._uses, len(options)
        some, other = options[int(self.random.random() * size)], options[int(self.random.random() * size)]
        chosen = some if uses[some] <= uses[other] else other
        uses[chosen] += 1
        return chosen

    def chance(self, probability: float) -> bool:
        """True with a probability."""
        return self.random.random() < probability


@dataclass(frozen=True, eq=False)
class Determiner:
    """A determiner: English, French masculine, feminine and plural ("" where there is no such number)."""

    en: str
    masculine: str
    feminine: str
    plural: str


@dataclass(frozen=True, eq=False)
class NounPhrase:
    """A subject or object in both languages; `person` is an index into a verb's present forms."""

    en: str
    fr: str
    noun: Noun | None
    feminine: bool
    person: int
    combinations: frozenset[Combination] = frozenset()

    @property
    def plural(self) -> bool:
        """Whether more than one is meant."""
        return self.person in (NOUS, ILS)

    @property
    def classes(self) -> frozenset[str]:
        """The classes of its noun; pronouns are people."""
        return self.noun.classes if self.noun else PEOPLE

    @property
    def shows_agreement(self) -> bool:
        """Whether what agrees with it has one form: not with I, you and we, who may be anyone."""
        return self.person in (IL, ILS)

    @property
    def pronoun(self) -> tuple[str, str]:
        """The pronoun that stands for it as a subject: (it, il)."""
        fr = ("elle" if self.feminine else "il") + "s" * self.plural
        if self.plural:
            return "they", fr
        return (("she" if self.feminine else "he") if self.classes & PEOPLE else "it"), fr


def _det(en: str, masculine: str, feminine: str, plural: str) -> Determiner:
    return Determiner(en, masculine, feminine, plural)


DEFINITE = (
    _det("the", "le", "la", "les"),
    _det("this", "ce", "cette", ""),
    _det("that", "ce", "cette", ""),
    _det("these", "", "", "ces"),
    _det("those", "", "", "ces"),
)
POSSESSIVE = (
    _det("my", "mon", "ma", "mes"),
    _det("your", "votre", "votre", "vos"),
    _det("his", "son", "sa", "ses"),
    _det("her", "son", "sa", "ses"),
    _det("our", "notre", "notre", "nos"),
    _det("their", "leur", "leur", "leurs"),
)
NUMBERS = tuple(
    _det(en, "", "", fr)
    for en, fr in (
        ("two", "deux"),
        ("three", "trois"),
        ("four", "quatre"),
        ("five", "cinq"),
        ("six", "six"),
        ("seven", "sept"),
        ("eight", "*huit"),
        ("nine", "neuf"),
        ("ten", "dix"),
        ("twelve", "douze"),
    )
)
INDEFINITE = (
    _det("a", "un", "une", ""),
    _det("some", "", "", "des"),
    _det("many", "", "", "beaucoup de"),
    _det("several", "", "", "plusieurs"),
    *NUMBERS,
)
NEGATED = (_det("a", "de", "de", ""), _det("any", "", "", "de"))
NEVER = NEGATED[1:]
NO = (_det("no", "de", "de", "de"),)
THE = DEFINITE[:1]

OWNED = frozenset(
    [
        "pet",
        "grazer",
        "clothing",
        "furniture",
        "object",
        "breakable",
        "vehicle",
        "reading",
        "document",
        "instrument",
        "textile",
        "food",
        "gift",
        "cloth",
        "opening",
        "plant",
        "kin",
        "house",
        "garden",
        "street",
        "village",
        "city",
        "school",
        "luggage",
        "container",
    ]
)
"""What someone may call theirs."""

PRONOUNS = (
    NounPhrase("I", "je", None, False, JE),
    NounPhrase("you", "vous", None, False, VOUS),
    NounPhrase("he", "il", None, False, IL),
    NounPhrase("she", "elle", None, True, IL),
    NounPhrase("we", "nous", None, False, NOUS),
)
ASKED_ABOUT = PRONOUNS[1:4]
"""Not I and we, who know what they did."""
AGREEING = PRONOUNS[2:4]
"""Not I, you and we, who may be anyone: what agrees with them has no one form."""


@cache
def nouns_of(classes: frozenset[str]) -> tuple[Noun, ...]:
    """The countable nouns of any of the classes."""
    return tuple(noun for noun in load_lexicon().nouns if noun.classes & classes)


@cache
def adjectives_of(noun: Noun, *places: str) -> tuple[Adjective, ...]:
    """The adjectives that may be said of the noun and stand in one of the places."""
    return tuple(word for word in load_lexicon().adjectives if word.place in places and word.fits(noun))


@cache
def determiners(noun: Noun, options: tuple[Determiner, ...], plural: bool) -> tuple[Determiner, ...]:
    """Those of the determiners that go with the noun: an aunt is always someone's, a king nobody's."""
    if "kin" in noun.classes:
        options = tuple(word for word in options if word in POSSESSIVE)
    elif not noun.classes & OWNED:
        options = tuple(word for word in options if word not in POSSESSIVE)
    return tuple(word for word in options if (word.plural if plural else word.masculine))


def count_phrase(determiner: Determiner, noun: Noun, adjectives: Sequence[Adjective], plural: bool) -> NounPhrase:
    """Determiner, adjectives and noun, agreeing: (this, [old], tree) → this old tree, ce vieil arbre."""
    fr_noun = noun.fr_plural if plural else noun.fr
    before = [word for word in adjectives if word.precedes]
    after = [word.form(noun.feminine, plural) for word in adjectives if not word.precedes]
    front = [word.form(noun.feminine, plural) for word in before]
    if front and not plural:
        front = [french.adjective_before(front[0], fr_noun)]
    fr_det = determiner.plural if plural else determiner.feminine if noun.feminine else determiner.masculine
    if fr_det == "des" and front:
        fr_det = "de"
    en_adjectives = [word.en for word in sorted(adjectives, key=lambda word: not word.precedes)]
    return NounPhrase(
        " ".join([determiner.en, *en_adjectives, noun.en_plural if plural else noun.en]),
        " ".join([fr_det, *front, fr_noun, *after]),
        noun,
        noun.feminine,
        ILS if plural else IL,
        frozenset(("adjective", noun.en, word.en) for word in adjectives),
    )


def bare_phrase(noun: Noun) -> NounPhrase:
    """A name."""
    return NounPhrase(noun.en, noun.fr, noun, noun.feminine, IL)


def mass_phrase(noun: Noun, article: str, adjectives: Sequence[Adjective] = ()) -> NounPhrase:
    """An uncountable with "the", "some", "any" or "no" (negated) or "" (in general): some soup, de la soupe."""
    definite = "la" if noun.feminine else "le"
    before = [word.form(noun.feminine, False) for word in adjectives if word.precedes]
    after = [word.form(noun.feminine, False) for word in adjectives if not word.precedes]
    fr = " ".join(
        [{"some": f"de {definite}", "any": "de", "no": "de"}.get(article, definite), *before, noun.fr, *after]
    )
    en = " ".join([article, *(word.en for word in adjectives), noun.en]).strip()
    combinations = frozenset(("adjective", noun.en, word.en) for word in adjectives)
    return NounPhrase(en, fr, noun, noun.feminine, IL, combinations)


def school_phrase(noun: Noun) -> NounPhrase:
    """A school subject: maths, les maths."""
    fr = f"les {noun.fr_plural}" if noun.fr_plural else f"{'la' if noun.feminine else 'le'} {noun.fr}"
    return NounPhrase(noun.en, fr, noun, noun.feminine, ILS if noun.fr_plural else IL)


def generic_phrase(noun: Noun) -> NounPhrase:
    """All of a kind: cats, les chats."""
    return NounPhrase(noun.en_plural, f"les {noun.fr_plural}", noun, noun.feminine, ILS)
