"""A page's tables and figures as one self-contained HTML file: for an email, a wiki, an appendix."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from html import escape

import pandas as pd
import plotly.graph_objects as go

from pages.components.lazy_download import lazy_download

# The file may hold anybody's sentences: all text is escaped, and this policy lets the browser fetch nothing.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
_TIME = "%d %B %Y, %H:%M UTC"
_STYLE = """
:root{color-scheme:light;--line:#cfd6df}
body{font:15px/1.5 system-ui,sans-serif;color:#1d2530;background:#fff;max-width:70rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .4rem}
p{margin:.4rem 0;overflow-wrap:anywhere}.about,.caption{color:#5a6675;font-size:.9rem}
.wide{overflow-x:auto}table{border-collapse:collapse;margin:.4rem 0;font-variant-numeric:tabular-nums}
th,td{border-top:1px solid var(--line);padding:.2rem 1rem .2rem 0;text-align:start;vertical-align:top}
.small{display:block;font-size:.85em;color:#5a6675}
@media print{body{margin:0;max-width:none}.figure{break-inside:avoid}}
"""


class HtmlReport:
    """Collects what a page shows, in order; `data` renders the file on demand.

    Each method returns what it was given, so that a page can add and draw it in one line.
    """

    def __init__(self, title: str, about: Sequence[str] = ()) -> None:
        self.title = title
        made = f"made {dt.datetime.now(dt.UTC):{_TIME}} with the CrossNER workbench"
        self.about = " · ".join([*about, made])
        self._parts: list[str | go.Figure] = []

    def heading(self, words: str) -> None:
        """Start a section of the report."""
        self._parts.append(f"<h2>{escape(words)}</h2>")

    def text(self, words: str, *, caption: bool = False) -> str:
        """Add a paragraph."""
        self._parts.append(f"<p{' class=caption' if caption else ''}>{escape(words)}</p>")
        return words

    def table(self, table: pd.DataFrame, *, index: bool = False) -> pd.DataFrame:
        """Add a table; missing values are shown as dashes, times to the minute."""
        times = table.select_dtypes(["datetime", "datetimetz"]).apply(lambda column: column.dt.strftime(_TIME))
        made = table.assign(**times).to_html(index=index, border=0, na_rep="–", escape=True, float_format=_number)
        self._parts.append(f'<div class="wide">{made}</div>')
        return table

    def figure(self, figure: go.Figure) -> go.Figure:
        """Add a figure; it stays interactive in the file."""
        self._parts.append(figure)
        return figure

    def html(self, made: str) -> str:
        """Add HTML that is already escaped, such as marked sentences."""
        self._parts.append(made)
        return made

    def data(self) -> bytes:
        """Return the file."""
        with_script, parts = False, []
        for part in self._parts:
            if isinstance(part, str):
                parts.append(part)
                continue
            light = go.Figure(part).update_layout(template="plotly_white")
            drawn = light.to_html(full_html=False, include_plotlyjs=not with_script, config={"displaylogo": False})
            parts.append(f'<div class="figure">{drawn}</div>')
            with_script = True
        body = "\n".join(parts)
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
            f'<meta name="viewport" content="width=device-width"><title>{escape(self.title)}</title>'
            f"<style>{_STYLE}</style></head><body><h1>{escape(self.title)}</h1>"
            f'<p class="about">{escape(self.about)}</p>\n{body}\n</body></html>'
        ).encode()


def _number(value: float) -> str:
    """Format a whole number with all its digits (missing values turn counts into floats), others with six."""
    return f"{value:.0f}" if value.is_integer() else f"{value:g}"


def report_download(make: Callable[[], HtmlReport], *, name: str) -> None:
    """Draw the button that saves the page's report; `make` is called in another thread when it is clicked."""
    lazy_download(
        "This page as one HTML file",
        lambda: make().data(),
        file_name=f"{name}.html",
        key=f"report-{name}",
        mime="text/html",
        type="tertiary",
        help="Tables and figures in one file that works offline.",
    )
