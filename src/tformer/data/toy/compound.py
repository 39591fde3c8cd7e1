"""The templates of sentences with a receiver, a second verb or a second statement."""

from tformer.data.toy import parts
from tformer.data.toy.clauses import (
    PAST,
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
    IL,
    ILS,
    PEOPLE,
    NounPhrase,
    Picker,
    UnsuitableError,
    adjectives_of,
    bare_phrase,
    nouns_of,
)

ANY_PLACE = ("before", "after", "predicate", "avoir")


def gave(picker: Picker) -> Sentence:
    """Mary gave the book to the boy."""
    verb = picker.one(parts.verbs_for("receiver"))
    who, receiver = parts.subject(picker, verb.subjects), _person(picker)
    negative = picker.chance(0.2)
    what = parts.thing(picker, verb.objects, "negated" if negative else "free", probability=0.1)
    parts.check_distinct(who, receiver)
    en = f"{english_clause(who, verb, PAST, negative)} {what.en} to {receiver.en}"
    fr = f"{french_clause(who, verb, PAST, negative)} {what.fr} à {receiver.fr}"
    return finish(en, fr, who.combinations | what.combinations | receiver.combinations | {parts.of(verb, what)})


def _person(picker: Picker) -> NounPhrase:
    """Someone by name, as someone's relative, or as a noun."""
    kind = picker.random.random()
    if kind < 0.3:
        return bare_phrase(picker.one(parts.names()))
    if kind < 0.5:
        return parts.related(picker)
    return parts.definite(picker, picker.one(nouns_of(PEOPLE)))


_MODALS = (
    ("wants to", "want to", "does not want to", "do not want to", ("veux", "veut", "voulons", "voulez", "veulent")),
    ("can", "can", "cannot", "cannot", ("peux", "peut", "pouvons", "pouvez", "peuvent")),
    ("must", "must", "must not", "must not", ("dois", "doit", "devons", "devez", "doivent")),
)


def wants_to(picker: Picker) -> Sentence:
    """Mary wants to buy a dress. We cannot find the key. The boys must wash the car."""
    verb = picker.one([verb for verb in parts.actions() if verb.subjects & PEOPLE and not verb.is_state])
    *english_forms, french_forms = picker.random.choice(_MODALS)
    unwanted = "chance" in verb.uses  # one must not lose a key, and that is all
    negative = unwanted or picker.chance(0.3)
    if unwanted and english_forms[0] != "must":
        raise UnsuitableError
    who = parts.subject(picker, verb.subjects & PEOPLE, share=0.45)
    what = parts.thing(picker, verb.objects, "definite" if negative else "free")
    parts.check_distinct(who, what)
    modal = english_forms[2 * negative + (not is_third_singular(who))]
    fr = negate(f"{who.fr} |{french_forms[who.person]}| {verb.fr} {what.fr}", negative)
    combinations = who.combinations | what.combinations | {parts.of(verb, what)}
    return finish(f"{who.en} {modal} {verb.en} {what.en}", fr, combinations)


def and_but(picker: Picker) -> Sentence:
    """Mary bought a pear and Peter bought an apple. Lucy read the book, but Paul did not read the letter."""
    verb = picker.one([verb for verb in parts.actions() if verb.subjects & PEOPLE and not verb.is_state])
    one, other = bare_phrase(picker.one(parts.names())), bare_phrase(picker.one(parts.names()))
    negative = picker.chance(0.4)
    first = parts.thing(picker, verb.objects, probability=0.1)
    second = parts.thing(picker, verb.objects, "definite" if negative else "free", probability=0.1)
    if len({one.noun, other.noun, first.noun, second.noun}) < 4:
        raise UnsuitableError
    en_link, fr_link = (", but", ", mais") if negative else (" and", " et")
    en_first, en_second = english_clause(one, verb, PAST), english_clause(other, verb, PAST, negative)
    fr_first, fr_second = french_clause(one, verb, PAST), french_clause(other, verb, PAST, negative)
    en = f"{en_first} {first.en}{en_link} {en_second} {second.en}"
    fr = f"{fr_first} {first.fr}{fr_link} {fr_second} {second.fr}"
    return finish(en, fr, first.combinations | second.combinations | {parts.of(verb, first), parts.of(verb, second)})


