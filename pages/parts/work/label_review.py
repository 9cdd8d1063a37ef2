"""The parts of Label review: the queues, one doubt with its decisions, starting a look, what was decided."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from html import escape
from typing import Any

import pandas as pd
import streamlit as st

from crossner_core.domains import Domain
from crossner_core.options.label_review import LabelReviewOptions
from crossner_core.records import to_json
from crossner_core.schema import Link, Sentence, Span
from db.engine import Store
from pages import shell
from pages.components.chosen_row import chosen_row
from pages.components.html_report import HtmlReport, report_download
from pages.components.marked_text import as_text, marked_sentence, type_chip
from pages.components.review_keys import review_keys
from pages.components.under_way import watched_job, worker_line
from pages.parts.model.recipe_form import option_inputs
from workbench.accounts.actors import Actor
from workbench.campaigns.campaigns import CampaignView
from workbench.http.cookies import form_token
from workbench.http.saves import review_address
from workbench.jobs import queue
from workbench.jobs.queue import JobView
from workbench.labelling import label_review, reviewing
from workbench.labelling.label_review import FindingView, QueueView

_IN_REPORT = 200  # of each queue
_FIRST = ("judge", "share", "alike")
_MORE = ("encoder", "folds", "repeats", "epochs", "learning_rate")
_STATES = {"kept": "kept", "changed": "changed", "reopened": "reopened", "left_out": "left out"}
_SIDE = "display:grid;grid-template-columns:5.5em 1fr;gap:.2em .8em;margin:.4em 0;line-height:1.9"


def label_review_view(actor: Actor, campaign: CampaignView) -> None:
    """Draw what is under way, the queues, and the first doubt of the chosen one."""
    if not campaign.gold:
        st.info("There is no gold yet. Adjudicate some sentences first.")
        return
    with st.container():  # always there: what comes and goes above the open doubt would mount it anew
        _under_way(actor, campaign)
    views = label_review.queues(shell.store(), actor, campaign.id)
    looked = any(view.open or view.decided for view in views)
    if looked:
        _work_off(actor, campaign, views)
    _start(actor, campaign, first=not looked)
    done = label_review.decided(shell.store(), actor, campaign.id)
    _decided(actor, campaign, done)
    _left_out(actor, campaign, [finding for finding in done if finding.state == "left_out"])
    if looked or done:
        make = partial(_report, shell.store(), actor, campaign, views, done)
        report_download(make, name=f"second-look-{campaign.id}")


def _report(
    store: Store, actor: Actor, campaign: CampaignView, found: Sequence[QueueView], done: Sequence[FindingView]
) -> HtmlReport:
    """Make the report: what each check doubts, its most doubtful places, and what was decided."""
    report, domain = HtmlReport("Label review", [campaign.name]), campaign.domain
    for each in found:
        report.heading(each.title)
        report.text(f"{each.line} {each.open} open, {each.decided} decided.", caption=True)
        for finding in label_review.findings(store, actor, campaign.id, each.id, limit=_IN_REPORT):
            report.html(_finding(finding, domain))
            report.text(finding.why, caption=True)
    if done:
        report.heading("Decided")
        report.table(_decided_table(done, domain))
    return report


def _work_off(actor: Actor, campaign: CampaignView, views: Sequence[QueueView]) -> None:
    names = {view.id: view for view in views}
    first = next((view.id for view in views if view.open), views[0].id)
    chosen = st.segmented_control(
        "Queue",
        list(names),
        default=first,
        format_func=lambda id: f"{names[id].title} · {names[id].open}",
        label_visibility="collapsed",
        key=f"second-look-queue-{campaign.id}",
        required=True,
    )
    st.caption(as_text(names[chosen].line))
    shown: dict[str, Any] = to_json(reviewing.batch(shell.store(), actor, campaign.id, chosen))
    payload = shown | {
        "user": actor.id,
        "campaign": campaign.id,
        "queue": chosen,
        "url": review_address(campaign.id, chosen),
        "token": form_token(shell.session_token()),
    }
    review_keys(payload=payload, key=f"review-{campaign.id}")


def _finding(finding: FindingView, domain: Domain) -> str:
    """Return a doubt as HTML: the sentence with its place underlined, what gold says there, what is proposed."""
    doubted = [Link(finding.start, finding.end, "in doubt")] if finding.kind != "leak" else []
    marked = marked_sentence(finding.sentence, finding.spans, domain, {}, links=doubted)
    if finding.kind == "leak":
        return marked
    given = f"{_side(finding.sentence, finding.there, domain)}{_given(finding.present_probability)}"
    sides = [("Gold", given)]
    if finding.can_change:
        proposed = f"{_side(finding.sentence, finding.proposed, domain)}{_given(finding.proposed_probability)}"
        sides.append(("Proposed", proposed))
    rows = "".join(f'<span style="opacity:.75">{name}</span><span dir="auto">{side}</span>' for name, side in sides)
    return f'{marked}<div style="{_SIDE}">{rows}</div>'


def _given(probability: float | None) -> str:
    """Return what the checking models give a side, as HTML; nothing if none was asked."""
    return "" if probability is None else f' <span style="opacity:.75">{100 * probability:.0f} %</span>'


def _side(sentence: Sentence, spans: Sequence[Span], domain: Domain) -> str:
    """Return spans as HTML: the words and the type in its colour."""
    types = {kind.name: kind for kind in domain.types}
    parts = [
        f"{escape(sentence.surface(span.start, span.end))} "
        + (type_chip(types[span.type]) if span.type in types else escape(span.type))
        for span in spans
    ]
    return " · ".join(parts) or "no entity"


def _newest(actor: Actor, campaign: CampaignView) -> JobView | None:
    return queue.newest_job(shell.store(), actor, "second_look", campaign.id)


def _under_way(actor: Actor, campaign: CampaignView) -> None:
    job = _newest(actor, campaign)
    if job is not None and job.is_under_way:
        worker_line()
        watched_job(
            actor,
            partial(_newest, actor, campaign),
            cancel="Cancel this review",
            key=f"cancel-look-{job.id}",
            help="The checks that are done keep what they found.",
        )
    elif job is not None and job.state == "failed":
        st.error(as_text(f"The last label review failed: {job.error}"))


def _start(actor: Actor, campaign: CampaignView, *, first: bool) -> None:
    job = _newest(actor, campaign)
    busy = job is not None and job.is_under_way
    with st.expander("Review the gold" if first else "Review again", expanded=first):
        if job is not None and job.state == "done" and job.finished_at:
            st.caption(as_text(f"Last review {job.finished_at:%d %b, %H:%M} UTC. {job.message}"))
        key = f"second-look-{campaign.id}"
        values = option_inputs(LabelReviewOptions, key, only=_FIRST)
        with st.popover("More settings", type="tertiary"):
            values |= option_inputs(LabelReviewOptions, key, only=_MORE, given=values)
        if st.button(
            f"Review {campaign.gold} gold sentences",
            disabled=busy,
            type="primary" if first else "secondary",
            key=f"second-look-start-{campaign.id}",
        ):
            label_review.look_again(shell.store(), actor, campaign.id, LabelReviewOptions(**values))
            st.rerun()


def _decided(actor: Actor, campaign: CampaignView, done: Sequence[FindingView]) -> None:
    """List the decisions, anybody's, with a button to revert the chosen one."""
    if not done:
        return
    with st.expander(f"Decided · {len(done)}"):
        ids = [finding.id for finding in done]
        chosen = chosen_row(
            _decided_table(done, campaign.domain),
            ids,
            key=f"second-look-decided-{campaign.id}",
            height="content" if len(done) < 10 else 360,
            column_config={"when": st.column_config.DatetimeColumn(format="D MMM, HH:mm")},
        )
        with st.container(horizontal=True, vertical_alignment="center"):
            wanted = st.button("Revert", disabled=chosen is None, key=f"second-look-revert-{campaign.id}")
            st.caption(
                "Choose a row to revert its decision: the gold is as it was before, and the doubt is open again."
                if chosen is None
                else as_text(_past(done[ids.index(chosen)]))
            )
    if wanted and chosen is not None:
        label_review.revert(shell.store(), actor, chosen)
        shell.note("The decision is reverted; its doubt is open in its queue.")
        st.rerun()


