"""Encoders: which ones a recipe can start from, what their pre-training gained, and pre-training another."""

from __future__ import annotations

import streamlit as st

from pages import shell
from pages.parts.model import encoder_list, pretraining_form
from workbench.accounts.roles import KEEPERS, OVERSEERS
from workbench.runs import encoders

_HELP = """
An **encoder** is the pre-trained body of a model. One comes with the workbench; others are pre-trained here, and a
recipe names them as they are called in this list.

**DAPT** trains an encoder further on text of your domain, as a masked language model: words are hidden, and it learns
to predict them. *Perplexity* on held-out text measures how well it does: lower is better. Perplexities are comparable
only for the same text, tokenizer and masking.

**Entity tagging** (NER-BERT) trains it to find names in a large, automatically labelled corpus: Wikipedia links with
the classes of their pages, or any data set. *F1* on held-out sentences measures how well: higher is better.

**Character models** learn to predict each character of a text, from the left and from the right, and make FLAIR
embeddings: a word's vector is their state at its edges. *Bits per character* of held-out text measure how well: lower
is better. A recipe that wants word vectors beside them writes `flair:NAME,words=glove`.

None of these figures is the goal. **Runs with it** compares the test F1 of runs that start from the encoder with that
of runs of the same recipe, seed and sentences that start from the encoder it was made from.

**Pre-train** queues a pre-training for the worker. It can be cancelled, and resumes from its last saved state after a
crash. Runs, rounds and suggestions have priority over it. On the command line: `workbench encoder dapt`, `workbench
encoder entity-tagging`, `workbench encoder character-models`.
"""

actor = shell.signed_in(*OVERSEERS)
shell.header(
    "Encoders",
    "Which encoder should a recipe start from, and what did its pre-training gain?",
    help=_HELP,
)
with shell.shown_errors():
    if st.session_state.pop(pretraining_form.STARTED, False):
        st.session_state["encoder:view"] = "Encoders"  # which shows its progress
    views = ["Encoders", "Pre-train"]
    view = actor.role in KEEPERS and st.segmented_control(
        "View", views, default="Encoders", key="encoder:view", required=True, label_visibility="collapsed"
    )
    if view == "Pre-train":
        pretraining_form.start_view(actor)
    else:
        encoder_list.under_way(actor, encoders.list_pretrainings(shell.store(), actor))
        encoder_list.list_view(actor)
