"""One attention map on a terminal: numbers in coloured cells, or shades where there is no room or no colour."""

import unicodedata
from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from tformer.inspection.maps import AttentionMaps, View, Weights

_LABEL = 16  # the longest name of a row or column that is written out
_SHADES = " ░▒▓█"
_NUMBERS = 3  # columns for a number in per cent and the space before it
_DARK, _LIGHT = (8, 29, 66), (222, 235, 247)  # the ends of the scale: one hue, told apart by lightness alone


def map_text(maps: Sequence[AttentionMaps], view: View) -> str:
    """Lay out one map of each sentence for standard output: in colour where that is a terminal."""
    console = Console(highlight=False)
    with console.capture() as captured:
        for number, each in enumerate(maps):
            if number:
                console.print()
            print_map(console, each, view)
    return captured.get()


def print_map(console: Console, maps: AttentionMaps, view: View) -> None:
    """Print one map: a row for each query, a column for each key, weights in per cent."""
    queries, keys = maps.axes(view.pattern)
    weights, coloured = maps.weights(view), console.color_system is not None
    head = min(_LABEL, max(cell_len(piece) for piece in queries))
    room = console.width - head - 2
    width = _NUMBERS if len(keys) * _NUMBERS <= room else max(cell_len(sign) for piece in keys for sign in piece)
    console.print(Text(maps.text, "bold"), Text(maps.translation), Text(view.title, "dim"), sep="\n", soft_wrap=True)
    for start in range(0, len(keys), room // width):
        band = range(start, min(len(keys), start + room // width))
        for line in _column_heads([keys[key] for key in band], width):
            console.print(Text(" " * (head + 1) + line), soft_wrap=True)
        for query, piece in enumerate(queries):
            row = Text(_fit(piece, head) + " ")
            for key in band:
                row.append_text(_cell(weights, query, key, view.pattern, width, coloured))
            console.print(row, soft_wrap=True)
    shades = "the lighter, the more" if coloured else "blank: below 10 per cent, then ░ ▒ ▓ █ up to 100"
    scale = "per cent; blank: below 1" if width == _NUMBERS else shades
    blocked = "; ·: blocked by the causal mask" if view.pattern == "decoder" else ""
    console.print(Text(f"{' ' * (head + 1)}{scale}{blocked}", "dim"), soft_wrap=True)


def _column_heads(pieces: Sequence[str], width: int) -> list[str]:
    """Write the names of columns downwards, ending above their columns."""
    names = [_letters(_short(piece)) for piece in pieces]
    height = max(map(len, names))
    lines = []
    for line in range(height):
        letters = [name[line - height + len(name)] if line >= height - len(name) else " " for name in names]
        lines.append("".join(" " * (width - cell_len(letter)) + letter for letter in letters).rstrip())
    return lines


def _letters(piece: str) -> list[str]:
    """Cut a name into what takes a place of its own: a letter with the accents on it."""
    letters: list[str] = []
    for character in piece:
        if letters and unicodedata.combining(character):
            letters[-1] += character
        else:
            letters.append(character)
    return letters


def _short(piece: str) -> str:
    return piece if len(piece) <= _LABEL else piece[: _LABEL - 1] + "…"


def _fit(piece: str, width: int) -> str:
    name = _short(piece)
    while cell_len(name) > width:
        name = name[:-2] + "…"
    return " " * (width - cell_len(name)) + name


def _cell(weights: Weights, query: int, key: int, pattern: str, width: int, colour: bool) -> Text:
    if pattern == "decoder" and key > query:
        return Text("·".rjust(width), "dim")
    weight = float(weights[query, key])
    if width < _NUMBERS:
        sign = _SHADES[min(len(_SHADES) - 1, round(weight * (len(_SHADES) - 1) + 0.35))] if weight >= 0.1 else " "
        return Text((" " if colour else sign) * width, _style(weight) if colour else "")
    number = f"{min(99, round(100 * weight))}" if weight >= 0.01 else ""
    return Text(number.rjust(width), _style(weight) if colour else "")


def _style(weight: float) -> str:
    """Colour a cell by the square root of its weight, so that small ones show."""
    share = weight**0.5
    red, green, blue = (round(dark + (light - dark) * share) for dark, light in zip(_DARK, _LIGHT, strict=True))
    return f"{'black' if share > 0.5 else 'white'} on rgb({red},{green},{blue})"
