"""The parts of sentences as they are drawn: subjects, objects, places, times."""

from collections.abc import Sequence
from functools import cache

from tformer.data.toy.clauses import FUTURE, PAST, PRESENT, PROGRESSIVE
from tformer.data.toy.lexicon import Adjective, Noun, Phrase, Place, Verb, load_lexicon
from tformer.data.toy.phrases import (
    DEFINITE,
    ILS,
    INDEFINITE,
    NEGATED,
    PEOPLE,
    POSSESSIVE,
    PRONOUNS,
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

ATTRIBUTIVE = ("before", "after")
TENSES = (PAST, PRESENT, PROGRESSIVE, FUTURE)
_USE = {PAST: "past", PRESENT: "habit", PROGRESSIVE: "now", FUTURE: "future"}


def adjectives(picker: Picker, noun: Noun, probability: float) -> list[Adjective]:
    """No adjective, one, or now and then one before and a colour after: small red."""
    if not picker.chance(probability):
        return []
    first = picker.one(adjectives_of(noun, *ATTRIBUTIVE))
    if first.place == "before" and picker.chance(0.25):
        colours = [word for word in adjectives_of(noun, "after") if word.degree == "colour"]
        return [first, picker.one(colours)]
    return [first]


def determined(
    picker: Picker, noun: Noun, groups: Sequence[tuple[Determiner, ...]], probability: float = 0.2, plural: bool | None = None
) -> NounPhrase:
    """The noun with a determiner of one of the groups, and with an adjective by some probability."""
    plural = picker.chance(0.4) if plural is None else plural
    possible = [options for group in groups if (options := determiners(noun, group, plural))]
    if not possible:
        raise UnsuitableError
    determiner = picker.one(picker.random.choice(possible))
    return count_phrase(determiner, noun, adjectives(picker, noun, probability), plural)


def definite(picker: Picker, noun: Noun, probability: float = 0.0, plural: bool | None = None) -> NounPhrase:
    """The noun with the, this, that or a possessive; *the* most often."""
    return determined(picker, noun, (DEFINITE[:1], DEFINITE[:1], DEFINITE, POSSESSIVE), probability, plural)


@cache
def names(feminine: bool | None = None) -> tuple[Noun, ...]:
    """The names, or those of one gender."""
    return tuple(name for name in load_lexicon().names if feminine is None or name.feminine == feminine)


def two_names(picker: Picker) -> NounPhrase:
    """Two people: Mary and Peter."""
    first, second = picker.one(names()), picker.one(names())
    if first is second:
        raise UnsuitableError
    feminine = first.feminine and second.feminine
    return NounPhrase(f"{first.en} and {second.en}", f"{first.fr} et {second.fr}", first, feminine, ILS)


def subject(picker: Picker, classes: frozenset[str], agreeing: bool = False, probability: float = 0.15) -> NounPhrase:
    """Someone or something of the classes: a pronoun, a name, two names, or a noun; `agreeing`: not I, you, we."""
    if classes & PEOPLE:
        kind = picker.random.random()
        if kind < 0.25:
            return picker.one([word for word in PRONOUNS if word.shows_agreement or not agreeing])
        if kind < 0.45:
            return bare_phrase(picker.one(names()))
        if kind < 0.5:
            return two_names(picker)
    noun = picker.one(nouns_of(classes))
    if picker.chance(0.15) and "kin" not in noun.classes:
        return determined(picker, noun, (INDEFINITE,), probability)
    return definite(picker, noun, probability)


def related(picker: Picker) -> NounPhrase:
    """Someone by someone else's name: Mary's sister, la sœur de Marie."""
    name, noun = picker.one(names()), picker.one(nouns_of(frozenset({"kin"})))
    fr = f"{'la' if noun.feminine else 'le'} {noun.fr} de {name.fr}"
    return NounPhrase(f"{name.en}'s {noun.en}", fr, noun, noun.feminine, 1)


@cache
def _mass_of(classes: frozenset[str]) -> tuple[Noun, ...]:
    return tuple(noun for noun in load_lexicon().mass if noun.classes & classes)


@cache
def objects_of(classes: frozenset[str]) -> tuple[Noun, ...]:
    school = load_lexicon().school if "subject" in classes else ()
    return nouns_of(classes) + _mass_of(classes) + school


def thing(
    picker: Picker, classes: frozenset[str], negative: bool = False, is_definite: bool = False, probability: float = 0.2
) -> NounPhrase:
    """An object of the classes: countable, uncountable, a school subject, or a person by name."""
    if "person" in classes and picker.chance(0.4):
        return bare_phrase(picker.one(names()))
    noun = picker.one(objects_of(classes))
    if noun in load_lexicon().school:
        return school_phrase(noun)
    if noun in load_lexicon().mass:
        article = "the" if is_definite or picker.chance(0.3) else "any" if negative else "some"
        return mass_phrase(noun, article, adjectives(picker, noun, probability))
    if is_definite:
        return definite(picker, noun, probability)
    indefinite = NEGATED if negative else INDEFINITE
    return determined(picker, noun, (DEFINITE[:1], DEFINITE, POSSESSIVE, indefinite, indefinite), probability)


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
def verbs(*uses: str, without: str = "", transitive: bool = True) -> tuple[Verb, ...]:
    """The verbs with all the uses and without one, with an object or not."""
    return tuple(
        verb
        for verb in load_lexicon().verbs
        if verb.uses.issuperset(uses) and without not in verb.uses and transitive != bool(verb.uses & {"place", "goal"})
    )
