"""Attention maps as a picture for a document: PNG or SVG, by matplotlib."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tformer.errors import ConfigError
from tformer.inspection.maps import AttentionMaps, View

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INCHES_A_PIECE = 0.26
_BLOCKED = "0.85"  # a light grey


def check_plotting() -> None:
    """Refuse a picture where matplotlib is not installed.

    Raises:
        ConfigError: it is not.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            "a .png or .svg needs matplotlib, which is not installed; pip install 'tformer[plot]', or give a .html"
        ) from error


def save_picture(path: Path, maps: Sequence[AttentionMaps], view: View) -> None:
    """Draw one map of each sentence, side by side."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    sizes = [(len(queries), len(keys)) for queries, keys in (each.axes(view.pattern) for each in maps)]
    widths = [1.4 + _INCHES_A_PIECE * keys for _, keys in sizes]
    height = 2.0 + _INCHES_A_PIECE * max(queries for queries, _ in sizes)
    figure = Figure(figsize=(sum(widths) + 0.8, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, len(maps), squeeze=False, width_ratios=widths)[0]
    for each, one in zip(axes, maps, strict=True):
        image = _draw(each, one, view)
    figure.suptitle(view.title, fontsize=10)
    figure.colorbar(image, ax=axes, label="weight", fraction=0.03)
    figure.savefig(path, dpi=150)


def _draw(axes: "Axes", maps: AttentionMaps, view: View) -> object:
    import numpy as np

    queries, keys = maps.axes(view.pattern)
    weights = maps.weights(view)
    if view.pattern == "decoder":
        weights = np.where(np.tril(np.ones_like(weights)) > 0, weights, np.nan)
    axes.set_facecolor(_BLOCKED)
    image = axes.imshow(weights, vmin=0, vmax=1, cmap="cividis_r")
    axes.set_xticks(range(len(keys)), keys, rotation=90)
    axes.set_yticks(range(len(queries)), queries)
    axes.xaxis.tick_top()
    axes.set_title(f"{maps.text}\n{maps.translation}", fontsize=9)
    return image
