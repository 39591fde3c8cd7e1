"""The templates of sentences with one clause: statements, negations, yes-or-no questions."""

from functools import cache

from tformer.data.toy import parts
from tformer.data.toy.clauses import (
    AVOIR,
    FUTURE,
    PAST,
    PRESENT,
    PROGRESSIVE,
    Sentence,
    be,
    english_clause,
    finish,
    french_clause,
    is_third_singular,
    negate,
    predicate,
)
from tformer.data.toy.lexicon import Adjective, Noun, Verb, load_lexicon
from tformer.data.toy.phrases import (
    AGREEING,
    ASKED_ABOUT,
    INDEFINITE,
    NEGATED,
    NO,
    PEOPLE,
    POSSESSIVE,
    PRONOUNS,
    NounPhrase,
    Picker,
    UnsuitableError,
    adjectives_of,
    count_phrase,
    mass_phrase,
    nouns_of,
)

VERY = ("very", "très")
TOO = ("too", "trop")
PLAIN = ("", "")


def _act(
    picker: Picker,
    verb: Verb,
    tense: str,
    kind: str = "free",
    negative: bool = False,
    question: bool = False,
    when: float = 0.2,
) -> Sentence:
    """Someone does something to something, or does not, or does one?"""
    pronouns = ASKED_ABOUT if question else PRONOUNS
    who = parts.subject(picker, verb.subjects, pronouns, share=0.25 if tense == PAST else 0.6)
    what = parts.thing(picker, verb.objects, "definite" if negative and "any" not in verb.uses else kind)
    parts.check_distinct(who, what)
    en_when, fr_when = parts.time(picker, tense, when)
    en = english_clause(who, verb, tense, negative, question)
    fr = f"{'est-ce que ' * question}{french_clause(who, verb, tense, negative)}"
    combinations = who.combinations | what.combinations | {parts.of(verb, what)}
    return finish(f"{en} {what.en} {en_when}", f"{fr} {what.fr} {fr_when}", combinations, "?" if question else ".")


def did(picker: Picker) -> Sentence:
    """Mary bought an apple yesterday."""
    return _act(picker, picker.one(parts.actions()), PAST)


def did_not(picker: Picker) -> Sentence:
    """Mary did not buy any bread."""
    return _act(picker, picker.one(parts.actions()), PAST, "negated", negative=True)


def did_question(picker: Picker) -> Sentence:
    """Did the boy find the key?"""
    return _act(picker, picker.one(parts.actions()), PAST, question=True)


def is_doing(picker: Picker) -> Sentence:
    """The girl is reading a book."""
    return _act(picker, picker.one(parts.actions("now")), PROGRESSIVE)


def is_not_doing(picker: Picker) -> Sentence:
    """The girl is not wearing her coat."""
    return _act(picker, picker.one(parts.actions("now")), PROGRESSIVE, "definite", negative=True)


def is_doing_question(picker: Picker) -> Sentence:
    """Is the girl reading the letter?"""
    return _act(picker, picker.one(parts.actions("now")), PROGRESSIVE, question=True, when=0.1)


def does_often(picker: Picker) -> Sentence:
    """My uncle washes the car every week."""
    verb = picker.one(parts.actions("habit"))
    return _act(picker, verb, PRESENT, "indefinite" if "anew" in verb.uses else "definite", when=1.0)


def does_not(picker: Picker) -> Sentence:
    """The cat does not eat any onions."""
    return _act(picker, picker.one(parts.actions("habit", "anew", "any")), PRESENT, "never", negative=True, when=0.0)


def knows(picker: Picker) -> Sentence:
    """I know that man. Do you know this city?"""
    verb = next(verb for verb in parts.actions() if verb.en == "know")
    question = picker.chance(0.3)
    return _act(
        picker, verb, PRESENT, "definite", negative=not question and picker.chance(0.4), question=question, when=0.0
    )


def will_do(picker: Picker) -> Sentence:
    """Mary is going to sell her car tomorrow."""
    verb = picker.one([verb for verb in parts.actions() if "chance" not in verb.uses and not verb.is_state])
    negative = picker.chance(0.25)
    question = not negative and picker.chance(0.3)
    return _act(picker, verb, FUTURE, "negated" if negative else "free", negative, question, when=0.4)


def loves(picker: Picker) -> Sentence:
    """I love maths."""
    return _taste(picker, [verb for verb in parts.verbs_for("taste") if verb.en != "like"])


def dislikes(picker: Picker) -> Sentence:
    """We do not like onions. Do you like history?"""
    verbs = [verb for verb in parts.verbs_for("taste") if verb.en == "like"]
    return _taste(picker, verbs, negative=True) if picker.chance(0.6) else _taste(picker, verbs, question=True)


