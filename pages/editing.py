"""The screen the three labelling pages share: outbox in, next sentences out, the span editor between."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import streamlit as st

from crossner_core.domains import Domain, parse_domain
from db.engine import Store
from pages import shell
from pages.components.span_editor import span_editor
from workbench import handout, outbox
from workbench.actors import Actor
from workbench.views import CampaignView

_REJECTION_SECONDS = 60.0
_PROGRESS_SECONDS = 10.0


Below = Callable[[Actor, CampaignView, Sequence[Mapping[str, Any]]], None]


def labelling_screen(
    actor: Actor, campaign: CampaignView, *, stage: str, empty: str, below: Below | None = None
) -> None:
    """Draw the editor for one stage; it reruns alone, as a fragment, on every message from the browser.

    `below` draws what belongs under the editor, given the items that were handed out.
    """
    _editor(actor, campaign, stage, empty, below)


# The timer makes the browser ask for a whole run after a reconnect; without it a restarted server would never hear of
# this fragment again and would ignore its messages.
@st.fragment(run_every=60)
def _editor(actor: Actor, campaign: CampaignView, stage: str, empty: str, below: Below | None) -> None:
    key = f"editor-{campaign.id}-{stage}"
    with shell.shown_errors():
        store, before = shell.store(), _stored_outbox(key)
        acks = _apply(store, actor, campaign, stage, key, before)
        payload = _payload(store, actor, campaign, stage, empty, key) | {"acks": acks, "rejections": _rejections(key)}
        after = span_editor(payload=payload, key=key)
        if after is not None and after != before:
            # After a server restart the outbox arrives with the mount, not before it.
            _apply(store, actor, campaign, stage, key, after)
            st.rerun()
        if below is not None:
            below(actor, campaign, payload["items"])


def _stored_outbox(key: str) -> dict[str, Any] | None:
    state = st.session_state.get(key)
    return state.get("outbox") if state else None


def _apply(
    store: Store, actor: Actor, campaign: CampaignView, stage: str, key: str, message: dict[str, Any] | None
) -> dict[str, int]:
    """Apply the browser's events; return the acknowledgements, older tabs of this session included."""
    acks: dict[str, int] = dict(st.session_state.get(f"{key}:acks", {}))
    if message:
        applied = outbox.apply(store, actor, campaign.id, stage, message)
        acks.update(applied.acks)
        kept = [entry for entry in st.session_state.get(f"{key}:rejections", []) if entry[1] not in applied.rejections]
        kept += [(time.monotonic(), rejection) for rejection in applied.rejections]
        st.session_state[f"{key}:rejections"] = kept
        st.session_state[f"{key}:acks"] = acks
        if applied.moved:
            st.session_state.pop(f"{key}:progress", None)
    return acks


def _rejections(key: str) -> list[dict[str, Any]]:
    """Rejections are repeated for a minute, in case the browser missed one; it ignores those it knows."""
    now = time.monotonic()
    kept = [entry for entry in st.session_state.get(f"{key}:rejections", []) if now - entry[0] < _REJECTION_SECONDS]
    return [rejection for _, rejection in kept]


def _payload(store: Store, actor: Actor, campaign: CampaignView, stage: str, empty: str, key: str) -> dict[str, Any]:
    return {
        "user": actor.id,
        "campaign": campaign.id,
        "mode": stage,
        "types": _types_of(campaign.domain_toml, campaign.name),
        "items": list(handout.items(store, actor, campaign.id, stage)),
        "progress": _progress(store, actor, campaign.id, stage, key),
        "empty": empty,
    }


def _progress(store: Store, actor: Actor, campaign_id: int, stage: str, key: str) -> dict[str, int]:
    """Return how far the person is; an autosave moves nothing of theirs, so it is not counted anew for each."""
    counted_at, progress = st.session_state.get(f"{key}:progress", (0.0, None))
    if progress is None or time.monotonic() - counted_at > _PROGRESS_SECONDS:
        progress = handout.progress(store, actor, campaign_id, stage).to_json()
        st.session_state[f"{key}:progress"] = (time.monotonic(), progress)
    return dict(progress)


@lru_cache(maxsize=64)
def _types_of(domain_toml: str, origin: str) -> list[dict[str, Any]]:
    """Parse a campaign's domain once, not on every autosave; nobody changes the list."""
    return editor_types(parse_domain(domain_toml, origin=origin))


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
