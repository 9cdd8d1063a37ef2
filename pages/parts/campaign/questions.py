"""The views of the campaign overview, one question each."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from crossner_core.evaluation.agreement import Measure
from pages import shell
from pages.components.html_report import HtmlReport, report_download
from pages.components.marked_text import as_text
from workbench.accounts.actors import Actor
from workbench.campaigns.campaigns import CampaignView
from workbench.labelling import adjudication
from workbench.reports import linking
from workbench.reports.overview import Overview

_ONE_DECIMAL = st.column_config.NumberColumn(format="%.1f")
_STAGE_WORDS = {"annotate": "Annotate", "check": "Check", "adjudicate": "Adjudicate"}
_MEASURE_WORDS = {
    "entity_f1": "entity F1, boundaries and type equal",
    "span_f1": "span F1, boundaries equal, type ignored",
    "kappa": "token κ, tokens outside entities included",
    "kappa_without_o": "token κ, only tokens that somebody put in an entity",
}


def progress_view(actor: Actor, campaign: CampaignView, found: Overview, report: HtmlReport) -> None:
    """Draw the stages, the splits, the people, and the parked sentences."""
    gold = next(stage.done for stage in found.stages if stage.stage == "adjudicate")
    total = max(found.sentences, 1)
    line = report.text(f"{gold} of {found.sentences} sentences are gold ({found.imported_gold} imported)")
    st.progress(gold / total, text=line)
    if campaign.left_out:
        st.caption(report.text(f"{campaign.left_out} of them left out of snapshots, see Label review", caption=True))
    if found.lent:
        each = ", ".join(f"{name} {count:,}" for name, count in found.lent.campaigns)
        line = f"Other campaigns lent its model (run {found.lent.run_id}) {found.lent.sentences:,} sentences: {each}"
        if (saved := found.lent.saved) is not None:
            least = "at least " if saved.at_least else ""
            line += f". Without them its F1 takes {least}{saved.sentences:,} more gold sentences of this campaign"
        st.caption(as_text(report.text(line, caption=True)))
    stages = pd.DataFrame(
        [
            {
                "stage": _STAGE_WORDS[stage.stage],
                "done": stage.done,
                "being worked on": stage.leased,
                "ready": stage.open,
                "not there yet": stage.waiting,
                "set aside": stage.parked,
            }
            for stage in found.stages
        ]
    )
    st.dataframe(report.table(stages), hide_index=True)
    splits = " · ".join(f"{name}: {number} sentences" for name, number in sorted(found.splits.items()))
    st.caption(report.text(splits, caption=True))
    if found.people:
        st.markdown("**People**")
        report.heading("People")
        st.dataframe(report.table(_people(found)), hide_index=True, column_config={"active minutes": _ONE_DECIMAL})
    if found.parked:
        title = "Set aside: two people skipped it"
        st.markdown(f"**{title}**")
        report.heading(title)
        for parked in found.parked:
            st.text(report.text(parked.text))
            why = report.text(f"{_STAGE_WORDS[parked.stage]}: " + "; ".join(parked.reasons), caption=True)
            st.caption(as_text(why))
            if st.button("Put it back into the queue", key=f"unpark-{parked.task_id}", type="tertiary"):
                adjudication.unpark(shell.store(), actor, parked.task_id)
                st.rerun()


def _people(state: Overview) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "who": row.name,
                "annotated": row.annotated,
                "checked": row.checked,
                "adjudicated": row.adjudicated,
                "skipped": row.skipped,
                "entities": row.entities,
                "kept by gold": _share(row.kept, row.judged),
                "active minutes": round(row.active_seconds / 60, 1),
            }
            for row in state.people
        ]
    )


def shares_view(actor: Actor, campaign: CampaignView, found: Overview, report: HtmlReport) -> None:
    """Draw the paper's four figures with their definitions, the paper's values and ours."""
    for figure in found.figures:
        ours = f"{100 * figure.value:.2f} %" if figure.value is not None else "undefined"
        paper = f"(paper: {100 * figure.paper:.2f} %)"
        st.markdown(f"**{figure.name.capitalize()}: {ours}**  {paper}")
        report.text(f"{figure.name.capitalize()}: {ours} {paper}")
        counted = figure.reason if figure.value is None else f"{figure.numerator} of {figure.denominator} here."
        st.caption(report.text(f"{figure.definition} {counted}", caption=True))


def agreement_view(actor: Actor, campaign: CampaignView, found: Overview, report: HtmlReport) -> None:
    """Draw agreement on the blind share, with coverage and interval, and what became of spans in the other checks."""
    blind = found.blind
    covered = "" if blind.coverage is None else f", {100 * blind.coverage:.0f} % of the {blind.checked} checked ones"
    line = f"Measured on {blind.sentences} sentences checked blind{covered}; {blind.planned} are planned."
    st.caption(report.text(line, caption=True))
    agreement = blind.agreement
    rows: list[Measure] = [
        agreement.entity_f1,
        agreement.span_f1,
        agreement.kappa,
        agreement.kappa_without_o,
    ]
    table = pd.DataFrame(
        [
            {
                "measure": words,
                "value": "undefined" if measure.value is None else f"{measure.value:.3f}",
                "95 % bootstrap interval": _interval(measure),
                "counted on": f"{measure.n} {measure.unit}",
                "remark": measure.undefined,
            }
            for words, measure in zip(_MEASURE_WORDS.values(), rows, strict=True)
        ]
    )
    st.dataframe(report.table(table), hide_index=True)
    _draw_linking(actor, campaign, report)
    looked = found.looked
    if looked.spans:
        line = (
            f"In the other checks annotator 2 saw {looked.spans} spans: confirmed {looked.confirmed} one by one, "
            f"changed {looked.changed}, flagged {looked.flagged}, and sent {looked.left} on with their sentence."
        )
        st.caption(report.text(line, caption=True))


def _draw_linking(actor: Actor, campaign: CampaignView, report: HtmlReport) -> None:
    """Say how far the annotators agree on links, and how often the first candidate is right."""
    if not campaign.linking or (state := linking.linking(shell.store(), actor, campaign.id)) is None:
        return
    open_ = state.spans - state.linked - state.nil
    lines = [
        f"Links: {state.linked} of {state.spans} gold spans name a resource, {state.nil} name none (NIL), {open_} are "
        f"not linked. In blind checks the annotators agree on {_share(state.agreed, state.compared)} of the "
        f"{state.compared} links of spans that both have.",
        f"Candidates: gold's resource is the first one for {_share(state.first, state.asked)}, and offered for "
        f"{_share(state.offered, state.asked)}, of the newest {state.asked} linked gold spans, by links, gazetteers, "
        "type and context alone.",
    ]
    for line in lines:
        st.caption(report.text(line, caption=True))


def _interval(measure: Measure) -> str:
    if measure.low is None or measure.high is None:
        return "–"
    return f"{measure.low:.3f} to {measure.high:.3f}"


def suggestions_view(actor: Actor, campaign: CampaignView, found: Overview, report: HtmlReport) -> None:
    """Draw what became of the suggestions by source and type."""
    if not found.acceptance:
        st.info(report.text("No sentence with suggestions has been submitted yet."))
        return
    titles = campaign.domain.titles
    table = pd.DataFrame(
        [
            {
                "source": row.source,
                "type": titles.get(row.type, row.type),
                "suggested": row.total,
                "accepted unchanged": _share(row.accepted, row.total),
                "accepted": row.accepted,
                "retyped": row.retyped,
                "moved": row.moved,
                "deleted": row.deleted,
                "left undecided": row.ignored,
            }
            for row in found.acceptance
        ]
    )
    st.dataframe(report.table(table), hide_index=True, height="content" if len(table) < 16 else 560)
    line = "In the sentences that annotator 1 has submitted and in which suggestions were shown."
    st.caption(report.text(line, caption=True))


def effort_view(actor: Actor, campaign: CampaignView, found: Overview, report: HtmlReport) -> None:
    """Draw active seconds and keystrokes, with suggestions against the control sentences without."""
    words = {"with": "with suggestions", "control": "control, suggestions withheld", "-": ""}
    table = pd.DataFrame(
        [
            {
                "stage": _STAGE_WORDS[row.stage],
                "sentences are": words[row.suggestions],
                "sentences": row.sentences,
                "entities": row.entities,
                "seconds per sentence": _rounded(row.seconds_per_sentence),
                "seconds per entity": _rounded(row.seconds_per_entity),
                "keystrokes per sentence": _rounded(row.keystrokes_per_sentence),
                "keystrokes per entity": _rounded(row.keystrokes_per_entity),
            }
            for row in found.effort
        ]
    )
    st.dataframe(
        report.table(table),
        hide_index=True,
        placeholder="–",
        column_config={
            f"{what} {unit}": _ONE_DECIMAL
            for what in ("seconds", "keystrokes")
            for unit in ("per sentence", "per entity")
        },
    )
    line = (
        f"{found.control_sentences} sentences are controls. Seconds are active ones: pauses of more than half a minute "
        "or a hidden tab do not count."
    )
    st.caption(report.text(line, caption=True))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "–"


VIEWS = {
    "Progress": progress_view,
    "Comparison with the paper": shares_view,
    "Agreement": agreement_view,
    "Suggestions": suggestions_view,
    "Effort": effort_view,
}


def draw(name: str, actor: Actor, campaign: CampaignView, found: Overview) -> None:
    """Draw a view by its name, and below it the button that saves it."""
    report = HtmlReport(f"Overview: {name}", [campaign.name])
    VIEWS[name](actor, campaign, found, report)
    report_download(lambda: report, name=f"overview-{name.lower().replace(' ', '-')}-{campaign.id}")
