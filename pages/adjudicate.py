"""Adjudicate: settle every disagreement; only this makes gold."""

from __future__ import annotations

from pages import shell
from pages.parts.work import conferring
from pages.parts.work.editing import labelling_screen

actor = shell.signed_in("expert")
campaign = shell.page(
    actor,
    "Adjudicate",
    "Go through both annotators' spans, decide every disagreement, and send the sentence: that makes it gold.",
    help="""
Each disagreement has its kind and colour: *boundary*, *type*, *missing* (only the second marked it), *extra* (only the
first did), *flagged* (doubted by the second). **Tab** goes to the next undecided one. `1` takes the first annotator's
span, `2` the second's, `0` says there is no entity; for another answer select tokens and press a **type's key**.
Agreed spans are decided already; change them the same way if they are wrong. **Enter** sends once all is decided.

Unsure? Ask both annotators below the sentence. You can go on; the sentence comes back when they have answered. Until
then no other expert is given it; below the sentence each sees the campaign's open questions and can close one.
""",
)
if campaign:
    labelling_screen(
        actor,
        campaign,
        stage="adjudicate",
        empty="Nothing is waiting for a decision. Sentences arrive once they are checked.",
        below=conferring.expert_side,
    )
