"""Figures of comparisons: differences with their intervals, learning curves on any axis, errors as gold grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import plotly.graph_objects as go

from crossner_core.evaluation.confusion import Confusion
from crossner_core.evaluation.learning_curves import MeanPoint, Summary
from pages.components.charts import laid_out
from pages.components.palette import entity_colour, mark_colours
from workbench.reports.comparing import Comparison

_ALL = "all types"
AXIS_TITLES = {
    "sentences": "gold sentences trained on",
    "tokens": "tokens of the sentences trained on",
    "entities": "gold entities trained on",
    "seconds": "active seconds of those who made that gold",
}
_FATES = (("right", "#0d9a47"), ("another type", "#a67709"), ("another boundary", "#0d83de"), ("missed", "#d24e3e"))
_MOST_PAIRS = 12
_MOST_BANDS = 5


def difference_figure(found: Comparison, colours: Mapping[str, int]) -> go.Figure:
    """Draw second minus first in points of F1 with its 95 % interval: all types in grey, then type by type."""
    test = found.test
    names = [_ALL, *(f"{row.type} ({row.support})" for row in found.types)]
    changes = [100 * value for value in (test.difference, *(row.change for row in found.types))]
    lows = [100 * value for value in (test.low, *(row.low for row in found.types))]
    highs = [100 * value for value in (test.high, *(row.high for row in found.types))]
    scores = [(100 * test.first, 100 * test.second), *((100 * row.first, 100 * row.second) for row in found.types)]
    marks = ["#808a96", *(entity_colour(colours.get(row.type, 0)).mark for row in found.types)]
    figure = go.Figure()
    figure.add_vline(x=0, line={"width": 1, "dash": "dot", "color": "#808a96"})
    figure.add_bar(
        y=names,
        x=[high - low for low, high in zip(lows, highs, strict=True)],
        base=lows,
        orientation="h",
        width=0.22,
        marker={"color": marks, "opacity": 0.45},
        hoverinfo="skip",
        showlegend=False,
    )
    figure.add_scatter(
        y=names,
        x=changes,
        mode="markers",
        marker={"color": marks, "size": 10},
        customdata=[[*pair, low, high] for pair, low, high in zip(scores, lows, highs, strict=True)],
        hovertemplate="%{customdata[0]:.1f} → %{customdata[1]:.1f}: %{x:+.1f} "
        "(%{customdata[2]:+.1f} to %{customdata[3]:+.1f})<extra></extra>",
        showlegend=False,
    )
    figure.update_xaxes(title="points of F1", zeroline=False)
    figure.update_yaxes(autorange="reversed")
    return laid_out(figure, height=90 + 26 * len(names))


def difference_table(found: Comparison) -> pd.DataFrame:
    """List F1 of both runs in percent, their difference and its interval, all types first."""
    test = found.test
    entities = sum(row.support for row in found.types)
    rows = [(_ALL, entities, test.first, test.second, test.difference, test.low, test.high)]
    rows += [(row.type, row.support, row.first, row.second, row.change, row.low, row.high) for row in found.types]
    return pd.DataFrame(
        [(name, support, *(round(100 * value, 2) for value in values)) for name, support, *values in rows],
        columns=["type", "in gold", f"run {found.first}", f"run {found.second}", "change", "from", "to"],
    )


def learning_figure(
    lines: Mapping[str, Sequence[MeanPoint]], axis: str, *, colours: Sequence[str] = (), what: str = "entity F1, %"
) -> go.Figure:
    """Plot mean F1 against an axis, with a band of one sample deviation over seeds where there are several.

    With more than a few lines, bands would hide each other: then the deviation is shown only on hover.
    """
    figure = go.Figure()
    for colour, (name, line) in zip(colours or mark_colours(len(lines)), lines.items(), strict=True):
        places, means = [point.x for point in line], [100 * point.mean for point in line]
        spread = [100 * (point.sd or 0.0) for point in line]
        if any(spread) and len(lines) <= _MOST_BANDS:
            above = [mean + sd for mean, sd in zip(means, spread, strict=True)]
            below = [mean - sd for mean, sd in zip(means, spread, strict=True)]
            figure.add_scatter(
                x=places + places[::-1],
                y=above + below[::-1],
                mode="lines",
                fill="toself",
                fillcolor=colour,
                opacity=0.15,
                line={"width": 0},
                hoverinfo="skip",
                showlegend=False,
                legendgroup=name,
            )
        figure.add_scatter(
            x=places,
            y=means,
            name=name,
            legendgroup=name,
            mode="lines+markers",
            line={"color": colour, "width": 2},
            customdata=[[point.n, sd] for point, sd in zip(line, spread, strict=True)],
            hovertemplate=f"%{{x:,.0f}} {axis}: %{{y:.1f}} ± %{{customdata[1]:.1f}} (%{{customdata[0]}} seeds)"
            "<extra></extra>",
        )
    figure.update_xaxes(title=AXIS_TITLES[axis], rangemode="tozero")
    figure.update_yaxes(title=what, rangemode="tozero")
    return laid_out(figure, height=360 + 20 * len(lines))


def learning_table(lines: Mapping[str, Sequence[MeanPoint]], axis: str) -> pd.DataFrame:
    """List the points of learning curves; F1 in percent."""
    rows = [
        (
            name,
            round(point.x, 1),
            round(100 * point.mean, 2),
            None if point.sd is None else round(100 * point.sd, 2),
            point.n,
        )
        for name, line in lines.items()
        for point in line
    ]
    return pd.DataFrame(rows, columns=["curve", axis, "mean F1", "deviation", "seeds"])


def summary_table(rows: Sequence[Summary], axis: str) -> pd.DataFrame:
    """List areas under the curves (mean F1 over the common range, percent) and what is saved at the baseline's best."""
    table = pd.DataFrame(
        [
            {
                "curve": row.strategy,
                "area": round(100 * row.area, 2),
                "deviation": None if row.area_sd is None else round(100 * row.area_sd, 2),
                "last F1": round(100 * row.final, 2),
                f"{axis} for F1 {100 * row.f1:.1f}": None if row.needs is None else round(row.needs),
                f"{axis} saved": None if row.saved is None else round(row.saved),
                "seeds": row.seeds,
            }
            for row in rows
        ]
    )
    return table if len(rows) > 1 else table.drop(columns=[name for name in table if name.startswith(axis)])


