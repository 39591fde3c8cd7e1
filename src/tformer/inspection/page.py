"""One self-contained HTML page: style, script and data inline, light and dark, nothing fetched from anywhere.

A page forbids itself the network (by a content security policy), so that what opens from a disk today opens there in
ten years. Its colours are variables of `page.css`: `--page`, `--card`, `--text`, `--soft`, `--line`, `--accent`, and
`--series-1` to `--series-6` for lines and bars, told apart by people with any kind of colour vision, in that order.
"""

import json
from html import escape
from pathlib import Path

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def asset(name: str) -> str:
    """Read a file that lies beside this one: a style or a script."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def page(title: str, body: str, style: str = "", script: str = "", data: object = None) -> str:
    """Give a whole page.

    Args:
        title: plain text, for the window.
        body: HTML; text of others in it must have been through `html.escape`.
        style: CSS beside that of `page.css`.
        script: JavaScript, run when the body is there; it reads `data` as
            `JSON.parse(document.getElementById("data").textContent)`.
        data: what JSON can hold; numbers must be finite.
    """
    # a "</script>" inside a sentence would end the element: JSON can say < otherwise
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{asset('page.css')}{style}</style>\n</head>\n<body>\n{body}\n"
        f'<script type="application/json" id="data">{text}</script>\n<script>\n{script}</script>\n</body>\n</html>\n'
    )
