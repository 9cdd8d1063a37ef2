"""Reading finished runs: few-shot curve, F1 per type with confusion."""

from __future__ import annotations

import streamlit as st

from crossner_core.domains import parse_domain
from crossner_core.evaluation.scores import Score, Scores
from crossner_core.experiments.published import published
from pages import shell
from pages.compare_views import run_line
from pages.components import charts
from pages.components.marked_text import as_text
from pages.components.saved_figure import saved_figure
from workbench import adaptation, curves
from workbench.actors import Actor
from workbench.adaptation import RunView
from workbench.views import CampaignView

_REFERENCE_SYSTEM = "BERT-base"


def curve_view(actor: Actor, campaign: CampaignView) -> None:
    """Draw the few-shot curve; it refreshes while cells are still being trained."""
    _live_curve(actor, campaign)


@st.fragment(run_every=5)
def _live_curve(actor: Actor, campaign: CampaignView) -> None:
    with shell.shown_errors():
        found = curves.curve(shell.store(), actor, campaign.id)
        drawn = [line for line in found if line.points]
        pending = sum(line.pending for line in found)
        if pending:
            st.caption(f"{pending} runs wait or are under way; the curve grows as they finish.")
        if not drawn:
            if not pending:
                st.info("No finished run yet. Start a few-shot curve under Train.")
            return
        shown = st.multiselect(
            "Methods", drawn, default=drawn[:4], format_func=lambda line: line.title, key="curve-methods"
        )
        settings = {line.recipe["setting"] for line in shown}
        references = [
            point
            for point in published(domain=campaign.domain_name)
            if point.system == _REFERENCE_SYSTEM and point.setting in settings
        ]
        saved_figure(
            charts.few_shot_figure(shown, references), charts.few_shot_table(shown), name=f"few-shot-{campaign.id}"
        )
        st.caption(
            "Mean over seeds, band: one standard deviation; sentences in random order. "
            + ("Open markers: published, with BERT-base on the whole training set." if references else "")
        )


def types_view(actor: Actor, campaign: CampaignView) -> None:
    """Draw F1 per entity type and the confusion between types of one finished run."""
    run = _pick(actor, campaign, "Run", "types-run")
    if run is None:
        return
    measure = "test" if run.test_f1 is not None else "dev"
    rows = curves.per_type(shell.store(), actor, run.id, measure=measure)
    result = adaptation.get_run(shell.store(), actor, run.id).result or {}
    scores = Scores.from_dict(result[measure])
    st.caption(
        f"Measured on {measure}: entity F1 {_percent(scores.overall)} as conlleval counts it; "
        f"strict IOB2 {_percent(scores.strict_iob2)}."
    )
    colours = {kind.name: kind.color for kind in parse_domain(campaign.domain_toml, origin=campaign.name).types}
    st.markdown("**F1 per entity type** (entities in gold)")
    saved_figure(charts.types_figure(rows, colours), charts.types_table(rows), name=f"types-run-{run.id}")
    confusion = curves.confusion_of(shell.store(), actor, run.id)
    if confusion is None:
        return
    st.markdown("**Which type is taken for which** (spans with right boundaries)")
    saved_figure(
        charts.confusion_figure(confusion),
        charts.confusion_table(confusion),
        name=f"confusion-run-{run.id}",
        index=True,
    )
    worst = confusion.worst(3)
    if worst:
        found = " · ".join(f"{gold} taken for {taken}, {n}×" for gold, taken, n in worst)
        st.caption(as_text(f"Most frequent: {found}"))


def _pick(actor: Actor, campaign: CampaignView, label: str, key: str) -> RunView | None:
    done = adaptation.list_runs(shell.store(), actor, campaign.id, states=("done",))
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
