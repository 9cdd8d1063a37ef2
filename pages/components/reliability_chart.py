"""The reliability diagram: the share of correct spans against their mean score."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from crossner_core.calibration.model_scores import CalibrationReport
from crossner_core.calibration.reliability import Reliability
from pages.components.charts import laid_out
from pages.components.palette import mark_colours


def reliability_figure(report: CalibrationReport) -> go.Figure:
    """Plot the share of correct spans against the mean score of each bin, raw and calibrated, beside the diagonal."""
    figure = go.Figure()
    figure.add_scatter(
        x=[0, 100],
        y=[0, 100],
        mode="lines",
        name="perfect calibration",
        line={"color": "gray", "dash": "dot", "width": 1},
    )
    _add(figure, report.raw, "raw", "gray", "circle-open")
    _add(figure, report.calibrated, "calibrated", mark_colours(1)[0], "circle")
    figure.update_xaxes(title="mean score of the bin, %", range=[0, 102])
    figure.update_yaxes(title="correct spans, %", range=[0, 102])
    return laid_out(figure, height=400)


def _add(figure: go.Figure, reliability: Reliability, name: str, colour: str, symbol: str) -> None:
    figure.add_scatter(
        x=[100 * part.score for part in reliability.bins],
        y=[100 * part.right for part in reliability.bins],
        name=f"{name}, error {100 * reliability.error:.1f} %",
        mode="lines+markers",
        line={"color": colour, "width": 2},
        marker={"symbol": symbol, "size": 8, "color": colour},
        customdata=[[part.count] for part in reliability.bins],
        hovertemplate="score %{x:.0f} %: %{y:.0f} % of %{customdata[0]} spans correct<extra></extra>",
    )


def reliability_table(report: CalibrationReport) -> pd.DataFrame:
    """List the bins of both, in percent."""
    return pd.DataFrame(
        [
            {"scores": name, "spans": part.count, "score": 100 * part.score, "correct": 100 * part.right}
            for name, reliability in (("raw", report.raw), ("calibrated", report.calibrated))
            for part in reliability.bins
        ]
    )
