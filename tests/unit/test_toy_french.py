"""Forms by hand: what a French and an English grammar book say."""

import pytest

from tformer.data.toy import english, french
from tformer.data.toy.clauses import FUTURE, PAST, PRESENT, PROGRESSIVE, english_clause, french_clause, predicate
from tformer.data.toy.lexicon import load_lexicon
from tformer.data.toy.phrases import (
    DEFINITE,
    ILS,
    INDEFINITE,
    NEGATED,
    POSSESSIVE,
    PRONOUNS,
    NounPhrase,
    UnsuitableError,
    bare_phrase,
    count_phrase,
    mass_phrase,
    school_phrase,
)

LEXICON = load_lexicon()
ME, YOU, HE, SHE, WE = PRONOUNS


def find(english_form):
    words = LEXICON.nouns + LEXICON.mass + LEXICON.school + LEXICON.names
    return next(word for word in words if word.en == english_form)


def adjective(english_form):
    return next(word for word in LEXICON.adjectives if word.en == english_form)


def verb(english_form, french_form=""):
    return next(word for word in LEXICON.verbs if word.en == english_form and french_form in word.fr)


def phrase(determiner, noun, *adjectives, plural=False):
    options = DEFINITE + POSSESSIVE + INDEFINITE + NEGATED
    word = next(word for word in options if word.en == determiner)
    return count_phrase(word, find(noun), [adjective(word) for word in adjectives], plural)


def spoken(noun_phrase):
    """Both sides as a sentence without its mark and capital."""
    en, fr = english.sentence(f"x {noun_phrase.en}"), french.sentence(f"x {noun_phrase.fr}")
    return en[2:-1], fr[2:-1]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("je aime les maths", "J'aime les maths."),
        ("le animal ne a pas traversé la rue parce que il était fatigué", None),
        ("le *haricot et la *harpe de le *héros", "Le haricot et la harpe du héros."),
        ("le homme à le hôpital", "L'homme à l'hôpital."),
        ("il parle à le roi et à les rois de le pays de les lions", "Il parle au roi et aux rois du pays des lions."),
        ("ce arbre et ce *hibou", "Cet arbre et ce hibou."),
        ("ma école , sa orange et sa *harpe", "Mon école, son orange et sa harpe."),
        ("il a *huit œufs de oie", "Il a huit œufs d'oie."),
        ("il ne y a pas de eau", "Il n'y a pas d'eau."),
        ("la voiture de Alice et de Hélène", "La voiture d'Alice et d'Hélène."),
    ],
)
def test_elision_and_contraction(words, sentence):
    expected = sentence or "L'animal n'a pas traversé la rue parce qu'il était fatigué."
    assert french.sentence(words) == expected


def test_question_mark_has_a_space_before_it_in_french_alone():
    assert french.sentence("où est-ce que il est", "?") == "Où est-ce qu'il est ?"
    assert english.sentence("where is a apple", "?") == "Where is an apple?"


@pytest.mark.parametrize(
    ("masculine", "feminine", "forms"),
    [
        ("grand", "", "grand grande grands grandes"),
        ("rouge", "", "rouge rouge rouges rouges"),
        ("beau", "belle", "beau belle beaux belles"),
        ("bleu", "", "bleu bleue bleus bleues"),
        ("médiéval", "", "médiéval médiévale médiévaux médiévales"),
        ("heureux", "heureuse", "heureux heureuse heureux heureuses"),
        ("gris", "", "gris grise gris grises"),
        ("marron", "=", "marron marron marron marron"),
    ],
)
def test_adjectives_agree(masculine, feminine, forms):
    assert " ".join(french.adjective_forms(masculine, feminine)) == forms


def test_only_the_first_word_of_an_adjective_agrees():
    assert adjective("locked").forms == ("fermé à clé", "fermée à clé", "fermés à clé", "fermées à clé")


@pytest.mark.parametrize(
    ("word", "plural"),
    [("chat", "chats"), ("souris", "souris"), ("journal", "journaux"), ("bateau", "bateaux"), ("neveu", "neveux")],
)
def test_french_plurals(word, plural):
    assert french.plural(word) == plural


def test_irregular_plurals_are_in_the_lexicon():
    irregular = {"owl": "*hiboux", "potato": "pommes de terre", "grandmother": "grands-mères", "horse": "chevaux"}
    assert {word: find(word).fr_plural for word in irregular} == irregular
    english_forms = {"mouse": "mice", "wolf": "wolves", "man": "men", "potato": "potatoes", "city": "cities"}
    assert {word: find(word).en_plural for word in english_forms} == english_forms


@pytest.mark.parametrize(
    ("noun_phrase", "en", "fr"),
    [
        (phrase("a", "tree", "old"), "an old tree", "un vieil arbre"),
        (phrase("this", "man", "beautiful"), "this beautiful man", "ce bel homme"),
        (phrase("my", "computer", "new"), "my new computer", "mon nouvel ordinateur"),
        (phrase("the", "owl", "old"), "the old owl", "le vieux hibou"),
        (phrase("some", "house", "big", plural=True), "some big houses", "de grandes maisons"),
        (phrase("some", "house", plural=True), "some houses", "des maisons"),
        (phrase("some", "dress", "red", plural=True), "some red dresses", "des robes rouges"),
        (phrase("many", "egg", plural=True), "many eggs", "beaucoup d'œufs"),
        (phrase("any", "orange", plural=True), "any oranges", "d'oranges"),
        (phrase("her", "school"), "her school", "son école"),
        (phrase("her", "school", "new"), "her new school", "sa nouvelle école"),
        (phrase("their", "car", "red", "small"), "their small red car", "leur petite voiture rouge"),
        (phrase("eight", "horse", plural=True), "eight horses", "huit chevaux"),
        (phrase("the", "sock", "brown", plural=True), "the brown socks", "les chaussettes marron"),
        (mass_phrase(find("water"), "some"), "some water", "de l'eau"),
        (mass_phrase(find("bread"), "some"), "some bread", "du pain"),
        (mass_phrase(find("soup"), "some", [adjective("good")]), "some good soup", "de la bonne soupe"),
        (mass_phrase(find("milk"), "any"), "any milk", "de lait"),
        (school_phrase(find("maths")), "maths", "les maths"),
        (school_phrase(find("history")), "history", "l'histoire"),
    ],
)
def test_noun_phrases(noun_phrase, en, fr):
    assert spoken(noun_phrase) == (en, fr)


