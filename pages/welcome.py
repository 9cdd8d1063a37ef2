"""Start: where the person's work is, one line each."""

from __future__ import annotations

import streamlit as st

from pages import shell
from pages.components.marked_text import as_text
from workbench.campaigns.campaigns import CampaignView

_LINES = {
    "annotator": (
        ("annotate", "Annotate", "Mark the entities of new sentences."),
        ("check", "Check", "Look over what a colleague marked; flag mistakes and add what is missing."),
        ("my_work", "My work", "See what became of the sentences you sent, and answer questions."),
    ),
    "expert": (
        ("adjudicate", "Adjudicate", "Settle what annotators left open; only this makes gold."),
        ("check", "Check", "Look over what a colleague marked."),
        ("annotate", "Annotate", "Mark the entities of new sentences."),
        ("campaign", "Overview", "Progress, agreement and effort of the campaign."),
        ("adaptation", "Adaptation", "See the runs, their learning curve and what the model confuses."),
    ),
    "researcher": (
        ("data", "Sentences", "Bring sentences in, take gold and other layers out."),
        ("adaptation", "Adaptation", "Freeze gold, retrain, follow the curve."),
        ("campaign", "Overview", "Progress, agreement and effort of the campaign."),
        ("domains", "Domains", "Entity types, their parents, classes and guidelines."),
    ),
    "admin": (
        ("people", "People", "Accounts, roles and passwords."),
        ("campaigns", "Campaigns", "New campaigns, their members and rules."),
        ("campaign", "Overview", "Progress, agreement and effort of the campaign."),
        ("data", "Sentences", "Bring sentences in, take gold and other layers out."),
        ("adaptation", "Adaptation", "Freeze gold, retrain, follow the curve."),
        ("domains", "Domains", "Entity types, their parents, classes and guidelines."),
    ),
}
_HELP = """
A sentence goes through three hands: annotator 1 **annotates**, annotator 2 **checks**, the expert **adjudicates**.
What the expert settled is **gold**, and only gold trains a model.

The campaign is chosen in the sidebar; it stays chosen while you change pages.
"""


def _waiting(campaign: CampaignView | None, file: str) -> str:
    """Return how many sentences of the campaign wait at this stage; empty for other screens."""
    stages = campaign.stages if campaign is not None else ()
    counts = next((stage for stage in stages if stage.stage == file), None)
    if counts is None:
        return ""
    return f"**{counts.open} waiting**, {counts.leased} in progress, {counts.done} done."


actor = shell.signed_in()
campaign = shell.page(actor, f"Good to see you, {as_text(actor.display_name)}", "Where your work is.", help=_HELP)
for file, title, line in _LINES.get(actor.role, ()):
    link, words = st.columns([1, 5], vertical_alignment="center", gap="small")
    link.page_link(f"{file}.py", label=f"**{title}**")
    words.markdown(f"{line} {_waiting(campaign, file)}")
