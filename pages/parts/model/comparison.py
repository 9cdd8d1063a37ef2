"""Two runs against each other: the verdict, the difference by type, the recipes, the sentences that tell them apart."""

from __future__ import annotations

from dataclasses import replace
from html import escape

import pandas as pd
import streamlit as st

from crossner_core.domains import Domain
from db.engine import Store
from pages import shell
from pages.components import comparison_charts
from pages.components.html_report import HtmlReport, report_download
from pages.components.marked_text import as_text, marked_sentence
from pages.components.rows import opening_row, rows_html
from pages.components.saved_figure import saved_figure
from pages.parts.model.runs_of import colours_by_title
from pages.parts.work.opening import hit_in_address, offer_opening
from workbench.accounts.actors import Actor
from workbench.accounts.roles import LABELLERS
from workbench.campaigns.campaigns import CampaignView
from workbench.labelling.opening import opening as opening_of
from workbench.labelling.opening import sentence_ids
from workbench.reports import comparing
from workbench.reports.comparing import Comparison, Disagreement
from workbench.runs import adaptation
from workbench.runs.adaptation import RunView
from workbench.runs.recipe_names import field_name, recipe_value

USUAL_LEVEL = 0.05


def compare_view(actor: Actor, campaign: CampaignView) -> None:
    """Let two finished runs be chosen, and draw how they compare."""
    done = adaptation.list_runs(shell.store(), actor, campaign.id, states=("done",))
    if len(done) < 2:
        st.info("A comparison needs two finished runs. Train some under Adaptation.")
        return
    first, second, split = _choose(done)
    if first.id == second.id:
        st.info("Choose two different runs.")
        return
    comparison = _compared(shell.store(), actor, (first.id, second.id), split, (first.finished_at, second.finished_at))
    domain, titles = campaign.domain, campaign.domain.titles
    titled = tuple(replace(row, type=titles.get(row.type, row.type)) for row in comparison.types)
    comparison = replace(comparison, types=titled)
    report = HtmlReport(f"Run {second.id} against run {first.id}", [campaign.name])
    for run in (first, second):
        report.text(run.title)
    _verdict(comparison, report)
    _by_type(comparison, domain, report)
    _recipes(comparison, report)
    _sentences(comparison, domain, report)
    if actor.role in LABELLERS:
        _open(actor, campaign, comparison)
    report_download(lambda: report, name=f"compare-{first.id}-{second.id}")


@st.cache_data(max_entries=32, show_spinner="Resampling sentences …")
def _compared(
    _store: Store, _actor: Actor, runs: tuple[int, int], split: str | None, when: tuple[object, object]
) -> Comparison:
    """Compare two runs the person may see; cached, as finished runs do not change."""
    return comparing.compare(_store, _actor, *runs, split=split)


def _choose(done: tuple[RunView, ...]) -> tuple[RunView, RunView, str | None]:
    left, right, third = st.columns([5, 5, 2])
    ids = {run.id: run for run in done}
    with left:
        first = st.selectbox(
            "First run",
            list(ids),
            index=1,
            format_func=lambda id: run_line(ids[id]),
            key="compare:first",
            persist_state="session",
        )
    with right:
        second = st.selectbox(
            "Second run",
            list(ids),
            format_func=lambda id: run_line(ids[id]),
            key="compare:second",
            persist_state="session",
        )
    shared = [
        name for name in ("test", "dev") if all(getattr(ids[id], f"{name}_f1") is not None for id in (first, second))
    ]
    with third:
        split = st.selectbox("Split", shared, key="compare:split", persist_state="session") if len(shared) > 1 else None
    return ids[first], ids[second], split


def run_line(run: RunView) -> str:
    """Name a run with its score, for lists to choose from."""
    f1 = run.test_f1 if run.test_f1 is not None else run.dev_f1
    head, _, tail = run.title.partition(" · ")
    return run.title if f1 is None else f"{head} · F1 {100 * f1:.1f} · {tail}"


def verdict(found: Comparison) -> str:
    """Return a sentence on which run is better, and whether that is more than chance."""
    test, (worse, better) = found.test, (found.first, found.second)
    if not test.difference:
        return f"Run {better} and run {worse} have the same F1."
    if test.difference < 0:
        worse, better = better, worse
    likely = max(test.permutation_p, test.bootstrap_p)
    if likely < USUAL_LEVEL:
        return f"Run {better} is better than run {worse}, by more than chance."
    if min(test.permutation_p, test.bootstrap_p) < USUAL_LEVEL:
        return f"Run {better} is ahead of run {worse}; the two tests do not agree on whether that is chance."
    return f"Run {better} is ahead of run {worse}, but that may well be chance."


