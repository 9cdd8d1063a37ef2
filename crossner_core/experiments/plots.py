"""Figures of studies as plain values in plotly's JSON: made without plotly, which a training machine may lack."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from crossner_core.colours import MARKS
from crossner_core.experiments.tables import Measured, Table

MOST_GROUPED_ROWS = 6
_BAND_OPACITY = "33"
_PUBLISHED = {"symbol": "diamond-open", "size": 10, "line": {"width": 2}}
_PLOTLY = "https://cdn.plot.ly/plotly-3.1.0.min.js"


Lines = Mapping[str, Sequence[tuple[float, Measured]]]
"""Points (x, F1) by the name of their line."""


def bars(title: str, table: Table, *, unit: str = "test F1 (%)", fold: bool = True) -> dict[str, Any]:
    """Draw a table of Measured values: bars by row within each column, or, with many rows, only its last column.

    The last column is an average; for a table without one, turn off `fold` to draw all columns. Error bars show the
    sample deviation, open diamonds published values.
    """
    places = [
        index for index in range(len(table.columns)) if any(isinstance(row[index], Measured) for row in table.rows)
    ]
    if fold and len(table.rows) > MOST_GROUPED_ROWS:
        return _lying(title, table, places[-1:], unit)
    data: list[dict[str, Any]] = []
    names = [table.columns[index] for index in places]
    for number, row in enumerate(table.rows):
        values, colour = [_measured(row[index]) for index in places], MARKS[number % len(MARKS)]
        shared = {"x": names, "offsetgroup": str(number), "name": str(row[0]), "legendgroup": str(number)}
        means, deviations = [measured.mean for measured in values], [measured.sd or 0.0 for measured in values]
        errors = {"type": "data", "array": deviations, "visible": any(deviations)}
        data.append({"type": "bar", **shared, "y": means, "error_y": errors, "marker": {"color": colour}})
        if any(measured.published is not None for measured in values):
            first = not any(trace["type"] == "scatter" for trace in data)  # one legend entry for all
            look = {
                "mode": "markers",
                "marker": {**_PUBLISHED, "color": "#444444"},
                "hovertext": f"{row[0]}, published",
            }
            known = {"name": "published", "legendgroup": "published", "showlegend": first}
            data.append(
                {"type": "scatter", **shared, **known, **look, "y": [measured.published for measured in values]}
            )
    data.sort(key=lambda trace: trace["type"] != "bar")
    layout = {"barmode": "group", "scattermode": "group", "yaxis": _axis(unit), "xaxis": {"title": {"text": ""}}}
    return {"data": data, "layout": _layout(title) | layout}


def curves(title: str, axis: str, points: Lines) -> dict[str, Any]:
    """Draw lines with a band of one sample deviation; dashed lines with diamonds are published values."""
    data: list[dict[str, Any]] = []
    for number, (name, line) in enumerate(points.items()):
        colour = MARKS[number % len(MARKS)]
        drawn = sorted((x, measured) for x, measured in line if measured.mean is not None) if line else []
        xs, means = [x for x, _ in drawn], [measured.mean or 0.0 for _, measured in drawn]
        deviations = [measured.sd or 0.0 for _, measured in drawn]
        if any(deviations):
            upper = [mean + sd for mean, sd in zip(means, deviations, strict=True)]
            lower = [mean - sd for mean, sd in zip(means, deviations, strict=True)]
            band = {"x": [*xs, *reversed(xs)], "y": [*upper, *reversed(lower)], "fill": "toself", "mode": "lines"}
            look = {"fillcolor": f"{colour}{_BAND_OPACITY}", "line": {"width": 0}, "hoverinfo": "skip"}
            data.append({"type": "scatter", **band, **look, "legendgroup": name, "showlegend": False})
        solid = {"mode": "lines+markers", "line": {"color": colour}, "marker": {"color": colour}, "legendgroup": name}
        data.append({"type": "scatter", "x": xs, "y": means, "name": name, **solid})
        known = [(x, measured.published) for x, measured in line if measured.published is not None]
        if known:
            dashed = {"mode": "lines+markers", "line": {"color": colour, "dash": "dash"}, "legendgroup": name}
            marker = {**_PUBLISHED, "color": colour}
            x, y = [x for x, _ in known], [value for _, value in known]
            data.append({"type": "scatter", "x": x, "y": y, "name": f"{name}, published", "marker": marker, **dashed})
    return {"data": data, "layout": _layout(title) | {"xaxis": _axis(axis), "yaxis": _axis("test F1 (%)")}}


def panels(title: str, rows: Mapping[str, Mapping[str, Lines]]) -> dict[str, Any]:
    """Draw curves in a grid: one row per axis, one column per group of lines; a line keeps its colour in all panels."""
    data: list[dict[str, Any]] = []
    columns = list(dict.fromkeys(column for groups in rows.values() for column in groups))
    layout = _layout(title) | {"grid": {"rows": len(rows), "columns": len(columns), "pattern": "independent"}}
    layout |= {"height": 80 + 360 * len(rows), "margin": {"t": 80, "r": 20}, "annotations": []}
    layout["legend"]["y"] *= 2 / max(len(rows), 2)  # as far below the panels, however high they are
    places = [(axis, column) for axis in rows for column in columns]
    for number, (axis, column) in enumerate(places, start=1):
        own = str(number) if number > 1 else ""
        for trace in curves("", axis, rows[axis].get(column, {}))["data"]:
            shown = trace.get("showlegend", True) and number == 1
            data.append({**trace, "xaxis": f"x{own}", "yaxis": f"y{own}", "showlegend": shown})
        is_first, is_top = (number - 1) % len(columns) == 0, number <= len(columns)
        layout[f"xaxis{own}"] = _axis(axis)
        layout[f"yaxis{own}"] = _axis("test F1 (%)" if is_first else "") | ({"matches": "y"} if own else {})
        if is_top:
            above = {"xref": f"x{own} domain", "yref": f"y{own} domain", "x": 0.5, "y": 1.02, "yanchor": "bottom"}
            layout["annotations"].append({"text": escape(column), "showarrow": False, **above})
    return {"data": data, "layout": layout}


def to_html(figure: Mapping[str, Any]) -> str:
    """Return a page that shows a figure; plotly is embedded if installed, else loaded from its site."""
    values = json.dumps(figure).replace("</", "<\\/")
    title = escape(str(figure["layout"].get("title", {}).get("text", "Figure")))
    try:
        from plotly.offline import get_plotlyjs

        script = f"<script>{get_plotlyjs()}</script>"
    except ImportError:
        script = f'<script src="{_PLOTLY}"></script>'
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>{script}</head><body>'
        f'<div id="figure" style="height:90vh"></div><script>const made = {values};'
        "Plotly.newPlot('figure', made.data, made.layout, {responsive: true});</script></body></html>"
    )


def _lying(title: str, table: Table, places: Sequence[int], unit: str) -> dict[str, Any]:
    names = [str(row[0]) for row in table.rows]
    values = [_measured(row[index]) for row in table.rows for index in places]
    deviations = [measured.sd or 0.0 for measured in values]
    errors = {"type": "data", "array": deviations, "visible": any(deviations)}
    column = "".join(table.columns[index] for index in places)
    bar = {
        "type": "bar",
        "orientation": "h",
        "y": names,
        "x": [measured.mean for measured in values],
        "error_x": errors,
    }
    data: list[dict[str, Any]] = [{**bar, "name": column, "marker": {"color": MARKS[0]}}]
    if any(measured.published is not None for measured in values):
        marker = {**_PUBLISHED, "color": "#444444"}
        x = [measured.published for measured in values]
        data.append({"type": "scatter", "y": names, "x": x, "mode": "markers", "marker": marker, "name": "published"})
    upright = {"autorange": "reversed", "automargin": True}
    height = 120 + 26 * len(names)
    return {
        "data": data,
        "layout": _layout(title) | {"yaxis": upright, "xaxis": _axis(f"{column}: {unit}"), "height": height},
    }


def _measured(value: object) -> Measured:
    return value if isinstance(value, Measured) else Measured(None)


def _axis(text: str) -> dict[str, Any]:
    return {"title": {"text": text}, "automargin": True}


def _layout(title: str) -> dict[str, Any]:
    legend = {"orientation": "h", "yanchor": "top", "y": -0.15, "x": 0}
    return {"title": {"text": title}, "legend": legend, "margin": {"t": 60, "r": 20}}
