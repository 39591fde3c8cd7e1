"""What a look at a corpus finds, and what it leaves in peace: one small corpus for each thing."""

import numpy as np
import pytest

from tformer.config import Config, DataConfig, FilePair, TokenizerConfig
from tformer.data.check import inspect, survey
from tformer.data.check.finding import Finding, share
from tformer.data.check.lengths import Distribution, ratio_outliers
from tformer.data.check.settings import plan
from tformer.data.check.vocabulary import suggest_size
from tformer.data.splits import read_splits
from tformer.data.tokenizer import TokenizerPair

SUBJECTS = [
    "The old man",
    "My sister",
    "A young doctor",
    "The tall teacher",
    "Our neighbour",
    "The king",
    "A fisherman",
]
VERBS = ["is looking for", "has never seen", "often talks about", "wants to buy", "does not know", "painted", "forgot"]
THINGS = ["the house by the river", "a small red boat", "the book on the table", "his brother's garden", "the weather"]
SUJETS = [
    "Le vieil homme",
    "Ma sœur",
    "Un jeune médecin",
    "La grande maîtresse",
    "Notre voisin",
    "Le roi",
    "Un pêcheur",
]
VERBES = ["cherche", "n'a jamais vu", "parle souvent de", "veut acheter", "ne connaît pas", "a peint", "a oublié"]
CHOSES = [
    "la maison près du fleuve",
    "un petit bateau rouge",
    "le livre sur la table",
    "le jardin de son frère",
    "le temps",
]
LONG = [
    (f"{SUBJECTS[i]} {VERBS[j]} {THINGS[k]}.", f"{SUJETS[i]} {VERBES[j]} {CHOSES[k]}.")
    for i in range(7)
    for j in range(7)
    for k in range(5)
]
SHORT = [
    ("Good morning!", "Bonjour !"),
    ("Thank you.", "Merci."),
    ("Yes.", "Oui."),
    ("A red boat.", "Un bateau rouge."),
]
CLEAN = LONG + SHORT
HELD_OUT = [("My sister painted the king.", "Ma sœur a peint le roi."), ("A small book.", "Un petit livre.")]


@pytest.fixture
def splits(tmp_path):
    """Makes the splits of these pairs."""

    def make(train, validation=HELD_OUT, test=None):
        files = {}
        for name, pairs in (("train", train), ("validation", validation), ("test", test)):
            if pairs:
                files[name] = FilePair(source=tmp_path / f"{name}.en", target=tmp_path / f"{name}.fr")
                for path, lines in zip(files[name].files, zip(*pairs, strict=True), strict=True):
                    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return read_splits(DataConfig(**files))

    return make


@pytest.fixture
def surveyed(splits):
    """Surveys these pairs and gives what was found, by kind and split."""
    return lambda *pairs, **named: {(each.kind, each.split): each for each in survey(splits(*pairs, **named))}


@pytest.fixture
def inspected(splits):
    """Inspects these pairs as English and French, or as said, and gives all of it."""

    def look(*pairs, config=None, **languages):
        config = config or Config(tokenizer=TokenizerConfig(vocab_size=500), data=DataConfig(**languages))
        read = splits(*pairs)
        return inspect(read, TokenizerPair.train(read.train.sources(), read.train.targets(), config.tokenizer), config)

    return look


def kinds(inspection):
    """The kinds of what was found, without what a corpus of 250 pairs cannot help."""
    return {each.kind for each in inspection.findings} - {"few_batches"}


# ---- The survey ----


def test_a_clean_corpus_is_left_in_peace(surveyed, inspected):
    assert surveyed(CLEAN) == {}
    assert kinds(inspected(CLEAN)) == set()


def test_duplicates_are_counted_beyond_the_first(surveyed):
    found = surveyed([*CLEAN, CLEAN[3], CLEAN[3], CLEAN[5], CLEAN[7]])[("duplicates", "train")]
    assert (found.count, found.severity) == (4, "warning")
    assert found.message.startswith("4 duplicate pairs in training, of 253")
    assert "data.drop_duplicates: true" in found.message
    assert found.lines == tuple(f"train.en + train.fr, line {row}" for row in (250, 251, 252, 253))