def _taste(picker: Picker, verbs: list[Verb], negative: bool = False, question: bool = False) -> Sentence:
    verb = picker.one(verbs)
    who = parts.subject(picker, verb.subjects, ASKED_ABOUT if question else PRONOUNS, share=0.4)
    what = parts.taste(picker, verb)
    en, fr = english_clause(who, verb, PRESENT, negative, question), french_clause(who, verb, PRESENT, negative)
    combinations = who.combinations | {parts.of(verb, what)}
    return finish(
        f"{en} {what.en}", f"{'est-ce que ' * question}{fr} {what.fr}", combinations, "?" if question else "."
    )


def _where(picker: Picker, verb: Verb) -> tuple[str, str]:
    """A place for the verb: where one does it, or where one goes; or none."""
    if verb.en in ("go", "go back") or ("goal" in verb.uses and picker.chance(0.6)):
        if picker.chance(0.65):
            return parts.place(picker, parts.goals(), goal=True)
        land = picker.one(load_lexicon().geography)
        return f"to {land.en}", land.fr
    if verb.en in ("travel", "work") and picker.chance(0.5):
        land = picker.one(load_lexicon().geography)
        return f"in {land.en}", land.fr
    if verb.objects and picker.chance(0.65):
        return parts.place(picker, parts.places_of(verb.objects))
    return "", ""


def _move(picker: Picker, tense: str, question: bool = False) -> Sentence:
    """Someone sleeps, comes, laughs: somewhere, at some time, or just so."""
    use = {PROGRESSIVE: "now", PRESENT: "habit"}.get(tense, "")
    verb = picker.one([verb for verb in parts.moves() if not use or use in verb.uses])
    pronouns = AGREEING if tense == PAST and verb.with_etre else ASKED_ABOUT if question else PRONOUNS
    who = parts.subject(picker, verb.subjects, pronouns, share=0.25 if tense == PAST else 0.6)
    negative = not question and tense != PRESENT and picker.chance(0.25)
    en_where, fr_where = _where(picker, verb)
    en_when, fr_when = parts.time(picker, tense, 1.0 if tense == PRESENT else 0.4)
    en = f"{english_clause(who, verb, tense, negative, question)} {en_where} {en_when}"
    fr = f"{'est-ce que ' * question}{french_clause(who, verb, tense, negative)} {fr_where} {fr_when}"
    return finish(en, fr, who.combinations, "?" if question else ".")


def moved(picker: Picker) -> Sentence:
    """The queen came back last week."""
    return _move(picker, PAST)


def moves(picker: Picker) -> Sentence:
    """We are walking on the beach. The trains leave every morning. They are not going to dance."""
    return _move(picker, picker.random.choice((PRESENT, PROGRESSIVE, FUTURE)))


def moved_question(picker: Picker) -> Sentence:
    """Did the girls go to the cinema?"""
    return _move(picker, picker.random.choice((PAST, PROGRESSIVE, FUTURE)), question=True)


@cache
def _predicates() -> tuple[Adjective, ...]:
    """What can be said of countable nouns after *be*."""
    things = frozenset(word for noun in load_lexicon().nouns for word in noun.classes)
    return tuple(word for word in load_lexicon().adjectives if word.place != "front" and word.classes & things)


def _be_such(picker: Picker, who: NounPhrase, adjective: Adjective, when: float = 0.0) -> Sentence:
    """Someone or something is such, is not, was; or is it?"""
    past, negative = picker.chance(0.4), picker.chance(0.25)
    question = not negative and who not in (PRONOUNS[0], PRONOUNS[4]) and picker.chance(0.2)
    degree = VERY if adjective.degree == "very" and picker.chance(0.35) else PLAIN
    en, fr = predicate(who, adjective, past, negative, degree)
    if question:
        en, fr = f"{be(who, past)} {who.en} {degree[0]} {adjective.en}", f"est-ce que {fr}"
    en_when, fr_when = parts.time(picker, PAST if past else PROGRESSIVE, when)
    combinations = {("adjective", who.noun.en if who.noun else who.en, adjective.en)}
    return finish(f"{en} {en_when}", f"{fr} {fr_when}", combinations, "?" if question else ".")


def is_such(picker: Picker) -> Sentence:
    """The street is very wide. The princess was not tired. Are the shops closed?"""
    adjective = picker.one(_predicates())
    if adjective.classes & PEOPLE and picker.chance(0.4):
        who = parts.subject(picker, PEOPLE, AGREEING, probability=0.0, share=0.5)
    else:
        who = parts.definite(picker, picker.one(nouns_of(adjective.classes)))
    return _be_such(picker, who, adjective)


