"""The templates of sentences with relative clauses, object pronouns and question words: what may stand before its verb."""

from tformer.data.toy import parts
from tformer.data.toy.clauses import PAST, Sentence, english_clause, finish, french_clause, predicate
from tformer.data.toy.lexicon import Verb, load_lexicon
from tformer.data.toy.phrases import (
    DEFINITE,
    IL,
    ILS,
    PEOPLE,
    NounPhrase,
    Picker,
    UnsuitableError,
    adjectives_of,
    nouns_of,
)
from tformer.data.toy.simple import NOT_AT_ALL, VERY

THE = (DEFINITE[:1],)


def _relative_verb(picker: Picker) -> Verb:
    """A verb whose object can stand before it: not one with a preposition (entrer dans)."""
    return picker.one(
        [verb for verb in parts.verbs(without="receiver") if not verb.uses & {"être", "taste"} and not verb.is_state]
    )


def that_bought(picker: Picker) -> Sentence:
    """The apples that Mary bought are red."""
    verb = _relative_verb(picker)
    noun = picker.one(nouns_of(verb.objects))
    if "kin" in noun.classes:
        raise UnsuitableError
    what = parts.determined(picker, noun, THE, 0.0)
    who = parts.subject(picker, verb.subjects, probability=0.0)
    if who.noun is noun:
        raise UnsuitableError
    adjective = picker.one(adjectives_of(noun, "before", "after", "predicate"))
    degree = VERY if adjective.degree == "very" and picker.chance(0.25) else NOT_AT_ALL
    linker = "whom" if noun.classes & PEOPLE else "that"
    relative = NounPhrase(
        f"{what.en} {linker} {english_clause(who, verb, PAST)}",
        f"{what.fr} que {french_clause(who, verb, PAST, before=what)}",
        noun,
        what.feminine,
        what.person,
    )
    en, fr = predicate(relative, adjective, picker.chance(0.3), picker.chance(0.15), degree)
    return finish(en, fr, {parts.of(verb, what), ("adjective", noun.en, adjective.en)})


def who_bought(picker: Picker) -> Sentence:
    """The boy who bought the apple is tired."""
    verb = _relative_verb(picker)
    noun = picker.one(nouns_of(verb.subjects - {"kin"}))
    who = parts.determined(picker, noun, THE, 0.0)
    what = parts.thing(picker, verb.objects, is_definite=picker.chance(0.5), probability=0.1)
    adjective = picker.one(adjectives_of(noun, "before", "after", "predicate", "avoir"))
    if what.noun is noun:
        raise UnsuitableError
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


def found_what_lost(picker: Picker) -> Sentence:
    """Mary read the letter that Peter wrote."""
    sequel = picker.one(load_lexicon().sequels)
    noun = picker.one(nouns_of(sequel.objects))
    what = parts.determined(picker, noun, THE, 0.1)
    second = parts.subject(picker, sequel.second.subjects, probability=0.0)
    first = parts.subject(picker, sequel.first.subjects, probability=0.0)
    if second.en == first.en or noun in (first.noun, second.noun):
        raise UnsuitableError
    linker = "whom" if noun.classes & PEOPLE else "that"
    en = f"{english_clause(second, sequel.second, PAST)} {what.en} {linker} {english_clause(first, sequel.first, PAST)}"
    fr_first = french_clause(first, sequel.first, PAST, before=what)
    fr = f"{french_clause(second, sequel.second, PAST)} {what.fr} que {fr_first}"
    return finish(en, fr, what.combinations | {parts.of(sequel.first, what), parts.of(sequel.second, what)})


def bought_and_ate(picker: Picker) -> Sentence:
    """Mary bought the apple and ate it. The dog found the sandwiches but did not eat them."""
    sequel = picker.one(load_lexicon().sequels)
    noun = picker.one(nouns_of(sequel.objects))
    what = parts.definite(picker, noun, 0.15)
    who = parts.subject(picker, sequel.first.subjects & sequel.second.subjects, probability=0.0)
    if noun is who.noun or sequel.second.past_looks_present:
        raise UnsuitableError
    negative = picker.chance(0.3)
    en_it = what.pronoun[0].replace("they", "them").replace("she", "her").replace("he", "him")
    fr_it = "les" if what.plural else "la" if what.feminine else "le"
    en_second = f"but did not {sequel.second.en}" if negative else f"and {sequel.second.en_past}"
    same = NounPhrase("", "", who.noun, who.feminine, who.person)
    fr_second = french_clause(same, sequel.second, PAST, negative, fr_it, before=what)
    en = f"{english_clause(who, sequel.first, PAST)} {what.en} {en_second} {en_it}"
    fr = f"{french_clause(who, sequel.first, PAST)} {what.fr} {'mais' if negative else 'et'} {fr_second}"
    return finish(en, fr, what.combinations | {parts.of(sequel.first, what), parts.of(sequel.second, what)})


def which(picker: Picker) -> Sentence:
    """Which apples did Mary buy? How many letters did he write?"""
    verb = _relative_verb(picker)
    noun = picker.one(nouns_of(verb.objects))
    plural = picker.chance(0.5)
    who = parts.subject(picker, verb.subjects, probability=0.0)
    if who.noun is noun:
        raise UnsuitableError
    if plural and picker.chance(0.5):
        en_what, fr_what = f"how many {noun.en_plural}", f"combien de {noun.fr_plural}"
    else:
        fr_which = ("quelle" if noun.feminine else "quel") + "s" * plural
        en_what = f"which {noun.en_plural if plural else noun.en}"
        fr_what = f"{fr_which} {noun.fr_plural if plural else noun.fr}"
    what = NounPhrase(en_what, fr_what, noun, noun.feminine, ILS if plural else IL)
    en = f"{what.en} {english_clause(who, verb, PAST, question=True)}"
    fr = f"{what.fr} est-ce que {french_clause(who, verb, PAST, before=what)}"
    return finish(en, fr, {parts.of(verb, what)}, "?")


def what_did(picker: Picker) -> Sentence:
    """What did Mary buy?"""
    verb = _relative_verb(picker)
    if verb.objects & PEOPLE:
        raise UnsuitableError
    who = parts.subject(picker, verb.subjects)
    en, fr = english_clause(who, verb, PAST, question=True), french_clause(who, verb, PAST)
    return finish(f"what {en}", f"qu'est-ce que {fr}", who.combinations, "?")


def where_did(picker: Picker) -> Sentence:
    """Where did Mary sleep? When did the trains arrive?"""
    verb = picker.one(parts.verbs(transitive=False))
    en_word, fr_word = ("where", "où") if picker.chance(0.5) else ("when", "quand")
    if en_word == "where" and not (verb.objects or "goal" in verb.uses):
        raise UnsuitableError
    who = parts.subject(picker, verb.subjects, agreeing=verb.with_etre)
    en, fr = english_clause(who, verb, PAST, question=True), french_clause(who, verb, PAST)
    return finish(f"{en_word} {en}", f"{fr_word} est-ce que {fr}", who.combinations, "?")


def why_did(picker: Picker) -> Sentence:
    """Why did the boy not cross the street?"""
    verb = _relative_verb(picker)
    who, what = parts.subject(picker, verb.subjects), parts.thing(picker, verb.objects, is_definite=True)
    negative = picker.chance(0.3)
    en = f"why did {who.en} {'not ' * negative}{verb.en} {what.en}"
    fr = f"pourquoi est-ce que {french_clause(who, verb, PAST, negative)} {what.fr}"
    return finish(en, fr, who.combinations | what.combinations | {parts.of(verb, what)}, "?")
