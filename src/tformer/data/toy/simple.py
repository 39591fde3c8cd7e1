"""The templates of sentences with one clause: statements, negations, questions."""

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
from tformer.data.toy.lexicon import load_lexicon
from tformer.data.toy.phrases import (
    DEFINITE,
    ILS,
    INDEFINITE,
    NEGATED,
    NUMBERS,
    PEOPLE,
    POSSESSIVE,
    Picker,
    UnsuitableError,
    adjectives_of,
    count_phrase,
    mass_phrase,
    nouns_of,
)

VERY = ("very", "très")
NOT_AT_ALL = ("", "")


def _transitive(picker: Picker, tense: str, negative: bool, when: float, question: bool = False) -> Sentence:
    """Someone does something to something, or does not, or does one?"""
    use = {PROGRESSIVE: ("now",), PRESENT: ("habit",)}.get(tense, ())
    verb = picker.one([verb for verb in parts.verbs(*use, without="receiver") if "taste" not in verb.uses])
    who = parts.subject(picker, verb.subjects)
    what = parts.thing(picker, verb.objects, negative)
    en_when, fr_when = parts.time(picker, tense, when)
    en = english_clause(who, verb, tense, negative, question)
    fr = french_clause(who, verb, tense, negative)
    combinations = who.combinations | what.combinations | {parts.of(verb, what)}
    if question:
        return finish(f"{en} {what.en} {en_when}", f"est-ce que {fr} {what.fr} {fr_when}", combinations, "?")
    return finish(f"{en} {what.en} {en_when}", f"{fr} {what.fr} {fr_when}", combinations)


def did(picker: Picker) -> Sentence:
    """Mary bought an apple yesterday."""
    return _transitive(picker, PAST, False, 0.3)


def did_not(picker: Picker) -> Sentence:
    """Mary did not buy any bread."""
    return _transitive(picker, PAST, True, 0.2)


def is_doing(picker: Picker) -> Sentence:
    """The girl is reading a book."""
    return _transitive(picker, PROGRESSIVE, picker.chance(0.25), 0.2)


def does_often(picker: Picker) -> Sentence:
    """My uncle washes the car every week."""
    return _transitive(picker, PRESENT, False, 1.0)


def does_not(picker: Picker) -> Sentence:
    """The cat does not eat any cheese."""
    return _transitive(picker, PRESENT, True, 0.1)


def will_do(picker: Picker) -> Sentence:
    """Mary is going to sell her car."""
    return _transitive(picker, FUTURE, picker.chance(0.25), 0.4)


def did_question(picker: Picker) -> Sentence:
    """Did the boy find the key?"""
    return _transitive(picker, PAST, False, 0.2, question=True)


def does_question(picker: Picker) -> Sentence:
    """Is the woman reading the letter?"""
    tense = picker.one((PROGRESSIVE, PRESENT, FUTURE))
    return _transitive(picker, tense, False, 0.2, question=True)


def taste(picker: Picker) -> Sentence:
    """I love maths."""
    verb = picker.one([verb for verb in parts.verbs("taste") if verb.en != "like"])
    who, what = parts.subject(picker, verb.subjects), parts.taste(picker, verb)
    en, fr = english_clause(who, verb, PRESENT), french_clause(who, verb, PRESENT)
    return finish(f"{en} {what.en}", f"{fr} {what.fr}", who.combinations | {parts.of(verb, what)})


def dislike(picker: Picker) -> Sentence:
    """We do not like onions. Do you like history?"""
    verb = next(verb for verb in parts.verbs("taste") if verb.en == "like")
    who, what = parts.subject(picker, verb.subjects), parts.taste(picker, verb)
    combinations = who.combinations | {parts.of(verb, what)}
    if picker.chance(0.4):
        en = english_clause(who, verb, PRESENT, question=True)
        return finish(f"{en} {what.en}", f"est-ce que {french_clause(who, verb, PRESENT)} {what.fr}", combinations, "?")
    en, fr = english_clause(who, verb, PRESENT, True), french_clause(who, verb, PRESENT, True)
    return finish(f"{en} {what.en}", f"{fr} {what.fr}", combinations)


def _intransitive(picker: Picker, question: bool) -> Sentence:
    """Someone moves, sleeps, laughs: somewhere, at some time, or just so."""
    verb = picker.one(parts.verbs(transitive=False))
    tense = picker.random.choice((PAST, PAST, PAST, PRESENT, PROGRESSIVE, FUTURE))
    if tense == PROGRESSIVE and "now" not in verb.uses or tense == PRESENT and "habit" not in verb.uses:
        raise UnsuitableError
    agreeing = tense == PAST and verb.with_etre
    who = parts.subject(picker, verb.subjects, agreeing)
    negative = not question and picker.chance(0.25)
    en_where, fr_where = "", ""
    if "goal" in verb.uses and (verb.en in ("go", "go back") or picker.chance(0.5)):
        if picker.chance(0.35):
            where = picker.one(load_lexicon().geography)
            en_where, fr_where = f"to {where.en}", where.fr
        else:
            en_where, fr_where = parts.place(picker, parts.goals(), goal=True)
    elif verb.en in ("travel", "work", "live") and picker.chance(0.6):
        where = picker.one(load_lexicon().geography)
        en_where, fr_where = f"in {where.en}", where.fr
    elif verb.objects and picker.chance(0.7):
        en_where, fr_where = parts.place(picker, parts.places_of(verb.objects))
    en_when, fr_when = parts.time(picker, tense, 1.0 if tense == PRESENT and not negative and not question else 0.4)
    en = english_clause(who, verb, tense, negative, question)
    fr = french_clause(who, verb, tense, negative)
    if question:
        return finish(
            f"{en} {en_where} {en_when}", f"est-ce que {fr} {fr_where} {fr_when}", who.combinations, "?"
        )
    return finish(f"{en} {en_where} {en_when}", f"{fr} {fr_where} {fr_when}", who.combinations)