def feels(picker: Picker) -> Sentence:
    """I am hungry. Were you late yesterday? We are not angry: what agrees with nobody may be said of anyone."""
    adjective = picker.one([word for word in _predicates() if word.invariable and word.classes >= PEOPLE])
    return _be_such(picker, parts.subject(picker, PEOPLE, probability=0.0, share=0.8), adjective, when=0.5)


def mass_is_such(picker: Picker) -> Sentence:
    """The soup is too salty."""
    noun = picker.one([noun for noun in load_lexicon().mass if adjectives_of(noun, "before", "after")])
    adjective = picker.one(adjectives_of(noun, "before", "after"))
    degree = (
        picker.random.choice((PLAIN, VERY, TOO)) if adjective.degree == "very" and adjective.en != "good" else PLAIN
    )
    en, fr = predicate(mass_phrase(noun, "the"), adjective, picker.chance(0.4), picker.chance(0.2), degree)
    return finish(en, fr, {("adjective", noun.en, adjective.en)})


def this_is(picker: Picker) -> Sentence:
    """This is my brother. These are old books."""
    noun = picker.one(load_lexicon().nouns)
    plural, negative = picker.chance(0.4), picker.chance(0.25)
    what = parts.determined(picker, noun, (POSSESSIVE,) if plural else (POSSESSIVE, INDEFINITE), 0.5, plural)
    en = f"{'these are' if what.plural else 'this is'} {'not' if negative else ''} {what.en}"
    fr = negate("ce |sont|", negative) if what.plural else "ce ne est pas" if negative else "c'est"
    return finish(en, f"{fr} {what.fr}", what.combinations)


def there_is(picker: Picker) -> Sentence:
    """There is a cat in the garden. There were no glasses on the table."""
    lexicon = load_lexicon()
    noun = picker.one([noun for noun in lexicon.nouns + lexicon.mass if parts.places_for(noun)])
    negative, past = picker.chance(0.25), picker.chance(0.3)
    if noun in lexicon.mass:
        what = mass_phrase(noun, "no" if negative else "some", parts.adjectives(picker, noun, 0.2))
    else:
        what = parts.determined(picker, noun, (NO if negative else INDEFINITE,), 0.35)
    en_where, fr_where = parts.place(picker, parts.places_for(noun))
    verb = ("were" if past else "are") if what.plural else ("was" if past else "is")
    fr = negate("il |y avait|" if past else "il |y a|", negative)
    return finish(f"there {verb} {what.en} {en_where}", f"{fr} {what.fr} {fr_where}", what.combinations)


_POSSESSIONS = frozenset(
    [
        "pet",
        "clothing",
        "furniture",
        "vehicle",
        "device",
        "instrument",
        "jewel",
        "volume",
        "luggage",
        "house",
        "garden",
        "kin",
        "toy",
    ]
)


def has(picker: Picker) -> Sentence:
    """Peter has a red car. Alice does not have a watch. Do you have two brothers?"""
    owner = parts.subject(picker, PEOPLE, probability=0.0)
    negative = picker.chance(0.3)
    question = not negative and owner.en in ("you", "he", "she")
    what = _possession(picker, picker.one(nouns_of(_POSSESSIONS)), negative)
    parts.check_distinct(owner, what)
    do = "does" if is_third_singular(owner) else "do"
    fr = f"{'est-ce que ' * question}{negate(f'{owner.fr} |{AVOIR[owner.person]}|', negative)} {what.fr}"
    if question:
        en = f"{do} {owner.en} have"
    elif negative:
        en = f"{owner.en} {do} not have"
    else:
        en = f"{owner.en} {'has' if is_third_singular(owner) else 'have'}"
    combinations = what.combinations | {("object", "have", what.noun.en if what.noun else "")}
    return finish(f"{en} {what.en}", fr, combinations, "?" if question else ".")


def _possession(picker: Picker, noun: Noun, negative: bool) -> NounPhrase:
    """What one has: a thing or a pet with an adjective perhaps, or so many brothers."""
    options = NEGATED if negative else INDEFINITE
    if "kin" not in noun.classes:
        return parts.determined(picker, noun, (options[:1], options), 0.45)
    if "parent" in noun.classes:
        raise UnsuitableError
    plural = picker.chance(0.5)
    fitting = [word for word in options if (word.plural if plural else word.masculine)]
    return count_phrase(picker.one(fitting), noun, [], plural)
