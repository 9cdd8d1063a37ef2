"""The views of the gazetteer screen: a sentence explained, a name looked up, classes that have no type."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import pandas as pd
import streamlit as st

from crossner_core.domains import Domain
from crossner_core.gazetteer.preannotate import Explanation
from crossner_core.schema import Sentence, Span
from crossner_core.suggest.base import words_of
from pages import shell
from pages.components.html_report import HtmlReport, report_download
from pages.components.marked_text import as_text, marked_sentence, type_chip
from pages.components.rows import opening_row, rows_html, table_html
from workbench.accounts.actors import Actor
from workbench.accounts.roles import KEEPERS
from workbench.campaigns.campaigns import CampaignView
from workbench.data import browsing
from workbench.data.searching import Search
from workbench.suggestions import gazetteers
from workbench.suggestions.gazetteers import CandidateView, GazetteerView, SentenceExplained

_CHOICES = 50
SAMPLE = "the bundled sample"


def counts_line(one: GazetteerView | None) -> None:
    """Describe what a gazetteer holds and where it is from."""
    if one is None:
        st.caption("The bundled sample of DBpedia: a few hundred pages, for trying things out.")
        return
    counts = one.counts
    st.caption(
        as_text(
            f"{counts.get('surfaces', 0):,} names of {counts.get('entities', 0):,} pages; "
            f"{counts.get('ambiguous surfaces', 0):,} names stand for several. From {one.made_from}."
        )
    )


def sentence_view(actor: Actor, name: str | None, domain: Domain, campaign: CampaignView | None) -> None:
    """Draw the choice of a sentence, the sentence with its suggestions, and every place with its candidates."""
    sentence = _chosen(actor, campaign)
    if sentence is None:
        return
    explained = gazetteers.explain_sentence(shell.store(), actor, name, sentence, domain)
    won = [explanation for explanation in explained.places if explanation.won and explanation.type is not None]
    spans = {
        Span(explanation.start, explanation.end, str(explanation.type)): f"{explanation.score:.2f}"
        for explanation in won
    }
    report = HtmlReport("Why spans were suggested", [name or SAMPLE, domain.title])
    st.html(report.html(marked_sentence(sentence, spans, domain, spans, links=sentence.links)))
    if not explained.places:
        st.info("No name is known in this sentence.")
        return
    lost = len(explained.places) - len(won)
    line = f"{len(explained.places)} places were considered, {len(won)} suggested, {lost} not. Choose one to see why."
    st.caption(report.text(line, caption=True))
    st.html(report.html(rows_html([_place(explanation, explained, domain) for explanation in explained.places])))
    report_download(lambda: report, name="gazetteer-sentence")


def _chosen(actor: Actor, campaign: CampaignView | None) -> Sentence | None:
    """Draw the ways to a sentence: paste it, or (for those who see them all) one of the campaign."""
    can_choose = campaign is not None and actor.role in KEEPERS
    way = "Paste"
    if can_choose:
        ways = ["Of the campaign", "Paste"]
        way = st.radio("Which sentence", ways, horizontal=True, key="gazetteer:way", label_visibility="collapsed")
    if way == "Paste" or campaign is None:
        text = st.text_area(
            "Sentence",
            key="gazetteer:text",
            max_chars=gazetteers.MAX_TEXT,
            height=80,
            placeholder="Paste a sentence; [[Page|words]] is a link.",
        )
        sentence = gazetteers.sentence_from_text(text.strip()) if text.strip() else None
        return sentence if sentence is not None and sentence.tokens else None
    left, right = st.columns([1, 3])
    wanted = left.text_input("Contains", max_chars=200, key=f"gazetteer:contains:{campaign.id}")
    sentences = browsing.browse(shell.store(), actor, campaign.id, Search(text=wanted), limit=_CHOICES)
    texts = {line.id: line.text for line in sentences.lines}
    if not texts:
        st.info("No sentence of the campaign contains this." if wanted else "The campaign has no sentences yet.")
        return None
    which = right.selectbox(
        "Sentence"
        + (f", one of the first {len(texts)} of {sentences.total:,}" if sentences.total > len(texts) else ""),
        list(texts),
        format_func=texts.__getitem__,
        key=f"gazetteer:sentence:{campaign.id}",
    )
    return browsing.sentence_layers(shell.store(), actor, campaign.id, which).sentence


def _place(explanation: Explanation, explained: SentenceExplained, domain: Domain) -> str:
    outcome = "suggested" if explanation.won and explanation.type else "not suggested"
    line = f"{words_of(explanation.source)} · score {explanation.score:.2f} · {outcome}: {explanation.reason}"
    chip = _chip(explanation.type, domain)
    summary = f'<b dir="auto">{escape(explanation.surface)}</b> {chip}<span class="small">{escape(line)}</span>'
    rows = [
        (
            ("✓ " if candidate.won else "") + candidate.entity,
            _chip(next(iter(candidate.types), None), domain),
            " › ".join(explained.paths.get((candidate.source, candidate.entity), ())),
            gazetteers.way_words(candidate.way),
            f"{candidate.prior:,}" if candidate.prior else "–",
            candidate.source,
            candidate.reason,
        )
        for candidate in explanation.candidates
    ]
    head = ("Page", "Type", "Classes", "Way", "Links to it", "Source", "Why")
    return opening_row(summary, table_html(head, rows, html=(1,)) or "<p>No source has this page.</p>")


def name_view(actor: Actor, name: str | None, domain: Domain) -> None:
    """Draw the field for a name and the pages it may stand for."""
    surface = st.text_input(
        "Name", max_chars=gazetteers.MAX_SURFACE, key="gazetteer:name", placeholder="as in the text"
    )
    if not surface.strip():
        return
    result = gazetteers.look_up(shell.store(), actor, name, surface, domain)
    inside = f"Names inside it: {', '.join(result.inside)}" if result.inside else ""
    if result.candidates:
        many = len(result.candidates)
        report = HtmlReport(f"What {surface.strip()} may stand for", [name or SAMPLE, domain.title])
        line = "One page has this name." if many == 1 else f"{many} pages have this name."
        st.caption(report.text(line, caption=True))
        st.html(report.html(rows_html([_candidates(result.candidates, domain)])))
        report.text(inside)
        report_download(lambda: report, name="gazetteer-name")
    else:
        st.info("No page has this name. Case matters, except in the first letter; spaces do not.")
    if inside:
        st.text(inside)


def _candidates(candidates: Sequence[CandidateView], domain: Domain) -> str:
    rows = [
        (
            candidate.entity,
            _chip(candidate.type, domain),
            " › ".join(candidate.path),
            ", ".join(candidate.ways),
            f"{candidate.prior:,}" if candidate.prior else "–",
        )
        for candidate in candidates
    ]
    return table_html(("Page", "Type", "Classes", "Way", "Links to it"), rows, html=(1,))


def _chip(kind: str | None, domain: Domain) -> str:
    if kind is None or kind not in domain.type_names:
        return '<span style="opacity:.75">no type</span>'
    return type_chip(domain.type(kind))


def classes_view(actor: Actor, name: str, domain: Domain) -> None:
    """Draw the classes of the gazetteer that have no type in the domain."""
    rows = gazetteers.classes_without_type(shell.store(), actor, name, domain)
    if not rows:
        st.success("Every class maps to a type.")
        return
    report = HtmlReport("Classes without a type", [name, domain.title])
    line = f"{len(rows)} classes map to no type of this domain. A page may have others that do."
    st.caption(report.text(line, caption=True))
    table = pd.DataFrame(
        [
            {
                "Class": row.cls,
                "Pages": row.entities,
                "In the ontology": "yes" if row.known else "no",
                "What could be done": row.suggestion,
            }
            for row in rows
        ]
    )
    st.dataframe(report.table(table), hide_index=True)
    report_download(lambda: report, name=f"classes-without-type-{name}")
