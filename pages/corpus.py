"""Corpus: what a corpus made from Wikipedia holds, and sentences of it into a campaign."""

from __future__ import annotations

import streamlit as st

from pages import shell
from pages.components.marked_text import as_text
from pages.parts.corpus import look, sample
from workbench.accounts.roles import KEEPERS, OVERSEERS
from workbench.data import corpora

_HELP = """
A **corpus** is made of a Wikipedia dump: every page read, cut into sentences, with the links people set. `workbench
corpus build` makes one, with a gazetteer also pre-annotated.

**Look.** Search, or draw sentences at random; the same seed draws the same. Links are underlined, suggestions
stand in the colour of their entity type. A click (or Enter) on a sentence shows where it is from: page, revision and
section, where each link leads, and what each suggestion is taken for.

**Sample into a campaign.** Filters say which sentences fit; then they are drawn by the seed. Left out are those that
the campaign has already, and those that share most of their word triples with one of its sentences or with one drawn
before. Links come along, suggestions too where the corpus was pre-annotated for the campaign's entity types.
"""

actor = shell.signed_in(*OVERSEERS)
shell.header("Corpus", "What is in this corpus, and what of it should people annotate?", help=_HELP)
with shell.shown_errors():
    corpora_here = corpora.list_corpora(shell.store(), actor)
    whole = {view.name: view for view in corpora_here if not view.problem}
    for corpus in corpora_here:
        if corpus.problem:
            st.warning(as_text(f"{corpus.name}: {corpus.problem}"))
    if not whole:
        st.info("There is no corpus yet. Make one on the machine that runs the workbench:")
        st.code("workbench corpus build DUMP --name NAME --gazetteer GAZETTEER --domain DOMAIN", language=None)
        st.stop()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.selectbox("Corpus", list(whole), key="corpus:which")
        views = ["Look", *(["Sample into a campaign"] if actor.role in KEEPERS else [])]
        view = st.segmented_control(
            "View", views, default="Look", key="corpus:view", required=True, label_visibility="collapsed"
        )
    look.counts_line(whole[name])
    if view == "Look":
        look.look_view(actor, whole[name])
    else:
        sample.sample_view(actor, whole[name])
