"""What suggestions and strategies save: annotators' hours, and simulated campaigns on a campaign's own gold."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from crossner_core.errors import BadInput
from crossner_core.evaluation.learning_curves import (
    AXES,
    BASELINE,
    RoundPoint,
    Summary,
    mean_curve,
    seconds_saved,
    summarise,
)
from pages import shell
from pages.components import comparison_charts
from pages.components.cancel_button import cancel_button
from pages.components.html_report import HtmlReport, report_download
from pages.components.marked_text import as_text
from pages.components.saved_figure import saved_figure
from workbench import annotator_costs, simulations, turns
from workbench.actors import Actor
from workbench.recipe_names import recipe_name
from workbench.simulations import SimulationsView
from workbench.time_words import time_words
from workbench.views import CampaignView

_SECONDS_BETWEEN_LOOKS = 5


def saved_view(actor: Actor, campaign: CampaignView) -> None:
    """Draw the hours that suggestions saved, then what strategies save on this campaign's gold."""
    st.subheader("By suggestions")
    _by_suggestions(actor, campaign)
    st.subheader("By the order of the queue")
    found = simulations.newest_simulations(shell.store(), actor, campaign.id)
    busy = found is not None and found.job.state in ("queued", "running")
    st.fragment(_played, run_every=_SECONDS_BETWEEN_LOOKS if busy else None)(actor, campaign)
    if actor.role in turns.MAY_CHANGE and not campaign.archived:
        _ask(actor, campaign, busy=busy)


def _by_suggestions(actor: Actor, campaign: CampaignView) -> None:
    try:
        found = annotator_costs.saved_by_suggestions(shell.store(), actor, campaign.id)
    except BadInput as error:  # no harm: a young campaign cannot tell yet
        st.caption(as_text(str(error)))
        return
    prices = found.fitted.options
    share = found.hours / found.from_scratch if found.from_scratch else 0.0
    more_or_less = "less" if found.hours >= 0 else "more"
    st.markdown(
        f"**{time_words(abs(found.hours) * 3600)} {more_or_less}** ({abs(share):.0%}) than from scratch, on "
        f"{found.sentences:,} sentences in {time_words(found.spent * 3600)} of active time."
    )
    st.caption(
        f"At this campaign's own prices: {prices.seconds_added:.1f} s for an entity that was not suggested, "
        f"{prices.seconds_kept:.1f} s for one that was kept, {prices.seconds_changed:.1f} s for one that was changed, "
        f"{prices.seconds_deleted:.1f} s for one that was deleted, {prices.seconds_token:.2f} s to read a token. They "
        f"explain {found.fitted.explained:.0%} of the differences between {found.fitted.seen:,} sentences."
    )


def _played(actor: Actor, campaign: CampaignView) -> None:
    with shell.shown_errors():
        found = simulations.newest_simulations(shell.store(), actor, campaign.id)
        if found is None:
            st.info("No strategy has been played on this campaign's gold yet.")
            return
        _state(actor, campaign, found)
        shown: SimulationsView | None = found
        if not found.points:
            shown = simulations.newest_simulations(shell.store(), actor, campaign.id, with_points=True)
        if shown is None:
            return
        if shown is not found:
            st.caption(f"Those before, of {shown.job.created_at:%d %B %Y, %H:%M} UTC:")
        _results(campaign, shown)


def _state(actor: Actor, campaign: CampaignView, found: SimulationsView) -> None:
    if found.job.state in ("queued", "running"):
        st.caption(as_text(f"{found.done} of {found.total} campaigns played. {found.job.message}"))
        if actor.role in turns.MAY_CHANGE and cancel_button(
            "Cancel these campaigns",
            asked=found.job.cancel_requested,
            key=f"saved:cancel:{campaign.id}",
            help="Those that are through are kept.",
        ):
            simulations.cancel_simulations(shell.store(), actor, campaign.id)
            st.rerun()
    elif found.done < found.total:
        st.warning(as_text(f"{found.done} of {found.total} were played. {_why_not(found)}"))


def _why_not(found: SimulationsView) -> str:
    return found.job.error or found.job.message or f"The job was {found.job.state}."


