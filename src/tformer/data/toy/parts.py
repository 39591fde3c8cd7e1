"""The parts of sentences as they are drawn: subjects, objects, places, times."""

from collections.abc import Sequence
from functools import cache

from tformer.data.toy import french
from tformer.data.toy.clauses import FUTURE, PAST, PRESENT, PROGRESSIVE
from tformer.data.toy.lexicon import Adjective, Noun, Phrase, Place, Verb, load_lexicon
from tformer.data.toy.phrases import (
    DEFINITE,
    IL,
    ILS,
    INDEFINITE,
    NEGATED,
    NEVER,
    PEOPLE,
    POSSESSIVE,
    PRONOUNS,
    THE,
    Determiner,
    NounPhrase,
    Picker,
    UnsuitableError,
    adjectives_of,
    bare_phrase,
    count_phrase,
    determiners,
    generic_phrase,
    mass_phrase,
    nouns_of,
    school_phrase,
)

TENSES = (PAST, PRESENT, PROGRESSIVE, FUTURE)
_USE = {PAST: "past", PRESENT: "habit", PROGRESSIVE: "now", FUTURE: "future"}


def adjectives(picker: Picker, noun: Noun, probability: float) -> list[Adjective]:
    """No adjective, one, or now and then one before and a colour after: small red.

    The few that precede their noun are drawn as often as the many that follow it, and beau, nouveau, vieux more often
    before a vowel: bel, nouvel, vieil are rare otherwise.
    """
    if not picker.chance(probability):
        return []
    options = adjectives_of(noun, *picker.random.choice((("before", "front"), ("after",))))
    bending = [word for word in options if french.adjective_before(word.forms[0], noun.fr) != word.forms[0]]
    first = picker.one(bending if bending and not noun.feminine and picker.chance(0.5) else options)
    if first.precedes and picker.chance(0.2):
        return [first, picker.one([word for word in adjectives_of(noun, "after") if word.degree == "colour"])]
    return [first]


def determined(
    picker: Picker,
    noun: Noun,
    groups: Sequence[tuple[Determiner, ...]],
    probability: float = 0.0,
    plural: bool | None = None,
) -> NounPhrase:
    """The noun with a determiner of one of the groups, and with an adjective by some probability.

    Raises:
        UnsuitableError: none of the determiners goes with the noun.
    """
    if plural is None:
        plural = picker.chance(0.8 if "plenty" in noun.classes else 0.4)
    plural = plural and "parent" not in noun.classes
    possible = [options for group in groups if (options := determiners(noun, group, plural))]
    if not possible:
        raise UnsuitableError
    determiner = picker.one(picker.random.choice(possible))
    return count_phrase(determiner, noun, adjectives(picker, noun, probability), plural)


def definite(picker: Picker, noun: Noun, probability: float = 0.0, plural: bool | None = None) -> NounPhrase:
    """The noun with the, this, that or a possessive; *the* most often."""
    return determined(picker, noun, _GROUPS["definite"], probability, plural)


@cache
def names() -> tuple[Noun, ...]:
    """First names."""
    return load_lexicon().names


def _two_names(picker: Picker) -> NounPhrase:
    """Two people: Mary and Peter."""
    first, second = picker.one(names()), picker.one(names())
    if first is second:
        raise UnsuitableError
    feminine = first.feminine and second.feminine
    return NounPhrase(f"{first.en} and {second.en}", f"{first.fr} et {second.fr}", first, feminine, ILS)


def _friend(picker: Picker) -> NounPhrase:
    """A friend by name, so that the gender is known: my friend Mary, mon amie Marie."""
    name, determiner = picker.one(names()), picker.one(POSSESSIVE)
    fr = f"{determiner.feminine} amie" if name.feminine else f"{determiner.masculine} ami"
    return NounPhrase(f"{determiner.en} friend {name.en}", f"{fr} {name.fr}", name, name.feminine, IL)


def subject(
    picker: Picker,
    classes: frozenset[str],
    pronouns: Sequence[NounPhrase] = PRONOUNS,
    probability: float = 0.15,
    share: float = 0.25,
) -> NounPhrase:
    """Someone or something: one of the pronouns (as often as `share` says), a name or two, a friend, or a noun."""
    if classes & PEOPLE:
        if picker.chance(share):
            return picker.one(pronouns)
        kind = picker.random.random()
        if kind < 0.25:
            return bare_phrase(picker.one(names()))
        if kind < 0.33:
            return _two_names(picker)
        if kind < 0.38:
            return _friend(picker)
    noun = picker.one(nouns_of(classes))
    if picker.chance(0.15) and "kin" not in noun.classes:
        return determined(picker, noun, (INDEFINITE,), probability)
    return definite(picker, noun, probability)


def check_distinct(who: NounPhrase, what: NounPhrase) -> None:
    """Nobody does something to himself.

    Raises:
        UnsuitableError: both are the same.
    """
    if what.noun and (what.noun is who.noun or what.noun.en in who.en.split()):
        raise UnsuitableError


