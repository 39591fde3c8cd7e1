"""The page of attention, driven in a browser as a person would: point, choose, compare, by mouse and by keyboard."""

import json
from itertools import pairwise

import numpy as np
import pytest

from tformer.inspection.attention_page import attention_page, reads_right_to_left
from tformer.inspection.maps import AttentionMaps, View

LAYERS, HEADS = 3, 2
FIRST_VIEW = View("cross", 2)
ENGLISH = ["▁The", "▁an", "imal", "▁was", "▁tired", "</s>"]
FRENCH = ["▁L'", "animal", "▁était", "▁fatigué", "</s>"]
HEBREW = ["▁החיה", "▁היתה", "▁עייפה", "</s>"]


@pytest.fixture(scope="session")
def maps():
    """Attention as a model might have it, of these pieces: random, each row summing to 1, nothing after the query."""

    def make(source=ENGLISH, target=FRENCH, layers=LAYERS, heads=HEADS, seed=0):
        random = np.random.default_rng(seed)

        def weights(queries, keys, causal=False):
            scores = 3 * random.standard_normal((layers, heads, queries, keys))
            scores[..., np.triu_indices(queries, 1)[0], np.triu_indices(queries, 1)[1]] -= np.inf if causal else 0
            shares = np.exp(scores)
            return (shares / shares.sum(axis=-1, keepdims=True)).astype(np.float32)

        n, m = len(source), len(target)
        text, translation = ("".join(pieces[:-1]).replace("▁", " ").strip() for pieces in (source, target))
        read = ["<s>", *target[:-1]]
        return AttentionMaps(
            text, translation, source, target, read, weights(n, n), weights(m, m, causal=True), weights(m, n)
        )

    return make


@pytest.fixture
def opened(browser, tmp_path):
    """Opens the page of these maps; nothing may have gone wrong on it by the end of the test."""
    pages = []

    def open_page(all_maps, view=FIRST_VIEW, **window):
        path = tmp_path / f"attention-{len(pages)}.html"
        path.write_text(attention_page(all_maps, view), encoding="utf-8")
        pages.append(browser.open(path, **window))
        return pages[-1]

    yield open_page
    for page in pages:
        assert page.faults == []


def shown(page, panel=0):
    """The weights on the keys of a panel, in per cent, as far as they are written out."""
    keys = page.run(
        f"[...document.querySelectorAll('.panel')[{panel}].querySelectorAll('.keys small')].map(e => e.textContent)"
    )
    return [int(key or 0) for key in keys]


def near(found, weights):
    """Whether these are the weights, but for the last digit of a number that lies between two."""
    return len(found) == len(weights) and all(
        abs(number - 100 * float(weight)) <= 0.51 or (number == 0 and weight < 0.011)
        for number, weight in zip(found, weights, strict=True)
    )


def test_pointing_at_a_piece_shows_what_it_reads(opened, maps):
    one = maps()
    page = opened([one])
    mean = one.cross[1].mean(axis=0)
    assert near(shown(page), mean[0])
    for query in (3, 1):
        page.point(".queries .token", query)
        assert near(shown(page), mean[query])
        assert page.texts(".queries .shown") == [FRENCH[query].removeprefix("▁")]
        strongest = ENGLISH[int(mean[query].argmax())].removeprefix("▁")
        assert strongest in page.text(".says").partition("looks at")[2].partition("%")[0]
    page.point("h1")
    assert near(shown(page), mean[0])


def test_a_click_keeps_a_piece_while_others_are_pointed_at(opened, maps):
    one = maps()
    page = opened([one])
    page.click(".queries .token", 2)
    page.point(".queries .token", 4)
    assert near(shown(page), one.cross[1].mean(axis=0)[4])
    page.point("h1")
    assert near(shown(page), one.cross[1].mean(axis=0)[2])