def such_but(picker: Picker) -> Sentence:
    """The coat is expensive, but it is beautiful."""
    contrast = picker.one(load_lexicon().contrasts)
    first, second = contrast.first, picker.one(contrast.seconds)
    noun = picker.one([noun for noun in nouns_of(first.classes) if second.fits(noun)])
    if picker.chance(0.5):
        first, second = second, first
    who = parts.definite(picker, noun)
    en_pronoun, fr_pronoun = who.pronoun
    same = NounPhrase(en_pronoun, fr_pronoun, None, who.feminine, who.person)
    past = picker.chance(0.3)
    en_first, fr_first = predicate(who, first, past)
    en_second, fr_second = predicate(same, second, past)
    combinations = {("adjective", noun.en, first.en), ("pronoun", noun.en, second.en)}
    return finish(f"{en_first}, but {en_second}", f"{fr_first}, mais {fr_second}", combinations)


_OPINIONS = (
    ("thinks", "think", ("pense", "pense", "pensons", "pensez", "pensent")),
    ("says", "say", ("dis", "dit", "disons", "dites", "disent")),
    ("knows", "know", ("sais", "sait", "savons", "savez", "savent")),
)


def thinks_that(picker: Picker) -> Sentence:
    """Mary thinks that the bread is dry. Peter says that his sister is hungry."""
    third, base, forms = picker.random.choice(_OPINIONS)
    who = parts.subject(picker, PEOPLE, probability=0.0)
    noun = picker.one(load_lexicon().nouns)
    what = parts.definite(picker, noun)
    adjective = picker.one(adjectives_of(noun, *ANY_PLACE))
    parts.check_distinct(who, what)
    if what.en.startswith("that "):
        raise UnsuitableError
    en, fr = predicate(what, adjective, negative=picker.chance(0.15))
    en_verb = third if is_third_singular(who) else base
    combinations = {("adjective", noun.en, adjective.en)}
    return finish(f"{who.en} {en_verb} that {en}", f"{who.fr} {forms[who.person]} que {fr}", combinations)


_SOMEONES = frozenset(
    ["kin", "pet", "clothing", "vehicle", "instrument", "jewel", "device", "luggage", "house", "garden", "toy"]
)


def of_someone(picker: Picker) -> Sentence:
    """Peter's car is red. Are Mary's brothers tired?"""
    name = picker.one(parts.names())
    noun = picker.one(nouns_of(_SOMEONES))
    plural = picker.chance(0.35) and "parent" not in noun.classes
    article = "les" if plural else "la" if noun.feminine else "le"
    who = NounPhrase(
        f"{name.en}'s {noun.en_plural if plural else noun.en}",
        f"{article} {noun.fr_plural if plural else noun.fr} de {name.fr}",
        noun,
        noun.feminine,
        ILS if plural else IL,
    )
    adjective = picker.one(adjectives_of(noun, *ANY_PLACE))
    past, question = picker.chance(0.3), picker.chance(0.2)
    en, fr = predicate(who, adjective, past, not question and picker.chance(0.15))
    combinations = {("adjective", noun.en, adjective.en)}
    if question:
        return finish(f"{be(who, past)} {who.en} {adjective.en}", f"est-ce que {fr}", combinations, "?")
    return finish(en, fr, combinations)


def plays(picker: Picker) -> Sentence:
    """Mary plays the piano. Did the boys play football yesterday?"""
    who = parts.subject(picker, PEOPLE, share=0.45)
    game = picker.one(load_lexicon().games)
    verb = next(verb for verb in parts.moves() if verb.en == "play")
    tense = picker.random.choice(parts.TENSES)
    negative = picker.chance(0.25)
    question = not negative and picker.chance(0.25)
    en, fr = english_clause(who, verb, tense, negative, question), french_clause(who, verb, tense, negative)
    en_when, fr_when = parts.time(picker, tense, 0.4)
    en, fr = f"{en} {game.en} {en_when}", f"{'est-ce que ' * question}{fr} {game.fr} {fr_when}"
    return finish(en, fr, who.combinations, "?" if question else ".")