def _past(finding: FindingView) -> str:
    """Return a finding's sentence and all that was decided about it, in one line."""
    steps = [
        f"{_STATES.get(entry['state'], entry['state'])} by {entry['by']} on {entry['at'][:16].replace('T', ' ')} UTC"
        for entry in finding.history
    ]
    return f"{finding.sentence.text} ({finding.split}) — {', '.join(steps)}"


def _decided_table(done: Sequence[FindingView], domain: Domain) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "when": finding.decided_at,
                "who": finding.decided_by,
                "decided": _STATES[finding.state],
                "split": finding.split,
                "gold was": _words(finding.sentence, finding.there, domain),
                "proposed": _words(finding.sentence, finding.proposed, domain),
                "why": finding.why,
            }
            for finding in done
        ]
    )


def _left_out(actor: Actor, campaign: CampaignView, out: Sequence[FindingView]) -> None:
    """List what is left out, with a button to include one again."""
    if not out:
        return
    with st.expander(f"Left out · {len(out)}"):
        chosen = chosen_row(
            pd.DataFrame(
                [
                    {
                        "when": finding.decided_at,
                        "who": finding.decided_by,
                        "split": finding.leaves,
                        "sentence": finding.leaving.text,
                        "why": finding.why,
                    }
                    for finding in out
                ]
            ),
            ids := [finding.id for finding in out],
            key=f"second-look-left-out-{campaign.id}",
            height="content" if len(out) < 10 else 360,
            column_config={"when": st.column_config.DatetimeColumn(format="D MMM, HH:mm")},
        )
        with st.container(horizontal=True, vertical_alignment="center"):
            again = st.button("Include again", disabled=chosen is None, key=f"second-look-again-{campaign.id}")
            st.caption(
                "Choose a row to include its sentence again: its doubt reopens, and the next snapshot has it."
                if chosen is None
                else as_text(out[ids.index(chosen)].leaving.text)
            )
    if again and chosen is not None:
        label_review.revert(shell.store(), actor, chosen)
        shell.note("The sentence is included again; its doubt is open in its queue.")
        st.rerun()


def _words(sentence: Sentence, spans: Sequence[Span], domain: Domain) -> str:
    titles = domain.titles
    words = (f"{sentence.surface(span.start, span.end)} ({titles.get(span.type, span.type)})" for span in spans)
    return " · ".join(words) or "no entity"