@pytest.mark.parametrize("pattern", ["encoder", "decoder", "cross"])
def test_pattern_layer_and_head_can_be_chosen(opened, maps, pattern):
    one = maps()
    page = opened([one], View("encoder" if pattern == "cross" else "cross", 1, 1))
    page.click(f"input[value={pattern}]")
    assert near(shown(page), getattr(one, pattern)[0, 0, 0])
    for layer, head in ((3, 2), (1, 0)):
        page.run(
            f"for (const [name, value] of [['layer', {layer}], ['head', {head}]]) {{"
            "controls.elements[name].value = value;"
            "controls.elements[name].dispatchEvent(new Event('change', {bubbles: true})); }"
        )
        page.point(".queries .token", 2)
        assert near(shown(page), one.weights(View(pattern, layer, head or None))[2])
    queries, keys = one.axes(pattern)
    assert page.texts(".queries .token") == [piece.removeprefix("▁") for piece in queries]
    assert page.run("[...document.querySelectorAll('.keys .token')].map(e => e.firstChild.textContent)") == [
        piece.removeprefix("▁") for piece in keys
    ]


def test_what_the_causal_mask_blocks_is_marked_and_named(opened, maps):
    page = opened([maps()], View("decoder", 1, 1))
    page.point(".queries .token", 1)
    hidden = page.run("[...document.querySelectorAll('.keys .token')].map(e => e.classList.contains('hidden'))")
    assert hidden == [False, False, True, True, True]
    assert page.run("getComputedStyle(document.querySelector('.legend .blocked')).display") != "none"
    page.click("input[value=cross]")
    assert page.run("getComputedStyle(document.querySelector('.legend .blocked')).display") == "none"


def test_a_small_picture_chooses_its_head(opened, maps):
    one = maps()
    page = opened([one])
    assert len(page.texts(".heads button")) == LAYERS * (1 + HEADS)
    page.click(".heads button[aria-label='layer 3, head 2']")
    assert page.run("[controls.elements.layer.value, controls.elements.head.value]") == ["3", "2"]
    assert page.run("document.querySelector('.heads [aria-pressed=true]').ariaLabel") == "layer 3, head 2"
    assert near(shown(page), one.cross[2, 1, 0])


def test_the_keyboard_reaches_everything(opened, maps):
    one = maps()
    page = opened([one], View("cross", 2, 1))
    for _ in range(4):  # patterns are one stop, then layer, head, and the pieces
        page.press("Tab")
    assert page.run("document.activeElement.className").split()[0] == "token"
    for key, query in (("ArrowRight", 1), ("End", 4), ("ArrowRight", 4), ("ArrowLeft", 3), ("Home", 0), ("End", 4)):
        page.press(key)
        assert near(shown(page), one.cross[1, 0, query])
        assert page.run("document.activeElement.dataset.index") == str(query)
    page.press("ArrowDown")
    assert near(shown(page), one.cross[1, 1, 4])
    page.press("PageDown")
    assert near(shown(page), one.cross[2, 1, 4])
    page.press("PageDown")
    page.press("ArrowUp")
    assert near(shown(page), one.cross[2, 0, 4])
    assert page.run("document.activeElement.dataset.index") == "4"


def test_two_sentences_stand_side_by_side_and_move_together_or_alone(opened, maps):
    one, other = maps(), maps(target=["▁Elle", *FRENCH[2:]], seed=1)
    page = opened([one, other], View("cross", 1, 2), width=1300)
    tops = page.run("[...document.querySelectorAll('.panel')].map(each => each.getBoundingClientRect().top)")
    assert tops[0] == tops[1]
    page.point(".queries .token", 3)
    assert near(shown(page, 0), one.cross[0, 1, 3])
    assert near(shown(page, 1), other.cross[0, 1, 3])
    page.point(".queries .token", 4)  # the other has four pieces only
    assert near(shown(page, 0), one.cross[0, 1, 4])
    assert near(shown(page, 1), other.cross[0, 1, 0])
    page.click("[name=together]")
    page.point(".queries .token", 5 + 2)
    assert near(shown(page, 0), one.cross[0, 1, 0])
    assert near(shown(page, 1), other.cross[0, 1, 2])
    page.resize(390, 900)
    page.settle()
    tops = page.run("[...document.querySelectorAll('.panel')].map(each => each.getBoundingClientRect().top)")
    assert tops[1] > tops[0] + 100
    assert page.run("document.documentElement.scrollWidth") <= 390


