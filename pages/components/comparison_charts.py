"""Figures of comparisons: differences with their intervals, and learning curves on any axis."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from pages.components.charts import laid_out
from pages.components.palette import entity_colour
from workbench.comparing import Comparison

_ALL = "all types"


def difference_figure(found: Comparison, colours: Mapping[str, int]) -> go.Figure:
    """Draw second minus first in points of F1 with its 95 % interval: all types in grey, then type by type."""
    test = found.test
    names = [_ALL, *(f"{one.type} ({one.support})" for one in found.types)]
    changes = [100 * value for value in (test.difference, *(one.change for one in found.types))]
    lows = [100 * value for value in (test.low, *(one.low for one in found.types))]
    highs = [100 * value for value in (test.high, *(one.high for one in found.types))]
    scores = [(100 * test.first, 100 * test.second), *((100 * one.first, 100 * one.second) for one in found.types)]
    marks = ["#808a96", *(entity_colour(colours.get(one.type, 0)).mark for one in found.types)]
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
    entities = sum(one.support for one in found.types)
    rows = [(_ALL, entities, test.first, test.second, test.difference, test.low, test.high)]
    rows += [(one.type, one.support, one.first, one.second, one.change, one.low, one.high) for one in found.types]
    return pd.DataFrame(
        [(name, support, *(round(100 * value, 2) for value in values)) for name, support, *values in rows],
        columns=["type", "in gold", f"run {found.first}", f"run {found.second}", "change", "from", "to"],
    )