def related(picker: Picker) -> NounPhrase:
    """Someone by someone else's name: Mary's sister, la sœur de Marie."""
    name, noun = picker.one(names()), picker.one(nouns_of(frozenset({"kin"})))
    fr = f"{'la' if noun.feminine else 'le'} {noun.fr} de {name.fr}"
    return NounPhrase(f"{name.en}'s {noun.en}", fr, noun, noun.feminine, IL)


@cache
def _mass_of(classes: frozenset[str]) -> tuple[Noun, ...]:
    return tuple(noun for noun in load_lexicon().mass if noun.classes & classes)


@cache
def objects_of(classes: frozenset[str]) -> tuple[Noun, ...]:
    """The nouns of any of the classes, countable or not, and the school subjects where they are meant."""
    school = load_lexicon().school if "subject" in classes else ()
    return nouns_of(classes) + _mass_of(classes) + school


def thing(picker: Picker, classes: frozenset[str], kind: str = "free", probability: float = 0.2) -> NounPhrase:
    """An object of the classes: countable, uncountable, a school subject, or a person by name.

    `kind` is "free", "definite", "indefinite", "negated" (free after a negation) or "never" (any of them, any at all).
    """
    if "person" in classes and picker.chance(0.4):
        return bare_phrase(picker.one(names()))
    noun = picker.one(objects_of(classes))
    if "subject" in noun.classes:
        return school_phrase(noun)
    if not noun.fr_plural:
        article = picker.random.choice(_ARTICLES[kind])
        return mass_phrase(noun, article, adjectives(picker, noun, probability))
    return determined(picker, noun, _GROUPS[kind], probability)


_GROUPS = {
    "free": (THE, DEFINITE, POSSESSIVE, INDEFINITE, INDEFINITE),
    "definite": (THE, THE, DEFINITE, POSSESSIVE),
    "indefinite": (INDEFINITE[:1], INDEFINITE),
    "negated": (THE, DEFINITE, POSSESSIVE, NEGATED, NEGATED),
    "never": (NEVER,),
}
_ARTICLES = {
    "free": ("some", "some", "the"),
    "definite": ("the",),
    "indefinite": ("some",),
    "negated": ("any", "any", "the"),
    "never": ("any",),
}


def taste(picker: Picker, verb: Verb) -> NounPhrase:
    """What one loves or hates: cats, cheese, history, each in general."""
    kind = picker.one(("school", "mass", "count"))
    if kind == "school":
        return school_phrase(picker.one(load_lexicon().school))
    if kind == "mass":
        return mass_phrase(picker.one(_mass_of(verb.objects)), "")
    return generic_phrase(picker.one(nouns_of(verb.objects)))


def of(verb: Verb, noun_phrase: NounPhrase) -> tuple[str, str, str]:
    """The combination of a verb with its object."""
    return "object", verb.en, noun_phrase.noun.en if noun_phrase.noun else ""


def place(picker: Picker, options: Sequence[Place], goal: bool = False) -> tuple[str, str]:
    """A place with its preposition: at the market, à le marché; as a goal: to the market."""
    chosen = picker.one(options)
    article = "la" if chosen.noun.feminine else "le"
    en, fr = ("to", chosen.goal) if goal else (chosen.en, chosen.fr)
    return f"{en} the {chosen.noun.en}", f"{fr} {article} {chosen.noun.fr}"


@cache
def places_of(classes: frozenset[str]) -> tuple[Place, ...]:
    """The places whose nouns are of the classes (where one swims)."""
    return tuple(place for place in load_lexicon().places if place.noun.classes & classes)


@cache
def places_for(noun: Noun) -> tuple[Place, ...]:
    """The places where the noun may be (where an apple lies)."""
    return tuple(place for place in load_lexicon().places if place.classes & noun.classes)


@cache
def goals() -> tuple[Place, ...]:
    """The places where one can say that one goes."""
    return tuple(place for place in load_lexicon().places if place.goal)


def time(picker: Picker, tense: str, probability: float) -> tuple[str, str]:
    """A time that goes with the tense, or nothing."""
    if not picker.chance(probability):
        return "", ""
    phrase = picker.one(_phrases(_USE[tense]))
    return phrase.en, phrase.fr


@cache
def _phrases(use: str) -> tuple[Phrase, ...]:
    """The fixed adverbials for a use."""
    return tuple(phrase for phrase in load_lexicon().phrases if phrase.use == use)


@cache
def actions(*uses: str) -> tuple[Verb, ...]:
    """The verbs with an object and no more than that, of all the uses: not giving, not loving."""
    return tuple(
        verb
        for verb in load_lexicon().verbs
        if verb.uses.issuperset(uses) and not verb.moves and not verb.uses & {"receiver", "taste"}
    )


@cache
def verbs_for(use: str) -> tuple[Verb, ...]:
    """The verbs of one use: receiver, taste."""
    return tuple(verb for verb in load_lexicon().verbs if use in verb.uses)


@cache
def moves() -> tuple[Verb, ...]:
    """The verbs without an object."""
    return tuple(verb for verb in load_lexicon().verbs if verb.moves)
