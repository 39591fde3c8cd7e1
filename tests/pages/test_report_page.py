"""The page of a run, driven in a browser as a person would: read, point, press keys; nothing is fetched."""

import json
from collections import Counter

import pytest

from tformer.inspection.report_page import report_page
from tformer.inspection.report_quality import System, by_length, by_rarest_word
from tformer.inspection.report_run import read_run
from tformer.inspection.report_test import Examination, Paired, Score

HOSTILE = '<img src="https://example.org/x.png" onerror="alert(1)"></script><script>alert(2)</script>&amp;'
HEBREW = "החיה לא חצתה את הרחוב"
STEPS = 40


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """A run of some steps, whose texts would break a page that takes them for markup."""

    def make(name="mine", steps=STEPS, samples=True):
        folder = tmp_path_factory.mktemp("run")
        (folder / "config.yaml").write_text("extends: base.yaml\nmodel: {d_model: 64}\n", encoding="utf-8")
        lines = []
        for step in range(1, steps + 1):
            known = {"loss": 9 - step / 10, "nll": 8 - step / 10, "learning_rate": step / 1e4, "tokens_per_second": 5e3}
            lines.append({"step": step, "split": "train", **known, "elapsed_seconds": 6 * step})
            if step % 10 == 0:
                found = {"nll": 5.0, "perplexity": 148.4, "bleu": float(step), "chrf": 20.0 + step, "weights": "last"}
                if samples:
                    found["samples"] = [[HOSTILE, "a b c", f"a {HOSTILE} c"], ["The animal", HEBREW, HEBREW]]
                lines.append({"step": step, "split": "validation", **found, "elapsed_seconds": 6 * step})
        (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        reason = {f"blank {HOSTILE} (line 3)": 2}
        source = {"split": "train", "name": HOSTILE, "pairs_read": 1234, "left_out": reason, "notes": ["1: odd"]}
        lengths = {"source": [0, 0, 5, 9, 3], "target": [0, 1, 2, 8, 4, 2]}
        corpus = json.dumps({"sources": [source], "lengths": lengths})
        (folder / "corpus.json").write_text(corpus, encoding="utf-8")
        return read_run(name, folder, 1_639_936)

    return make


@pytest.fixture(scope="session")
def examination():
    """What a test set might show of one or two systems."""

    def make(*names):
        references = ["a b c d", HEBREW, HOSTILE]
        systems = [
            System(name, ["a x c", HEBREW, HOSTILE[::-1]], [40.0 + 9 * n, 100.0, 3.0], lambda _: (12.5, 33.3))
            for n, name in enumerate(names)
        ]
        paired = [Paired("BLEU", ["1.00 ± 0.50", "2.00 ± 0.50"], 0.0312, "nrefs:1")] if len(names) > 1 else []
        sources = [HOSTILE, "the animal", "x"]
        rarity = by_rarest_word(sources, Counter(the=9, animal=2), systems)
        lengths = by_length([3, 12, 70], systems)
        scores = [Score("BLEU", "31.25", "nrefs:1|case:mixed")]
        return Examination("mine, 3 sentences", scores, sources, references, systems, lengths, rarity, paired)

    return make


@pytest.fixture
def opened(browser, tmp_path):
    """Opens the page of these runs; nothing may have gone wrong on it by the end of the test."""
    pages = []

    def open_page(runs, test, **window):
        path = tmp_path / f"report-{len(pages)}.html"
        path.write_text(report_page(runs, test), encoding="utf-8")
        pages.append(browser.open(path, **window))
        return pages[-1]

    yield open_page
    for page in pages:
        assert page.faults == []


def test_all_of_a_run_is_on_its_page(opened, run, examination):
    page = opened([run()], examination("mine"))
    assert page.text("h1") == "mine"
    assert page.texts("h2") == [
        "The run", "Curves", "Samples as they grew", "Corpus", "Settings", "Test set", "Where it is good",
        "Worst sentences", "Best sentences",
    ]  # fmt: skip
    assert page.texts("#charts figcaption b") == [
        "Loss and NLL", "Perplexity", "BLEU and chrF", "Learning rate", "Speed"
    ]  # fmt: skip
    text = page.text("body")
    for part in ("1,639,936", "40.00 at step 40", "1,234", "model.d_model", "31.25", "nrefs:1|case:mixed", "1 of 3"):
        assert part in text


def test_texts_are_shown_letter_by_letter(opened, run, examination):
    page = opened([run()], examination("mine"))
    assert page.run("document.querySelectorAll('img').length") == 0
    assert page.text(".sample h3") == HOSTILE
    assert page.texts(".sample bdi").count(HEBREW) == 1 + STEPS // 10
    directions = page.run(
        "[...document.querySelectorAll('.sample bdi')].map(it => [it.textContent, getComputedStyle(it).direction])"
    )
    assert all((direction == "rtl") == (text == HEBREW) for text, direction in directions)


def test_pointing_at_a_curve_reads_all_of_them(opened, run, examination):
    page = opened([run()], examination("mine"))
    page.point("#charts .plot", 0)  # its middle, a little left of that of the curve
    at = page.text("#charts .at", 0)
    step = int(at.split()[1])
    assert 15 < step < 21
    loss_at, perplexity_at, bleu_at, rate_at, speed_at = page.texts("#charts .at")
    assert [loss_at, perplexity_at, rate_at, speed_at] == [at] * 4
    assert int(bleu_at.split()[1]) == 20  # the nearest step that was validated
    loss, nll, _ = page.texts("#charts figure:first-child output")
    assert (float(loss), float(nll)) == pytest.approx((9 - step / 10, 8 - step / 10))


def test_keys_read_along_a_curve(opened, run, examination):
    page = opened([run()], examination("mine"))
    page.run("document.querySelector('#charts .plot').focus()")
    page.press("Home")
    assert page.text("#charts .at") == "step 1 · 0.1 min"
    page.press("ArrowRight")
    page.press("ArrowRight")
    assert page.text("#charts .at") == "step 3 · 0.3 min"
    page.press("PageUp")
    assert page.text("#charts .at") == "step 7 · 0.7 min"
    page.press("ArrowLeft")
    assert page.text("#charts output") == "8.4"
    assert page.text("[aria-live]").startswith("step 6 · 0.6 min: loss, labels smoothed 8.4, NLL, training 7.4")
    page.press("End")
    page.press("ArrowRight")
    assert page.text("#charts .at") == "step 40 · 4.0 min"


def test_curves_are_over_minutes_too(opened, run, examination):
    page = opened([run()], examination("mine"))
    assert "steps" in page.text("#charts .plot")
    page.click("#axis input", 1)
    assert "min" in page.text("#charts .plot")
    assert "steps" not in page.text("#charts .plot")


def test_lengths_are_read_bin_by_bin(opened, run, examination):
    page = opened([run()], examination("mine"))
    page.run("document.querySelector('#lengths .plot').focus()")
    page.press("Home")
    for _ in range(3):
        page.press("ArrowRight")
    assert page.text("#lengths .at") == "3 pieces"
    assert page.texts("#lengths output") == ["9", "8"]
    assert page.texts("#charts .at") == [""] * 5


def test_two_runs_stand_side_by_side(opened, run, examination):
    page = opened([run("old", steps=20), run("new")], examination("old", "new"))
    assert page.text("h1") == "new beside old"
    assert page.run("document.getElementById('dashes').hidden") is False
    assert page.text("#baseline") == "old"
    assert page.run("document.querySelectorAll('#charts figure:first-child .curve.dashed').length") == 3
    assert "0.0312" in page.text("body")
    assert page.texts("h2")[-2:] == ["What gains most on old", "What loses most against old"]


def test_a_run_that_has_just_begun_has_a_page(opened, run):
    page = opened([run(steps=0)], "There is no checkpoint yet that could translate the test set.")
    assert page.texts("h2") == ["The run", "Curves", "Corpus", "Settings", "Test set"]
    assert "No step has been written down yet." in page.text("body")
    assert "There is no checkpoint yet" in page.text("body")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 1600])
def test_nothing_is_wider_than_the_window(opened, run, examination, width, dark):
    page = opened([run("old"), run("new")], examination("old", "new"), width=width, dark=dark)
    assert page.run("document.documentElement.scrollWidth") == width
    light = page.run("getComputedStyle(document.body).backgroundColor") == "rgb(246, 247, 249)"
    assert light is not dark
