"""Plotly figures of the model screens; F1 is drawn in percent, colours of types come from the palette."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

import pandas as pd
import plotly.graph_objects as go

from crossner_core.evaluation.confusion import Confusion
from crossner_core.evaluation.coverage import Coverage
from crossner_core.experiments.published import TRAIN_SENTENCES, Published
from pages.components.palette import entity_colour, mark_colours
from workbench.reports.curves import Series, TypeRow
from workbench.runs.recipe_names import setting_name

_BAND_OPACITY = 0.15
_LEGEND_WIDTH, _LEGEND_LINE = 46, 15  # in characters, as a narrow screen shows; in pixels


def laid_out(figure: go.Figure, *, height: int, **more: object) -> go.Figure:
    """Give a figure the margins and the legend that all share; long names wrap in the legend."""
    broken = 0
    for trace in figure.data:
        if trace.name and trace.showlegend is not False:
            lines = textwrap.wrap(trace.name, _LEGEND_WIDTH)
            trace.name, broken = "<br>".join(lines), broken + len(lines) - 1
    figure.update_layout(
        height=height + _LEGEND_LINE * broken,
        margin={"l": 8, "r": 8, "t": 36, "b": 8},  # the buttons above the figure need the room
        legend={"orientation": "h", "y": -0.22, "x": 0},
        hovermode="closest",
        **more,
    )
    return figure


def few_shot_figure(series: Sequence[Series], published: Sequence[Published]) -> go.Figure:
    """Draw mean F1 over the number of gold sentences, with a band of one deviation, and published points."""
    figure = go.Figure()
    for colour, line in zip(mark_colours(len(series)), series, strict=True):
        sizes = [point.size for point in line.points]
        means = [100 * point.mean for point in line.points]
        spread = [100 * (point.sd or 0.0) for point in line.points]
        if any(spread):
            figure.add_scatter(
                x=sizes + sizes[::-1],
                y=[m + s for m, s in zip(means, spread, strict=True)]
                + [m - s for m, s in zip(means, spread, strict=True)][::-1],
                mode="lines",
                fill="toself",
                fillcolor=colour,
                opacity=_BAND_OPACITY,
                line={"width": 0},
                hoverinfo="skip",
                showlegend=False,
            )
        figure.add_scatter(
            x=sizes,
            y=means,
            name=line.title,
            mode="lines+markers",
            line={"color": colour, "width": 2},
            customdata=[[point.n, 100 * (point.sd or 0.0)] for point in line.points],
            hovertemplate="%{x} sentences: F1 %{y:.1f} ± %{customdata[1]:.1f} (%{customdata[0]} seeds)<extra></extra>",
        )
    for symbol, result in zip(_SYMBOLS, published, strict=False):
        figure.add_scatter(
            x=[TRAIN_SENTENCES[result.domain]],
            y=[result.f1],
            name=f"published: {result.system}, {setting_name(result.setting)}",
            mode="markers",
            marker={
                "symbol": symbol,
                "size": 10,
                "color": "gray",
                "line": {"width": 2},
            },
            hovertemplate=f"{result.source}: F1 %{{y:.1f}}<extra></extra>",
        )
    figure.update_xaxes(title="gold sentences trained on", rangemode="tozero")
    figure.update_yaxes(title="entity F1 on test, %", rangemode="tozero")
    return laid_out(figure, height=360 + 20 * (len(series) + len(published)))  # the legend has a line for each


_SYMBOLS = ("diamond-open", "square-open", "triangle-up-open", "circle-open")


def few_shot_table(series: Sequence[Series]) -> pd.DataFrame:
    """List the curve's points, one row per size and method; F1 in percent."""
    rows = [
        {
            "method": line.title,
            "sentences": point.size,
            "mean F1": round(100 * point.mean, 2),
            "deviation": None if point.sd is None else round(100 * point.sd, 2),
            "seeds": point.n,
            "runs": ", ".join(str(run) for run in point.runs),
        }
        for line in series
        for point in line.points
    ]
    return pd.DataFrame(rows, columns=["method", "sentences", "mean F1", "deviation", "seeds", "runs"])


def types_figure(rows: Sequence[TypeRow], colours: Mapping[str, int]) -> go.Figure:
    """Draw F1 per entity type as bars in the types' own colours, with the support written beside."""
    shown = [row for row in rows if row.support or row.predicted][::-1]
    figure = go.Figure(
        go.Bar(
            x=[100 * row.f1 for row in shown],
            y=[f"{row.type} ({row.support})" for row in shown],
            orientation="h",
            marker_color=[entity_colour(colours.get(row.type, 0)).mark for row in shown],
            customdata=[[100 * row.precision, 100 * row.recall, row.predicted] for row in shown],
            hovertemplate="F1 %{x:.1f} · precision %{customdata[0]:.1f} · recall %{customdata[1]:.1f} · "
            "%{customdata[2]} predicted<extra></extra>",
            texttemplate="%{x:.0f}",
            textposition="outside",
            cliponaxis=False,
        )
    )
    figure.update_xaxes(range=[0, 105], title="F1, %")
    return laid_out(figure, height=80 + 26 * max(len(shown), 1))


