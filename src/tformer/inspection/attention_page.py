"""Attention maps as one page to open in a browser: every pattern, layer and head, sentences side by side."""

import base64
import unicodedata
from collections.abc import Sequence

import numpy as np

from tformer.inspection.maps import PATTERNS, AttentionMaps, View, Weights
from tformer.inspection.page import asset, page

_NAMES = {"encoder": "Encoder self-attention", "decoder": "Decoder self-attention", "cross": "Cross-attention"}


def attention_page(maps: Sequence[AttentionMaps], view: View) -> str:
    """Make the page; it opens with `view`."""
    data = {
        "view": {"pattern": view.pattern, "layer": view.layer, "head": view.head or 0},
        "meanings": PATTERNS,
        "sentences": [_sentence(each) for each in maps],
    }
    choices = "".join(
        f'<label><input type="radio" name="pattern" value="{pattern}">{name}</label>'
        for pattern, name in _NAMES.items()
    )
    body = asset("attention.html").replace("{choices}", choices)
    title = " / ".join(each.text for each in maps)
    return page(f"Attention: {title}", body, asset("attention.css"), asset("attention.js"), data)


def _sentence(maps: AttentionMaps) -> dict[str, object]:
    return {
        "text": maps.text,
        "translation": maps.translation,
        "source": {"pieces": maps.source, "rtl": reads_right_to_left(maps.text)},
        "written": {"pieces": maps.written, "rtl": reads_right_to_left(maps.translation)},
        "read": {"pieces": maps.read, "rtl": reads_right_to_left(maps.translation)},
        "weights": {pattern: _packed(getattr(maps, pattern)) for pattern in PATTERNS},
    }


def _packed(weights: Weights) -> dict[str, object]:
    """Write weights in 16 bits, from 0 to 65535 for 1: closer than what a page can show, in a quarter of the space."""
    levels = np.rint(weights.astype(np.float64) * 65535).astype("<u2")
    return {"shape": list(weights.shape), "base64": base64.b64encode(levels.tobytes()).decode("ascii")}


def reads_right_to_left(text: str) -> bool:
    """Tell the direction of a text by its first letter that has one."""
    directions = (unicodedata.bidirectional(character) for character in text)
    return next((direction for direction in directions if direction in ("L", "R", "AL")), "L") != "L"
