"""Tables and expandable rows as HTML, all text escaped; they follow the theme and open by click or Enter."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

STYLE = """<style>
.rows details,.rows .row{border-top:1px solid #8884;padding:.35em 0}
.rows summary{display:grid;grid-template-columns:1.2em 1fr;cursor:pointer;list-style:none}
.rows summary::before{content:"▸";opacity:.6;line-height:1.9}
.rows details[open]>summary::before{content:"▾"}
.rows summary::-webkit-details-marker{display:none}
.rows summary:focus-visible{outline:2px solid #0d83de;outline-offset:2px;border-radius:4px}
.rows .small{display:block;font-size:.85em;opacity:.75;overflow-wrap:anywhere}
.rows .more{padding:.2em 0 .5em 1.2em}
.rows .more p{margin:.1em 0;overflow-wrap:anywhere}
.rows .more p,.rows td,.rows th{font-size:.9rem}
.rows .wide{overflow-x:auto}
.rows table{border-collapse:collapse;margin:.4em 0}
.rows th{text-align:start;font-weight:600;opacity:.75;white-space:nowrap}
.rows td{min-width:5em}
.rows td,.rows th{padding:.15em 1.2em .15em 0;vertical-align:top;border:0}
</style>"""


def rows_html(rows: Sequence[str]) -> str:
    """Return rows of HTML as one block with its style."""
    return f'{STYLE}<div class="rows">{"".join(rows)}</div>'


def opening_row(summary: str, more: str) -> str:
    """Return an expandable row: `summary` opens to show `more`; both are HTML."""
    return f'<details><summary><div>{summary}</div></summary><div class="more">{more}</div></details>'


def table_html(head: Sequence[str], rows: Sequence[Sequence[str]], *, html: Sequence[int] = ()) -> str:
    """Return a table of texts, empty without rows; the columns numbered in `html` are HTML already.

    It can have the focus, so that keys scroll one that is too wide.
    """
    if not rows:
        return ""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(
        "<tr>"
        + "".join(f'<td dir="auto">{cell if column in html else escape(cell)}</td>' for column, cell in enumerate(row))
        + "</tr>"
        for row in rows
    )
    return f'<div class="wide" tabindex="0"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
