"""The templates of sentences with relative clauses, object pronouns and question words."""

from tformer.data.toy import parts
from tformer.data.toy.clauses import (
    PAST,
    PROGRESSIVE,
    Sentence,
    english_clause,
    finish,
    french_clause,
    is_third_singular,
    predicate,
)
from tformer.data.toy.lexicon import Noun, Sequel, Verb, load_lexicon
from tformer.data.toy.phrases import (
    AGREEING,
    ASKED_ABOUT,
    IL,
    ILS,
    PEOPLE,
    THE,
    NounPhrase,
    Picker,
    UnsuitableError,
    adjectives_of,
    nouns_of,
)
from tformer.data.toy.simple import PLAIN, VERY


def _fronting_verb(picker: Picker) -> Verb:
    """A verb with a past whose object may stand before it: not one with a preposition (entrer dans)."""
    return picker.one([verb for verb in parts.actions() if not verb.with_etre and not verb.is_state])


def _relative(what: NounPhrase, who: NounPhrase, verb: Verb) -> tuple[str, str]:
    """What someone did something to: the apples that Mary bought, les pommes que Marie a achetées.

    Raises:
        UnsuitableError: two words *that* would meet.
    """
    linker = "whom" if what.classes & PEOPLE else "that"
    if who.en.startswith("that "):
        raise UnsuitableError
    parts.check_distinct(who, what)
    en = f"{what.en} {linker} {english_clause(who, verb, PAST)}"
    return en, f"{what.fr} que {french_clause(who, verb, PAST, before=what)}"


def that_bought(picker: Picker) -> Sentence:
    """The apples that Mary bought are red."""
    verb = _fronting_verb(picker)
    noun = picker.one([noun for noun in nouns_of(verb.objects) if "kin" not in noun.classes])
    what = parts.determined(picker, noun, (THE,))
    who = parts.subject(picker, verb.subjects, probability=0.0)
    adjective = picker.one(adjectives_of(noun, "before", "after", "predicate"))
    degree = VERY if adjective.degree == "very" and picker.chance(0.25) else PLAIN
    relative = NounPhrase(*_relative(what, who, verb), noun, what.feminine, what.person)
    en, fr = predicate(relative, adjective, picker.chance(0.3), picker.chance(0.15), degree)
    return finish(en, fr, {parts.of(verb, what), ("adjective", noun.en, adjective.en)})


def who_bought(picker: Picker) -> Sentence:
    """The boy who bought the apple is tired."""
    verb = _fronting_verb(picker)
    noun = picker.one(nouns_of(verb.subjects - {"kin"}))
    who = parts.determined(picker, noun, (THE,))
    what = parts.thing(picker, verb.objects, "definite" if picker.chance(0.5) else "free", probability=0.1)
    adjective = picker.one(adjectives_of(noun, "before", "after", "predicate", "avoir"))
    parts.check_distinct(who, what)
    doer = NounPhrase("who" if noun.classes & PEOPLE else "that", "qui", noun, who.feminine, who.person)
    relative = NounPhrase(
        f"{who.en} {english_clause(doer, verb, PAST)} {what.en}",
        f"{who.fr} {french_clause(doer, verb, PAST)} {what.fr}",
        noun,
        who.feminine,
        who.person,
    )
    en, fr = predicate(relative, adjective, negative=picker.chance(0.15))
    return finish(en, fr, what.combinations | {parts.of(verb, what), ("adjective", noun.en, adjective.en)})


def _shared_object(picker: Picker, sequel: Sequel) -> Noun:
    """Something to which both verbs may be done."""
    first, second = sequel.first.objects, sequel.second.objects
    return picker.one([noun for noun in nouns_of(sequel.objects) if noun.classes & first and noun.classes & second])


def found_what_lost(picker: Picker) -> Sentence:
    """Mary read the letter that Peter wrote."""
    sequel = picker.one(load_lexicon().sequels)
    noun = _shared_object(picker, sequel)
    what = parts.determined(picker, noun, (THE,), 0.1)
    second = parts.subject(picker, sequel.second.subjects, probability=0.0)
    first = parts.subject(picker, sequel.first.subjects, probability=0.0)
    parts.check_distinct(second, what)
    parts.check_distinct(second, first)
    en_what, fr_what = _relative(what, first, sequel.first)
    en = f"{english_clause(second, sequel.second, PAST)} {en_what}"
    fr = f"{french_clause(second, sequel.second, PAST)} {fr_what}"
    return finish(en, fr, what.combinations | {parts.of(sequel.first, what), parts.of(sequel.second, what)})


