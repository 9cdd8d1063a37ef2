"""Simulations on a campaign's gold: the curves of each, and what its strategies saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from crossner_core.errors import BadInput
from crossner_core.evaluation.learning_curves import (
    BASELINE,
    RoundPoint,
    Summary,
    mean_curve,
    seconds_saved,
    summarise,
)
from crossner_core.simulation.annotators import AnnotatorOptions
from pages import shell
from pages.components import comparison_charts
from pages.components.html_report import HtmlReport, report_download
from pages.components.marked_text import as_text
from pages.components.saved_figure import saved_figure
from pages.components.under_way import job_state
from pages.parts.model.curve_choice import axis_and_type, measured, of_chosen_gold
from workbench.accounts.actors import Actor
from workbench.campaigns.campaigns import CampaignView
from workbench.runs import simulations
from workbench.runs.recipe_names import recipe_name
from workbench.runs.simulations import PlayView, SimulationsView
from workbench.time_words import time_words

_SECONDS_BETWEEN_LOOKS = 5


def played_view(actor: Actor, campaign: CampaignView) -> bool:
    """Draw the chosen simulation, refreshing while one is under way; return whether one is."""
    busy = any(play.job.is_under_way for play in simulations.list_plays(shell.store(), actor, campaign.id, limit=1))
    st.fragment(_played, run_every=_SECONDS_BETWEEN_LOOKS if busy else None)(actor, campaign)
    return busy


def _played(actor: Actor, campaign: CampaignView) -> None:
    with shell.shown_errors():
        plays = simulations.list_plays(shell.store(), actor, campaign.id)
        if not plays:
            st.info("No strategy has been simulated on this campaign's gold yet.")
            return
        _state(actor, campaign, plays[0])
        chosen = _chosen(campaign, plays)
        if chosen is not plays[0]:
            _state(actor, campaign, chosen)
        if chosen.done:
            _results(actor, campaign, simulations.get_play(shell.store(), actor, campaign.id, chosen.job.id))


def _chosen(campaign: CampaignView, plays: Sequence[PlayView]) -> PlayView:
    """Ask which simulation to show: the newest that has points, until a person chooses another."""
    by_job, key = {play.job.id: play for play in plays}, f"saved:play-chosen:{campaign.id}"
    usual = next((play.job.id for play in plays if play.done), plays[0].job.id)
    if st.session_state.get(key) in (None, st.session_state.get(f"{key}:usual")):
        st.session_state[key] = usual  # without a choice, follow the newest
    st.session_state[f"{key}:usual"] = usual
    return by_job[st.selectbox("Simulation", list(by_job), format_func=lambda id: _play_line(by_job[id]), key=key)]


def _play_line(play: PlayView) -> str:
    """Name a simulation, for lists to choose from."""
    played = "" if play.done == play.total else f" · {play.job.state}, {play.done} of {play.total} simulated"
    seeds = f"seed{'s' if len(play.seeds) > 1 else ''} {', '.join(map(str, play.seeds))}"
    strategies = "; ".join(name for name in play.strategies if name != BASELINE)
    return f"{_when(play)}{played} · {strategies} · {seeds} · gold {play.snapshot} · {recipe_name(play.recipe)}"


def _when(play: PlayView) -> str:
    return f"{play.job.created_at:%d %B %Y, %H:%M} UTC"


def _state(actor: Actor, campaign: CampaignView, play: PlayView) -> None:
    if play.job.is_under_way:
        job_state(
            actor,
            play.job,
            words=f"{play.done} of {play.total} campaigns simulated. {play.job.message}",
            cancel="Cancel these campaigns",
            key=f"saved:cancel:{campaign.id}",
            help="Those that are done are kept.",
        )
    elif play.done < play.total:
        done = f"{play.done} of {play.total} campaigns are done"
        st.warning(as_text(f"Simulation of {_when(play)}: {done}. {_why_not(play)}"))


def _why_not(play: PlayView) -> str:
    return play.job.error or play.job.message or f"The job was {play.job.state}."


def _results(actor: Actor, campaign: CampaignView, view: SimulationsView) -> None:
    by_strategy: dict[str, list[RoundPoint]] = {}
    for point in view.points:
        by_strategy.setdefault(point.strategy, []).append(point)
    titles = campaign.domain.titles
    axis, type_name = axis_and_type(view.points, "saved", titles)
    sentences = _sentences(view.points, titles, type_name)
    summary = f"{_told(view)} {of_chosen_gold(actor, campaign, view.gold_by_choice)}".rstrip()
    for sentence in sentences:
        st.markdown(as_text(sentence))
    lines = {name: mean_curve(line, axis, type_name) for name, line in by_strategy.items()}
    figure = comparison_charts.learning_figure(
        lines, axis, what=measured(type_name and titles.get(type_name, type_name))
    )
    table = comparison_charts.learning_table(lines, axis)
    saved_figure(figure, table, name=f"strategies-{campaign.id}")
    st.caption(as_text(summary))
    report = HtmlReport("What strategies save", [campaign.name, _play_line(view)])
    report.figure(figure)
    for sentence in (*sentences, summary):
        report.text(sentence)
    _areas(view.points, axis, type_name, titles, report)
    report.heading("The points")
    report.table(table)
    report_download(lambda: report, name=f"strategies-{campaign.id}")


def _areas(
    points: Sequence[RoundPoint], axis: str, type_name: str | None, titles: Mapping[str, str], report: HtmlReport
) -> None:
    """Draw the area under each curve; if it is over all types, the area of each type too."""
    if rows := _summary(points, axis, type_name):
        summary = comparison_charts.summary_table(rows, axis)
        st.dataframe(summary, hide_index=True, height="content", placeholder="–")
        report.table(summary)
    if not rows or type_name is not None:
        return
    types = dict.fromkeys(name for point in points for name in point.per_type)
    by_type = {titles.get(name, name): _summary(points, axis, name) for name in types}
    areas = comparison_charts.areas_table(by_type, [row.strategy for row in rows])
    title = f"Area under the curve of each entity type over {axis}"
    st.markdown(f"**{title}**")
    # Narrow enough for the figures to fit beside their types on a phone.
    narrow = {row.strategy: st.column_config.NumberColumn(width=130) for row in rows}
    st.dataframe(areas, hide_index=True, height="content", width="content", placeholder="–", column_config=narrow)
    report.heading(title)
    report.table(areas)


def _sentences(points: Sequence[RoundPoint], titles: Mapping[str, str], type_name: str | None = None) -> list[str]:
    """Return, per strategy, how many sentences and how much time it needs for the best F1 of random sentences."""
    rows, sentences = _summary(points, "sentences", type_name), []
    spared = seconds_saved(points, type=type_name) if rows else {}
    of = f" of {titles.get(type_name, type_name)}" if type_name else ""
    for row in rows:
        if row.strategy == BASELINE:
            continue
        goal = f"F1{of} {100 * row.f1:.1f}, the best of random sentences"
        if row.needs is None or row.saved is None:
            sentences.append(f"{row.strategy}: never reached {goal}.")
            continue
        seconds = spared[row.strategy]
        less = "" if seconds is None else f", and {_less(seconds)} of annotators' time"
        sentences.append(f"{row.strategy}: {row.needs:.0f} sentences for {goal}; {_fewer(round(row.saved))}{less}.")
    return sentences


def _fewer(sentences: int) -> str:
    return f"{abs(sentences)} {'fewer' if sentences > 0 else 'more'}" if sentences else "as many"


def _less(seconds: float) -> str:
    return f"{time_words(abs(seconds))} {'less' if round(seconds) >= 0 else 'more'}"


def _summary(points: Sequence[RoundPoint], axis: str, type_name: str | None) -> tuple[Summary, ...]:
    try:
        return summarise(points, axis, type=type_name)
    except BadInput:  # no harm: while the first campaigns are simulated there is nothing to compare yet
        return ()


def _told(play: PlayView) -> str:
    return (
        f"Mean over {len(play.seeds)} seeds ({', '.join(map(str, play.seeds))}), band: one standard deviation. Gold "
        f"{play.snapshot} stood in for the annotators; {recipe_name(play.recipe)}. {_people(play.annotators)}"
        f"{_prices(play.priced_by)}"
    )


def _prices(sentences: int | None) -> str:
    """Return where costs that nobody typed came from; empty for simulations that did not record it."""
    if sentences is None:
        return ""
    source = f"fitted to {sentences:,} sentences annotated here" if sentences else "as published"
    return f" Usual costs: {source}."


def _people(annotators: Sequence[AnnotatorOptions]) -> str:
    if len(annotators) == 1:
        return annotators[0].words
    each = " ".join(f"Annotator {number}: {prices.words}" for number, prices in enumerate(annotators, start=1))
    return f"{len(annotators)} annotators shared the sentences. {each}"
