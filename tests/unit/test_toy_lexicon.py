"""The tables: large enough, without contradiction, and every word in them can be used."""

from collections import Counter

import pytest

from tformer.data.toy.lexicon import load_lexicon
from tformer.data.toy.parts import objects_of
from tformer.data.toy.phrases import nouns_of

LEXICON = load_lexicon()
COUNTABLE = LEXICON.nouns
ALL_NOUNS = LEXICON.nouns + LEXICON.mass + LEXICON.school + LEXICON.names
CLASSES = {word for noun in ALL_NOUNS for word in noun.classes}


def test_size():
    assert len(COUNTABLE) >= 150
    assert len({verb.en for verb in LEXICON.verbs}) >= 60
    assert len(LEXICON.adjectives) >= 50
    assert sum(noun.fr.startswith("*") for noun in COUNTABLE) >= 5
    assert sum(verb.with_etre for verb in LEXICON.verbs) >= 8
    assert sum(adjective.invariable for adjective in LEXICON.adjectives) >= 5
    assert sum(adjective.precedes for adjective in LEXICON.adjectives) >= 10


def test_genders_are_balanced():
    feminine = sum(noun.feminine for noun in COUNTABLE) / len(COUNTABLE)
    assert 0.4 < feminine < 0.6
    assert sum(name.feminine for name in LEXICON.names) * 2 == len(LEXICON.names)


@pytest.mark.parametrize("words", [ALL_NOUNS, LEXICON.adjectives], ids=["nouns", "adjectives"])
def test_each_english_word_is_there_once(words):
    assert [word for word, count in Counter(word.en for word in words).items() if count > 1] == []


def test_verbs_of_one_name_and_kind_have_one_translation():
    kinds = {}
    for verb in LEXICON.verbs:
        kinds.setdefault((verb.en, verb.moves), set()).add(verb.fr)
    assert {kind for kind, translations in kinds.items() if len(translations) > 1} == set()


def test_classes_are_known():
    rows = [*LEXICON.adjectives, *LEXICON.verbs, *LEXICON.places, *LEXICON.reasons, *LEXICON.sequels]
    unknown = {
        (row, word)
        for row in rows
        for column in ("classes", "subjects", "objects")
        for word in getattr(row, column, frozenset()) - CLASSES
    }
    assert unknown == set()


def test_a_noun_gives_its_name_to_no_class_but_of_its_own_kind():
    shared = {noun.en for noun in ALL_NOUNS for other in ALL_NOUNS if noun is not other and noun.en in other.classes}
    assert shared == {
        "animal",
        "flower",
        "shop",
        "toy",
    }  # a dog is an animal; but one drinks no lake, so it is no "water"


def test_every_verb_and_adjective_can_be_used():
    assert [word.en for word in LEXICON.adjectives if not any(map(word.fits, ALL_NOUNS))] == []
    transitive = [verb for verb in LEXICON.verbs if not verb.moves]
    assert [verb.en for verb in transitive if not objects_of(verb.objects)] == []
    assert [verb.en for verb in LEXICON.verbs if not nouns_of(verb.subjects)] == []


def test_every_noun_can_be_said_to_be_something():
    assert [noun.en for noun in COUNTABLE if not any(adjective.fits(noun) for adjective in LEXICON.adjectives)] == []


def test_every_adjective_of_a_reason_tells_its_noun_from_the_other():
    useless = [
        (reason.verb.en, reason.negative, word.en)
        for reason in LEXICON.reasons
        for words, own, other in (
            (reason.of_subject, nouns_of(reason.subjects), objects_of(reason.objects)),
            (reason.of_object, objects_of(reason.objects), nouns_of(reason.subjects)),
        )
        for word in words
        if not any(map(word.fits, own)) or all(map(word.fits, other))
    ]
    assert useless == []


def test_sequels_and_contrasts_have_something_to_be_about():
    for sequel in LEXICON.sequels:
        nouns = nouns_of(sequel.objects)
        both = [noun for noun in nouns if noun.classes & sequel.first.objects and noun.classes & sequel.second.objects]
        assert both, (sequel.first.en, sequel.second.en)
    idle = [
        (contrast.first.en, second.en)
        for contrast in LEXICON.contrasts
        for second in contrast.seconds
        if not any(contrast.first.fits(noun) and second.fits(noun) for noun in COUNTABLE)
    ]
    assert idle == []