def types_table(rows: Sequence[TypeRow]) -> pd.DataFrame:
    """List F1, precision and recall per type in percent, with counts."""
    return pd.DataFrame(
        [
            {
                "type": row.type,
                "F1": round(100 * row.f1, 2),
                "precision": round(100 * row.precision, 2),
                "recall": round(100 * row.recall, 2),
                "support": row.support,
                "predicted": row.predicted,
            }
            for row in rows
        ],
        columns=["type", "F1", "precision", "recall", "support", "predicted"],
    )


def coverage_figure(rows: Mapping[str, Coverage], colours: Mapping[str, int]) -> go.Figure:
    """Draw the share of gold that was found per type: in full colour with the right type, pale with another."""
    shown = [(name, row) for name, row in rows.items() if row.gold][::-1]
    marks = [entity_colour(colours.get(name, 0)).mark for name, _ in shown]
    places = [f"{name} ({row.gold})" for name, row in shown]
    hover = [[row.found, row.correct, row.suggested, 100 * row.precision] for _, row in shown]
    hover_text = (
        "%{customdata[0]} found · %{customdata[1]} with the right type · %{customdata[2]} suggested, precision "
        "%{customdata[3]:.1f}<extra></extra>"
    )
    figure = go.Figure()
    for title, opacity, values in (
        ("found, right type", 1.0, [100 * row.recall for _, row in shown]),
        ("found, other type", 0.35, [100 * (row.coverage - row.recall) for _, row in shown]),
    ):
        figure.add_bar(
            x=values,
            y=places,
            name=title,
            orientation="h",
            marker={"color": marks, "opacity": opacity},
            customdata=hover,
            hovertemplate=hover_text,
        )
    figure.update_xaxes(range=[0, 105], title="gold entities found, %")
    return laid_out(figure, height=90 + 26 * max(len(shown), 1), barmode="stack", showlegend=False)


def overlap_figure(names: Sequence[str], shares: Sequence[Sequence[float]]) -> go.Figure:
    """Draw the share of frequent words that each pair of sources has in common, in percent."""
    figure = go.Figure(
        go.Heatmap(
            z=[list(row) for row in shares],
            x=list(names),
            y=list(names),
            texttemplate="%{z:.0f}",
            colorscale="Blues",
            zmin=0,
            zmax=100,
            showscale=False,
            hovertemplate="%{y} and %{x}: %{z:.1f} %<extra></extra>",
        )
    )
    figure.update_yaxes(autorange="reversed")
    figure.update_xaxes(tickangle=-40)
    return laid_out(figure, height=160 + 40 * max(len(names), 1))


def confusion_figure(confusion: Confusion) -> go.Figure:
    """Draw which type was taken for which, as shares of a gold type's spans, with boundary errors and misses."""
    table = confusion_table(confusion)
    parts = table.div(table.sum(axis=1).replace(0, 1), axis=0)
    figure = go.Figure(
        go.Heatmap(
            z=parts.to_numpy(),
            x=list(table.columns),
            y=list(table.index),
            text=table.to_numpy(),
            texttemplate="%{text}",
            colorscale="Blues",
            zmin=0,
            zmax=1,
            showscale=False,
            hovertemplate="gold %{y}, predicted %{x}: %{text}<extra></extra>",
        )
    )
    figure.update_yaxes(autorange="reversed", title="gold")
    figure.update_xaxes(title="predicted", tickangle=-40)
    return laid_out(figure, height=140 + 26 * max(len(table), 1))


def confusion_table(confusion: Confusion) -> pd.DataFrame:
    """List gold types against predicted types, then spans with other boundaries, then missed ones."""
    used = [
        name
        for name in confusion.types
        if any(confusion.count(name, other) or confusion.count(other, name) for other in confusion.types)
        or confusion.boundary.get(name)
        or confusion.missed.get(name)
    ]
    rows = [
        [confusion.count(gold, predicted) for predicted in used]
        + [confusion.boundary.get(gold, 0), confusion.missed.get(gold, 0)]
        for gold in used
    ]
    return pd.DataFrame(rows, index=used, columns=[*used, "other boundary", "missed"])
