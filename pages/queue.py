"""Queue: which sentences come next, what chose them, and what each round brought."""

from __future__ import annotations

import streamlit as st

from pages import shell
from pages.parts.campaign import queue
from pages.parts.model import savings
from workbench.accounts.roles import OVERSEERS

_HELP = """
A **round** goes like this: once there is enough new gold, it is frozen and a model is trained on it; the model scores
the sentences that nobody has begun, a **strategy** reorders them, and the model suggests in the next ones at once and
in the others afterwards, if its dev F1 and calibration allow it (Campaigns, Rules). Sentences that somebody holds or
has begun keep their place. The worker does all this; people can keep annotating meanwhile.

A strategy is one **acquisition function** or several, joined by `+`; a scoring function may have a weight before it:
`2*token_entropy + rare_types + bert_km`. Scores are turned into ranks and added up; a function that chooses sets
(`k_centre`, `bert_km`, `badge`) has no weight and chooses among the best of the others. Until there is a model,
clusters of sentences decide.

A part of the queue is filled by **chance**: those sentences are a random sample of the pool, whatever the strategy
prefers, so estimates on them are unbiased.

**Savings** shows what this gains here. Strategies are simulated on this campaign's own gold, which stands in for the
annotators. Selection, the part left to chance, suggestions and training are those of the live queue, but models are
trained at only four sizes, up to four fifths of the gold; random selection is simulated for comparison.
*Studies → Strategies* does the same on corpora.
"""

VIEWS = {
    "Next": queue.next_view,
    "Rounds": queue.rounds_view,
    "Rules": queue.rules_view,
    "Savings": savings.saved_view,
}

actor = shell.signed_in(*OVERSEERS)
campaign = shell.page(actor, "Queue", "Which sentence comes next, and who decides?", help=_HELP)
if campaign:
    with shell.shown_errors():
        queue.state_line(actor, campaign)
    chosen = st.segmented_control("View", list(VIEWS), default="Next", key="queue:view", label_visibility="collapsed")
    with shell.shown_errors():
        VIEWS[chosen or "Next"](actor, campaign)
