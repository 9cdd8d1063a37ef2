"""Annotate: mark every entity of a sentence, helped by suggestions and links."""

from __future__ import annotations

from pages import shell
from pages.parts.work.editing import labelling_screen
from workbench.accounts.roles import LABELLERS

actor = shell.signed_in(*LABELLERS)
campaign = shell.page(
    actor,
    "Annotate",
    "Mark every entity in the sentence and give it the most specific type; Enter sends it and shows the next.",
    help="""
**The first sentence.** Dashed boxes are suggestions: **Space** accepts the one in focus and goes on to the next,
a **type's key** gives it another type, **Backspace** removes it. For a new entity move with **← →**, extend with
**Shift + ← →** (or drag with the mouse), then press the key of the type. **Enter** sends the sentence.

**Faster.** `;` puts a letter on every token: type the first, the last, then the type's key. **Tab** jumps from
suggestion to suggestion. **Shift + Space** accepts all. `/` filters the types by name.

**When nothing is there**, press `0` (no entities). `,` writes a comment for the others, `.` skips with a reason.
**Ctrl + Z** takes back, **Ctrl + Y** does it again, **Shift + Enter** brings the last sentence back. `?` lists keys.

A suggestion names who makes it, and how sure: **link** (the page behind the words), **page** (the same page named it
before), **dbpedia** (a name found in the text), **model**. *Gazetteer* says why. Underlined words carry a link to
Wikipedia: often an entity, not always. What you do is saved as you go; the word at the top right says whether it has
arrived.
""",
)
if campaign:
    labelling_screen(
        actor,
        campaign,
        stage="annotate",
        empty="Nothing is left to annotate for you here. Sentences that colleagues have marked may wait under Check.",
    )
