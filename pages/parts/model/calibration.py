"""How well suggestions are calibrated: a run's scores against gold, and how often gold agrees with each source."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from crossner_core.calibration.model_scores import CalibrationReport
from crossner_core.calibration.sources import SourceWeights, Weight, log_odds, share_of
from pages import shell
from pages.components.html_report import HtmlReport, report_download
from pages.components.marked_text import as_text
from pages.components.reliability_chart import reliability_figure, reliability_table
from pages.components.saved_figure import saved_figure
from pages.parts.model.runs_of import of_campaign
from pages.parts.model.scores import pick_run
from workbench.accounts.actors import Actor
from workbench.campaigns.campaigns import CampaignView
from workbench.runs import adaptation
from workbench.suggestions import proposing

_MAPS = {
    "identity": "and no further map",
    "platt": "then a logistic map of the log odds",
    "beta": "then a beta map",
    "isotonic": "then isotonic steps",
}
_SHARE = st.column_config.NumberColumn(format="%.0f %%")


def calibration_view(actor: Actor, campaign: CampaignView) -> None:
    """Draw a run's reliability, and below it the weights of the sources of suggestions."""
    report = HtmlReport("Calibration of suggestions", [campaign.name])
    _run_part(actor, campaign, report)
    st.markdown("**How often gold agrees with each source**")
    report.heading("How often gold agrees with each source")
    _sources_part(proposing.source_weights(shell.store(), actor, campaign.id), campaign, report)
    report_download(lambda: report, name=f"calibration-{campaign.id}")


def _run_part(actor: Actor, campaign: CampaignView, page: HtmlReport) -> None:
    run = pick_run(actor, of_campaign(campaign), "Run", "calibration-run")
    if run is None:
        return
    result = adaptation.get_run(shell.store(), actor, run.id).result or {}
    if not result.get("calibration"):
        st.info(
            "The scores of this run are not calibrated: it had no dev sentences to calibrate them on, or an older "
            "version of the workbench trained it."
        )
        return
    report = CalibrationReport.from_dict(result["calibration"])
    title = "How confident the model is, and how often it is correct"
    figure, table = reliability_figure(report), reliability_table(report)
    st.markdown(f"**{title}**")
    saved_figure(figure, table, name=f"reliability-run-{run.id}")
    raw, now = report.raw, report.calibrated
    line = (
        f"{now.spans} spans of {report.measured_on}; correct means start, end and type. Expected calibration error, "
        f"ten bins of equal mass: {100 * raw.error:.1f} % raw, {100 * now.error:.1f} % calibrated (equal width: "
        f"{100 * raw.error_equal_width:.1f} and {100 * now.error_equal_width:.1f} %). Calibrated on {report.dev_spans} "
        f"dev spans: temperature {report.calibration.temperature:.2f}, {_MAPS[report.calibration.spans.method]}."
    )
    page.heading(title)
    page.text(run.title)
    page.figure(figure)
    for words in (line, report.note):
        if words:
            st.caption(as_text(words))
            page.text(words, caption=True)
    page.table(table)


def _sources_part(weights: SourceWeights, campaign: CampaignView, page: HtmlReport) -> None:
    if not weights.sentences:
        words = "No sentence with suggestions outside test is gold yet: every source is taken at its own scores."
        st.info(words)
        page.text(words)
        return
    table = _table(weights, campaign.domain.titles)
    line = (
        f"{weights.sentences} gold sentences outside test had suggestions. *Confidence* is the source's mean score, "
        "*correct* how often gold agrees on start, end and type, *now* the adjusted probability: close to the "
        f"confidence while there is little gold. A proposal below {campaign.hint_below:.2f} is shown as a hint."
    )
    st.caption(line)
    page.text(line.replace("*", ""), caption=True)
    page.table(table.round(1))
    st.dataframe(
        table,
        hide_index=True,
        height="content",
        column_config=dict.fromkeys(("confidence", "correct", "now"), _SHARE),
    )
    groups = sorted(weights.groups.items(), key=lambda row: -row[1].n)
    together = pd.DataFrame([{"proposed by": name, **_row(weight, 0.0)} for name, weight in groups])
    page.table(together.round(1))
    with st.expander("Which sources agree or contradict"):
        st.dataframe(
            together,
            hide_index=True,
            height="content",
            column_config=dict.fromkeys(("confidence", "correct", "now"), _SHARE),
        )


def _table(weights: SourceWeights, titles: Mapping[str, str]) -> pd.DataFrame:
    """List each source over all types, then by type, the most frequent first."""
    rows = []
    for kind, whole in sorted(weights.kinds.items()):
        rows.append({"source": kind, "type": "all types", **_row(whole, 0.0)})
        own = [(name, weight) for (source, name), weight in weights.types.items() if source == kind]
        for name, weight in sorted(own, key=lambda row: (-row[1].n, row[0])):
            rows.append({"source": kind, "type": titles.get(name, name), **_row(weight, whole.offset)})
    return pd.DataFrame(rows)


def _row(weight: Weight, before: float) -> dict[str, object]:
    """Return a weight's row; `before` is the offset its scores already had when it was learned."""
    odds = log_odds(weight.confidence)
    return {
        "in gold": weight.n,
        "confidence": 100 * share_of(odds - before),
        "correct": 100 * weight.correct / weight.n if weight.n else None,
        "now": 100 * share_of(odds + weight.offset),
    }