def test_the_same_source_with_another_target_is_no_duplicate(surveyed):
    assert surveyed([*CLEAN, (CLEAN[3][0], "Une autre phrase.")]) == {}


def test_held_out_pairs_that_are_in_training_are_told_from_shared_sources(surveyed):
    held_out = [*HELD_OUT, CLEAN[0], CLEAN[1], (CLEAN[2][0].upper(), "Autre chose.")]
    found = surveyed(CLEAN, held_out, CLEAN[:3])
    validation, test = found[("overlap", "validation")], found[("overlap", "test")]
    assert validation.message.startswith(
        "2 of 5 validation pairs are in training too, 1 share the source sentence alone: "
    )
    assert (validation.count, validation.severity) == (3, "warning")
    assert validation.lines == tuple(f"validation.en + validation.fr, line {row}" for row in (3, 4, 5))
    assert test.message.startswith("3 of 3 test pairs are in training too: ")
    assert "data.drop_overlap: true" in test.message


def test_a_shared_source_alone_is_called_that(surveyed):
    found = surveyed(CLEAN, [*HELD_OUT, (CLEAN[0][0], "Autre chose.")])[("overlap", "validation")]
    assert found.message.startswith("1 of 3 validation pairs have a source sentence that is in training too: ")


def test_entities_are_found_on_both_sides_and_plain_ampersands_are_not(surveyed):
    odd = [
        ("Fish &amp; chips", "Du poisson"),
        ("Come in!", "Entrez&#160;!"),
        ("I&#x27;m here", "Je suis là"),
        ("R&D; AT&T", "a & b"),
    ]
    found = surveyed([*CLEAN, *odd], [*HELD_OUT, ("a &lt; b", "a < b")])
    assert found[("entities", "train")].lines == tuple(f"train.en + train.fr, line {row}" for row in (250, 251, 252))
    assert found[("entities", "validation")].count == 1


def test_untranslated_copies_are_found_and_numbers_are_not(surveyed):
    found = surveyed([*CLEAN, ("Photo: Jean Dupont", "Photo: Jean Dupont"), ("1,5 + 2", "1,5 + 2")])[
        ("copies", "train")
    ]
    assert (found.count, found.severity, found.lines) == (1, "note", ("train.en + train.fr, line 250",))
    many = surveyed([*CLEAN, *((source, source) for source, _ in LONG[:10])])[("copies", "train")]
    assert (many.count, many.severity) == (10, "warning")


def test_missing_short_sentences_are_missed(surveyed):
    assert surveyed(LONG)[("no_short_sentences", "train")].count == 0
    unspaced = [
        ("私はその本を一度も読んだことがありませんし、読むつもりもありません。", target) for _, target in LONG[:20]
    ]
    assert ("no_short_sentences", "train") in surveyed([*LONG, *unspaced])


def test_a_missing_validation_set_is_missed(surveyed):
    assert surveyed(CLEAN, None)[("no_validation", "validation")].severity == "warning"


# ---- Characters ----


@pytest.mark.parametrize(
    ("kind", "line", "innocent"),
    [
        ("replaced_characters", "caf\ufffd noir", "café noir"),
        ("control_characters", "pre\x02sent", "tab\tand joiner: क्\u200dष"),
        ("control_characters", "a\ufeffb", "a\u00a0b"),
        ("misread_encoding", "L’été".encode().decode("cp1252"), "L’été à São, SÃO e ÂNGULO, « â »"),
        ("misread_encoding", "Größe".encode().decode("latin-1"), "Größe"),
        ("misread_encoding", "é".encode().decode("cp1252"), "é"),
        ("misread_encoding", "“oui”".encode().decode("latin-1"), "“oui”"),
        ("misread_encoding", "Привет".encode().decode("latin-1"), "Привет"),
    ],
)
def test_damaged_text_is_found(inspected, kind, line, innocent):
    found = {each.kind: each for each in inspected([*CLEAN, ("Coffee, please", line)]).findings}
    assert (found[kind].count, found[kind].lines) == (1, ("train.en + train.fr, line 250",))
    assert kinds(inspected([*CLEAN, ("Coffee, please", innocent)])) == set()


