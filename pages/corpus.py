"""Corpus: what a corpus made from Wikipedia holds, and sampling sentences from it into a campaign."""

from __future__ import annotations

import streamlit as st

from pages import shell
from pages.components.marked_text import as_text
from pages.parts.corpus import look, sample
from workbench.accounts.roles import KEEPERS, OVERSEERS
from workbench.data import corpora

_HELP = """
A **corpus** is made from a Wikipedia dump: its pages, split into sentences, with their links. `workbench corpus build`
makes one; with a gazetteer, it also pre-annotates it.

**Browse.** Search, or draw sentences at random; the same seed draws the same ones. Links are underlined, suggestions
have the colour of their entity type. A click (or Enter) on a sentence shows where it is from: page, revision and
section, where each link leads, and which entity each suggestion stands for.

**Sample into a campaign.** Filters decide which sentences qualify; the seed decides which of them are drawn. Left out
are those that the campaign already has, and those that share most of their word trigrams with one of its sentences or
with one drawn before. Links come along; so do suggestions, if the corpus was pre-annotated for the campaign's types.
"""

actor = shell.signed_in(*OVERSEERS)
shell.header("Corpus", "What is in this corpus, and which sentences should people annotate?", help=_HELP)
with shell.shown_errors():
    corpora_here = corpora.list_corpora(shell.store(), actor)
    whole = {view.name: view for view in corpora_here if not view.problem}
    for corpus in corpora_here:
        if corpus.problem:
            st.warning(as_text(f"{corpus.name}: {corpus.problem}"))
    if not whole:
        st.info("There is no corpus yet. Make one on the machine that runs the workbench:")
        st.code(
            "workbench corpus build DUMP --name NAME --gazetteer GAZETTEER --domain DOMAIN",
            language=None,
            wrap_lines=True,
        )
        st.stop()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.selectbox("Corpus", list(whole), key="corpus:which")
        view = "Browse"
        if actor.role in KEEPERS:
            views = [view, "Sample into a campaign"]
            view = st.segmented_control(
                "View", views, default=view, key="corpus:view", required=True, label_visibility="collapsed"
            )
    look.counts_line(whole[name])
    if view == "Browse":
        look.look_view(actor, whole[name])
    else:
        sample.sample_view(actor, whole[name])
