"""Sentences: browse them, import more, export gold and other layers, keep data sets."""

from __future__ import annotations

import streamlit as st

from pages import shell
from pages.parts.campaign import browse, data_sets, exchange
from workbench.accounts.roles import KEEPERS

_SETS = "Data sets"
_VIEWS = {
    "Browse": browse.browse_view,
    "Import": exchange.import_view,
    "Export": exchange.export_view,
}
_HELP = """
**Browse.** Where each sentence stands, and the spans of annotator 1, annotator 2, the expert and the machine.

**Import.** Three formats: *plain* text (one sentence per line, or paragraphs to be split), *conll* (one token per
line, with or without tags) and *jsonl* (one object per line with text, links, gold; anything else is kept as metadata;
the objects of Hugging Face, GLiNER, doccano, spaCy and Prodigy are read as well). A file with a fault is refused as a
whole, with file, line and reason, unless you ask to skip bad sentences. Sentences that the campaign already has are
left out. Annotation in a file becomes gold at once; switch that off to annotate from scratch.

**Split.** *Pool* is what people annotate and models train on; *dev* chooses between models; *test* scores them.

**Export.** Each layer as a file, or the whole campaign as a zip that an admin can import again under Campaigns.

**Data sets** stand beside campaigns: source corpora to transfer from, and reference sets to train and score on.
"""

actor = shell.signed_in(*KEEPERS)
shell.header("Sentences", "Browse the campaign's sentences, import more, export its layers.", help=_HELP)
campaign = shell.current_campaign(actor)
chosen = st.segmented_control(
    "View", [*_VIEWS, _SETS], default="Browse", key="data:view", required=True, label_visibility="collapsed"
)
with shell.shown_errors():
    if chosen == _SETS:
        data_sets.datasets_view(actor)
    elif campaign is not None:
        _VIEWS[chosen](actor, campaign)
    else:
        st.info("There is no campaign yet. Make one under New campaign.")
