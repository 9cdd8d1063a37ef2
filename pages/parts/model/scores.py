"""Reading a finished run: F1 per type with confusion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import streamlit as st

from crossner_core.evaluation.confusion import Confusion
from crossner_core.evaluation.scores import Score, Scores
from pages import shell
from pages.components import charts
from pages.components.html_report import HtmlReport, report_download
from pages.components.marked_text import as_text
from pages.components.saved_figure import saved_figure
from pages.parts.model.comparison import run_line
from pages.parts.model.runs_of import RunsOf, asked_runs
from workbench.accounts.actors import Actor
from workbench.campaigns.campaigns import CampaignView
from workbench.reports import curves
from workbench.reports.curves import TypeRow
from workbench.runs import adaptation
from workbench.runs.adaptation import RunView


def types_view(actor: Actor, campaign: CampaignView) -> None:
    """Draw F1 per entity type and the confusion between types of one finished run."""
    of = asked_runs(actor, campaign)
    run = pick_run(actor, of, "Run", f"types-run-{of.key}")
    if run is None:
        return
    measure = "test" if run.test_f1 is not None else "dev"
    per_type = curves.per_type(shell.store(), actor, run.id, measure=measure)
    rows = [replace(row, type=of.titles.get(row.type, row.type)) for row in per_type]
    result = adaptation.get_run(shell.store(), actor, run.id).result or {}
    scores = Scores.from_dict(result[measure])
    st.caption(
        f"Measured on {measure}: entity F1 {_percent(scores.overall)} as conlleval counts it; "
        f"strict IOB2 {_percent(scores.strict_iob2)}."
    )
    st.markdown("**F1 per entity type** (entities in gold)")
    saved_figure(charts.types_figure(rows, of.colours), charts.types_table(rows), name=f"types-run-{run.id}")
    confusion = curves.confusion_of(shell.store(), actor, run.id)
    if confusion is None:
        return
    confusion = confusion.renamed(of.titles)
    st.markdown("**Confusion between types** (spans with right boundaries)")
    saved_figure(
        charts.confusion_figure(confusion),
        charts.confusion_table(confusion),
        name=f"confusion-run-{run.id}",
        index=True,
    )
    worst = confusion.worst(3)
    if worst:
        confused = " · ".join(f"{gold} predicted as {taken}, {n}×" for gold, taken, n in worst)
        st.caption(as_text(f"Most frequent: {confused}"))
    report_download(partial(_report, run, scores.overall, rows, confusion, of.colours), name=f"types-run-{run.id}")


def _report(
    run: RunView, score: Score, rows: Sequence[TypeRow], confusion: Confusion, colours: Mapping[str, int]
) -> HtmlReport:
    report = HtmlReport(f"Run {run.id} by entity type", [run.title, f"entity F1 {_percent(score)}"])
    report.figure(charts.types_figure(rows, colours))
    report.table(charts.types_table(rows))
    report.heading("Confusion between types")
    report.figure(charts.confusion_figure(confusion))
    report.table(charts.confusion_table(confusion), index=True)
    return report


def pick_run(actor: Actor, of: RunsOf, label: str, key: str) -> RunView | None:
    """Draw the choice of a finished run; show a note and return None if there is none."""
    done = adaptation.list_runs(shell.store(), actor, of.campaign_id, dataset_id=of.dataset_id, states=("done",))
    if not done:
        st.info("No finished run yet.")
        return None
    return st.selectbox(
        label,
        done,
        format_func=run_line,
        key=key,
    )


def _percent(score: Score) -> str:
    return f"{100 * score.f1:.1f}" if score.support + score.predicted else "undefined"
