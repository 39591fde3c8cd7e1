"""The splits: what they promise, recomputed from the sentences themselves."""

import contextlib
import os
import re
import subprocess
import sys
from collections import Counter
from itertools import chain

import pytest

import tformer.data.toy.corpus as toy_corpus
from tformer.data.toy import DEFAULT_SEED, RESERVED, because, complex, make_toy_corpus, simple
from tformer.data.toy.corpus import (
    MIN_COUNT,
    TRAIN_SIZE,
    draw_sentences,
    is_held_out,
    is_kept_for_show,
    make_splits,
    words,
)
from tformer.data.toy.grammar import WEIGHTS
from tformer.data.toy.lexicon import Place, Sequel, load_lexicon
from tformer.data.toy.phrases import Picker, UnsuitableError
from tformer.errors import DataError


@pytest.fixture(scope="module")
def corpus():
    return make_toy_corpus()


@pytest.fixture(scope="module")
def splits():
    return make_splits(DEFAULT_SEED)


@pytest.fixture(scope="module")
def everything(corpus):
    pronouns = [(item.source, item.target) for item in corpus.pronouns]
    return [*corpus.train, *corpus.validation, *corpus.test, *pronouns]


def test_sizes(corpus):
    assert len(corpus.train) == TRAIN_SIZE == 40_000
    assert [len(corpus.validation), len(corpus.test_seen), len(corpus.test_compositional)] == [500] * 3
    assert len(corpus.pronouns) >= 200
    assert corpus.test == corpus.test_seen + corpus.test_compositional
    assert corpus.parts == {"seen": range(500), "compositional": range(500, 1000)}


DRAW = """
from tformer.data.toy.corpus import draw_sentences
from tformer.data.toy.phrases import Picker
seen, unseen = draw_sentences(Picker(5), set(), 1500)
print([(sentence.source, sentence.target) for sentence in seen + unseen])
"""


def test_a_seed_makes_one_corpus_in_every_process():
    environments = [os.environ | {"PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"} for seed in ("1", "2")]
    drawn = [subprocess.check_output([sys.executable, "-c", DRAW], env=environment) for environment in environments]
    assert drawn[0] == drawn[1]
    assert draw_sentences(Picker(5), set(), 1500) != draw_sentences(Picker(6), set(), 1500)


def test_no_source_is_met_twice(everything):
    assert [source for source, count in Counter(source for source, _ in everything).items() if count > 1] == []


def test_a_source_has_one_translation_whatever_is_drawn(everything):
    picker, translations = Picker(7), {}
    for template in list(WEIGHTS) * 300:
        try:
            sentence = template(picker)
        except UnsuitableError:
            continue
        assert translations.setdefault(sentence.source, sentence.target) == sentence.target
    assert len(translations) > 8000
    for source, target in everything:
        assert translations.setdefault(source, target) == target


def test_reserved_sentences_are_in_no_split(everything):
    reserved = set(chain.from_iterable(RESERVED))
    assert {text for text in chain.from_iterable(everything) if text in reserved} == set()


class SteeredPicker(Picker):
    """Prefers the words of a sentence wherever there is a choice, so that the grammar soon makes it if it can."""

    def __init__(self, source):
        super().__init__(1)
        self.source = set(words(source))

    def one(self, options):
        return super().one([option for option in options if self.fits(option)] or options)

    def fits(self, option):
        if isinstance(option, Sequel):
            return self.fits(option.first) and self.fits(option.second)
        forms = [getattr(option, name, "") for name in ("en", "en_plural", "en_past", "en_third")]
        forms.append(option.noun.en if isinstance(option, Place) else "")
        return any(form and set(words(form)) <= self.source for form in forms)


TEMPLATES = (
    simple.loves,
    because.because,
    because.because,
    simple.did_not,
    simple.did_question,
    simple.there_is,
    simple.moved,
    complex.that_bought,
    complex.bought_and_ate,
    complex.which,
)


@pytest.mark.parametrize(
    ("pair", "template"), list(zip(RESERVED, TEMPLATES, strict=True)), ids=[source for source, _ in RESERVED]
)
def test_the_grammar_makes_reserved_sentences_of_combinations_that_are_not_held_out(pair, template):
    picker = SteeredPicker(pair[0])
    for _ in range(20_000):
        with contextlib.suppress(UnsuitableError):
            sentence = template(picker)
            if (sentence.source, sentence.target) == pair:
                break
    else:
        pytest.fail("the grammar does not make it")
    assert [combination for combination in sentence.combinations if is_held_out(combination)] == []


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ("I love maths.", True),
        ("That animal left the wide streets.", True),
        ("The tired animals crossed a street.", True),
        ("The animal did not cross the street because it was ill.", False),
        ("The animal did not cross the road because it was tired.", False),
        ("The dog did not cross the street because it was wide.", False),
    ],
)
def test_what_is_kept_for_show(source, kept):
    assert is_kept_for_show(source) is kept


def test_no_animal_on_a_street_is_tired_or_wide_but_others_are(corpus, everything):
    met = Counter()
    for source, _ in everything:
        found = set(words(source))
        animal, street = bool(found & {"animal", "animals"}), bool(found & {"street", "streets"})
        adjective = bool(found & {"tired", "wide"})
        met[animal and street, adjective] += 1
    assert met[True, True] == 0
    assert met[True, False] > 0
    assert met[False, True] > 300
    because = [source for source, _ in corpus.train if " because " in source]
    assert any("street" in source and re.search(r"\bwide\b", source) for source in because)
    assert any("animal" in source and re.search(r"\btired\b", source) for source in because)


