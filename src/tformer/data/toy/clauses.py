"""Clauses in both languages: how subject, verb, negation and object pronoun stand, statement or question."""

from collections.abc import Iterable
from dataclasses import dataclass

from tformer.data.toy import english, french
from tformer.data.toy.lexicon import Adjective, Verb
from tformer.data.toy.phrases import ILS, JE, VOUS, Combination, NounPhrase, UnsuitableError

AVOIR = ("ai", "a", "avons", "avez", "ont")
ETRE = ("suis", "est", "sommes", "êtes", "sont")
WAS = ("étais", "était", "étions", "étiez", "étaient")
HAD = ("avais", "avait", "avions", "aviez", "avaient")
GOING = ("vais", "va", "allons", "allez", "vont")

PAST, PRESENT, PROGRESSIVE, FUTURE = "past", "present", "progressive", "future"


def is_third_singular(subject: NounPhrase) -> bool:
    """Whether the English verb takes -s."""
    return not subject.plural and subject.person not in (JE, VOUS)


def be(subject: NounPhrase, past: bool = False) -> str:
    """The form of *be*."""
    if past:
        return "was" if is_third_singular(subject) or subject.person == JE else "were"
    return "is" if is_third_singular(subject) else "am" if subject.person == JE else "are"


def _english_group(subject: NounPhrase, verb: Verb, tense: str, negative: bool) -> tuple[str, str]:
    """The auxiliary that a question moves to the front, and the rest of the verb."""
    no = " not" if negative else ""
    if tense == PROGRESSIVE:
        return be(subject) + no, verb.en_ing
    if tense == FUTURE:
        return be(subject) + no, f"going to {verb.en}"
    do = "did" if tense == PAST else "does" if is_third_singular(subject) else "do"
    return do + no, verb.en


def english_clause(subject: NounPhrase, verb: Verb, tense: str, negative: bool = False, question: bool = False) -> str:
    """Subject and verb in English: Mary did not buy; did Mary buy (the caller adds the mark).

    Raises:
        UnsuitableError: the tense cannot be told (they read), or the verb has no such tense.
    """
    if tense == PAST and verb.is_state:
        raise UnsuitableError
    auxiliary, rest = _english_group(subject, verb, tense, negative)
    if question:
        return f"{auxiliary} {subject.en} {rest}"
    if negative or tense in (PROGRESSIVE, FUTURE):
        return f"{subject.en} {auxiliary} {rest}"
    if verb.past_looks_present and not is_third_singular(subject):
        raise UnsuitableError
    if tense == PAST:
        return f"{subject.en} {verb.en_past}"
    return f"{subject.en} {verb.en_third if is_third_singular(subject) else verb.en}"


def french_clause(
    subject: NounPhrase,
    verb: Verb,
    tense: str,
    negative: bool = False,
    clitic: str = "",
    before: NounPhrase | None = None,
) -> str:
    """Subject and verb in French: Marie ne a pas acheté; with `clitic`, an object pronoun: Marie ne la a pas achetée.

    `before` is the object where it stands before the verb, so that the participle of avoir agrees with it.

    Raises:
        UnsuitableError: the participle would agree with I, you or we, who may be anyone.
    """
    after = ""
    if tense == PAST:
        finite = (ETRE if verb.with_etre else AVOIR)[subject.person]
        after = verb.participle
        if verb.with_etre:
            if not subject.shows_agreement:
                raise UnsuitableError
            after = french.agree(after, subject.feminine, subject.plural)
        elif before:
            after = french.agree(after, before.feminine, before.plural)
    elif tense == FUTURE:
        finite, after = GOING[subject.person], " ".join([clitic, verb.fr]).strip()
        clitic = ""
    else:
        finite = verb.present[subject.person]
    return negate(f"{subject.fr} |{clitic} {finite}| {after}", negative)


def negate(words: str, negative: bool) -> str:
    """The words with *ne* and *pas* in the places of the two bars, or nothing there."""
    first, middle, last = words.split("|")
    return " ".join([first, "ne", middle, "pas", last] if negative else [first, middle, last])


def predicate(
    subject: NounPhrase,
    adjective: Adjective,
    past: bool = False,
    negative: bool = False,
    degree: tuple[str, str] = ("", ""),
) -> tuple[str, str]:
    """Subject, be and adjective: (the street was wide, la rue était large); avoir for hungry (il avait faim).

    Raises:
        UnsuitableError: the adjective would agree with I, you or we, who may be anyone.
    """
    if not adjective.invariable and not subject.shows_agreement:
        raise UnsuitableError
    has = adjective.place == "avoir"
    forms = (HAD if has else WAS) if past else (AVOIR if has else ETRE)
    finite = forms[subject.person]
    no = "not" if negative else ""
    en = " ".join(f"{subject.en} {be(subject, past)} {no} {degree[0]} {adjective.en}".split())
    form = adjective.form(subject.feminine, subject.person == ILS)
    return en, negate(f"{subject.fr} |{finite}| {degree[1]} {form}", negative)


@dataclass(frozen=True)
class Sentence:
    """A finished pair, and the combinations of words that it is made of."""

    source: str
    target: str
    combinations: frozenset[Combination]


def finish(en: str, fr: str, combinations: Iterable[Combination], end: str = ".") -> Sentence:
    """Words as a sentence: articles, elisions, contractions, capital and mark."""
    return Sentence(english.sentence(en, end), french.sentence(fr, end), frozenset(combinations))
