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
    """Say in words what a corpus holds, as a table of corpora would in numbers."""
    counted, facts = _counted(one)
    with st.container(gap=None):
        st.text(counted)
        st.caption(as_text(facts))


def _counted(one: CorpusView) -> tuple[str, str]:
    """Return what a corpus holds, and how it was made."""
    skipped = sum(one.skipped.values())
    counted = (
        f"{one.pages:,} pages: {one.kept:,} kept, {one.redirects:,} redirects, {one.categories:,} categories, "
        f"{skipped:,} skipped. {one.paragraphs:,} paragraphs, {one.sentences:,} sentences, {one.tokens:,} tokens, "
        f"{one.links:,} links" + (f", {one.mentions:,} mentions of known names." if one.gazetteer else ".")
    )
    facts = [f"from {one.made_from}"]
    if one.gazetteer:
        facts.append(f"pre-annotated by the gazetteer {one.gazetteer}")
        facts.append(f"typed for {one.domain}" if one.domain else "classes only, no domain")
    else:
        facts.append("not pre-annotated")
    if one.skipped:
        facts.append("skipped: " + ", ".join(f"{why} {many:,}" for why, many in sorted(one.skipped.items())))
    return counted, " · ".join(facts)


def look_view(actor: Actor, one: CorpusView) -> None:
    """Draw the search field and the sentences found, or a random sample where nothing is searched for."""
    first, second, third = st.columns([3, 1, 1], vertical_alignment="bottom")
    text = first.text_input(
        "Text contains", max_chars=200, key="corpus:text", placeholder="nothing: sentences at random"
    ).strip()
    count = second.number_input("Sentences", 1, corpora.MOST, _SHOWN, key="corpus:count")
    seed = third.number_input("Seed", 0, 2**31 - 1, 0, key="corpus:seed", disabled=bool(text))
    if text:
        found = corpora.search(shell.store(), actor, one.name, text, limit=count + 1)
        more = len(found) > count
        found = found[:count]
        word = "sentence contains it" if len(found) == 1 else "sentences contain it"
        said = f"The first {count} that contain it." if more else f"{len(found)} {word}."
    else:
        found = corpora.sample(shell.store(), actor, one.name, count=count, seed=seed)
        said = f"{len(found)} of {one.sentences:,} sentences, drawn at random. Choose one to see where it is from."
    st.caption(said if found else "No sentence contains it. Case does not matter; accents and spaces do.")
    if found:
        report = HtmlReport(f"Corpus {one.name}", [f"sentences that contain {text!r}" if text else f"seed {seed}"])
        for words in (*_counted(one), said):
            report.text(words, caption=True)
        st.html(report.html(corpus_list(found, domain_of(one))))
        report_download(lambda: report, name=f"corpus-{one.name}")


def domain_of(one: CorpusView) -> Domain | None:
    """Return the domain a corpus was typed for; None where it was not, or where that domain is gone."""
    try:
        return domains.get_domain(shell.store(), one.domain) if one.domain else None
    except NotFound:
        return None