def _results(campaign: CampaignView, found: SimulationsView) -> None:
    by_strategy: dict[str, list[RoundPoint]] = {}
    for point in found.points:
        by_strategy.setdefault(point.strategy, []).append(point)
    said = [*_sentences(found.points), _told(found)]
    for one in said[:-1]:
        st.markdown(as_text(one))
    axis = st.segmented_control(
        "Over", AXES, default=AXES[0], format_func=str.capitalize, key="saved-axis", required=True
    )
    axis = axis or AXES[0]
    lines = {name: mean_curve(line, axis) for name, line in by_strategy.items()}
    figure = comparison_charts.learning_figure(lines, axis, what="entity F1 on test, %")
    table = comparison_charts.learning_table(lines, axis)
    saved_figure(figure, table, name=f"strategies-{campaign.id}")
    st.caption(as_text(said[-1]))
    report = HtmlReport("What strategies save", [campaign.name])
    report.figure(figure)
    for one in said:
        report.text(one)
    if rows := _summary(found.points, axis):
        summary = comparison_charts.summary_table(rows, axis)
        st.dataframe(summary, hide_index=True, height="content", placeholder="–")
        report.table(summary)
    report.heading("The points")
    report.table(table)
    report_download(lambda: report, name=f"strategies-{campaign.id}")


def _sentences(points: Sequence[RoundPoint]) -> list[str]:
    """Say of each strategy how many sentences and how much time it needs for the best that random sentences gave."""
    rows, said = _summary(points, "sentences"), []
    spared = seconds_saved(points) if rows else {}
    for row in rows:
        if row.strategy == BASELINE:
            continue
        goal = f"F1 {100 * row.f1:.1f}, the best of random sentences"
        if row.needs is None or row.saved is None:
            said.append(f"{row.strategy}: never reached {goal}.")
            continue
        seconds = spared[row.strategy]
        less = "" if seconds is None else f", and {_less(seconds)} of annotators' time"
        said.append(f"{row.strategy}: {row.needs:.0f} sentences for {goal}; {_fewer(round(row.saved))}{less}.")
    return said


def _fewer(sentences: int) -> str:
    return f"{abs(sentences)} {'fewer' if sentences > 0 else 'more'}" if sentences else "as many"


def _less(seconds: float) -> str:
    return f"{time_words(abs(seconds))} {'less' if round(seconds) >= 0 else 'more'}"


def _summary(points: Sequence[RoundPoint], axis: str) -> tuple[Summary, ...]:
    try:
        return summarise(points, axis)
    except BadInput:  # no harm: while the first campaigns are played there is nothing to compare yet
        return ()


def _told(found: SimulationsView) -> str:
    prices = found.annotator
    return (
        f"Mean over {len(found.seeds)} seeds ({', '.join(map(str, found.seeds))}), band: one standard deviation. Gold "
        f"{found.snapshot} answered for the annotators; {recipe_name(found.recipe)}. An entity takes "
        f"{prices.seconds_added:.1f} s, a suggested one that is kept {prices.seconds_kept:.1f} s."
    )


def _ask(actor: Actor, campaign: CampaignView, *, busy: bool) -> None:
    now = turns.turn_settings(shell.store(), actor, campaign.id)
    with st.expander("Play strategies on this gold"):
        text = st.text_area(
            "Strategies, one a line",
            now.strategy or simulations.usual_strategy(shell.store(), actor, campaign.id),
            help="As under Rules. Random sentences are always played beside them.",
            key=f"saved:strategies:{campaign.id}",
        )
        seeds = st.number_input("Seeds", 1, 10, 3, key=f"saved:seeds:{campaign.id}")
        shown = st.checkbox(
            "Annotators see suggestions: of gazetteer, links and newest model",
            key=f"saved:suggestions:{campaign.id}",
            help="Those of the strategies; the random ones begin from scratch, always.",
        )
        st.caption(
            f"Each strategy is played once for each seed, with four trainings and {100 * now.random_share:g}% of its "
            "sentences by chance, as under Rules. The worker does it in the background; turns, runs and suggestions go "
            "first."
        )
        if st.button("Play", type="primary", disabled=busy, key=f"saved:play:{campaign.id}"):
            wanted = [line.strip() for line in text.splitlines() if line.strip()]
            simulations.start_simulations(
                shell.store(), actor, campaign.id, wanted, seeds=simulations.drawn_seeds(int(seeds)), suggestions=shown
            )
            shell.note("The worker will play them; what it finds appears here.")
            st.rerun()
