"""The screen the three labelling pages share: outbox in, next sentences out, the span editor between."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from crossner_core.domains import Domain
from crossner_core.errors import StorageError
from crossner_core.records import to_json
from db.engine import Store
from pages import shell
from pages.components.marked_text import as_text
from pages.components.span_editor import span_editor
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.campaigns.campaigns import CampaignView
from workbench.labelling import handout, outbox

_REJECTION_SECONDS = 60.0
_PROGRESS_SECONDS = 10.0


Below = Callable[[Actor, CampaignView, Sequence[Mapping[str, Any]]], None]


def labelling_screen(
    actor: Actor, campaign: CampaignView, *, stage: str, empty: str, below: Below | None = None
) -> None:
    """Draw the editor for one stage; it reruns alone, as a fragment, on every message from the browser.

    `below` draws what belongs under the editor, given the items that were handed out.
    """
    # Opening the page shows that a person is there, and so does every message; the fragment's timer does not.
    st.session_state[f"{_key(campaign, stage)}:sign"] = (None, time.monotonic())
    _editor(actor, campaign, stage, empty, below)


def _key(campaign: CampaignView, stage: str) -> str:
    return f"editor-{campaign.id}-{stage}"


# The timer makes the browser ask for a whole run after a reconnect; without it a restarted server would never learn of
# this fragment again and would ignore its messages.
@st.fragment(run_every=60)
def _editor(actor: Actor, campaign: CampaignView, stage: str, empty: str, below: Below | None) -> None:
    key = _key(campaign, stage)
    trouble = st.container()  # always there: a message that came and went above the editor would remount it
    with shell.shown_errors():
        store, before = shell.store(), _stored_outbox(key)
        _apply(store, actor, campaign, stage, key, before, trouble)
        payload = _payload(store, actor, campaign, stage, empty, key, trouble)
        if payload is None:
            return
        after = span_editor(payload=payload, key=key)
        if after is not None and after != before and _apply(store, actor, campaign, stage, key, after, trouble):
            # After a server restart the outbox arrives with the mount, not before it.
            st.rerun()
        if below is not None:
            below(actor, campaign, payload["items"])


def _quiet(key: str) -> dt.timedelta:
    """Return how long this tab has shown no sign of a person: no new message, and the page not opened.

    The timer's runs deliver the last message again. Messages are numbered (`sent`), separately for each tab.
    """
    message = _stored_outbox(key) or {}
    number = (message.get("client"), message.get("sent"))
    known, moment = st.session_state[f"{key}:sign"]
    if number != known:
        moment = time.monotonic()
        st.session_state[f"{key}:sign"] = (number, moment)
    return dt.timedelta(seconds=time.monotonic() - moment)


def _stored_outbox(key: str) -> dict[str, Any] | None:
    state = st.session_state.get(key)
    return state.get("outbox") if state else None


@contextmanager
def _refusals_shown(trouble: DeltaGenerator) -> Iterator[None]:
    """Show that the store refuses, and continue: the browser keeps what is not acknowledged, and sends it again."""
    try:
        yield
    except StorageError as error:
        trouble.error(as_text(f"Not saved. Your changes wait in this browser and are sent again. {error}"))


def _apply(
    store: Store,
    actor: Actor,
    campaign: CampaignView,
    stage: str,
    key: str,
    message: dict[str, Any] | None,
    trouble: DeltaGenerator,
) -> bool:
    """Apply the browser's events and keep the answer for the payload; return whether there is one."""
    if outbox.is_of_another(actor, message):
        trouble.info(
            "Somebody else left unsaved changes in this browser. They are neither shown nor sent under your name; they "
            "are sent when that person signs in here again."
        )
        return False
    if not message:
        return False
    with _refusals_shown(trouble):
        applied = outbox.apply(store, actor, campaign.id, stage, message)
        # Acknowledgements of older tabs of this session stay.
        st.session_state[f"{key}:acks"] = {**st.session_state.get(f"{key}:acks", {}), **applied.acks}
        kept = [entry for entry in st.session_state.get(f"{key}:rejections", []) if entry[1] not in applied.rejections]
        kept += [(time.monotonic(), rejection) for rejection in applied.rejections]
        st.session_state[f"{key}:rejections"] = kept
        if applied.moved:
            st.session_state.pop(f"{key}:progress", None)
        return True
    return False


def _rejections(key: str) -> list[dict[str, Any]]:
    """Return the rejections of the last minute, repeated in case the browser missed one; it ignores those it knows."""
    now = time.monotonic()
    kept = [entry for entry in st.session_state.get(f"{key}:rejections", []) if now - entry[0] < _REJECTION_SECONDS]
    return [rejection for _, rejection in kept]


def _payload(
    store: Store, actor: Actor, campaign: CampaignView, stage: str, empty: str, key: str, trouble: DeltaGenerator
) -> dict[str, Any] | None:
    """Return what the editor shows; while the store refuses, what it last showed, None if there is nothing."""
    with _refusals_shown(trouble):
        st.session_state[f"{key}:shown"] = {
            "user": actor.id,
            "campaign": campaign.id,
            "mode": stage,
            "types": editor_types(campaigns.get_domain(store, actor, campaign.id)),
            "items": list(handout.items(store, actor, campaign.id, stage, quiet=_quiet(key))),
            "progress": _progress(store, actor, campaign.id, stage, key),
            "empty": empty,
        }
    shown: dict[str, Any] | None = st.session_state.get(f"{key}:shown")
    if shown is None:
        return None
    return shown | {"acks": dict(st.session_state.get(f"{key}:acks", {})), "rejections": _rejections(key)}


def _progress(store: Store, actor: Actor, campaign_id: int, stage: str, key: str) -> dict[str, int]:
    """Return the person's progress; an autosave does not change it, so it is not counted again for each."""
    counted_at, progress = st.session_state.get(f"{key}:progress", (0.0, None))
    if progress is None or time.monotonic() - counted_at > _PROGRESS_SECONDS:
        progress = to_json(handout.progress(store, actor, campaign_id, stage))
        st.session_state[f"{key}:progress"] = (time.monotonic(), progress)
    return dict(progress)


def editor_types(domain: Domain) -> list[dict[str, Any]]:
    """The domain's entity types as the editor's payload names them."""
    return [
        {
            "name": kind.name,
            "title": kind.title,
            "parent": kind.parent,
            "key": kind.key,
            "color": kind.color,
            "guideline": kind.guideline,
        }
        for kind in domain.types
    ]