PRESENT_FORMS = {
    "eat": "mange mange mangeons mangez mangent",
    "study": "étudie étudie étudions étudiez étudient",
    "buy": "achète achète achetons achetez achètent",
    "read": "lis lit lisons lisez lisent",
    "go": "vais va allons allez vont",
    "enter": "entre dans/entre dans/entrons dans/entrez dans/entrent dans",
}


@pytest.mark.parametrize("english_form", PRESENT_FORMS)
def test_present(english_form):
    forms = PRESENT_FORMS[english_form]
    assert list(verb(english_form).present) == forms.split("/" if "/" in forms else None)


def test_english_verb_forms():
    forms = {"carry": "carries carried carrying", "run": "runs ran running", "write": "writes wrote writing"}
    forms |= {"watch": "watches watched watching", "forget": "forgets forgot forgetting"}
    for base, expected in forms.items():
        irregular = {"run": "ran", "write": "wrote", "forget": "forgot"}.get(base, "")
        ing = english.ing(base, "forgetting" if base == "forget" else "")
        assert f"{english.third_person(base)} {english.past(base, irregular)} {ing}" == expected
    assert verb("look for").en_ing == "looking for"
    assert verb("go out").en_third == "goes out"


def said(subject, english_verb, tense, *, french_form="", **how):
    which = verb(english_verb, french_form)
    english_how = {name: value for name, value in how.items() if name == "negative"}
    return (
        english.sentence(english_clause(subject, which, tense, **english_how)),
        french.sentence(french_clause(subject, which, tense, **how)),
    )


def test_passe_compose_with_avoir_and_etre():
    mary, queens = bare_phrase(find("Mary")), phrase("the", "queen", plural=True)
    assert said(mary, "eat", PAST) == ("Mary ate.", "Marie a mangé.")
    assert said(ME, "eat", PAST, negative=True) == ("I did not eat.", "Je n'ai pas mangé.")
    assert said(mary, "leave", PAST, french_form="partir") == ("Mary left.", "Marie est partie.")
    assert said(queens, "go", PAST) == ("The queens went.", "Les reines sont allées.")
    assert said(HE, "fall", PAST, negative=True) == ("He did not fall.", "Il n'est pas tombé.")
    assert said(mary, "enter", PAST) == ("Mary entered.", "Marie est entrée dans.")


def test_other_tenses():
    assert said(WE, "eat", PROGRESSIVE) == ("We are eating.", "Nous mangeons.")
    assert said(YOU, "read", PRESENT, negative=True) == ("You do not read.", "Vous ne lisez pas.")
    assert said(SHE, "buy", FUTURE, negative=True) == ("She is not going to buy.", "Elle ne va pas acheter.")


def test_participle_agrees_with_an_object_before_it():
    apples, letter = phrase("the", "apple", plural=True), phrase("the", "letter")
    nobody = NounPhrase("", "", None, False, HE.person)
    assert said(HE, "buy", PAST, before=apples)[1] == "Il a achetées."
    assert said(nobody, "write", PAST, clitic="la", before=letter)[1] == "L'a écrite."
    assert said(nobody, "eat", PAST, clitic="les", before=apples, negative=True)[1] == "Ne les a pas mangées."


@pytest.mark.parametrize("subject", [ME, YOU, WE], ids=lambda subject: subject.en)
def test_nothing_agrees_with_those_who_may_be_anyone(subject):
    with pytest.raises(UnsuitableError):
        french_clause(subject, verb("arrive"), PAST)
    with pytest.raises(UnsuitableError):
        predicate(subject, adjective("tired"))


def test_predicates():
    streets = phrase("the", "street", plural=True)
    en, fr = predicate(streets, adjective("wide"), past=True, degree=("very", "très"))
    assert (en, french.sentence(fr)) == ("the streets were very wide", "Les rues étaient très larges.")
    en, fr = predicate(ME, adjective("hungry"), past=True, negative=True)
    assert (en, french.sentence(fr)) == ("I was not hungry", "Je n'avais pas faim.")
    en, fr = predicate(WE, adjective("late"))
    assert (en, french.sentence(fr)) == ("we are late", "Nous sommes en retard.")


def test_a_past_that_looks_like_the_present_is_refused():
    kings = phrase("the", "king", plural=True)
    assert english_clause(HE, verb("read"), PAST) == "he read"
    assert english_clause(kings, verb("read"), PAST, negative=True) == "the kings did not read"
    for tense in (PAST, PRESENT):
        with pytest.raises(UnsuitableError):
            english_clause(kings, verb("read"), tense)


def test_states_have_no_past():
    with pytest.raises(UnsuitableError):
        english_clause(SHE, verb("know"), PAST)


def test_pronouns_stand_for_nouns():
    assert phrase("the", "street").pronoun == ("it", "elle")
    assert phrase("the", "animal").pronoun == ("it", "il")
    assert bare_phrase(find("Mary")).pronoun == ("she", "elle")
    assert phrase("the", "apple", plural=True).pronoun == ("they", "elles")
    assert phrase("the", "man", plural=True).person == ILS