def test_characters_that_training_never_showed_are_named(inspected):
    found = {each.kind: each for each in inspected(CLEAN, [*HELD_OUT, ("Ω is: 5 €", "A : 5 €")]).findings}
    unknown = found["unknown_characters"]
    assert (unknown.split, unknown.count) == ("validation", 1)
    assert all(character in unknown.message for character in "Ω€:5")
    assert "spelt as bytes" in unknown.message


def test_characters_without_bytes_are_lost(inspected):
    config = Config(tokenizer=TokenizerConfig(vocab_size=200, byte_fallback=False))
    found = {each.kind: each for each in inspected(CLEAN, [("Ω is big", "Oui.")], config=config).findings}
    assert "read as unknown, and lost" in found["unknown_characters"].message


# ---- Languages ----


def swapped(pairs, every):
    return [
        (target, source) if number % every == 0 else (source, target) for number, (source, target) in enumerate(pairs)
    ]


@pytest.mark.parametrize(
    ("pairs", "languages", "kind", "words"),
    [
        (swapped(LONG, 1), {}, "swapped_sides", ["the source is French (fr), the target English (en)"]),
        (swapped(LONG, 20), {}, "swapped_pairs", ["French (fr) as source", "English (en) as target"]),
        (LONG, {"target_lang": "es"}, "wrong_language", ["target side looks like French (fr), not Spanish (es)"]),
        (LONG, {"source_lang": "deu"}, "wrong_language", ["source side looks like English (en), not German (de)"]),
        (LONG, {"target_lang": "luo"}, "language_not_tested", ["target side", "luo"]),
    ],
)
def test_languages_out_of_place_are_found(inspected, pairs, languages, kind, words):
    [found] = [each for each in inspected(pairs + SHORT, **languages).findings if each.kind == kind]
    for word in words:
        assert word in found.message


@pytest.mark.parametrize("languages", [{"source_lang": "eng", "target_lang": "fra"}, {"target_lang": "fr-CA"}])
def test_languages_go_by_several_codes(inspected, languages):
    assert kinds(inspected(CLEAN, **languages)) == set()


def test_pairs_with_one_language_on_both_sides_are_not_swapped(inspected):
    pairs = [(target, target) if number % 20 == 0 else (source, target) for number, (source, target) in enumerate(LONG)]
    assert kinds(inspected(pairs + SHORT)) == {"copies"}


# ---- Lengths ----


def test_distributions_are_lengths_that_there_are():
    assert Distribution.of(np.arange(1, 101)) == Distribution(50, 95, 99, 100)
    assert Distribution.of(np.array([7])) == Distribution(7, 7, 7, 7)


def test_pairs_that_do_not_match_in_length_stand_out():
    source = np.full(1000, 50)
    target = np.full(1000, 55)
    target[[3, 5]] = 180, 10
    usual, factor, rows = ratio_outliers(source, target)
    assert (round(usual, 2), round(factor, 2), rows.tolist()) == (1.08, 2.5, [3, 5])


def test_a_corpus_of_loose_translations_is_judged_by_its_own_spread():
    random = np.random.default_rng(1)
    source = random.integers(20, 200, 5000)
    target = np.round(source * np.exp(random.normal(0, 0.4, 5000))).astype(int)
    _, factor, rows = ratio_outliers(source, target)
    assert factor > 4
    assert len(rows) < 5


def test_a_monster_among_sentences_is_found_and_said_to_be_left_out(inspected):
    monster = [("word " * 900 + "end", "mot " * 900 + "fin")]
    found = {each.kind: each for each in inspected([*CLEAN, *monster]).findings}
    assert found["length_outliers"].lines == found["too_long"].lines == ("train.en + train.fr, line 250",)
    assert found["too_long"].message.startswith(
        "1 of 250 (0.4 %) training pairs are longer than 256 pieces (data.max_l"
    )


# ---- Vocabulary and settings ----


def test_sizes_follow_practice_and_the_words_there_are():
    assert [suggest_size(pairs, 10**6, 300) for pairs in (1000, 9000, 30_000, 150_000, 500_000, 10**7)] == [
        1000, 2000, 4000, 8000, 16_000, 32_000
    ]  # fmt: skip
    assert suggest_size(30_000, 1500, 300) == 1500
    assert suggest_size(120, 200, 341) == 500


