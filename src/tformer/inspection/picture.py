"""Attention maps as a picture for a document: PNG or SVG, by matplotlib."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tformer.errors import ConfigError
from tformer.inspection.maps import AttentionMaps, View
from tformer.progress import say

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

_INCHES_A_PIECE = 0.26
_BLOCKED = "0.88"  # a light grey


def check_plotting() -> None:
    """Refuse a picture where matplotlib is not installed.

    Raises:
        ConfigError: it is not.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            "a .png or .svg needs matplotlib, which is not installed: pip install 'tformer[plot]', or give a .html"
        ) from error


def save_picture(path: Path, maps: Sequence[AttentionMaps], view: View) -> None:
    """Draw one map of each sentence, side by side."""
    from matplotlib import font_manager, rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    sizes = [(len(queries), len(keys)) for queries, keys in (each.axes(view.pattern) for each in maps)]
    widths = [1.6 + _INCHES_A_PIECE * keys for _, keys in sizes]
    height = 2.2 + _INCHES_A_PIECE * max(queries for queries, _ in sizes)
    other_scripts = sorted(name for name in set(font_manager.get_font_names()) if name.startswith("Noto Sans"))
    fonts: Any = {"font.family": ["DejaVu Sans", *other_scripts], "svg.fonttype": "none"}
    with rc_context(fonts), warnings.catch_warnings(record=True) as complaints:
        figure = Figure(figsize=(sum(widths) + 0.8, height), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(1, len(maps), squeeze=False, width_ratios=widths)[0]
        images = [_draw(each, one, view) for each, one in zip(axes, maps, strict=True)]
        figure.suptitle(view.title, fontsize=10)
        bar = figure.colorbar(images[0], ax=axes, label="weight", fraction=0.03, ticks=[0, 0.05, 0.25, 0.5, 1])
        bar.ax.set_yticklabels(["0", "0.05", "0.25", "0.5", "1"])
        figure.savefig(path, dpi=150)
    if any("Glyph" in str(complaint.message) for complaint in complaints):
        say(f"{path}: no installed font has all the signs of this script; a .html shows them")


def _draw(axes: "Axes", maps: AttentionMaps, view: View) -> "AxesImage":
    from matplotlib.colors import PowerNorm

    queries, keys = maps.axes(view.pattern)
    weights = maps.weights(view)
    if view.pattern == "decoder":  # what is blocked shows the ground
        weights = np.where(np.tril(np.ones_like(weights)) > 0, weights, np.nan)
    axes.set_facecolor(_BLOCKED)
    # colours by the square root, as on the page, so that small weights show
    image = axes.imshow(weights, norm=PowerNorm(0.5, 0, 1), cmap="Blues")
    axes.set_xticks(range(len(keys)), keys, rotation=90)
    axes.set_yticks(range(len(queries)), queries)
    axes.xaxis.tick_top()
    axes.set_title(f"{maps.text}\n{maps.translation}", fontsize=9)
    return image