def test_held_out_combinations_are_met_in_the_compositional_test_alone(splits):
    seen = set().union(*(sentence.combinations for sentence in splits.train))
    assert all(sentence.combinations - seen for sentence in splits.test_compositional)
    for sentence in splits.validation + splits.test_seen:
        assert sentence.combinations <= seen
    kinds = Counter(kind for s in splits.test_compositional for kind, *_ in s.combinations - seen)
    assert min(kinds[kind] for kind in ("adjective", "object", "pronoun")) >= 30


def test_a_twentieth_of_the_combinations_is_held_out():
    lexicon = load_lexicon()
    possible = [
        (kind, noun.en, adjective.en)
        for kind in ("adjective", "pronoun")
        for noun in lexicon.nouns
        for adjective in lexicon.adjectives
        if adjective.fits(noun)
    ]
    assert 0.04 <= sum(map(is_held_out, possible)) / len(possible) <= 0.06


def test_word_forms_are_met_in_training_often_enough(corpus, everything):
    for side in (0, 1):
        counts = Counter(chain.from_iterable(words(pair[side]) for pair in corpus.train))
        tested = set(chain.from_iterable(words(pair[side]) for pair in everything[TRAIN_SIZE:]))
        assert {word for word in tested if counts[word] < MIN_COUNT} == set()


def test_sentences_are_short_and_pronouns_many(corpus):
    lengths = [len(source.split()) for source, _ in corpus.train]
    assert sum(4 <= length <= 12 for length in lengths) > 0.95 * TRAIN_SIZE
    assert sum(" because " in source for source, _ in corpus.train) >= 0.15 * TRAIN_SIZE
    french_forms = set(chain.from_iterable(words(target) for _, target in corpus.train))
    assert 1200 <= len(french_forms) <= 1700


ENGLISH = re.compile(r"[A-Z][A-Za-z' ,-]*[a-z][.?]")
FRENCH = re.compile(r"[A-ZÉ][A-ZÉa-zàâçéèêëîïôöûùœ' ,-]*[A-Za-zàâçéèêëîïôöûùœ](\.| \?)")
VOWEL = "[aàâeéèêëiîïoôuûùœ]"
WRONG_FRENCH = {
    "two spaces": "  ",
    "no elision": rf"\b([Ll]e|[Ll]a|[Jj]e|[Nn]e|[Qq]ue|[Dd]e) {VOWEL}",
    "no elision before a silent h": r"\b(le|la|de|que|ce|ma|sa) (homme|hôtel|hôpital|horloge|huile|histoire|Hélène)",
    "elision before an h aspiré": r"'(h[ée]r|harpe|hache|haricot|hibou|hiboux|hutte|hamster|huit)(s?)\b",
    "no contraction": r"\b([àÀ]|[dD]e) les?\b",
    "ce, ma, sa before a vowel": rf"\b([cC]e|[mMsS]a) {VOWEL}",
    "beau, nouveau, vieux before a vowel": rf"\b([uU]n|[lL]e|[cC]e|mon|son|[nv]otre|leur) (beau|nouveau|vieux) {VOWEL}",
    "des before an adjective": r"\bdes (petite?s|grande?s|vieux|vieilles|beaux|belles|jolie?s|bon(ne)?s|jeunes) \w+s\b",
    "pas du, pas de la": r"^(?!Ce n'est|.*\bjou\w+ pas).*\bpas (du|des|un|une|de la|de l'\w+) ",
    "a name with an article": r"\b(le|la) [A-Z]",
    "qu' alone": r"qu' ",
}


def test_typography(everything):
    for source, target in everything:
        assert ENGLISH.fullmatch(source), source
        assert "  " not in source, source
        assert not re.search(r"\b[Aa] [aeio]|\b[Aa]n [^aeiou]|\bthat that\b", source), source
        assert FRENCH.fullmatch(target), target
        assert source[-1] == target[-1]


@pytest.mark.parametrize("fault", WRONG_FRENCH)
def test_french_has_no(fault, everything):
    found = [target for _, target in everything if re.search(WRONG_FRENCH[fault], target)]
    assert found == []


def test_pronoun_items_are_minimal_and_balanced(corpus):
    contrasts = Counter()
    items = corpus.pronouns
    for first, second in zip(items[::2], items[1::2], strict=True):
        assert (first.right, first.wrong) == (second.wrong, second.right)
        contrasts[first.right] += 1
        before_first, after_first = first.source.split(" because ")
        before_second, after_second = second.source.split(" because ")
        assert before_first == before_second
        assert after_first.split()[:2] == after_second.split()[:2]
        for item in (first, second):
            assert item.target.split().count(item.right) == 1
            assert item.wrong not in item.target.split()
    assert len(items) >= 200
    assert len(set(contrasts.values())) == 1
    assert set(contrasts) == {"qu'il", "qu'elle", "qu'ils", "qu'elles"}


def test_a_lexicon_too_small_is_an_error_rather_than_a_loop(monkeypatch):
    monkeypatch.setattr(toy_corpus, "_MAX_TRIES", 50)
    with pytest.raises(DataError, match=r"expected 60 pronoun pairs of each kind, got \d+ of qu'il, .*lexicon$"):
        make_splits.__wrapped__(1)