def _verdict(comparison: Comparison, report: HtmlReport) -> None:
    test, line = comparison.test, verdict(comparison)
    st.markdown(f"#### {line}")
    report.heading(line)
    figures = (
        f"Entity F1 on {test.sentences} {comparison.split} sentences: "
        f"{100 * test.first:.1f} → {100 * test.second:.1f}, {_points(test.difference)} points "
        f"(95 % interval {_points(test.low)} to {_points(test.high)}). "
        f"p {p_value(test.permutation_p)} by permutation, {p_value(test.bootstrap_p)} by bootstrap."
    )
    out = comparison.outcomes
    entities = (
        f"Of {out.both + out.only_first + out.only_second + out.neither} gold entities both found {out.both}, only run "
        f"{comparison.first} {out.only_first}, only run {comparison.second} {out.only_second}, neither {out.neither}."
    )
    notes = []
    if comparison.left_out:
        notes.append(f"{comparison.left_out} sentences that only one of them predicted are left out.")
    if comparison.regraded:
        notes.append(
            f"The gold of {comparison.regraded} sentences changed since the older run; both are scored on the new gold."
        )
    for words in (figures, entities):
        st.markdown(as_text(words))
        report.text(words)
    if notes:
        st.caption(" ".join(notes))
        report.text(" ".join(notes), caption=True)


def _by_type(comparison: Comparison, domain: Domain, report: HtmlReport) -> None:
    figure = comparison_charts.difference_figure(comparison, colours_by_title(domain))
    table = comparison_charts.difference_table(comparison)
    title = f"F1 of run {comparison.second} minus F1 of run {comparison.first}, by entity type"
    line = "Lines are 95 % intervals, one per type: with many types, some exclude zero by chance alone."
    st.markdown(f"**{title}**")
    saved_figure(figure, table, name=f"compare-{comparison.first}-{comparison.second}")
    st.caption(line)
    with st.expander("As a table"):
        st.dataframe(table, hide_index=True, height="content", placeholder="–")
    report.heading(title)
    report.figure(figure)
    report.text(line, caption=True)
    report.table(table)


def _recipes(comparison: Comparison, report: HtmlReport) -> None:
    if not comparison.recipe_changes:
        st.caption("Their recipes are the same, apart from the sentences they were trained on.")
        return
    table = pd.DataFrame(
        [
            {
                "field": field_name(name),
                f"run {comparison.first}": recipe_value(name, first),
                f"run {comparison.second}": recipe_value(name, second),
            }
            for name, (first, second) in comparison.recipe_changes.items()
        ]
    )
    st.markdown("**What differs in the recipe**")
    st.dataframe(table, hide_index=True, height="content", placeholder="–")
    report.heading("What differs in the recipe")
    report.table(table)


def _sentences(comparison: Comparison, domain: Domain, report: HtmlReport) -> None:
    if not comparison.disagreements:
        st.caption("Their predictions are the same on every sentence.")
        return
    shown = len(comparison.disagreements)
    words = f"Sentences they predict differently: {comparison.differing}" + (
        f", the {shown} that differ most shown" if shown < comparison.differing else ""
    )
    st.markdown(f"**{words}**")
    st.html(rows_html([_row(disagreement, comparison, domain) for disagreement in comparison.disagreements]))
    report.heading(words)
    report.html(rows_html([_row(disagreement, comparison, domain) for disagreement in comparison.disagreements]))


def _open(actor: Actor, campaign: CampaignView, comparison: Comparison) -> None:
    """Let one of these sentences be opened in the editor, where the campaign has it."""
    sentences = {item.sentence.content_hash: item.sentence for item in (d.item for d in comparison.disagreements)}
    ids = sentence_ids(shell.store(), actor, campaign.id, tuple(sentences))
    texts = {ids[name]: sentence.text for name, sentence in sentences.items() if name in ids}
    if not texts:
        return
    hit = hit_in_address("compare")
    chosen = st.selectbox(
        "Open one of these sentences",
        list(texts),
        index=list(texts).index(hit) if hit in texts else None,
        format_func=texts.__getitem__,
        placeholder="Choose a sentence",
        key=f"compare:open:{comparison.first}:{comparison.second}:{comparison.split}",
    )
    if chosen is not None:
        offer_opening(actor, campaign, chosen, opening_of(shell.store(), actor, campaign.id, chosen), page="compare")


def _row(disagreement: Disagreement, comparison: Comparison, domain: Domain) -> str:
    """Return a sentence that opens to show gold and both predictions."""
    better = comparison.second if disagreement.gain > 0 else comparison.first
    line = "equally good" if not disagreement.gain else f"run {better} does better by {abs(disagreement.gain)}"
    sentence = disagreement.item.sentence
    layers = (
        ("Gold", disagreement.item.spans),
        (f"Run {comparison.first}", disagreement.first),
        (f"Run {comparison.second}", disagreement.second),
    )
    more = "".join(
        f'<p class="small">{escape(name)}</p>{marked_sentence(sentence, spans, domain, {})}' for name, spans in layers
    )
    return opening_row(f'{escape(sentence.text)}<span class="small">{escape(f"{sentence.id} · {line}")}</span>', more)


def _points(value: float) -> str:
    return f"{100 * value:+.1f}".replace("-", "−")


def p_value(value: float) -> str:
    """Return a p-value with its sign, as it follows the p: `= 0.042`, `< 0.001`."""
    return "< 0.001" if value < 0.001 else f"= {value:.3f}"
