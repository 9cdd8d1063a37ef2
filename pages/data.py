"""Sentences: find and open them, propose types in all hits, import more, export layers, keep data sets."""

from __future__ import annotations

import streamlit as st

from pages import shell
from pages.parts.campaign import browse, bulk, data_sets, exchange
from workbench.accounts.roles import EVERYONE, KEEPERS, OVERSEERS

_SETS = "Data sets"
_VIEWS = {
    "Browse": browse.browse_view,
    "Proposals": bulk.proposals_view,
    "Import": exchange.import_view,
    "Export": exchange.export_view,
}
_VIEWS_OF_EXPERTS = ("Browse", "Proposals")
_HELP = """
**Browse.** Find sentences by text, by regular expression (Python's, where case does not matter unless you write
`(?-i:…)`), and with *Filters* by type, layer, source of suggestions, stage, and where the annotators differ. The
address keeps the search: share it, or come back with the browser's Back. **Open** leads to the editor of the layer you
may edit: your own work until the next stage begins, for an expert gold and what waits for a decision.
Others' unfinished work is neither shown nor found, except by researchers and admins.

**Proposals.** An expert or a researcher can propose a type for what was searched in all hits: look at the preview
first. It becomes suggestions, where nobody has begun; here they can be withdrawn.

**Import.** All formats of the list *Format*, such as plain text, CoNLL, JSON lines, brat, INCEpTION, Label Studio and
spaCy; *What such files look like* shows each. A file with a fault is refused as a whole, with file, line and reason,
unless you ask to skip bad sentences. Sentences that the campaign already has are left out. *Annotation in the files*
says what it becomes: suggestions (the default), annotator 1's work, gold, or nothing.

**Split.** *Pool* is what people annotate and models train on; *dev* chooses between models; *test* scores them.

**Export.** Each layer as a file, or the whole campaign as a zip that an admin can import again under Campaigns.

**Data sets** stand beside campaigns: source corpora to transfer from, and reference sets to train and score on.
"""

actor = shell.signed_in(*EVERYONE)
keeps = actor.role in KEEPERS
line = "Find the campaign's sentences, import more, export its layers." if keeps else "Find sentences, and open them."
shell.header("Sentences", line, help=_HELP)
campaign = shell.current_campaign(actor)
chosen = "Browse"
if actor.role in OVERSEERS:
    views = [*_VIEWS, _SETS] if keeps else _VIEWS_OF_EXPERTS
    chosen = st.segmented_control(
        "View", views, default="Browse", key="data:view", required=True, label_visibility="collapsed"
    )
with shell.shown_errors():
    if chosen == _SETS and keeps:
        data_sets.datasets_view(actor)
    elif campaign is not None:
        _VIEWS[chosen](actor, campaign)
    else:
        who = "Make one" if actor.role in KEEPERS else "A researcher or an admin makes one"
        st.info(f"There is no campaign for you yet. {who} under New campaign.")
