"""The report's numbers and texts: torn metrics, curves, groups, marked differences, and nothing of a text is markup."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tformer.data.corpus import CorpusReport, LeftOut
from tformer.data.splits import Splits
from tformer.inspection.report_charts import length_charts, run_charts
from tformer.inspection.report_corpus import dump_corpus, read_corpus
from tformer.inspection.report_quality import (
    System,
    best,
    by_length,
    by_rarest_word,
    count_words,
    gains,
    has_words,
    marked,
    words,
    worst,
)
from tformer.inspection.report_run import curve, read_metrics, read_run, settings_that_differ, smoothing, spread_out


def step(number, **fields):
    known = {"loss": 8.0 / number, "nll": 6.0 / number, "learning_rate": 1e-3, "tokens_per_second": 100.0 * number}
    return {"step": number, "split": "train", "elapsed_seconds": 6.0 * number, **known, **fields}


def validation(number, **fields):
    known = {"nll": 1.0, "perplexity": 2.7, "bleu": 10.0 * number, "chrf": 20.0, "weights": "last"}
    return {"step": number, "split": "validation", "elapsed_seconds": 6.0 * number, **known, **fields}


@pytest.fixture
def run(tmp_path):
    """Reads a run that has written these lines of metrics, and after them these bytes."""

    def make(lines=(), torn=b"", config=""):
        (tmp_path / "config.yaml").write_text(f"extends: base.yaml\n{config}", encoding="utf-8")
        content = b"".join(json.dumps(line).encode() + b"\n" for line in lines) + torn
        (tmp_path / "metrics.jsonl").write_bytes(content)
        return read_run("mine", tmp_path)

    return make


# ---- What a run has written ----


def test_a_torn_last_line_is_no_line(run):
    whole = [step(1), validation(1), step(2)]
    torn = json.dumps(step(3)).encode()
    for cut in range(len(torn) + 1):
        found = run(whole, torn[:cut])
        assert (len(found.steps), len(found.validations), found.unreadable) == (2, 1, 0)


@pytest.mark.parametrize("damage", [b"\xff\xfe", b"{", b"[1]", b"7", b"{}", b'{"step": "a", "split": "train"}', b""])
def test_a_line_that_cannot_be_read_is_counted_and_passed_over(run, tmp_path, damage):
    run([step(1)], damage + b"\n" + json.dumps(step(2)).encode() + b"\n")
    lines, unreadable = read_metrics(tmp_path / "metrics.jsonl")
    assert [line["step"] for line in lines] == [1, 2]
    assert unreadable == 1


def test_a_run_that_has_written_nothing_yet_is_a_run(run, tmp_path):
    run()
    (tmp_path / "metrics.jsonl").unlink()
    found = read_run("mine", tmp_path)
    assert (found.last_step, found.seconds, found.tokens_per_second, found.best("bleu")) == (0, 0.0, None, None)
    assert (found.steps, found.corpus, found.environment) == ([], None, {})
    assert run_charts([found]) == []
    assert length_charts(found) == []


def test_a_run_knows_how_far_it_has_come(run):
    found = run([step(1), step(2), step(3, skipped="a.en, line 3", loss=None), validation(2), validation(3, bleu=5.0)])
    assert (found.last_step, found.seconds, found.skipped) == (3, 18.0, 1)
    assert found.tokens_per_second == 200.0  # the middle one of 100, 200, 300
    assert found.best("bleu") == (20.0, 2)


def test_settings_that_differ_are_told_with_what_the_base_has(run):
    found = run(config="model: {d_model: 64}\ntraining: {warmup_steps: 400}\n")
    assert settings_that_differ(found) == {"model.d_model": ("128", "64")}


# ---- Curves ----


def test_neighbouring_steps_become_one_point_with_mean_lowest_and_highest():
    lines = [step(number, nll=value) for number, value in enumerate([4.0, 2.0, 3.0, 1.0, 7.0], 1)]
    points = [(p.step, p.minutes, p.mean, p.low, p.high) for p in curve(lines, "nll", together=2)]
    assert points == [
        (2, pytest.approx(0.2), 3.0, 2.0, 4.0),
        (4, pytest.approx(0.4), 2.0, 1.0, 3.0),
        (5, 0.5, 7.0, 7.0, 7.0),
    ]


def test_what_is_no_number_is_in_no_curve():
    lines = [step(1), step(2, loss=None), step(3, loss="x"), step(4, loss=float("nan")), {"step": 5, "loss": 1.0}]
    assert [point.step for point in curve(lines, "loss")] == [1]


def test_runs_that_are_compared_are_smoothed_alike(run):
    found = run([step(number) for number in range(1, 402)])
    assert smoothing([found]) == 3  # 200 points at most
    assert smoothing([run([step(1)]), found]) == 3


def test_perplexity_is_the_exponential_of_nll_and_averaged_weights_stand_apart(run):
    found = run([step(1, nll=2.0), validation(1, nll=1.5, perplexity=4.5), validation(1, weights="averaged")])
    [chart] = [chart for chart in run_charts([found]) if chart["title"] == "Perplexity"]
    training, last, averaged = chart["series"]
    assert training["points"][0][2] == pytest.approx(7.38905609893065)
    assert (last["points"][0][2], last["dots"], last["dashed"]) == (4.5, "full", False)
    assert (averaged["points"][0][2], averaged["dots"]) == (2.7, "hollow")


def test_a_loss_beyond_all_bounds_still_makes_a_page(run):
    json.dumps(run_charts([run([step(1, nll=1e9)])]), allow_nan=False)


def test_the_baseline_is_dashed(run):
    found = run([step(1)])
    other = run([step(1)])
    assert [each["dashed"] for each in run_charts([found, other])[0]["series"]] == [True, True, False, False]


@pytest.mark.parametrize(("count", "chosen"), [(0, []), (3, [0, 1, 2]), (4, [0, 1, 2, 3]), (10, [0, 3, 6, 9])])
def test_lines_are_chosen_at_even_distances_with_both_ends(count, chosen):
    assert spread_out([{"step": number} for number in range(count)], 4) == [{"step": number} for number in chosen]


# ---- The corpus ----


def test_what_training_saw_is_read_back(tokenised, tmp_path):
    corpus = tokenised([[5, 6], [5], [7, 8, 9]], [[4], [4, 4, 4, 4], [4]])
    report = CorpusReport("a.en + a.fr", 5, (LeftOut("blank on one or both sides", (2, 4), 2),))
    (tmp_path / "corpus.json").write_text(
        dump_corpus(Splits(None, None, None), _with_report(corpus, report)), encoding="utf-8"
    )
    found = read_corpus(tmp_path / "corpus.json")
    [source] = found.sources
    assert (source.split, source.name, source.pairs_read, source.pairs_kept) == ("train", "a.en + a.fr", 5, 3)
    assert source.left_out == {"blank on one or both sides (lines 2, 4)": 2}
    assert found.lengths == {"source": [0, 0, 1, 1, 1], "target": [0, 0, 2, 0, 0, 1]}  # EOS is a piece too


def _with_report(corpus, report):
    return replace(corpus, reports=(report,))


@pytest.mark.parametrize("text", [None, "", "{", "[]", "{}", '{"sources": [{}], "lengths": {}}', '{"sources": 3}'])
def test_a_record_that_is_missing_or_damaged_is_none(tmp_path, text):
    path = tmp_path / "corpus.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    assert read_corpus(path) is None


def test_a_histogram_counts_every_sentence_once(run, tokenised, tmp_path):
    lengths = np.random.default_rng(0).integers(1, 250, 300)
    corpus = tokenised([[5] * length for length in lengths], [[5]] * 300)
    (tmp_path / "corpus.json").write_text(dump_corpus(Splits(None, None, None), corpus), encoding="utf-8")
    [chart] = length_charts(run())
    source, target = chart["series"]
    assert (sum(point[2] for point in source["points"]), sum(point[2] for point in target["points"])) == (300, 300)
    assert len(source["points"]) <= 60


# ---- Quality ----


@pytest.fixture
def system():
    """A system of these sentence scores, whose corpus score names the sentences that it is of."""

    def make(*scores, name="mine"):
        return System(name, ["x" * 3] * len(scores), scores, lambda indices: (float(len(indices)), float(sum(indices))))

    return make


def test_sentences_are_grouped_by_their_length(system):
    found = by_length([5, 6, 3, 200, 11], [system(*range(5))])
    assert [(group.label, group.size, group.scores) for group in found] == [
        ("1 to 5", 2, [(2.0, 2.0)]),  # sentences 0 and 2
        ("6 to 10", 1, [(1.0, 1.0)]),
        ("11 to 15", 1, [(1.0, 4.0)]),
        ("101 and more", 1, [(1.0, 3.0)]),
    ]


def test_sentences_are_grouped_by_their_rarest_word(system):
    sources = ["The cat sleeps.", "the dog!", "The unicorn", "3 - 4", "the"]
    counts = count_words(sources, ["The cat, the dog;", "the dog", *["The"] * 17, "a cat's tail sleeps", "cat cat cat"])
    assert counts == Counter({"the": 20, "cat": 5, "dog": 2, "sleeps": 1})
    found = by_rarest_word(sources, counts, [system(*range(5))])
    assert [(group.label, group.size, group.scores[0][1]) for group in found] == [
        ("0", 1, 2.0),
        ("1 to 4", 2, 1.0),  # sentences 0 and 1; that of numbers alone is in no group
        ("20 to 99", 1, 4.0),
    ]


def test_words_are_what_stands_between_spaces_and_punctuation():
    assert words("L'Été, c'est “fini” (3 fois) !") == ["l", "été", "c", "est", "fini", "fois"]
    assert words("हिन्दी भाषा।") == ["हिन्दी", "भाषा।"]  # vowel signs are part of them
    assert has_words(["A cat sleeps.", "So does the dog."])
    assert has_words(["Hyvää huomenta, mitä kuuluu?", "Epäjärjestelmällisyys häiritsee minua."])
    assert not has_words(["私は東京に住んでいます。", "毎日電車で学校に通っています。"])


def test_worst_and_best_are_by_score_then_by_length(system):
    mine = System("mine", ["a", "bbb", "cc", "dddd"], [50.0, 10.0, 50.0, 90.0], lambda _: (0.0, 0.0))
    assert worst(mine, 3) == [1, 2, 0]
    assert best(mine, 3) == [3, 2, 0]


def test_gains_and_losses_are_real_ones(system):
    better, worse = gains(system(10, 50, 50, 80), system(30, 50, 45, 20), 3)
    assert (better, worse) == ([0], [3, 2])


def test_differences_are_marked_word_by_word():
    assert marked("Le chat noir dort.", "Un chat dort bien.") == (
        "<del>Le</del> chat <del>noir</del> dort.",
        "<ins>Un</ins> chat dort <ins>bien</ins>.",
    )
    assert marked("Le chat.", "Le chat.") == ("Le chat.", "Le chat.")
    assert marked("Le chat.", "") == ("<del>Le chat.</del>", "")


def test_differences_are_marked_by_characters_where_there_are_no_spaces():
    assert marked("東京は大きい", "東都は大きい") == ("東<del>京</del>は大きい", "東<ins>都</ins>は大きい")


def test_marked_text_is_no_markup():
    old, new = marked('a <b> & "c" </script>', "a <i> & 'c' </script>")
    for html in (old, new):
        assert "<b>" not in html
        assert "<i>" not in html
        assert "</script>" not in html
        assert "&amp;" in html
