"""The sentences of a campaign as a list, and one of them with all its layers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
import streamlit as st

from crossner_core.schema import Span
from pages import shell
from pages.components.chosen_row import chosen_row
from pages.components.concordance import concordance, concordance_columns
from pages.components.marked_text import marked_sentence, matched_text
from pages.parts.campaign import bulk
from pages.parts.campaign.search_form import PAGE, PLACE_WORDS, first_page, search_form
from pages.parts.work.opening import hit_in_address, left_address, offer_opening
from workbench.accounts.actors import Actor
from workbench.accounts.roles import KEEPERS, OVERSEERS
from workbench.campaigns.campaigns import CampaignView
from workbench.data import browsing
from workbench.data.browsing import Found, LayerView, SentenceLayers, SentenceLine
from workbench.data.searching import EVERYTHING
from workbench.labelling.opening import opening as opening_of

_LAYER_WORDS = {"first": "Annotator 1", "second": "Annotator 2", "gold": "Gold"}
_STAGE_WORDS = {"annotate": "My annotation", "check": "My check", "adjudicate": "My decision"}
_STATE_WORDS = {"draft": "not sent yet", "skipped": "skipped", "superseded": "superseded by someone else's work"}
_OPENED = {"accept": "accepted", "refuse": "refused"}
_PER_PAGE = 100
_FEW, _TABLE_HEIGHT = 9, 320


def browse_view(actor: Actor, campaign: CampaignView) -> None:
    """Draw the search, the list, and the sentence chosen in it; or the one sentence that the address names."""
    asked = st.query_params.get("sentence", "")
    if asked.isdecimal():
        st.button("All sentences", on_click=_forget_sentence, type="tertiary")
        _sentence(actor, campaign, int(asked))
        return
    search = search_form(actor, campaign)
    page = _page()
    listing = browsing.browse(shell.store(), actor, campaign.id, search, offset=_PER_PAGE * (page - 1), limit=_PER_PAGE)
    if not listing.total:
        st.info("No sentence matches." if search != EVERYTHING else _nothing_yet(actor))
        return
    if not listing.lines:
        first_page()
        st.rerun()
    line = _table(listing, page, key=f"data:table:{campaign.id}:{search}:{page}", searched=bool(search.text))
    if search.text and actor.role in OVERSEERS:
        bulk.propose_view(actor, campaign, search)
    _sentence(actor, campaign, line.id, line)


def _page() -> int:
    """Return the page of the list, which on the first run only the address knows."""
    asked = st.query_params.get(PAGE, "")
    return int(st.session_state.get(PAGE) or (asked if asked.isdecimal() and int(asked) else _left_page()))


def _left_page() -> int:
    asked = left_address("data").get(PAGE, "")
    return max(int(asked), 1) if asked.isdecimal() else 1


def _nothing_yet(actor: Actor) -> str:
    return f"No sentences yet. {'Add some under Import.' if actor.role in KEEPERS else 'A researcher adds them.'}"


def _forget_sentence() -> None:
    st.query_params.pop("sentence", None)


def _table(listing: Found, page: int, *, key: str, searched: bool) -> SentenceLine:
    """Draw the list; return the chosen sentence, the first if none is chosen."""
    lines = {line.id: line for line in listing.lines}
    rows = [_row(line, searched=searched) for line in listing.lines]
    chosen = chosen_row(
        pd.DataFrame(rows),
        list(lines),
        key=key,
        first=hit_in_address("data"),
        height="auto" if len(rows) < _FEW else _TABLE_HEIGHT,
        column_config={"Sentence": st.column_config.TextColumn(width="large"), **concordance_columns()},
    )
    first = _PER_PAGE * (page - 1) + 1
    with st.container(horizontal=True, vertical_alignment="center"):
        last = first + len(rows) - 1
        st.caption(f"{first:,}–{last:,} of {listing.total:,} sentences. Choose one to see and open it.")
        pages = -(-listing.total // _PER_PAGE)
        if pages > 1:
            st.pagination(pages, default=min(_left_page(), pages), key=PAGE, bind="query-params")
    return listing.lines[0] if chosen is None else lines[chosen]


def _row(line: SentenceLine, *, searched: bool) -> dict[str, Any]:
    place = {"Stage": PLACE_WORDS[line.place], "Split": line.split}
    if searched:
        return concordance(line.text, line.ranges) | place | {"Id": line.external_id}
    counts = {"Links": line.links, "Suggestions": line.suggestions}
    return {"Sentence": line.text} | place | counts | {"Id": line.external_id}


def _sentence(actor: Actor, campaign: CampaignView, sentence_id: int, line: SentenceLine | None = None) -> None:
    """Draw a sentence with the layers that the actor may see, and the way into the editor of the one they may edit."""
    opening = opening_of(shell.store(), actor, campaign.id, sentence_id)
    offer_opening(actor, campaign, sentence_id, opening, page="data")
    if line is not None and line.ranges:
        st.html(matched_text(line.text, line.ranges))
    if actor.role in KEEPERS or (actor.role in OVERSEERS and opening.place == "gold"):
        layers_view(browsing.sentence_layers(shell.store(), actor, campaign.id, sentence_id), campaign)
        return
    with st.container(border=True):
        st.text(f"{opening.sentence.id} · {PLACE_WORDS[opening.place]}")
        if not opening.own and line is None:
            st.text(opening.sentence.text)
        for stage, spans in opening.own.items():
            with st.container(gap=None):
                st.text(_STAGE_WORDS[stage] + ("" if spans else " · no entities"))
                st.html(marked_sentence(opening.sentence, spans, campaign.domain, {}))


def layers_view(layers: SentenceLayers, campaign: CampaignView) -> None:
    """Draw a sentence: what it is, then a line for each layer."""
    domain, sentence = campaign.domain, layers.sentence
    with st.container(border=True):
        with st.container(gap=None):
            st.text(f"{sentence.id} · {layers.split} · {PLACE_WORDS[layers.place]}")
            st.caption(_about(layers))
            _line("Left out of training", layers.left_out)
        for layer in layers.work:
            with st.container(gap=None):
                st.text(_who(layer))
                flagged = dict.fromkeys(layer.flagged, "flagged")
                st.html(marked_sentence(sentence, layer.spans, domain, flagged))
                _line("Flagged by annotator 2", ", ".join(_named(layers, layer.flagged, domain.titles)))
                _line("Left open at submit", ", ".join(_named(layers, layer.left_open, domain.titles)))
                _line("Open suggestions at submit", _OPENED.get(layer.opened, ""))
                _line("Note", layer.note)
        with st.container(gap=None):
            nothing = "none" if layers.preannotated else "not pre-annotated yet"
            st.text("Suggestions" if layers.shown else f"Suggestions · {nothing}")
            sources = {suggestion.span: f"{suggestion.source} {suggestion.score:.2f}" for suggestion in layers.shown}
            st.html(marked_sentence(sentence, sources, domain, sources))
        _more(layers, domain.titles)


def _about(layers: SentenceLayers) -> str:
    facts = [f"{len(layers.sentence.tokens)} tokens"]
    if layers.control:
        facts.append("control, suggestions withheld")
    if layers.blind:
        facts.append("annotator 2 labels it blind")
    if not layers.work:
        facts.append("nobody has begun it")
    return " · ".join(facts)


def _who(layer: LayerView) -> str:
    words = [_LAYER_WORDS[layer.layer], f"imported by {layer.who}" if layer.imported else layer.who]
    words.append(_STATE_WORDS.get(layer.state) or f"{layer.when:%Y-%m-%d %H:%M} UTC")
    if not layer.spans and layer.state == "submitted":
        words.append("no entities")
    return " · ".join(words)


def _named(layers: SentenceLayers, spans: Iterable[Span], titles: Mapping[str, str]) -> list[str]:
    surface = layers.sentence.surface
    return [f"{surface(span.start, span.end)} ({titles.get(span.type, span.type)})" for span in spans]


def _line(name: str, value: str) -> None:
    if value:
        st.text(f"{name}: {value}")


def _more(layers: SentenceLayers, titles: Mapping[str, str]) -> None:
    sentence = layers.sentence
    if sentence.links or layers.suggestions or layers.meta:
        with st.expander("Links, all suggestions, metadata"):
            if sentence.links:
                links = [
                    {"Link": sentence.surface(link.start, link.end), "Page": link.target} for link in sentence.links
                ]
                st.dataframe(links, hide_index=True)
            if layers.suggestions:
                st.dataframe(
                    [
                        {
                            "Suggestion": sentence.surface(suggestion.start, suggestion.end),
                            "Type": titles.get(suggestion.type, suggestion.type),
                            "Source": suggestion.source,
                            "Score": suggestion.score,
                            "Entity": suggestion.entity or "",
                        }
                        for suggestion in layers.suggestions
                    ],
                    hide_index=True,
                )
            if layers.meta:
                st.code(json.dumps(dict(layers.meta), ensure_ascii=False, indent=1), language="json", wrap_lines=True)
