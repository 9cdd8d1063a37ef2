"""The error browser: whose errors, the filter, the list, and one error in its sentence."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import groupby
from typing import Any

import pandas as pd
import streamlit as st

from crossner_core.domains import Domain
from crossner_core.evaluation.errors import KINDS
from db.engine import Store
from pages import shell
from pages.components.chosen_row import chosen_row
from pages.components.html_report import HtmlReport, report_download
from pages.components.marked_text import as_text, marked_sentence
from pages.parts.campaign.browse import layers_view
from pages.parts.model.comparison import run_line
from pages.parts.work.opening import hit_in_address, offer_opening
from workbench.accounts.actors import Actor
from workbench.accounts.roles import KEEPERS
from workbench.campaigns.campaigns import CampaignView
from workbench.data import browsing
from workbench.labelling.opening import opening as opening_of
from workbench.reports import errors_browsing
from workbench.reports.errors_browsing import SUGGESTED, ErrorLine, ErrorList, Speaker
from workbench.runs import adaptation
from workbench.runs.adaptation import RunView

_PAGE = 100
_IN_REPORT = 500
_TABLE_HEIGHT = 330


def errors_view(actor: Actor, campaign: CampaignView) -> None:
    """Draw the filter, a summary of the errors, the list, and the error chosen in it."""
    store = shell.store()
    speakers = errors_browsing.speakers(store, actor, campaign.id)
    if not speakers:
        st.info("There are no predictions yet: train a run under Adaptation, or let the gazetteer suggest.")
        return
    runs = {run.id: run for run in adaptation.list_runs(store, actor, campaign.id, states=("done",))}
    chosen = _choose(actor, campaign, speakers, runs)
    if chosen is None:
        return
    speaker, split = chosen
    kinds, types, text = _filter(campaign)
    titles = campaign.domain.titles
    page_key = f"errors:page:{campaign.id}"
    page = st.session_state.get(page_key, 1)
    errors = errors_browsing.errors_of(
        store, actor, campaign.id, speaker, split=split, kinds=kinds, types=types, text=text,
        offset=_PAGE * (page - 1), limit=_PAGE,
    )  # fmt: skip
    if not errors.lines and page > 1:
        st.session_state[page_key] = 1
        st.rerun()
    st.markdown(as_text(summary(errors, split)))
    if not errors.lines:
        st.info("No error matches this filter." if sum(errors.counts.values()) else "There are no errors.")
    else:
        line = _list(
            errors, titles, page, page_key, key=f"errors:{campaign.id}:{speaker}:{split}:{kinds}:{types}:{text}:{page}"
        )
        _one(line, campaign.domain, actor, campaign)
    _by_type(errors, titles)
    make = partial(
        _report, store, actor, campaign, speaker, speaker_line(speaker, runs),
        split=split, kinds=kinds, types=types, text=text,
    )  # fmt: skip
    report_download(make, name=f"errors-{campaign.id}")


def speaker_line(speaker: Speaker, runs: Mapping[int, RunView]) -> str:
    """Return the display name of a prediction source."""
    if speaker.run_id is not None:
        return run_line(runs[speaker.run_id]) if speaker.run_id in runs else f"run {speaker.run_id}"
    return "Suggestions, as people see them" if speaker.source == SUGGESTED else f"Suggestions from {speaker.source}"


def summary(errors: ErrorList, split: str) -> str:
    """Summarise the predictions on a split, whatever the filter."""
    score, parts = errors.score, [f"{errors.counts[kind]} {kind}" for kind in KINDS if errors.counts[kind]]
    by_kind = f"{sum(errors.counts.values())} errors: {', '.join(parts)}" if parts else "no error"
    return (
        f"{errors.sentences} {split} sentences, {score.support} entities in gold, {score.predicted} predicted, "
        f"{score.correct} correct (F1 {100 * score.f1:.1f}); {by_kind}."
    )


def _choose(
    actor: Actor, campaign: CampaignView, speakers: tuple[Speaker, ...], runs: Mapping[int, RunView]
) -> tuple[Speaker, str] | None:
    left, right = st.columns([4, 1])
    with left:
        speaker = st.selectbox(
            "Predictions of", speakers, format_func=lambda who: speaker_line(who, runs),
            key=f"errors:whose:{campaign.id}", on_change=partial(_first, campaign.id), persist_state="session",
        )  # fmt: skip
    splits = errors_browsing.splits_of(shell.store(), actor, campaign.id, speaker)
    if not splits:
        st.info("There is no gold to compare these predictions with yet.")
        return None
    with right:
        split = st.selectbox(
            "Sentences", splits, key=f"errors:split:{campaign.id}:{splits}", on_change=partial(_first, campaign.id),
            persist_state="session",
        )  # fmt: skip
    return speaker, split


def _filter(campaign: CampaignView) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    titles, changed = campaign.domain.titles, partial(_first, campaign.id)
    first, second, third = st.columns([5, 3, 2])
    with first:
        kinds = st.pills(
            "Error", KINDS, selection_mode="multi", key=f"errors:kinds:{campaign.id}", wrap=True, on_change=changed,
            persist_state="session",
        )  # fmt: skip
    with second:
        types = st.multiselect(
            "Entity type", list(titles), format_func=lambda name: titles[name], key=f"errors:types:{campaign.id}",
            placeholder="all", on_change=changed, persist_state="session",
        )  # fmt: skip
    with third:
        text = st.text_input(
            "Text or id contains", key=f"errors:text:{campaign.id}", max_chars=200, on_change=changed,
            persist_state="session",
        )  # fmt: skip
    return tuple(kinds), tuple(types), text


def _first(campaign_id: int) -> None:
    st.session_state[f"errors:page:{campaign_id}"] = 1


def _list(errors: ErrorList, titles: Mapping[str, str], page: int, page_key: str, *, key: str) -> ErrorLine:
    """Draw the errors that match; return the chosen one, by default the first."""
    ids = [(line.item.sentence.id, line.item.sentence.text, line.gold, line.predicted) for line in errors.lines]
    hit = hit_in_address("errors")
    back_at = next((id_ for id_, line in zip(ids, errors.lines, strict=True) if hit and line.sentence_id == hit), None)
    chosen = chosen_row(
        error_table(errors, titles),
        ids,
        key=key,
        first=back_at,
        height="content" if len(errors.lines) < 9 else _TABLE_HEIGHT,
        column_config={
            **dict.fromkeys(("gold type", "predicted type"), st.column_config.TextColumn(width=135)),
            "sentence": st.column_config.TextColumn(width="large"),
        },
        placeholder="–",
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        begin = _PAGE * (page - 1)
        st.caption(f"{begin + 1}–{begin + len(errors.lines)} of {errors.total} errors. Choose one to see its sentence.")
        if errors.total > _PAGE:
            st.pagination(-(-errors.total // _PAGE), key=page_key, persist_state="session")
    return errors.lines[0 if chosen is None else ids.index(chosen)]


def error_table(errors: ErrorList, titles: Mapping[str, str]) -> pd.DataFrame:
    """List errors with the words and types of both spans."""
    return pd.DataFrame(
        [
            {
                "error": line.kind,
                "in gold": line.surface(line.gold) or None,
                "gold type": titles.get(line.gold.type, line.gold.type) if line.gold else None,
                "predicted": line.surface(line.predicted) or None,
                "predicted type": titles.get(line.predicted.type, line.predicted.type) if line.predicted else None,
                "sentence": line.item.sentence.text,
            }
            for line in errors.lines
        ]
    )


def _one(line: ErrorLine, domain: Domain, actor: Actor, campaign: CampaignView) -> None:
    """Draw a sentence with gold and with the prediction, and a link to it."""
    sentence = line.item.sentence
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.text(f"{sentence.id} · {line.kind}")
            if line.sentence_id is not None and actor.role in KEEPERS:
                address = f"data?campaign={campaign.id}&sentence={line.sentence_id}"
                # A tab of its own: this list stays as it is meanwhile.
                st.link_button("Open in Sentences", address, type="tertiary")
        for name, spans, here in (
            ("Gold", line.item.spans, line.gold),
            ("Prediction", line.predicted_spans, line.predicted),
        ):
            with st.container(gap=None):
                st.caption(name)
                st.html(marked_sentence(sentence, spans, domain, {here: line.kind} if here else {}))
    # Researchers see it in Sentences; to an expert the history of this gold is shown here.
    if line.sentence_id is not None and actor.role not in KEEPERS:
        opening = opening_of(shell.store(), actor, campaign.id, line.sentence_id)
        offer_opening(actor, campaign, line.sentence_id, opening, page="errors")
        with st.expander("How this gold came about", key=f"errors:layers:{line.sentence_id}"), shell.shown_errors():
            layers_view(browsing.sentence_layers(shell.store(), actor, campaign.id, line.sentence_id), campaign)


def _by_type(errors: ErrorList, titles: Mapping[str, str]) -> None:
    if errors.by_type:
        with st.expander("Errors by entity type"):
            st.dataframe(by_type_table(errors, titles), hide_index=True, height="content")


def by_type_table(errors: ErrorList, titles: Mapping[str, str]) -> pd.DataFrame:
    """Count the errors of each kind by entity type (gold's; the predicted one if spurious), most errors first."""
    rows = [
        {"entity type": titles.get(name, name), **counts, "in all": sum(counts.values())}
        for name, counts in errors.by_type.items()
    ]
    return pd.DataFrame(rows, columns=["entity type", *KINDS, "in all"])


def _report(
    store: Store, actor: Actor, campaign: CampaignView, speaker: Speaker, who: str, *, split: str, **narrowed: Any
) -> HtmlReport:
    """Make the report: a summary, then each error that matches the filter with its sentence."""
    errors = errors_browsing.errors_of(store, actor, campaign.id, speaker, split=split, limit=_IN_REPORT, **narrowed)
    report, domain = HtmlReport("Errors", [campaign.name, who]), campaign.domain
    report.text(summary(errors, split))
    report.heading("Errors by entity type")
    report.table(by_type_table(errors, domain.titles))
    shown = f", the first {len(errors.lines)} of them below" if len(errors.lines) < errors.total else ""
    report.heading(f"{errors.total} errors that match the filter{shown}")
    for _, group in groupby(errors.lines, key=lambda line: line.item.sentence.id):
        lines = list(group)
        item, predicted = lines[0].item, lines[0].predicted_spans
        kinds = ", ".join(line.kind for line in lines)
        report.text(f"{item.sentence.id} · {kinds}: gold, then the prediction", caption=True)
        for spans, wrong in ((item.spans, "gold"), (predicted, "predicted")):
            notes = {getattr(line, wrong): line.kind for line in lines if getattr(line, wrong)}
            report.html(marked_sentence(item.sentence, spans, domain, notes))
    return report
