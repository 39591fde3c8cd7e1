"""A trace as text for a terminal of 100 columns: numbers to three decimals, long vectors by their beginning."""

from collections.abc import Iterable, Sequence
from textwrap import wrap

from rich.cells import cell_len

from tformer.inspection.steps import Block, Column, Line, Mask, Shares, Step, Table, Vector, floats

WIDTH = 100
_INDENT = "    "
_LABEL = 22  # columns for what stands in front of numbers
_FIRST_NUMBERS = 7
_FIRST_NUMBERS_IN_A_CELL = 4
_BAR = 12  # the length of a bar for 1
_NEXT_TO_NOTHING = 0.005
_PARTS = " ▏▎▍▌▋▊▉█"


def step_lines(steps: Iterable[Step], first_number: int = 1) -> list[str]:
    """Lay out steps below one another, numbered."""
    lines = []
    for number, step in enumerate(steps, first_number):
        heading = f"{number:>2}  {step.title}"
        space = " " * max(2, WIDTH - cell_len(heading) - cell_len(step.section))
        lines += ["", f"{heading}{space}{step.section}" if step.section else f"{_INDENT}{step.title}"]
        lines += _indented([step.equation, step.shape])
        for block in step.blocks:
            lines += [f"{_INDENT}{line}" for line in block_lines(block)]
        lines += _indented([step.note])
    return lines


def block_lines(block: Block) -> list[str]:
    """Lay out one block, without indentation."""
    match block:
        case Line(_, label, value):
            return _wrapped(label, [_number(value)] if isinstance(value, float) else str(value).split(), gap=1)
        case Vector(_, label, numbers):
            return _wrapped(label, [_vector(numbers, _FIRST_NUMBERS)])
        case Shares():
            return _wrapped(block.label, _shares(block))
        case Mask():
            return _mask(block)
        case Table():
            return _across(block) if block.across else _table(block)


def _indented(texts: Sequence[str]) -> list[str]:
    return [f"{_INDENT}{line}" for text in texts for line in wrap(text, WIDTH - len(_INDENT))]


def _pad(text: str, width: int, right: bool = False) -> str:
    """Fill up to a width as the terminal sees it: some characters take two columns, others none."""
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def _shares(block: Shares) -> list[str]:
    """Say who has how much, but for those with next to nothing where these do not matter."""
    if block.exact:
        return [f"{piece} {share:.4f}" for piece, share in zip(block.pieces, block.shares, strict=True)]
    seen = [
        (piece, share) for piece, share in zip(block.pieces, block.shares, strict=True) if share >= _NEXT_TO_NOTHING
    ]
    small = len(block.pieces) - block.blocked - len(seen)
    words = [f"{piece} {share:.2f}" for piece, share in seen]
    words += [f"({small} below {_NEXT_TO_NOTHING})"] if small else []
    return words + ([f"({block.blocked} blocked: 0)"] if block.blocked else [])


def _wrapped(label: str, words: Sequence[str], gap: int = 3) -> list[str]:
    """Put words behind a label, and go on below the first of them."""
    lines, line = [], ""
    for word in words:
        if line and cell_len(line) + gap + cell_len(word) > WIDTH - len(_INDENT) - _LABEL:
            lines.append(line)
            line = ""
        line += (" " * gap if line else "") + word
    return [_pad(head, _LABEL) + text for head, text in zip([label, *[""] * len(lines)], [*lines, line], strict=True)]


def _number(number: float) -> str:
    return f"{number:.3f}" if number else "0"


def _vector(numbers: Sequence[float], shown: int) -> str:
    text = " ".join(f"{number:7.3f}" for number in numbers[:shown])
    return f"[{text} ]" if len(numbers) <= shown else f"[{text}  … ] {len(numbers)} in all"


def _cell(value: object) -> str:
    match value:
        case bool():
            return "" if value else "−∞"
        case float():
            return _number(value)
        case list():
            return _vector(value, _FIRST_NUMBERS_IN_A_CELL).removesuffix(f" {len(value)} in all")
        case _:
            return str(value)


def _bar(share: float) -> str:
    eighths = round(share * _BAR * 8)
    return "█" * (eighths // 8) + _PARTS[eighths % 8].strip()


def _table(table: Table) -> list[str]:
    texts = [[_cell(value) for value in column] for column in table.columns.values()]
    sums = [_sum(column) if key in table.sums else "" for key, column in table.columns.items()]
    if table.sums:
        sums[0] = "sum"
    widths = [max(map(cell_len, (label, total, *column)))
              for label, total, column in zip(table.labels, sums, texts, strict=True)]  # fmt: skip
    to_left = [isinstance(column[0], str | list) for column in table.columns.values()]

    def line(cells: Iterable[str], bar: str = "") -> str:
        padded = (_pad(cell, width, not left) for cell, width, left in zip(cells, widths, to_left, strict=True))
        return "  ".join([*padded, bar]).rstrip()

    bars = [_bar(share) for share in floats(table.columns[table.bar])] if table.bar else [""] * len(texts[0])
    lines = [line(cells, bar) for cells, bar in zip(zip(*texts, strict=True), bars, strict=True)]
    return [line(table.labels), *lines, *([line(sums)] if table.sums else [])]


def _sum(column: Column) -> str:
    return _number(sum(floats(column)))


def _across(table: Table) -> list[str]:
    """Lay out the columns above one another, in bands that fit the width."""
    columns = [[_cell(value) for value in column] for column in table.columns.values()]
    head = max(map(cell_len, table.labels))
    lines: list[str] = []
    band: list[tuple[str, ...]] = []
    used = head

    def flush() -> None:
        for label, cells in zip(table.labels, zip(*band, strict=True), strict=True):
            widths = [max(map(cell_len, entry)) for entry in band]
            padded = (_pad(cell, width) for cell, width in zip(cells, widths, strict=True))
            lines.append(f"{_pad(label, head)}  {'  '.join(padded)}".rstrip())

    for entry in zip(*columns, strict=True):
        width = 2 + max(map(cell_len, entry))
        if band and used + width > WIDTH - len(_INDENT):
            flush()
            lines.append("")
            band, used = [], head
        band.append(entry)
        used += width
    flush()
    return lines


def _mask(mask: Mask) -> list[str]:
    """Draw a grid: a row for each query, a column for each key; of a long sentence its beginning."""
    head = min(16, max(map(cell_len, mask.queries)))
    shown = (WIDTH - len(_INDENT) - head - 2) // 2
    tokens, signs_seen = len(mask.keys) - mask.padding, set()
    lines = [mask.label]
    for query, row in zip(mask.queries[:shown], mask.allowed, strict=False):
        signs = ["■" if allowed else "×" if key >= tokens else "·" for key, allowed in enumerate(row)]
        signs_seen.update(signs)
        lines.append(f"{_pad(query, head)}  {' '.join(signs[:shown])}")
    if len(mask.keys) > shown:
        lines.append(f"{' ' * head}  (the first {shown} of {len(mask.keys)})")
    meanings = {"■": "may be attended", "·": "blocked: it comes later", "×": "padding"}
    legend = "   ".join(f"{sign} {meaning}" for sign, meaning in meanings.items() if sign in signs_seen)
    return [*lines, f"{' ' * head}  {legend}"]