@pytest.mark.parametrize(
    ("asked", "words"), [(32_000, ["32,000, of which this corpus supports", "seen too rarely"]), (500, None)]
)
def test_a_vocabulary_beyond_the_corpus_is_named(inspected, asked, words):
    inspection = inspected(CLEAN, config=Config(tokenizer=TokenizerConfig(vocab_size=asked)))
    found = [each.message for each in inspection.findings if each.kind == "vocabulary_size"]
    assert bool(found) == bool(words)
    for word in words or ():
        assert word in found[0]


def test_batches_and_padding_are_those_of_training():
    lengths = np.array([4, 4, 8, 2])
    config = Config.model_validate({"training": {"max_tokens_per_batch": 8, "max_steps": 30, "accumulate_batches": 2}})
    schedule = plan(lengths, lengths, config)  # 2 beside 4, 4 alone, 8 alone
    assert (schedule.batches_per_epoch, schedule.steps, schedule.epochs) == (3, 30, 20.0)
    assert schedule.tokens_per_epoch == 8 + 4 + 8
    assert schedule.padding_share == pytest.approx(2 / 20)


def test_an_epoch_shows_pairs_as_often_as_their_weights_say(tmp_path):
    files = []
    for number, weight in enumerate((1.0, 2.5)):
        path = tmp_path / f"{number}.tsv"
        path.write_text("".join(f"{source}\t{target}\n" for source, target in LONG[number::2]), encoding="utf-8")
        files.append({"tsv": str(path), "weight": weight})
    training = {"max_tokens_per_batch": 64}
    tokenizer = {"vocab_size": 500}
    epochs = []
    for train in (files[:1], files):
        config = Config.model_validate(
            {"tokenizer": tokenizer, "training": training, "data": {"train": train}}, strict=False
        )
        read = read_splits(config.data)
        tokenizers = TokenizerPair.train(read.train.sources(), read.train.targets(), config.tokenizer)
        epochs.append(inspect(read, tokenizers, config).schedule)
    alone, both = epochs
    assert both.tokens_per_epoch == pytest.approx(3.5 * alone.tokens_per_epoch, rel=0.05)


@pytest.mark.parametrize(
    ("training", "kind"),
    [
        ({"warmup_steps": 400, "max_steps": 400}, "warmup_too_long"),
        ({"max_tokens_per_batch": 4096}, "few_batches"),
        ({"max_tokens_per_batch": 64, "max_steps": 10, "warmup_steps": 2}, "part_of_an_epoch"),
        ({"patience": 3}, "patience_without_validation"),
    ],
)
def test_settings_that_hurt_are_found(inspected, training, kind):
    fine = {"max_tokens_per_batch": 128}
    tokenizer = {"vocab_size": 500}
    for settings, expected in ((fine, False), (fine | training, True)):
        config = Config.model_validate({"tokenizer": tokenizer, "training": settings})
        found = inspected(CLEAN, None, config=config).findings
        assert (kind in {each.kind for each in found}) == expected


# ---- How it reads ----


def test_warnings_come_first(inspected):
    severities = [each.severity for each in inspected([*CLEAN, *CLEAN[:3], ("Tea &amp; milk", "Du thé")]).findings]
    assert severities == sorted(severities, reverse=True)
    assert {"note", "warning"} == set(severities)


def test_places_of_one_file_stand_together():
    lines = ("a.en + a.fr, line 3", "a.en + a.fr, line 17", "b.tsv, row 2")
    finding = Finding("duplicates", "note", "Twice the same", 5, "train", lines)
    assert finding.sentence() == "Twice the same (a.en + a.fr, lines 3, 17; b.tsv, row 2 …)"
    assert Finding("x", "note", "Nothing to show").sentence() == "Nothing to show"


@pytest.mark.parametrize(
    ("count", "total", "text"),
    [(30, 170, "30 of 170 (18 %)"), (1, 121, "1 of 121 (0.83 %)"), (1, 10**6, "1 of 1,000,000 (under 0.01 %)"),
     (0, 5, "0 of 5 (0 %)"), (2000, 2000, "2,000 of 2,000 (100 %)")],
)  # fmt: skip
def test_shares_are_short(count, total, text):
    assert share(count, total) == text
