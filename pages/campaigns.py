"""Campaigns: changing, importing, archiving and deleting them."""

from __future__ import annotations

import streamlit as st

from pages import shell
from pages.parts.campaign import forms
from workbench.accounts.roles import KEEPERS
from workbench.campaigns import campaigns
from workbench.campaigns.campaigns import CampaignView

_HELP = """
A **campaign** is a set of sentences of one domain, with the people who work on them and the rules they work by.

**Blind share.** The share of sentences that go to annotator 2 without annotator 1's spans: they measure real
agreement.

**Control share.** The share that get no suggestions, to see how suggestions change people's work and time.

Both are drawn by the seed and the sentence, so the draw can be repeated. A changed share applies to sentences that
nobody has begun.

**Lease.** How long a sentence stays reserved for an inactive person.

**Endpoint.** Where pre-annotation looks up names that the gazetteer does not have; the bundled sample is asked last.
An endpoint that is down never stops anybody from annotating.

A researcher makes campaigns under New campaign and changes their members; rules, domain and archive are an admin's.

Annotators and experts see the campaigns they are members of. An **archived** campaign takes no more work; nothing in it
is lost. Only an archived campaign can be deleted.
"""


def _table(known: tuple[CampaignView, ...]) -> None:
    st.dataframe(
        [
            {
                "Campaign": view.name,
                "State": "archived" if view.archived else "open",
                "Domain": view.domain.title,
                "Sentences": view.sentences,
                "Gold": view.gold,
                "Dev": view.splits["dev"],
                "Test": view.splits["test"],
                "Members": len(view.members),
                "Blind": f"{view.blind_share:.0%}",
                "Control": f"{view.control_share:.0%}",
                "Created": f"{view.created_at:%Y-%m-%d}",
            }
            for view in known
        ],
        hide_index=True,
    )


actor = shell.signed_in(*KEEPERS)
shell.header("Campaigns", "Which sets of sentences are worked on, by whom, under which rules.", help=_HELP)
with shell.shown_errors():
    known = campaigns.list_campaigns(shell.store(), actor, archived=True)
    if known:
        _table(known)
    else:
        st.info("No campaign yet.")
    if st.button("New campaign"):
        st.switch_page("new_campaign.py")
    views = [*(["Change"] if known else []), *(["Import a zip"] if actor.role == "admin" else [])]
    view = next(iter(views), "")
    if len(views) > 1:
        view = st.segmented_control(
            "View", views, default=views[0], required=True, key="campaigns:view", label_visibility="collapsed"
        )
    if view == "Change":
        forms.change_view(actor, known)
    elif view:
        forms.zip_view(actor)
