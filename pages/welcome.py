"""Start: a person's desk."""

from __future__ import annotations

from pages import shell
from pages.components.marked_text import as_text
from pages.parts.work.desk import draw_house, draw_labelling, draw_models
from workbench.reports.desk import desk, house

_HELP = """
A sentence passes three people: annotator 1 **annotates**, annotator 2 **checks**, the expert **adjudicates**.
What the expert settled is **gold**, and only gold trains a model.

The campaign is chosen in the sidebar; it stays chosen on your next visit, in any browser. **Left** counts the sentences
you can still be given at a stage, and is the number that its page shows.
"""

actor = shell.signed_in()
campaign = shell.page(actor, f"Good to see you, {as_text(actor.display_name)}", "What to do next.", help=_HELP)
with shell.shown_errors():
    if campaign:
        mine = desk(shell.store(), actor, campaign.id)
        if mine.labelling is not None:
            draw_labelling(mine.labelling)
        if mine.models is not None:
            draw_models(mine.models)
    if actor.role == "admin":
        draw_house(house(shell.store(), actor))
