"""What a trace is made of: steps, each with its equation, section and shape, and the numbers in it.

A block has a key, its name in JSON, and a label, its name to a reader.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

Column = Sequence[str] | Sequence[int] | Sequence[float] | Sequence[list[float]]


@dataclass(frozen=True)
class Line:
    """A fact in words or in one number."""

    key: str
    label: str
    value: str | int | float


@dataclass(frozen=True)
class Vector:
    """The features of one position."""

    key: str
    label: str
    numbers: list[float]


@dataclass(frozen=True)
class Table:
    """A row for each position, head or layer, and a column for each fact about it.

    Attributes:
        columns: by their keys.
        labels: of the columns, in their order.
        bar: the key of the column that is drawn as well.
        sums: the keys of the columns that are added up.
        across: whether it lies on its side: columns above one another, for short ones that are compared.
    """

    columns: dict[str, Column]
    labels: tuple[str, ...]
    bar: str | None = None
    sums: tuple[str, ...] = ()
    across: bool = False


@dataclass(frozen=True)
class Shares:
    """Some pieces, and the weight or probability of each.

    Attributes:
        key: its name in JSON.
        label: its name to a reader.
        pieces: in order.
        shares: of each piece.
        blocked: how many of the last a mask blocks.
        exact: whether small ones matter to a reader too.
    """

    key: str
    label: str
    pieces: list[str]
    shares: list[float]
    blocked: int = 0
    exact: bool = False


@dataclass(frozen=True)
class Mask:
    """Which key each query may attend.

    Attributes:
        key: its name in JSON.
        label: its name to a reader.
        queries: their pieces, one a row.
        keys: their pieces, one a column.
        allowed: [query][key], True = may be attended.
        padding: how many of the last keys are no tokens.
    """

    key: str
    label: str
    queries: list[str]
    keys: list[str]
    allowed: list[list[bool]]
    padding: int = 0


Block = Line | Vector | Table | Shares | Mask


@dataclass(frozen=True)
class Step:
    """One step of the calculation.

    Attributes:
        key: its name in JSON.
        title: its name to a reader.
        equation: as the paper has it.
        section: of the paper.
        shape: what goes in and what comes out, in words.
        blocks: the numbers, in the order in which they are computed.
        note: what is to be seen in them.
    """

    key: str
    title: str
    equation: str = ""
    section: str = ""
    shape: str = ""
    blocks: list[Block] = field(default_factory=list)
    note: str = ""

    def to_json(self) -> dict[str, object]:
        """Give the step as a JSON object: the numbers in full, under their keys."""
        facts: dict[str, object] = {"step": self.key}
        facts |= {
            name: text for name in ("title", "equation", "section", "shape", "note") if (text := getattr(self, name))
        }
        for block in self.blocks:
            match block:
                case Line(key, _, value) | Vector(key, _, value):
                    facts[key] = value
                case Table(columns):
                    facts |= {column: list(values) for column, values in columns.items()}
                    facts |= {f"{key}_sum": sum(floats(columns[key])) for key in block.sums}
                case Shares(key, _, pieces, shares):
                    facts[key] = {"pieces": pieces, "shares": shares}
                case Mask(key, _, queries, keys, allowed):
                    facts[key] = {"queries": queries, "keys": keys, "allowed": allowed}
        return facts


def floats(column: Column) -> list[float]:
    """Give the numbers of a column that holds numbers."""
    return [value for value in column if isinstance(value, float)]


def numbers(row: Tensor) -> list[float]:
    """Give a tensor of one dimension as a list."""
    return [float(number) for number in row]


def rows(matrix: Tensor) -> list[list[float]]:
    """Give a tensor of two dimensions as a list of its rows."""
    return [numbers(row) for row in matrix]
