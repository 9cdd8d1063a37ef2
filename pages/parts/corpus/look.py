"""Look into a corpus: its counts in words, a search, and sentences drawn at random."""

from __future__ import annotations

import streamlit as st

from crossner_core.domains import Domain
from crossner_core.errors import NotFound
from pages import shell
from pages.components.corpus_sentences import corpus_list
from pages.components.html_report import HtmlReport, report_download
from pages.components.marked_text import as_text
from workbench.accounts.actors import Actor
from workbench.campaigns import domains
from workbench.data import corpora
from workbench.data.corpora import CorpusView

_SHOWN = 20


def counts_line(one: CorpusView) -> None:
    """Describe what a corpus holds and how it was made."""
    counted, facts = _counted(one)
    with st.container(gap=None):
        st.text(counted)
        st.caption(as_text(facts))


def _counted(view: CorpusView) -> tuple[str, str]:
    """Return what a corpus holds, and how it was made."""
    skipped = sum(view.skipped.values())
    counted = (
        f"{view.pages:,} pages: {view.kept:,} kept, {view.redirects:,} redirects, {view.categories:,} categories, "
        f"{skipped:,} skipped. {view.paragraphs:,} paragraphs, {view.sentences:,} sentences, {view.tokens:,} tokens, "
        f"{view.links:,} links" + (f", {view.mentions:,} mentions of known names." if view.gazetteer else ".")
    )
    facts = [f"from {view.made_from}"]
    if view.gazetteer:
        facts.append(f"pre-annotated by the gazetteer {view.gazetteer}")
        facts.append(f"typed for {view.domain}" if view.domain else "classes only, no domain")
    else:
        facts.append("not pre-annotated")
    if view.skipped:
        facts.append("skipped: " + ", ".join(f"{why} {many:,}" for why, many in sorted(view.skipped.items())))
    return counted, " · ".join(facts)


def look_view(actor: Actor, one: CorpusView) -> None:
    """Draw the search field and the sentences found, or a random sample if the field is empty."""
    first, second, third = st.columns([3, 1, 1], vertical_alignment="bottom")
    text = first.text_input(
        "Text contains", max_chars=200, key="corpus:text", placeholder="empty: random sentences"
    ).strip()
    count = second.number_input("Sentences", 1, corpora.MOST, _SHOWN, key="corpus:count")
    seed = third.number_input("Seed", 0, 2**31 - 1, 0, key="corpus:seed", disabled=bool(text))
    if text:
        sentences = corpora.search(shell.store(), actor, one.name, text, limit=count + 1)
        more = len(sentences) > count
        sentences = sentences[:count]
        ending = "sentence contains it" if len(sentences) == 1 else "sentences contain it"
        line = f"The first {count} that contain it." if more else f"{len(sentences)} {ending}."
    else:
        sentences = corpora.sample(shell.store(), actor, one.name, count=count, seed=seed)
        line = f"{len(sentences)} of {one.sentences:,} sentences, drawn at random. Choose one to see where it is from."
    st.caption(line if sentences else "No sentence contains it. Case does not matter; accents and spaces do.")
    if sentences:
        report = HtmlReport(f"Corpus {one.name}", [f"sentences that contain {text!r}" if text else f"seed {seed}"])
        for words in (*_counted(one), line):
            report.text(words, caption=True)
        st.html(report.html(corpus_list(sentences, domain_of(one))))
        report_download(lambda: report, name=f"corpus-{one.name}")


def domain_of(one: CorpusView) -> Domain | None:
    """Return the domain a corpus was typed for; None where it was not, or where that domain is gone."""
    try:
        return domains.get_domain(shell.store(), one.domain) if one.domain else None
    except NotFound:
        return None
