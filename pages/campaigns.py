"""Campaigns: new ones, their members and rules, and what becomes of them."""

from __future__ import annotations

import streamlit as st

from pages import shell
from pages.parts.campaign import forms
from workbench.campaigns import campaigns
from workbench.campaigns.campaigns import CampaignView

_HELP = """
A **campaign** is a set of sentences of one domain, with the people who work on them and the rules they work by.

**Blind share.** So many of the sentences go to annotator 2 without annotator 1's work: there real agreement is
measured.

**Control share.** So many get no suggestions, to see what suggestions do to people's work and time.

Both are drawn by the seed and the sentence, so they can be drawn again. A changed share holds for the sentences that
nobody has begun.

**Lease.** How long a sentence stays with the person it was handed to, without a sign of life.

**Endpoint.** Where pre-annotation looks names up; without one, in the sample that comes with the workbench. An endpoint
that is down never keeps anybody from annotating.

Annotators and experts see the campaigns they are members of. An **archived** campaign takes no more work; nothing in it
is lost, and only such a one can be deleted.
"""


def _table(known: tuple[CampaignView, ...]) -> None:
    st.dataframe(
        [
            {
                "Campaign": view.name,
                "State": "archived" if view.archived else "open",
                "Domain": view.domain_name,
                "Sentences": view.sentences,
                "Gold": view.gold,
                "Dev": view.splits["dev"],
                "Test": view.splits["test"],
                "Members": len(view.members),
                "Blind": f"{view.blind_share:.0%}",
                "Control": f"{view.control_share:.0%}",
                "Made": f"{view.created_at:%Y-%m-%d}",
            }
            for view in known
        ],
        hide_index=True,
    )


actor = shell.signed_in("admin")
shell.header("Campaigns", "Which sets of sentences are worked on, by whom, under which rules.", help=_HELP)
with shell.shown_errors():
    known = campaigns.list_campaigns(shell.store(), actor, archived=True)
    if known:
        _table(known)
    else:
        st.info("No campaign yet. Make the first one below, then bring sentences in under Sentences.")
    views = ["Change", "New", "Import a zip"] if known else ["New", "Import a zip"]
    view = st.segmented_control(
        "View", views, default=views[0], required=True, key="campaigns:view", label_visibility="collapsed"
    )
    if view == "Change":
        forms.change_view(actor, known)
    elif view == "New":
        forms.new_view(actor)
    else:
        forms.zip_view(actor)
