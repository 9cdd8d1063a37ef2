"""The search of Sentences: one box, a switch for regular expressions, and filters; the address keeps all of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import streamlit as st

from crossner_core.suggest.base import source_of
from pages.components.marked_text import as_text
from pages.parts.work.opening import left_address
from workbench.accounts.actors import Actor
from workbench.accounts.roles import OVERSEERS
from workbench.campaigns.campaigns import CampaignView
from workbench.data import searching
from workbench.data.searching import MOST_CHARACTERS, Search

PLACE_WORDS = {
    "annotate": "to annotate",
    "check": "to check",
    "adjudicate": "to adjudicate",
    "gold": "gold",
    "parked": "set aside",
}
_LAYER_WORDS = {"first": "annotator 1", "second": "annotator 2", "gold": "gold", "suggestions": "suggestions"}
_DIFFER_WORDS = {
    "any": "in any way",
    "type": "other type",
    "boundary": "other boundary",
    "first": "only annotator 1 has it",
    "second": "only annotator 2 has it",
    "flagged": "flagged by annotator 2",
}
_SPLITS = {"pool": "pool", "dev": "dev", "test": "test"}
PAGE = "p"
"""Key of the list's page number, and its name in the address."""
_BOX, _SWITCH = "q", "regex"
_FILTERS = {"type": "Type", "layer": "Layer", "source": "Suggested by", "differ": "Annotators differ", "stage": "Stage",
            "split": "Split"}  # fmt: skip
_CAMPAIGN = "search:campaign"


def search_form(actor: Actor, campaign: CampaignView) -> Search:
    """Draw the search; return what it asks for."""
    _begin_anew(campaign.id)
    filters = _filters(actor, campaign)
    left = left_address("data")  # what a bound widget is at first where the address has no value for it
    with st.container(horizontal=True, vertical_alignment="bottom"):
        text = st.text_input(
            "Search the sentences",
            value=left.get(_BOX, ""),
            key=_BOX,
            type="search",
            max_chars=MOST_CHARACTERS,
            placeholder="Text or id, then Enter",
            bind="query-params",
            on_change=first_page,
            label_visibility="collapsed",
        )
        regex = st.toggle(
            "Regular expression",
            value=left.get(_SWITCH) == "true",
            key=_SWITCH,
            bind="query-params",
            on_change=first_page,
        )
        with st.popover("Filters", icon=":material/filter_list:"):
            chosen = {name: _choice(name, words, left.get(name)) for name, words in filters.items()}
    _active({name: (words, chosen[name]) for name, words in filters.items()})
    place = chosen.pop("stage")
    return Search(text=(text or "").strip(), regex=bool(regex), place=place, **chosen)


def first_page() -> None:
    """Show the first page of the list: what it lists has changed."""
    st.session_state.pop(PAGE, None)


def _filters(actor: Actor, campaign: CampaignView) -> dict[str, Mapping[str, str]]:
    filters: dict[str, Mapping[str, str]] = {
        "type": {kind.name: kind.title for kind in campaign.domain.types},
        "layer": _LAYER_WORDS,
        "source": {kind: _source_words(kind, words) for kind, words in searching.source_kinds().items()},
        "differ": _DIFFER_WORDS,
        "stage": PLACE_WORDS,
        "split": _SPLITS,
    }
    if actor.role not in OVERSEERS:
        del filters["differ"]
    return filters


def _source_words(kind: str, words: str) -> str:
    source = source_of(kind)
    return f"{source.title}: {words}" if source is not None and len(source.kinds) > 1 else words


def _choice(name: str, words: Mapping[str, str], left: str | None) -> str | None:
    titles = ["all", *words.values()]
    return (
        st.selectbox(
            _FILTERS[name],
            ["", *words],
            index=titles.index(left) if left in titles else 0,
            format_func=_or_all(words),
            key=name,
            bind="query-params",
            on_change=first_page,
        )
        or None
    )


def _or_all(words: Mapping[str, str]) -> Callable[[str], str]:
    return lambda key: words.get(key, "all")


def _active(filters: Mapping[str, tuple[Mapping[str, str], str | None]]) -> None:
    """Say which filters narrow the list, since they are folded away."""
    words = [f"{_FILTERS[name]}: {titles[value]}" for name, (titles, value) in filters.items() if value is not None]
    if words:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.caption(as_text(" · ".join(words)), width="content")
            st.button("Clear filters", on_click=_clear, type="tertiary", key="search:clear")


def _clear() -> None:
    for name in _FILTERS:
        if name in st.session_state:
            st.session_state[name] = ""
    first_page()


def _begin_anew(campaign_id: int) -> None:
    """Clear the search when another campaign was chosen: its types are others."""
    if st.session_state.get(_CAMPAIGN, campaign_id) != campaign_id:
        _clear()
        for key, empty in ((_BOX, ""), (_SWITCH, False)):
            if key in st.session_state:
                st.session_state[key] = empty
    st.session_state[_CAMPAIGN] = campaign_id
