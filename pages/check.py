"""Check: look for mistakes in what the first annotator marked."""

from __future__ import annotations

from pages import shell
from pages.parts.work.editing import labelling_screen
from workbench.accounts.roles import LABELLERS

actor = shell.signed_in(*LABELLERS)
campaign = shell.page(
    actor,
    "Check",
    "Look for mistakes in a colleague's spans: flag what may be wrong and say what you would mark instead.",
    help="""
The spans you see are the first annotator's. Ringed ones are new in this campaign, rare or doubted, or drawn at random:
look at each, and confirm it with **Space**, which goes to the next. **Tab** goes through all. If one may be wrong,
give the better answer (a **type's key** for another type, new boundaries, or **Backspace** for no entity): that flags
it automatically. If you only doubt it, press `!` and write why. Add what is missing as when annotating. **Enter** sends
the check once every ringed span is confirmed, changed or flagged. The line below the sentence says why it was marked.

Some sentences come without spans (marked *blind*): label them from scratch. They measure how well two people agree.
You never check your own sentences. `:` opens the guidelines, `?` lists all keys.
""",
)
if campaign:
    labelling_screen(
        actor,
        campaign,
        stage="check",
        empty="Nothing is waiting for your check. Sentences arrive as colleagues send them.",
    )
