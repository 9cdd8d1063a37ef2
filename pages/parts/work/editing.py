"""The screen the three labelling pages share: the span editor, which saves by itself, and what is drawn below it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from crossner_core.errors import StoreFailed
from crossner_core.records import to_json
from pages import shell
from pages.components.span_editor import span_editor
from pages.parts.work.opening import back_link
from workbench.accounts.actors import Actor
from workbench.campaigns.campaigns import CampaignView
from workbench.data.searching import source_kinds
from workbench.http.cookies import form_token
from workbench.http.saves import address
from workbench.labelling.screen import screen

log = logging.getLogger(__name__)

Below = Callable[[Actor, CampaignView, Sequence[Mapping[str, Any]]], None]


def labelling_screen(
    actor: Actor, campaign: CampaignView, *, stage: str, empty: str, below: Below | None = None
) -> None:
    """Draw the editor for one stage; `below` draws what belongs under it, given the items that were handed out.

    The editor saves, and gets what comes next, over HTTP: no script runs for that. With `below` the script runs again
    when another sentence is open.
    """
    back_link(actor)
    trouble = st.container()  # always there: a message that came and went above the editor would remount it
    with shell.shown_errors():
        shown = _shown(actor, campaign, stage, trouble)
        payload = shown | {
            "user": actor.id,
            "campaign": campaign.id,
            "mode": stage,
            "rules": {
                "open": campaign.open_at_submit,
                "floor": campaign.accept_from,
                "linking": campaign.linking,
                "sources": source_kinds(),
            },
            "empty": empty,
            "url": address(campaign.id, stage),
            "token": form_token(shell.session_token()),
            "follow": below is not None,
        }
        span_editor(payload=payload, key=f"editor-{campaign.id}-{stage}")
        if below is not None:
            _below(actor, campaign, shown.get("items", []), below)


def _shown(actor: Actor, campaign: CampaignView, stage: str, trouble: DeltaGenerator) -> dict[str, Any]:
    """Return what the editor shows; nothing while the store refuses, and the editor goes on with what it has."""
    try:
        return dict(to_json(screen(shell.store(), actor, campaign.id, stage)))
    except StoreFailed as error:
        log.error("The editor of campaign %s was not drawn: %s", campaign.id, error)
        trouble.error(f"Your changes wait in this browser and are sent again. {StoreFailed.TRY_LATER}")
        return {}


@st.fragment(run_every=60)
def _below(actor: Actor, campaign: CampaignView, items: Sequence[Mapping[str, Any]], below: Below) -> None:
    with shell.shown_errors():
        below(actor, campaign, items)