def moved(picker: Picker) -> Sentence:
    """The queen came back last week."""
    return _intransitive(picker, False)


def moved_question(picker: Picker) -> Sentence:
    """Did the girls go to the cinema?"""
    return _intransitive(picker, True)


def is_such(picker: Picker) -> Sentence:
    """The street is very wide. The princess was not tired. Are the shops closed?"""
    lexicon = load_lexicon()
    if picker.chance(0.12):
        who = parts.subject(picker, PEOPLE)
        adjective = picker.one([word for word in lexicon.adjectives if word.classes & PEOPLE])
    else:
        adjective = picker.one([word for word in lexicon.adjectives if word.classes & _COUNTABLE])
        noun = picker.one(nouns_of(adjective.classes))
        who = parts.definite(picker, noun)
    past, negative = picker.chance(0.4), picker.chance(0.25)
    question = not negative and picker.chance(0.2)
    degree = VERY if adjective.degree == "very" and picker.chance(0.35) else NOT_AT_ALL
    en, fr = predicate(who, adjective, past, negative, degree)
    noun_en = who.noun.en if who.noun else who.en
    combinations = {("adjective", noun_en, adjective.en)}
    if question:
        rest = en.removeprefix(f"{who.en} {be(who, past)} ")
        return finish(f"{be(who, past)} {who.en} {rest}", f"est-ce que {fr}", combinations, "?")
    return finish(en, fr, combinations)


def mass_is_such(picker: Picker) -> Sentence:
    """The soup is too salty."""
    lexicon = load_lexicon()
    noun = picker.one(lexicon.mass)
    adjective = picker.one(adjectives_of(noun, "before", "after"))
    if adjective.degree != "very":
        degree = NOT_AT_ALL
    else:
        degree = picker.random.choice((NOT_AT_ALL, VERY, ("too", "trop")))
    en, fr = predicate(mass_phrase(noun, "the"), adjective, picker.chance(0.4), picker.chance(0.2), degree)
    return finish(en, fr, {("adjective", noun.en, adjective.en)})


_COUNTABLE = frozenset(word for noun in load_lexicon().nouns for word in noun.classes)


def this_is(picker: Picker) -> Sentence:
    """This is my brother. These are old books."""
    plural = picker.chance(0.4)
    noun = picker.one(load_lexicon().nouns)
    negative = picker.chance(0.25)
    if plural:
        group = POSSESSIVE
        if picker.chance(0.5):
            raise UnsuitableError
        what = parts.determined(picker, noun, (group,), 0.3, True)
        return finish(f"these are {'not ' * negative}{what.en}", f"ce {'ne ' * negative}sont {'pas ' * negative}{what.fr}", what.combinations)
    what = parts.determined(picker, noun, (POSSESSIVE, INDEFINITE), 0.5, False)
    fr = f"ce ne est pas {what.fr}" if negative else f"c'est {what.fr}"
    return finish(f"this is {'not ' * negative}{what.en}", fr, what.combinations)


def there_is(picker: Picker) -> Sentence:
    """There is a cat in the garden. There were no glasses on the table."""
    lexicon = load_lexicon()
    noun = picker.one([noun for noun in lexicon.nouns + lexicon.mass if parts.places_for(noun)])
    negative, past = picker.chance(0.25), picker.chance(0.3)
    if noun in lexicon.mass:
            what = mass_phrase(noun, "any" if negative else "some", parts.adjectives(picker, noun, 0.2))
    elif "kin" in noun.classes:
        raise UnsuitableError
    else:
        what = parts.determined(picker, noun, (NEGATED if negative else INDEFINITE,), 0.3)
    en_where, fr_where = parts.place(picker, parts.places_for(noun))
    verb = {(False, False): "is", (True, False): "are", (False, True): "was", (True, True): "were"}[what.plural, past]
    no = "not " * negative
    return finish(
        f"there {verb} {no}{what.en} {en_where}",
        f"{negate('il |y avait|' if past else 'il |y a|', negative)} {what.fr} {fr_where}",
        what.combinations,
    )


def has(picker: Picker) -> Sentence:
    """Peter has a red car. Alice does not have a watch. Do you have any brothers?"""
    owners = parts.subject(picker, PEOPLE)
    noun = picker.one(nouns_of(_POSSESSIONS))
    negative = picker.chance(0.3)
    question = not negative and picker.chance(0.25)
    groups = (NEGATED,) if negative else (INDEFINITE[:1], INDEFINITE, NUMBERS)
    if "kin" in noun.classes:
        if "parent" in noun.classes:
            raise UnsuitableError
        options = [word for group in groups for word in group]
        plural = picker.chance(0.5)
        options = [word for word in options if (word.plural if plural else word.masculine)]
        what = count_phrase(picker.one(options), noun, [], plural)
    else:
        what = parts.determined(picker, noun, groups, 0.35)
    en_have = "has" if is_third_singular(owners) else "have"
    do = "does" if is_third_singular(owners) else "do"
    fr = negate(f"{owners.fr} |{AVOIR[owners.person]}| ", negative)
    combinations = owners.combinations | what.combinations | {("object", "have", noun.en)}
    if question:
        return finish(f"{do} {owners.en} have {what.en}", f"est-ce que {fr} {what.fr}", combinations, "?")
    en = f"{owners.en} {do} not have" if negative else f"{owners.en} {en_have}"
    return finish(f"{en} {what.en}", f"{fr} {what.fr}", combinations)


_POSSESSIONS = frozenset("pet clothing furniture vehicle device instrument jewel volume luggage house garden kin toy".split())
