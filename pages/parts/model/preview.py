"""Ten sentences with what a model would suggest, which are shown before it suggests to annotators."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import streamlit as st

from crossner_core.domains import Domain
from db.engine import Store
from pages import shell
from pages.components.marked_text import as_text, marked_sentence
from workbench import out_of_process
from workbench.accounts.actors import Actor
from workbench.campaigns.campaigns import CampaignView
from workbench.jobs import queue
from workbench.suggestions import previewing
from workbench.suggestions.previewing import Preview, PreviewedSentence

_THREADS = ThreadPoolExecutor(2, thread_name_prefix="preview")
"""They wait for the process that loads the model, so that the page does not."""


def is_under_way(campaign: CampaignView, run_id: int, guidelines: Mapping[str, str] | None = None) -> bool:
    """Whether a preview was asked for and is not there yet."""
    made: Future[Preview] | None = st.session_state.get(_key(campaign, run_id, guidelines))
    return made is not None and not made.done()


def suggest_with(
    actor: Actor, campaign: CampaignView, run_id: int, guidelines: Mapping[str, str] | None = None
) -> None:
    """Draw the button by which a model suggests, after a preview; to be drawn again until that is there.

    The preview is of the changed `guidelines`, if there are any; only kept ones are suggested by.
    """
    key = _key(campaign, run_id, guidelines)
    made: Future[Preview] | None = st.session_state.get(key)
    if made is None:
        st.button(
            "Try on ten sentences" if guidelines else "Suggest with this model",
            key=f"score-{run_id}",
            help="First shows what it would suggest in ten open sentences; nobody else sees that.",
            on_click=_begin,
            args=(key, shell.store(), actor, run_id, campaign.id, guidelines),
        )
    elif not made.done():
        st.caption("The model reads ten open sentences; this takes some seconds.")
    else:
        with st.container(border=True), shell.shown_errors():
            _previewed(actor, campaign, run_id, made, key, tried=bool(guidelines))
        drop = partial(st.session_state.pop, key)
        st.button("Close the preview", key=f"close-{run_id}", type="tertiary", on_click=drop)


def _key(campaign: CampaignView, run_id: int, guidelines: Mapping[str, str] | None) -> str:
    """Return where a session keeps a preview: of other guidelines there is another one."""
    return f"preview-{run_id}-{campaign.id}-{campaign.domain.hash}-{sorted((guidelines or {}).items())}"


def _begin(
    key: str, store: Store, actor: Actor, run_id: int, campaign_id: int, guidelines: Mapping[str, str] | None
) -> None:
    st.session_state[key] = _THREADS.submit(
        out_of_process.apart, previewing.preview, store, actor, run_id, campaign_id, guidelines
    )


def _previewed(
    actor: Actor, campaign: CampaignView, run_id: int, made: Future[Preview], key: str, *, tried: bool
) -> None:
    preview = made.result()
    if not preview.open:
        st.info("No open sentence is left to suggest in: people have begun all of them.")
        return
    st.markdown(f"**What run {run_id} would suggest** in {len(preview.sentences)} of {preview.open} open sentences")
    least = round(100 * campaign.hint_below)
    st.caption(
        f"Beside each type: its probability. Below {least} % it is shown as a hint; other sources are not shown here."
    )
    if preview.waits:
        st.warning(as_text(preview.waits))
    if preview.lacks:
        st.caption(as_text(f"It cannot predict {', '.join(preview.lacks)}."))
    for each in preview.sentences:
        st.html(_marked(each, campaign.domain, campaign.hint_below))
    if tried:
        st.caption("Keep the guidelines before the model suggests by them.")
    elif st.button(f"Suggest in {preview.open} open sentences", key=f"suggest-{run_id}", type="primary"):
        queue.start_job(shell.store(), actor, "score_pool", campaign.id, run_id=run_id)
        del st.session_state[key]
        shell.note("The worker will pre-annotate the pool with this model.")
        st.rerun()


def _marked(each: PreviewedSentence, domain: Domain, hint_below: float) -> str:
    """Return a sentence as HTML, each suggestion with its probability in percent."""
    notes = {
        made.span: f"{'hint ' if made.score < hint_below else ''}{100 * made.score:.0f} %" for made in each.suggestions
    }
    return marked_sentence(each.sentence, notes, domain, notes)
