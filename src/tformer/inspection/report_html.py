"""Small parts of a report, as HTML: sentences, sections, tables. What is text of others must have been escaped."""

from collections.abc import Sequence


def sentence(html: str) -> str:
    """Let a sentence have its own direction."""
    return f'<bdi dir="auto">{html}</bdi>' if html else ""


def section(title: str, body: str, about: str = "") -> str:
    """Put a heading, and a remark, above something."""
    return f"<section><h2>{title}</h2>{remark(about) if about else ''}{body}</section>"


def remark(html: str) -> str:
    """Say something in a lower voice."""
    return f'<p class="soft">{html}</p>'


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """Lay out cells, the columns in `numbers` aligned like numbers; without heads, the first column has the rows'."""
    kinds = ["class=number" if column in numbers else "" for column in range(len(rows[0]) if rows else 0)]
    lines = ["".join(f"<th {kind}>{head}</th>" for kind, head in zip(kinds, heads, strict=True))] if heads else []
    for row in rows:
        tags = ["td" if heads or column else "th" for column in range(len(row))]
        cells = zip(tags, kinds, row, strict=True)
        lines.append("".join(f"<{tag} {kind}>{cell}</{tag}>" for tag, kind, cell in cells))
    return f'<div class="card scroll"><table>{"".join(f"<tr>{line}</tr>" for line in lines)}</table></div>'
