"""Queue: which sentences come next, by whose choice, and what each turn of the loop brought."""

from __future__ import annotations

import streamlit as st

from pages import shell
from pages.parts.campaign import queue
from pages.parts.model import savings
from workbench.accounts.roles import OVERSEERS

_HELP = """
A **turn** is one round of the loop: when enough gold is new, the gold is frozen and a model trained on it; the model
reads every sentence that nobody has begun, a **strategy** puts them into a new order, and the model suggests in those
that come next. What somebody holds or has begun stays where it is. The worker does all of it; the queue can be worked
on meanwhile.

A strategy is one **acquisition function** or several, joined by `+`; one that scores may have a weight before it:
`2*token_entropy + rare_types + bert_km`. Scores are turned into places and added; a function that chooses sets
(`k_centre`, `bert_km`, `badge`) has no weight and chooses among the best of the others. Before there is a model
clusters of sentences decide.

A share of the queue is filled by **chance**: those sentences are a fair sample of the pool, whatever the strategy
likes, and keep estimates on them honest.

**Saved** says what all of it is worth here. Strategies are played on this campaign's own gold, which answers for the
annotators. Selection, its share of chance, suggestions and training are those of the live queue, but models are
trained at four sizes only, up to four fifths of the gold; random sentences are played beside them.
*Studies → Strategies* does the same on corpora.
"""

VIEWS = {
    "Next": queue.next_view,
    "Turns": queue.rounds_view,
    "Rules": queue.rules_view,
    "Saved": savings.saved_view,
}

actor = shell.signed_in(*OVERSEERS)
campaign = shell.page(actor, "Queue", "Which sentence comes next, and who decides?", help=_HELP)
if campaign:
    with shell.shown_errors():
        queue.state_line(actor, campaign)
    chosen = st.segmented_control("View", list(VIEWS), default="Next", key="queue:view", label_visibility="collapsed")
    with shell.shown_errors():
        VIEWS[chosen or "Next"](actor, campaign)
