"""The sentences of a campaign as a list, and one of them with all its layers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial

import pandas as pd
import streamlit as st

from crossner_core.schema import Span
from pages import shell
from pages.components.chosen_row import chosen_row
from pages.components.marked_text import marked_sentence
from workbench.accounts.actors import Actor
from workbench.campaigns.campaigns import CampaignView
from workbench.data import browsing
from workbench.data.browsing import Found, LayerView, SentenceLayers

PLACE_WORDS = {
    "annotate": "to annotate",
    "check": "to check",
    "adjudicate": "to adjudicate",
    "gold": "gold",
    "parked": "set aside",
}
_LAYER_WORDS = {"first": "Annotator 1", "second": "Annotator 2", "gold": "Gold"}
_STATE_WORDS = {"draft": "not sent yet", "skipped": "skipped", "superseded": "superseded by someone else's work"}
_OPENED = {"accept": "accepted", "refuse": "refused"}
_PAGE = 100
_FEW, _TABLE_HEIGHT = 9, 320


def browse_view(actor: Actor, campaign: CampaignView) -> None:
    """Draw the filter, the list, and the sentence chosen in it; or the one sentence that the address names."""
    asked = st.query_params.get("sentence", "")
    if asked.isdecimal():
        st.button("All sentences", on_click=_forget_sentence, type="tertiary")
        layers_view(browsing.sentence_layers(shell.store(), actor, campaign.id, int(asked)), campaign)
        return
    stage, split, text = _filter(campaign.id)
    page_key = f"data:page:{campaign.id}"
    page = st.session_state.get(page_key, 1)
    listing = browsing.browse(
        shell.store(),
        actor,
        campaign.id,
        place=stage,
        split=split,
        text=text,
        offset=_PAGE * (page - 1),
        limit=_PAGE,
    )
    if not listing.total:
        narrowed = stage or split or text
        st.info("No sentence matches this filter." if narrowed else "No sentences yet. Add some under Import.")
        return
    if not listing.lines:
        del st.session_state[page_key]
        st.rerun()
    chosen = _table(listing, page, page_key, key=f"data:table:{campaign.id}:{stage}:{split}:{text}:{page}")
    layers_view(browsing.sentence_layers(shell.store(), actor, campaign.id, chosen), campaign)


def _forget_sentence() -> None:
    st.query_params.pop("sentence", None)


def _filter(campaign_id: int) -> tuple[str | None, str | None, str]:
    changed = partial(_first_page, campaign_id)
    first, second, third = st.columns([1, 1, 2])
    with first:
        stage = st.selectbox(
            "Stage",
            ["", *PLACE_WORDS],
            format_func=_or_all(PLACE_WORDS),
            key=f"data:place:{campaign_id}",
            on_change=changed,
        )
    with second:
        names = {"pool": "pool", "dev": "dev", "test": "test"}
        split = st.selectbox(
            "Split", ["", *names], format_func=_or_all(names), key=f"data:split:{campaign_id}", on_change=changed
        )
    with third:
        text = st.text_input("Text or id contains", key=f"data:text:{campaign_id}", max_chars=200, on_change=changed)
    return stage or None, split or None, text


def _or_all(words: dict[str, str]) -> Callable[[str], str]:
    return lambda key: words.get(key, "all")


def _first_page(campaign_id: int) -> None:
    st.session_state[f"data:page:{campaign_id}"] = 1


def _table(listing: Found, page: int, page_key: str, *, key: str) -> int:
    """Draw the list; return the id of the chosen sentence, the first if none is chosen."""
    chosen = chosen_row(
        pd.DataFrame(
            [
                {
                    "Sentence": line.text,
                    "Stage": PLACE_WORDS[line.place],
                    "Split": line.split,
                    "Links": line.links,
                    "Suggestions": line.suggestions,
                    "Id": line.external_id,
                }
                for line in listing.lines
            ]
        ),
        [line.id for line in listing.lines],
        key=key,
        height="auto" if len(listing.lines) < _FEW else _TABLE_HEIGHT,
        column_config={"Sentence": st.column_config.TextColumn(width="large")},
    )
    first = _PAGE * (page - 1) + 1
    with st.container(horizontal=True, vertical_alignment="center"):
        last = first + len(listing.lines) - 1
        st.caption(f"{first}–{last} of {listing.total} sentences. Choose one to see its layers.")
        pages = -(-listing.total // _PAGE)
        if pages > 1:
            st.pagination(pages, key=page_key)
    return listing.lines[0].id if chosen is None else chosen


def layers_view(found: SentenceLayers, campaign: CampaignView) -> None:
    """Draw a sentence: what it is, then a line for each layer."""
    domain, sentence = campaign.domain, found.sentence
    with st.container(border=True):
        with st.container(gap=None):
            st.text(f"{sentence.id} · {found.split} · {PLACE_WORDS[found.place]}")
            st.caption(_about(found))
            _line("Left out of training", found.left_out)
        for layer in found.work:
            with st.container(gap=None):
                st.text(_who(layer))
                flagged = dict.fromkeys(layer.flagged, "flagged")
                st.html(marked_sentence(sentence, layer.spans, domain, flagged))
                _line("Flagged by annotator 2", ", ".join(_named(found, layer.flagged)))
                _line("Left open at submit", ", ".join(_named(found, layer.left_open)))
                _line("Open suggestions at submit", _OPENED.get(layer.opened, ""))
                _line("Note", layer.note)
        with st.container(gap=None):
            nothing = "none" if found.preannotated else "not pre-annotated yet"
            st.text("Suggestions" if found.shown else f"Suggestions · {nothing}")
            sources = {suggestion.span: f"{suggestion.source} {suggestion.score:.2f}" for suggestion in found.shown}
            st.html(marked_sentence(sentence, sources, domain, sources))
        _more(found)


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


def _named(layers: SentenceLayers, spans: Iterable[Span]) -> list[str]:
    return [f"{layers.sentence.surface(span.start, span.end)} ({span.type})" for span in spans]


def _line(name: str, value: str) -> None:
    if value:
        st.text(f"{name}: {value}")


def _more(layers: SentenceLayers) -> None:
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
                            "Type": suggestion.type,
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
