"""What gold buys: the few-shot curves on any axis, and how types and errors change as gold grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from crossner_core.errors import BadInput
from crossner_core.evaluation.confusion import Confusion
from crossner_core.evaluation.learning_curves import RoundPoint, mean_curve, summarise
from crossner_core.experiments.published import published
from pages import shell
from pages.components import charts, comparison_charts
from pages.components.html_report import HtmlReport, report_download
from pages.components.marked_text import as_text
from pages.components.palette import entity_colour
from pages.components.saved_figure import saved_figure
from pages.parts.model.curve_choice import axis_and_type, measured, of_chosen_gold
from pages.parts.model.runs_of import RunsOf, asked_runs
from workbench.accounts.actors import Actor
from workbench.campaigns.campaigns import CampaignView
from workbench.reports import curves, learning
from workbench.reports.curves import Series

_REFERENCE_SYSTEM = "BERT-base"
_AXES_HELP = """Tokens and entities are those of each run's own sentences. Seconds are the active time of all who worked
on them, available only if all of the gold was made by people here."""
_SECONDS_BETWEEN_LOOKS = 5


def curve_view(actor: Actor, campaign: CampaignView) -> None:
    """Draw the few-shot curves; they refresh while cells are still being trained."""
    of = asked_runs(actor, campaign)
    pending = any(line.pending for line in curves.curve(shell.store(), actor, of.campaign_id, dataset_id=of.dataset_id))
    st.fragment(_live_curve, run_every=_SECONDS_BETWEEN_LOOKS if pending else None)(actor, of)


def _live_curve(actor: Actor, of: RunsOf) -> None:
    with shell.shown_errors():
        drawn = _drawn(actor, of)
        if not drawn:
            return
        shown = st.multiselect(
            "Methods", drawn, default=drawn[:4], format_func=lambda line: line.title, key=f"curve-methods-{of.key}"
        )
        if not shown:
            st.info("Choose a method.")
            return
        points = learning.rounds(shell.store(), actor, shown)
        axis, type_name = axis_and_type(
            [point for line in points.values() for point in line], "curve", of.titles, help=_AXES_HELP
        )
        figure, table, words = _curve(of, shown, points, axis, type_name)
        if of.campaign is not None and any(not line.measured_on for line in shown):
            words = f"{words.rstrip()} {of_chosen_gold(actor, of.campaign)}".rstrip()
        saved_figure(figure, table, name=f"few-shot-{of.key}")
        st.caption(as_text(words))
        report = HtmlReport("Few-shot curve", [of.name])
        report.figure(figure)
        report.text(words, caption=True)
        _summary(points, axis, type_name, report)
        report.heading("The points")
        report.table(table)
        report_download(lambda: report, name=f"few-shot-curve-{of.key}")


def _drawn(actor: Actor, of: RunsOf) -> list[Series]:
    """Return the curves that have points; show how many runs are pending, or that there are none."""
    series = curves.curve(shell.store(), actor, of.campaign_id, dataset_id=of.dataset_id)
    drawn, pending = [line for line in series if line.points], sum(line.pending for line in series)
    if pending:
        st.caption(f"{pending} runs are queued or running; the curve grows as they finish.")
    elif not drawn:
        st.info("No finished run yet. Start a few-shot curve under Train.")
    return drawn


def _curve(
    of: RunsOf,
    shown: Sequence[Series],
    points: Mapping[str, Sequence[RoundPoint]],
    axis: str,
    type_name: str | None,
) -> tuple[go.Figure, pd.DataFrame, str]:
    words = _where_from(shown)
    if axis == "sentences" and not type_name:
        settings = {line.recipe["setting"] for line in shown}
        references = [
            point
            for point in published(domain=of.domain_name)
            if point.system == _REFERENCE_SYSTEM and point.setting in settings
        ]
        words += "Open markers: published results of BERT-base on the whole training set." if references else ""
        return charts.few_shot_figure(shown, references), charts.few_shot_table(shown), words
    lines = {name: mean_curve(line, axis, type_name) for name, line in points.items()}
    if axis != "sentences":
        words += f"Seeds differ in their {axis}: F1 is interpolated linearly between two sizes."
    return (
        comparison_charts.learning_figure(
            lines, axis, what=measured(type_name and of.titles.get(type_name, type_name))
        ),
        comparison_charts.learning_table(lines, axis),
        words,
    )


def _where_from(shown: Sequence[Series]) -> str:
    """Return how the sentences of some curves were chosen; ends with a space."""
    words = ""
    if any(not line.measured_on for line in shown):
        words += "Mean over seeds, band: one standard deviation; sentences in random order. "
    for line in (line for line in shown if line.measured_on):
        how = ", then ".join(f"by {text}" if text else "as they were imported" for text in line.strategies)
        words += f"Rounds: all gold at the time, as chosen by the queue ({how}), not drawn at random. "
        if len(counts := dict.fromkeys(line.measured_on)) > 1:
            words += f"Measured on the gold at the time: {' → '.join(map(str, counts))} sentences. "
        if line.recipes > 1:
            words += "Runs on little gold have a shorter recipe; it stands under Runs. "
    return words


def _summary(points: Mapping[str, Sequence[RoundPoint]], axis: str, type_name: str | None, report: HtmlReport) -> None:
    """Draw the area under each curve, and what it saves against the first of them at equal F1."""
    baseline = next(iter(points))
    try:
        every = [point for line in points.values() for point in line]
        rows = summarise(every, axis, type=type_name, baseline=baseline)
    except BadInput as error:  # no harm: curves of one size have no area yet
        st.caption(as_text(f"No area under the curve yet. {error}"))
        return
    table = comparison_charts.summary_table(rows, axis)
    words = "Area: mean F1 over the range that all curves cover."
    if len(rows) > 1:
        words += f" Saved: how many fewer {axis} are needed for the best F1 of “{baseline}”."
    st.dataframe(table, hide_index=True, height="content", placeholder="–")
    st.caption(as_text(words))
    report.table(table)
    report.text(words, caption=True)


def growth_view(actor: Actor, campaign: CampaignView) -> None:
    """Draw how each type and each kind of error changes from the smallest to the largest part of the gold."""
    of = asked_runs(actor, campaign)
    drawn = _drawn(actor, of)
    if not drawn:
        return
    line = st.selectbox("Method", drawn, format_func=lambda series: series.title, key=f"growth-method-{of.key}")
    points = learning.rounds(shell.store(), actor, [line])[line.title]
    report = HtmlReport("As gold grows", [of.name, line.title])
    if line.measured_on:
        st.caption(as_text(words := _where_from([line]).rstrip()))
        report.text(words, caption=True)
    _types(of, points, report)
    confusions = learning.confusions(shell.store(), actor, line)
    _errors(of, {size: confusion.renamed(of.titles) for size, confusion in confusions.items()}, report)
    report_download(lambda: report, name=f"growth-{of.key}")


def _types(of: RunsOf, points: Sequence[RoundPoint], report: HtmlReport) -> None:
    names = dict.fromkeys(name for point in points for name in point.per_type)
    titled = {title: name for name in names if (title := of.titles.get(name, name)) in of.colours}
    lines = {title: mean_curve(points, type=name) for title, name in titled.items()}
    lines = {title: curve for title, curve in lines.items() if any(point.mean for point in curve)}
    marks = [entity_colour(of.colours[title]).mark for title in lines]
    title = "F1 of each entity type"
    figure = comparison_charts.learning_figure(lines, "sentences", colours=marks, what="F1 on test, %")
    table = comparison_charts.learning_table(lines, "sentences")
    st.markdown(f"**{title}**")
    saved_figure(figure, table, name=f"growth-types-{of.key}")
    st.caption("Mean over seeds; hover over a point for the deviation, click a type in the legend to hide it.")
    report.heading(title)
    report.figure(figure)


def _errors(of: RunsOf, confusions: Mapping[int, Confusion], report: HtmlReport) -> None:
    if not confusions:
        return
    fates, title = comparison_charts.fates_figure(confusions), "Outcome of the gold entities"
    st.markdown(f"**{title}**")
    saved_figure(fates, comparison_charts.fates_table(confusions), name=f"growth-errors-{of.key}")
    report.heading(title)
    report.figure(fates)
    report.table(comparison_charts.fates_table(confusions))
    pairs, title = comparison_charts.pairs_table(confusions), "Confused types, % of the gold type, by sentences"
    if len(pairs):
        st.markdown(f"**{title}**")
        st.dataframe(pairs, hide_index=True, height="content", placeholder="–")
        report.heading(title)
        report.table(pairs)
