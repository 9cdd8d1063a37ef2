"""New campaign: five short steps on one page, and nothing is written before the last button."""

from __future__ import annotations

from pages import shell
from pages.parts.campaign import guided
from workbench.accounts.roles import KEEPERS

_HELP = """
A **campaign** is a set of sentences of one domain, with the people who work on them and the rules they work by.

Nothing is written until **Make the campaign**; then all of it is, or nothing: a campaign that stopped halfway would
hand out its sentences already. What is set here is kept while this tab is open. Files that take long to read are left
to the worker.

**Domain.** The entity types to mark: a domain that is here, or one made from a list of types. Change it later under
Domains; an admin then takes the change over under Campaigns, *Domain and archive*. Types that annotations use must
stay.

**Suggestions** come from links and from names in a gazetteer. What ten of the sentences would get is shown beforehand.
"""

actor = shell.signed_in(*KEEPERS)
shell.header("New campaign", "What is to be annotated, by whom, under which rules?", help=_HELP)
with shell.shown_errors():
    guided.draw(actor)
