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
Each disagreement has a kind and a colour: *boundary*, *type*, *missing* (only the second marked it), *extra* (only the
first did), *flagged* (doubted by the second). **Tab** goes to the next undecided one. `1` takes the first annotator's
span, `2` the second's, `0` says there is no entity; for another answer select tokens and press a **type's key**.
Agreed spans are decided already; if one is wrong, change it the same way. **Enter** sends once everything is decided.
`*` marks the sentence as an example: everybody finds it beside the guidelines (`:`), as they do what you settle with a
comment or ask about.

Unsure? `!` asks both annotators, or (`1`, `2`) one of them, and goes to the next sentence: this one comes back when
they have answered. Until then no other expert gets it. Every expert sees the campaign's open questions below the
sentence, and can close them. The line below the sentence says how each annotator's span came about.
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
