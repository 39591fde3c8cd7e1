"""Attention maps: the weights of the pass itself, and what a terminal, a picture and a file show of them."""

import io
import json
import re
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch
from rich.cells import cell_len
from rich.console import Console

from tformer.errors import ConfigError
from tformer.inspection import terminal
from tformer.inspection.maps import PATTERNS, View, attention_maps, choose_view
from tformer.inspection.picture import check_plotting, save_picture
from tformer.inspection.record import Pair

SRC, TGT = [5, 9, 4, 7, 2], [6, 8, 11, 2]


@pytest.fixture
def pair():
    pieces = ["▁They", "▁saw", "▁n", "ous", "</s>"]
    return Pair(SRC, pieces, TGT, ["▁Ils", "▁nous", "é", "</s>"])


@pytest.fixture
def maps(tiny_model, pair):
    return attention_maps(tiny_model(), pair, "They saw nous", "Ils nousé")


def printed(maps, view, width=100, colour=False):
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False, force_terminal=colour, color_system=None)
    if colour:
        console = Console(file=out, width=width, highlight=False, force_terminal=True, color_system="truecolor")
    terminal.print_map(console, maps, view)
    return out.getvalue()


@pytest.mark.parametrize("norm_placement", ["post", "pre"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_the_weights_are_those_of_the_pass(tiny_model, pair, norm_placement, positions):
    """The model's own account of its cross-attention, by the readable formula, and each rule of the masks."""
    model = tiny_model(norm_placement=norm_placement, positions=positions)
    maps = attention_maps(model, pair, "", "")
    src, tgt_in = torch.tensor([SRC]), torch.tensor([pair.tgt_in])
    with torch.inference_mode():
        cross = model.cross_attention(src, tgt_in, torch.ones_like(src, dtype=torch.bool))[:, 0]
    np.testing.assert_allclose(maps.cross, cross.numpy(), rtol=0, atol=1e-6)
    assert maps.encoder.shape == (2, 2, 5, 5)
    assert maps.decoder.shape == (2, 2, 4, 4)
    for weights in (maps.encoder, maps.decoder, maps.cross):
        np.testing.assert_allclose(weights.sum(axis=-1), 1.0, rtol=0, atol=1e-6)
    assert ((maps.decoder > 0) == np.tri(4, dtype=bool)).all()


def test_rows_are_named_by_what_is_written_and_columns_by_what_is_read(maps):
    assert maps.axes("encoder") == (maps.source, maps.source)
    assert maps.axes("cross") == (["▁Ils", "▁nous", "é", "</s>"], maps.source)
    assert maps.axes("decoder") == (["▁Ils", "▁nous", "é", "</s>"], ["<s>", "▁Ils", "▁nous", "é"])


def test_the_mean_is_over_the_heads_of_one_layer(maps):
    np.testing.assert_allclose(maps.weights(View("cross", 2)), (maps.cross[1, 0] + maps.cross[1, 1]) / 2, rtol=1e-6)
    np.testing.assert_array_equal(maps.weights(View("encoder", 1, 2)), maps.encoder[0, 1])


def test_a_view_that_the_model_does_not_have_is_refused(tiny_model):
    model = tiny_model(num_encoder_layers=1, num_decoder_layers=3)
    assert choose_view(model, "cross", None, None) == View("cross", 2)
    assert choose_view(model, "encoder", None, 2) == View("encoder", 1, 2)
    for pattern, layer, head, fault in (
        ("self", 1, 1, "--pattern"),
        ("encoder", 2, 1, "--layer"),
        ("cross", 3, 3, "--head"),
    ):
        with pytest.raises(ConfigError, match=f"^{fault} "):
            choose_view(model, pattern, layer, head)


def test_json_holds_everything(maps):
    found = json.loads(json.dumps(maps.to_json(), allow_nan=False))
    assert found["source"] == maps.source
    assert (found["target_written"], found["target_read"]) == (maps.written, maps.read)
    for pattern in PATTERNS:
        np.testing.assert_allclose(np.array(found[pattern]), getattr(maps, pattern), rtol=0, atol=1e-7)


def test_a_terminal_shows_per_cents_that_one_can_read(maps):
    lines = printed(maps, View("decoder", 1, 2)).splitlines()
    assert lines[:2] == ["They saw nous", "Ils nousé"]
    rows = {line[:5].strip(): line[5:] for line in lines[-5:-1]}
    assert list(rows) == maps.written
    for query, row in enumerate(rows.values()):
        cells = [row[start : start + 3].strip() for start in range(1, 13, 3)]
        for key, cell in enumerate(cells):
            percent = 100 * maps.decoder[0, 1, query, key]
            assert cell == ("·" if key > query else "" if percent < 1 else str(min(99, round(percent))))
    heads = lines[3:-5]
    assert "".join(line[6 + 2] for line in heads).strip() == "<s>"
    assert "".join(line[6 + 5 : 6 + 6] for line in heads).strip() == "▁Ils"


def test_a_terminal_without_colour_gets_no_control_codes_and_one_with_colour_does(maps):
    assert "\x1b" not in printed(maps, View("cross", 1))
    coloured = printed(maps, View("cross", 1), colour=True)
    assert "\x1b[" in coloured
    bare = re.sub(r"\x1b\[[\d;]*m", "", coloured)
    assert [line.rstrip() for line in bare.splitlines()] == [
        line.rstrip() for line in printed(maps, View("cross", 1)).splitlines()
    ]


@pytest.mark.parametrize("width", [100, 40])
def test_a_long_sentence_stays_within_the_width(tiny_model, width):
    ids = [3 + index % 10 for index in range(59)]
    pair = Pair([*ids, 2], ["▁語" * 2] * 60, [*ids, 2], ["▁" + "x" * 30] * 60)
    maps = attention_maps(tiny_model(max_positions=64), pair, "", "")
    for pattern in PATTERNS:
        lines = printed(maps, View(pattern, 1), width).splitlines()
        cells = lines[3:-1]
        assert max(map(cell_len, cells)) <= width
        name, one = (6, 2) if pattern == "encoder" else (16, 2 if pattern == "cross" else 1)  # columns that each takes
        bands = -(-60 // ((width - name - 2) // one))
        assert len([line for line in cells if line.strip().startswith(("▁x", "▁語▁語"))]) == 60 * bands


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_picture_has_every_piece_and_both_sentences(maps, tmp_path, ending):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    path = tmp_path / f"maps.{ending}"
    save_picture(path, [maps, maps], View("decoder", 2, 1))
    if ending == "png":
        assert path.read_bytes().startswith(b"\x89PNG")
        return
    texts = [each.text.strip() for each in ElementTree.parse(path).iter() if each.tag.endswith("}text") and each.text]
    for piece in {*maps.written, *maps.read}:
        assert texts.count(piece) >= 2, (piece, texts)
    assert "layer 2, head 1" in " ".join(texts)


def test_a_missing_matplotlib_is_one_message(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"needs matplotlib.*pip install 'tformer\[plot\]'"):
        check_plotting()
