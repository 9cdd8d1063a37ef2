"""Errors: what does a model, or a source of suggestions, get wrong?"""

from __future__ import annotations

from pages import shell
from pages.components.lazy_download import download_problem
from pages.parts.model import error_browser
from workbench.accounts.roles import OVERSEERS

_HELP = """
Each error is a gold span, a predicted one, or a pair of them that should be equal:

- **missed**: gold has it, nothing like it was predicted
- **spurious**: it was predicted, gold has nothing like it
- **boundary**: the right type, over other tokens
- **type**: the right tokens, with another type
- **boundary+type**: they overlap, but differ in both

Each span is in at most one error; spans are paired by equal boundaries first, then by type, then by overlap.

**Predictions of**: a trained model, on the dev or test sentences it was measured on, or a source of the campaign's
suggestions, on sentences that have gold by now. Where people accepted suggestions, gold is biased towards them.

Dev comes first: if you decide what to change by its errors, test is no longer a test set.
"""

actor = shell.signed_in(*OVERSEERS)
campaign = shell.page(actor, "Errors", "What does a model, or a source of suggestions, get wrong?", help=_HELP)
if campaign:
    with shell.shown_errors():
        error_browser.errors_view(actor, campaign)
    download_problem()
