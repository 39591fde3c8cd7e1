"""The lexicon: what the tables in `lexicon/*.tsv` say, as frozen records.

A class is what a noun is for the purpose of meaning: one eats `food` and crosses a `way`; a `person` may be kind, a
`way` wide. Verbs and adjectives name the classes they go with, so that every sentence says something sayable.
Records are compared by identity: there is one lexicon.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from tformer.data.toy import english, french


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun, a name, or an uncountable; `fr` and `fr_plural` carry an asterisk before an h that allows no elision."""

    en: str
    en_plural: str
    fr: str
    fr_plural: str
    feminine: bool
    classes: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Adjective:
    """An adjective: its four forms, where it stands (see its table), and of which nouns it may be said."""

    en: str
    forms: tuple[str, str, str, str]
    place: str
    degree: str
    classes: frozenset[str]

    @property
    def invariable(self) -> bool:
        """Whether it never shows gender or number."""
        return len(set(self.forms)) == 1

    @property
    def precedes(self) -> bool:
        """Whether it stands before its noun."""
        return self.place in ("before", "front")

    def form(self, feminine: bool, plural: bool) -> str:
        """The French form for a gender and a number."""
        return self.forms[feminine + 2 * plural]

    def fits(self, noun: Noun) -> bool:
        """Whether one can say it of the noun."""
        return bool(self.classes & noun.classes)


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb: English forms, the five French present forms (je, il, nous, vous, ils), and what it may be about."""

    en: str
    en_third: str
    en_past: str
    en_ing: str
    fr: str
    present: tuple[str, str, str, str, str]
    participle: str
    uses: frozenset[str]
    subjects: frozenset[str]
    objects: frozenset[str]

    @property
    def is_state(self) -> bool:
        """Whether it has no simple past here: "she knew" would have two readings in French."""
        return self.en_past == "-"

    @property
    def with_etre(self) -> bool:
        """Whether être makes its passé composé, so that the participle agrees with the subject."""
        return "être" in self.uses

    @property
    def moves(self) -> bool:
        """Whether it has no object: to sleep, to arrive, to go somewhere."""
        return bool(self.uses & {"place", "goal"})

    @property
    def past_looks_present(self) -> bool:
        """Whether "they read" may be now or then (read, cut)."""
        return self.en_past == self.en


@dataclass(frozen=True, eq=False)
class Place:
    """Where something is or happens: a noun, its prepositions (`goal`: *to* in French), who or what may be there."""

    noun: Noun
    en: str
    fr: str
    classes: frozenset[str]
    goal: str


@dataclass(frozen=True, eq=False)
class Phrase:
    """A fixed expression in both languages, and the `use` that it is for (past, habit, now …) where its table says."""

    en: str
    fr: str
    use: str = ""


@dataclass(frozen=True, eq=False)
class Reason:
    """A line of reasons.tsv: why someone did (not) do it, with the adjectives that may be said of either noun."""

    verb: Verb
    negative: bool
    subjects: frozenset[str]
    objects: frozenset[str]
    of_subject: tuple[Adjective, ...]
    of_object: tuple[Adjective, ...]


@dataclass(frozen=True, eq=False)
class Mood:
    """A line of moods.tsv: why someone came, sang, left, or did not."""

    verb: Verb
    negative: bool
    adjectives: tuple[Adjective, ...]


@dataclass(frozen=True, eq=False)
class Sequel:
    """A line of sequels.tsv: two verbs that may follow each other with the same object."""

    first: Verb
    second: Verb
    objects: frozenset[str]


@dataclass(frozen=True, eq=False)
class Contrast:
    """A line of contrasts.tsv: an adjective, and those that may follow it after *but*."""

    first: Adjective
    seconds: tuple[Adjective, ...]


@dataclass(frozen=True, eq=False)
class Lexicon:
    """All tables."""

    nouns: tuple[Noun, ...]
    mass: tuple[Noun, ...]
    school: tuple[Noun, ...]
    names: tuple[Noun, ...]
    adjectives: tuple[Adjective, ...]
    verbs: tuple[Verb, ...]
    places: tuple[Place, ...]
    phrases: tuple[Phrase, ...]
    games: tuple[Phrase, ...]
    geography: tuple[Phrase, ...]
    reasons: tuple[Reason, ...]
    moods: tuple[Mood, ...]
    sequels: tuple[Sequel, ...]
    contrasts: tuple[Contrast, ...]


def _rows(table: str) -> Iterator[list[str]]:
    """The lines of a table as columns; comments are left out, short lines are filled up."""
    text = files(__package__).joinpath("lexicon", f"{table}.tsv").read_text(encoding="utf-8")
    for line in text.splitlines():
        if not line.startswith("#"):
            columns = line.split("\t")
            yield columns + [""] * (9 - len(columns))


def _classes(column: str, *more: str) -> frozenset[str]:
    return frozenset([*column.split(), *more])


def _adjective(english_form: str, masculine: str, feminine: str, place: str, degree: str, classes: str) -> Adjective:
    forms = french.adjective_forms(masculine, feminine)
    return Adjective(english_form, forms, place, degree, _classes(classes))


def _verb(row: list[str]) -> Verb:
    en, past, ing, fr, present, participle, subjects, objects, use = row
    infinitive, *particle = fr.split()
    forms = tuple(present.split()) or french.present_er(infinitive)
    je, il, nous, vous, ils = (" ".join([form, *particle]) for form in forms)
    participle = " ".join([participle or infinitive.removesuffix("er") + "é", *particle])
    en_past = past if past == "-" else english.past(en, past)
    uses, who, what = _classes(use), _classes(subjects), _classes(objects)
    return Verb(
        en,
        english.third_person(en),
        en_past,
        english.ing(en, ing),
        fr,
        (je, il, nous, vous, ils),
        participle,
        uses,
        who,
        what,
    )


@cache
def load_lexicon() -> Lexicon:
    """The lexicon that comes with the package."""
    nouns = tuple(
        Noun(
            en,
            en_plural or english.plural(en),
            fr,
            fr_plural or french.plural(fr),
            gender == "f",
            _classes(classes, en),
        )
        for en, fr, gender, classes, en_plural, fr_plural, *_ in _rows("nouns")
    )
    mass = tuple(
        Noun(en, "", fr, "", gender == "f", _classes(classes, en)) for en, fr, gender, classes, *_ in _rows("mass")
    )
    school = tuple(
        Noun(en, "", *((fr, "") if number == "s" else ("", fr)), gender == "f", frozenset({"subject"}))
        for en, fr, gender, number, *_ in _rows("subjects")
    )
    names = tuple(Noun(en, "", fr, "", gender == "f", frozenset({"person"})) for en, fr, gender, *_ in _rows("names"))
    adjectives = tuple(_adjective(*row[:6]) for row in _rows("adjectives"))
    verbs = tuple(_verb(row) for row in _rows("verbs"))
    noun_of = {noun.en: noun for noun in nouns}
    adjective_of = {adjective.en: adjective for adjective in adjectives}
    verb_of = {verb.en: verb for verb in reversed(verbs) if not verb.moves}
    move_of = {verb.en: verb for verb in reversed(verbs) if verb.moves}

    def adjectives_in(column: str) -> tuple[Adjective, ...]:
        return tuple(adjective_of[word] for word in column.split())

    return Lexicon(
        nouns,
        mass,
        school,
        names,
        adjectives,
        verbs,
        tuple(Place(noun_of[noun], en, fr, _classes(there), goal) for noun, en, fr, there, goal, *_ in _rows("places")),
        tuple(Phrase(*row[:3]) for row in _rows("phrases")),
        tuple(Phrase(*row[:2]) for row in _rows("games")),
        tuple(Phrase(*row[:2]) for row in _rows("geography")),
        tuple(
            Reason(
                verb_of[verb], yes == "no", _classes(who), _classes(what), adjectives_in(of_who), adjectives_in(of_what)
            )
            for verb, yes, who, what, of_who, of_what, *_ in _rows("reasons")
        ),
        tuple(Mood(move_of[row[0]], row[1] == "no", adjectives_in(row[2])) for row in _rows("moods")),
        tuple(Sequel(verb_of[row[0]], verb_of[row[1]], _classes(row[2])) for row in _rows("sequels")),
        tuple(Contrast(adjective_of[row[0]], adjectives_in(row[1])) for row in _rows("contrasts")),
    )
