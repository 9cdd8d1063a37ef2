"""Overlap: how many of their frequent words corpora, data sets and campaigns share."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from crossner_core.vocabulary import TOP, Vocabulary, overlap
from db.engine import Store
from pages import shell
from pages.components.charts import overlap_figure
from pages.components.html_report import HtmlReport, report_download
from pages.components.marked_text import as_text
from pages.components.saved_figure import saved_figure
from workbench.accounts.actors import Actor
from workbench.accounts.roles import OVERSEERS
from workbench.reports import overlaps
from workbench.reports.overlaps import TextSource

_HELP = f"""
Each cell shows how many of their {TOP:,} most frequent words two sources share, in percent; if one has fewer words,
only that many of the other's are compared. Stop words and numbers are left out, case is ignored. CrossNER has the same
figure for its domains: the less a domain shares with the source, the harder the transfer.

Only the first {overlaps.MOST:,} sentences of a large source are read.
"""
_FIRST = 8

actor = shell.signed_in(*OVERSEERS)
shell.header("Overlap", "How similar are the vocabularies of the corpora, data sets and campaigns?", help=_HELP)


@st.cache_data(max_entries=64, show_spinner=False)
def _vocabulary(_store: Store, _actor: Actor, source: TextSource) -> Vocabulary:
    """Count a source's words, cached until the source changes."""
    return overlaps.vocabulary_of(_store, _actor, source)


with shell.shown_errors():
    sources = {source.title: source for source in overlaps.text_sources(shell.store(), actor)}
    if len(sources) < 2:
        st.info("An overlap needs two sources. Import a data set or sentences, or make a corpus by command:")
        st.code("workbench corpus build DUMP --name NAME", language=None, wrap_lines=True)
        st.stop()
    chosen = st.multiselect(
        "Compare", list(sources), default=list(sources)[:_FIRST], key="overlap:which", placeholder="Choose two or more"
    )
    if len(chosen) < 2:
        st.info("Choose two or more.")
        st.stop()
    with st.spinner("Counting words …", show_time=True):
        shared = overlap([_vocabulary(shell.store(), actor, sources[title]) for title in chosen])
    table = pd.DataFrame(shared.matrix, index=list(shared.names), columns=list(shared.names)).round(2)
    figure = overlap_figure(shared.names, shared.matrix)
    saved_figure(figure, table, name="vocabulary-overlap", index=True)
    report = HtmlReport("Overlap of vocabularies")
    report.text(f"How many of their {TOP:,} most frequent words two sources share, in percent; without stop words.")
    report.figure(figure)
    report.table(table, index=True)
    counted = [f"{name} {size:,}" for name, size in zip(shared.names, shared.sizes, strict=True) if size < TOP]
    notes = []
    if counted:
        notes.append(f"Fewer than {TOP:,} words: {', '.join(counted)}. Short texts share less than long ones would.")
    cut = [chosen_source.title for title in chosen if (chosen_source := sources[title]).sentences > overlaps.MOST]
    if cut:
        notes.append(f"Only the first {overlaps.MOST:,} sentences of {', '.join(cut)} were read.")
    for words in notes:
        st.caption(as_text(words))
        report.text(words, caption=True)
    report_download(lambda: report, name="vocabulary-overlap")
