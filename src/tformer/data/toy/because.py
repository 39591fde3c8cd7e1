"""Sentences whose pronoun only the meaning can place: … did not cross the street because it was tired, or wide.

French must choose between *il* and *elle*, and English does not say which; the adjective does, for it can be said of
one of the two nouns only.
"""

from dataclasses import dataclass

from tformer.data.toy import parts
from tformer.data.toy.clauses import PAST, Sentence, english_clause, finish, french_clause, predicate
from tformer.data.toy.lexicon import Adjective, Reason, load_lexicon
from tformer.data.toy.phrases import (
    AGREEING,
    PEOPLE,
    NounPhrase,
    Picker,
    UnsuitableError,
    bare_phrase,
    mass_phrase,
    nouns_of,
)


@dataclass(frozen=True)
class PronounItem:
    """A sentence and its translation; `right` is the word in it that a wrong antecedent would turn into `wrong`."""

    source: str
    target: str
    right: str
    wrong: str


def _antecedent(phrase: NounPhrase, adjective: Adjective) -> tuple[str, str, str]:
    return "pronoun", phrase.noun.en if phrase.noun else phrase.en, adjective.en


def _explained(who: NounPhrase, what: NounPhrase, reason: Reason, of_object: bool, adjective: Adjective) -> Sentence:
    """Who did (not) do it to what because one of them was such.

    Raises:
        UnsuitableError: the adjective can be said of both or of neither.
    """
    meant, other = (what, who) if of_object else (who, what)
    if not adjective.classes & meant.classes or adjective.classes & other.classes:
        raise UnsuitableError
    en_pronoun, fr_pronoun = meant.pronoun
    pronoun = NounPhrase(en_pronoun, fr_pronoun, None, meant.feminine, meant.person)
    en = english_clause(who, reason.verb, PAST, reason.negative)
    fr = french_clause(who, reason.verb, PAST, reason.negative)
    en_why, fr_why = predicate(pronoun, adjective, past=True)
    return finish(
        f"{en} {what.en} because {en_why}",
        f"{fr} {what.fr} parce que {fr_why}",
        who.combinations | {parts.of(reason.verb, what), _antecedent(meant, adjective)},
    )


def _parties(picker: Picker, reason: Reason) -> tuple[NounPhrase, NounPhrase]:
    """Who did it and to what: the subject a name, a person or an animal, both definite."""
    plural = picker.chance(0.35)
    if reason.subjects & PEOPLE and picker.chance(0.35):
        who = bare_phrase(picker.one(parts.names()))
    else:
        nouns = nouns_of(reason.subjects)
        who = parts.definite(picker, picker.one(nouns), plural=plural)
    options = parts.objects_of(reason.objects)
    noun = picker.one(options)
    if noun in load_lexicon().mass:
        return who, mass_phrase(noun, "the")
    return who, parts.definite(picker, noun, plural=plural if picker.chance(0.8) else not plural)


def _any_of(picker: Picker, adjectives: tuple[Adjective, ...]) -> Adjective:
    """One of the adjectives, all alike: counted over all lines, *tired* would be rare in each of its many."""
    if not adjectives:
        raise UnsuitableError
    return picker.random.choice(adjectives)


def because(picker: Picker) -> Sentence:
    """The animal did not cross the street because it was tired."""
    reason = picker.random.choice(load_lexicon().reasons)
    who, what = _parties(picker, reason)
    of_object = picker.chance(0.55)
    return _explained(
        who, what, reason, of_object, _any_of(picker, reason.of_object if of_object else reason.of_subject)
    )


def minimal_pair(picker: Picker) -> tuple[PronounItem, PronounItem, frozenset[tuple[str, str, str]]]:
    """Two sentences that differ in the adjective alone, and so in the gender of the French pronoun.

    Raises:
        UnsuitableError: what was drawn is no pair: one gender, two English pronouns, or another article than *the*.
    """
    reason = picker.random.choice(load_lexicon().reasons)
    who, what = _parties(picker, reason)
    definite = who.en.startswith("the ") and what.en.startswith("the ")
    if not definite or who.pronoun[0] != what.pronoun[0] or who.feminine == what.feminine:
        raise UnsuitableError
    first = _explained(who, what, reason, False, _any_of(picker, reason.of_subject))
    second = _explained(who, what, reason, True, _any_of(picker, reason.of_object))
    right, wrong = f"qu'{who.pronoun[1]}", f"qu'{what.pronoun[1]}"
    return (
        PronounItem(first.source, first.target, right, wrong),
        PronounItem(second.source, second.target, wrong, right),
        first.combinations | second.combinations,
    )


def came_because(picker: Picker) -> Sentence:
    """Mary did not come because she was ill."""
    mood = picker.one(load_lexicon().moods)
    adjective = picker.one(mood.adjectives)
    who = parts.subject(picker, PEOPLE, AGREEING)
    en_pronoun, fr_pronoun = who.pronoun
    pronoun = NounPhrase(en_pronoun, fr_pronoun, None, who.feminine, who.person)
    en_why, fr_why = predicate(pronoun, adjective, past=True)
    en = f"{english_clause(who, mood.verb, PAST, mood.negative)} because {en_why}"
    fr = f"{french_clause(who, mood.verb, PAST, mood.negative)} parce que {fr_why}"
    return finish(en, fr, who.combinations | {_antecedent(who, adjective)})