def test_pointing_into_the_map_names_the_cell(opened, maps):
    one = maps()
    page = opened([one], View("cross", 1, 1))
    left, top, size = page.run("[panels[0].layout.left, panels[0].layout.top, panels[0].layout.size]")
    x, y = page.run("(() => { document.querySelector('.map').scrollIntoView({behavior: 'instant'});"
                    "const box = document.querySelector('.sheet canvas').getBoundingClientRect();"
                    "return [box.x, box.y]; })()")  # fmt: skip
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + left + 4.5 * size, y=y + top + 2.5 * size)
    page.settle()
    assert near(shown(page), one.cross[0, 0, 2])
    assert "tired" in page.text(".says").partition("has ")[0]


def test_right_to_left_scripts_run_from_right_to_left(opened, maps):
    page = opened([maps(target=HEBREW)], View("decoder", 1, 1))
    places = page.run("[...document.querySelectorAll('.queries .token')].map(each => each.getBoundingClientRect().x)")
    assert all(later < earlier for earlier, later in pairwise(places))
    page.run("document.querySelector('.queries .token').focus()")
    page.press("ArrowLeft")
    assert page.run("document.activeElement.dataset.index") == "1"
    # in the map too, the first key stands at the right: one cell of the first row is not blocked
    assert page.run("[panels[0].column(0), panels[0].column(3)]") == [3, 0]
    assert page.run("document.querySelector('.text').dir + getComputedStyle(document.querySelector('.text')).direction")


@pytest.mark.parametrize(
    ("text", "answer"), [("(«שלום»", True), ("سلام", True), ("Hello שלום", False), ("12 .", False), ("", False)]
)
def test_the_first_letter_tells_the_direction(text, answer):
    assert reads_right_to_left(text) is answer


def test_light_and_dark_differ_and_weights_stand_out_in_both(opened, maps):
    colours = []
    for dark in (False, True):
        page = opened([maps()], dark=dark)
        colours.append(page.run("getComputedStyle(document.body).backgroundColor"))
        weakest, strongest = page.run("[colours[0], colours[255]]")
        assert abs(sum(strongest) - sum(weakest)) > 400
        lightness = page.run("colours.map(([r, g, b]) => 0.2126 * r + 0.7152 * g + 0.0722 * b)")
        steps = np.diff(lightness)
        assert (steps >= 0).all() if dark else (steps <= 0).all()  # told apart by lightness alone
    assert colours[0] != colours[1]


def test_what_stands_in_a_sentence_is_text(opened, maps):
    evil = ["▁</script><b>", "<img/src=x>", "▁&amp;", "▁<!--", "\u2028", "</s>"]
    page = opened([maps(source=evil)], View("encoder", 1))
    assert page.texts(".queries .token") == [piece.removeprefix("▁") for piece in evil]
    assert page.run("document.querySelectorAll('img, b').length") == 0


def test_a_page_of_sixty_pieces_stays_small(opened, maps):
    source, target = ([*(f"▁{number}" for number in range(59)), "</s>"] for _ in range(2))
    one = maps(source, target, layers=6, heads=8)
    assert len(attention_page([one], View("cross", 5)).encode()) < 3_000_000
    page = opened([one], View("cross", 5, 7))
    # a hover writes to the two rows of pieces, and draws nothing anew
    page.run(
        "window.drawn = 0; for (const name of ['drawMap', 'drawHeads']) {"
        "const draw = Panel.prototype[name]; Panel.prototype[name] = function () { drawn++; draw.call(this); }; }"
    )
    page.point(".queries .token", 40)
    assert near(shown(page), one.cross[4, 6, 40])
    assert page.run("drawn") == 0


def test_the_numbers_of_a_page_are_the_models_to_four_decimals(opened, maps):
    one = maps()
    page = opened([one])
    for pattern in ("encoder", "decoder", "cross"):
        weights = getattr(one, pattern)
        found = page.run(f"JSON.stringify(Array.from(panels[0].weights.{pattern}.levels, level => level / 65535))")
        np.testing.assert_allclose(np.array(json.loads(found)).reshape(weights.shape), weights, rtol=0, atol=8e-6)
