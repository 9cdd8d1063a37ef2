"""Campaign overview: how far along it is, how good the work is, and what it costs."""

from __future__ import annotations

import streamlit as st

from pages import shell
from pages.parts.campaign import questions
from workbench.accounts.roles import OVERSEERS
from workbench.reports.overview import overview

actor = shell.signed_in(*OVERSEERS)
campaign = shell.page(
    actor,
    "Overview",
    "How far along is the campaign, do the annotators agree, and do the suggestions help?",
    help="""
**Progress** counts the sentences at each stage and lists those that people set aside. **Comparison with
the paper** shows the four figures that the CrossNER paper reports for its own annotation, defined and computed for this
campaign.
**Agreement** is measured where the second annotator did not see the first one's spans. **Suggestions** shows what
became of them, by source and entity type. **Effort** compares sentences with suggestions to control sentences
without, in active seconds (pauses excluded) and keystrokes.
""",
)
if campaign:
    with shell.shown_errors():
        state = overview(shell.store(), actor, campaign.id)
        views = list(questions.VIEWS)
        chosen = st.segmented_control(
            "View", views, default="Progress", key="campaign-view", required=True, label_visibility="collapsed"
        )
        questions.draw(chosen, actor, campaign, state)