def areas_table(found: Mapping[str, Sequence[Summary]], curves: Sequence[str]) -> pd.DataFrame:
    """List the areas under curves by entity type in percent, one column per curve."""
    rows = [
        {"type": name, **{summary.strategy: round(100 * summary.area, 2) for summary in rows}}
        for name, rows in found.items()
    ]
    return pd.DataFrame(rows, columns=["type", *curves])


def fates_table(found: Mapping[int, Confusion]) -> pd.DataFrame:
    """List what became of the gold entities by number of sentences trained on, in percent, and spurious ones beside."""
    rows = []
    for size, confusion in found.items():
        right = sum(confusion.count(name, name) for name in confusion.types)
        other = sum(sum(row.values()) for row in confusion.matrix.values()) - right
        counts = (right, other, sum(confusion.boundary.values()), sum(confusion.missed.values()))
        gold = max(sum(counts), 1)
        rows.append((size, *(round(100 * count / gold, 2) for count in (*counts, sum(confusion.spurious.values())))))
    return pd.DataFrame(rows, columns=["sentences", *(name for name, _ in _FATES), "spurious"])


def fates_figure(found: Mapping[int, Confusion]) -> go.Figure:
    """Draw what became of the gold entities, one bar per number of sentences; spurious ones hang below zero."""
    table, figure = fates_table(found), go.Figure()
    sizes = [str(size) for size in table["sentences"]]
    for name, colour in _FATES:
        figure.add_bar(x=sizes, y=table[name], name=name, marker={"color": colour, "opacity": 0.8})
    figure.add_bar(
        x=sizes,
        y=-table["spurious"],
        name="spurious",
        marker={"color": "#808a96", "opacity": 0.8},
        customdata=table["spurious"],
        hovertemplate="%{customdata:.1f}",
    )
    figure.update_xaxes(title=AXIS_TITLES["sentences"], type="category")
    figure.update_yaxes(title="of the gold entities, %")
    return laid_out(figure, height=380, barmode="relative")


def pairs_table(found: Mapping[int, Confusion]) -> pd.DataFrame:
    """List the commonest mix-ups of types (right boundaries) by sentences trained on, in percent of the gold type."""
    worst: dict[tuple[str, str], int] = {}
    for confusion in found.values():
        for gold, predicted, count in confusion.worst(_MOST_PAIRS):
            worst[gold, predicted] = worst.get((gold, predicted), 0) + count
    rows = []
    for gold, predicted in sorted(worst, key=lambda pair: (-worst[pair], pair))[:_MOST_PAIRS]:
        percentages = []
        for confusion in found.values():
            whole = (
                sum(confusion.matrix.get(gold, {}).values())
                + confusion.boundary.get(gold, 0)
                + confusion.missed.get(gold, 0)
            )
            percentages.append(round(100 * confusion.count(gold, predicted) / whole, 1) if whole else None)
        rows.append((gold, predicted, *percentages))
    return pd.DataFrame(rows, columns=["gold", "predicted as", *(str(size) for size in found)])