_OBJECT_PRONOUNS = {"it": "it", "they": "them", "he": "him", "she": "her"}


def bought_and_ate(picker: Picker) -> Sentence:
    """Mary bought the apple and ate it. The dog found the sandwiches but did not eat them."""
    sequel = picker.one(load_lexicon().sequels)
    noun = _shared_object(picker, sequel)
    what = parts.definite(picker, noun, 0.15)
    who = parts.subject(picker, sequel.first.subjects & sequel.second.subjects, probability=0.0)
    parts.check_distinct(who, what)
    negative = picker.chance(0.3)
    if sequel.second.past_looks_present and not negative and not is_third_singular(who):
        raise UnsuitableError
    en_it = _OBJECT_PRONOUNS[what.pronoun[0]]
    fr_it = "les" if what.plural else "la" if what.feminine else "le"
    en_second = f"but did not {sequel.second.en}" if negative else f"and {sequel.second.en_past}"
    same = NounPhrase("", "", who.noun, who.feminine, who.person)
    fr_second = french_clause(same, sequel.second, PAST, negative, fr_it, before=what)
    en = f"{english_clause(who, sequel.first, PAST)} {what.en} {en_second} {en_it}"
    fr = f"{french_clause(who, sequel.first, PAST)} {what.fr} {'mais' if negative else 'et'} {fr_second}"
    return finish(en, fr, what.combinations | {parts.of(sequel.first, what), parts.of(sequel.second, what)})


def which(picker: Picker) -> Sentence:
    """Which apples did Mary buy? How many letters did he write?"""
    verb = _fronting_verb(picker)
    noun = picker.one([noun for noun in nouns_of(verb.objects) if "kin" not in noun.classes])
    plural = picker.chance(0.5)
    who = parts.subject(picker, verb.subjects, ASKED_ABOUT, probability=0.0)
    if plural and picker.chance(0.5):
        en_what, fr_what = f"how many {noun.en_plural}", f"combien de {noun.fr_plural}"
    else:
        fr_which = ("quelle" if noun.feminine else "quel") + "s" * plural
        en_what = f"which {noun.en_plural if plural else noun.en}"
        fr_what = f"{fr_which} {noun.fr_plural if plural else noun.fr}"
    what = NounPhrase(en_what, fr_what, noun, noun.feminine, ILS if plural else IL)
    parts.check_distinct(who, what)
    en = f"{what.en} {english_clause(who, verb, PAST, question=True)}"
    fr = f"{what.fr} est-ce que {french_clause(who, verb, PAST, before=what)}"
    return finish(en, fr, {parts.of(verb, what)}, "?")


def what_did(picker: Picker) -> Sentence:
    """What did Mary buy? What is she reading?"""
    tense = PAST if picker.chance(0.7) else PROGRESSIVE
    verb = _fronting_verb(picker) if tense == PAST else picker.one(parts.actions("now"))
    if verb.objects & PEOPLE:
        raise UnsuitableError
    who = parts.subject(picker, verb.subjects, ASKED_ABOUT)
    en, fr = english_clause(who, verb, tense, question=True), french_clause(who, verb, tense)
    return finish(f"what {en}", f"qu'est-ce que {fr}", who.combinations, "?")


def where_did(picker: Picker) -> Sentence:
    """Where did Mary sleep? When did the trains arrive?"""
    if picker.chance(0.5):
        en_word, fr_word, asked = "where", "où", [verb for verb in parts.moves() if verb.objects or verb.en == "go"]
    else:
        en_word, fr_word = "when", "quand"
        asked = [verb for verb in parts.moves() if verb.with_etre and verb.en not in ("stay", "go", "go back")]
    verb = picker.one(asked)
    who = parts.subject(picker, verb.subjects, AGREEING if verb.with_etre else ASKED_ABOUT)
    en, fr = english_clause(who, verb, PAST, question=True), french_clause(who, verb, PAST)
    return finish(f"{en_word} {en}", f"{fr_word} est-ce que {fr}", who.combinations, "?")


def why_did(picker: Picker) -> Sentence:
    """Why did the boy not cross the street?"""
    verb = _fronting_verb(picker)
    who, what = parts.subject(picker, verb.subjects, ASKED_ABOUT), parts.thing(picker, verb.objects, "definite")
    parts.check_distinct(who, what)
    negative = picker.chance(0.3)
    en = f"why did {who.en} {'not ' * negative}{verb.en} {what.en}"
    fr = f"pourquoi est-ce que {french_clause(who, verb, PAST, negative)} {what.fr}"
    return finish(en, fr, who.combinations | what.combinations | {parts.of(verb, what)}, "?")
