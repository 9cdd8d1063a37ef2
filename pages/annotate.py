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
**The first sentence.** Dashed boxes are suggestions: **Space** accepts the one in focus and moves to the next,
a **type's key** gives it another type, **Backspace** removes it. For a new entity move with **← →**, extend with
**Shift + ← →** (or drag with the mouse), then press the key of the type. **Enter** sends the sentence.

**Faster.** `;` puts a letter on every token: type that of the first token, of the last, then the type's key. **Tab**
jumps from suggestion to suggestion. **Shift + Space** accepts all that are likely enough. `/` filters the types by
name. **Ctrl + Enter** on a span marks the same words throughout the sentence and proposes them in the sentences nobody
has annotated yet; again, or **Ctrl + Z**, takes that back.

**If the sentence has no entities**, press `0`. `,` writes a comment for the others, `.` skips with a reason.
**Ctrl + Z** undoes, **Ctrl + Y** redoes, **Shift + Enter** brings the last sentence back. `?` lists all keys.

**Beside the sentence**, if it came from a document, stand the sentences before and after; `+` shows more of them, `-`
fewer. `:` opens the guidelines with examples, and what experts decided on hard cases.

A suggestion shows its source and its confidence: **identical** (the same words, marked in another sentence), **link**
(the words are a link), **page** (linked earlier on the same
page, or its subject), **dbpedia** (a name found in the text), **model**. The page *Gazetteer* explains why it was made.
Underlined words link to Wikipedia: often an entity, not always. `=` makes the link under the cursor a span of the type
suggested for it; elsewhere it goes to the next link. Below the sentence the link's page and its entries in DBpedia and
Wikidata open in a new tab. Your work is saved as you go; the status at the top
right shows whether it has reached the server.
""",
)
if campaign:
    labelling_screen(
        actor,
        campaign,
        stage="annotate",
        empty="You have nothing left to annotate here. Sentences that colleagues have annotated may wait under Check.",
    )
