"""Propose a type for what was searched in all hits: the preview, and what was proposed so, to withdraw it."""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st

from pages import shell
from pages.components.chosen_row import chosen_row
from pages.components.concordance import concordance, concordance_columns
from pages.components.marked_text import as_text
from workbench.accounts.actors import Actor
from workbench.campaigns.campaigns import CampaignView
from workbench.data.searching import Search
from workbench.suggestions import from_search
from workbench.suggestions.from_search import Place, Preview, Proposed

_SHOWN, _FEW, _TABLE_HEIGHT = 500, 9, 320


def propose_view(actor: Actor, campaign: CampaignView, search: Search) -> None:
    """Draw the section that proposes a type in all hits of a search: nothing is written before its button."""
    titles = {kind.name: kind.title for kind in campaign.domain.types}
    section = st.expander("Propose a type in all hits", icon=":material/sell:")
    with section, shell.shown_errors():
        type_ = st.selectbox(
            f"Type to propose for “{as_text(search.text)}”",
            list(titles),
            index=None,
            format_func=titles.__getitem__,
            placeholder="Choose a type to see the preview",
            key=f"bulk:type:{campaign.id}",
        )
        if type_ is None:
            st.caption("It becomes suggestions that annotators accept or refuse, in sentences nobody has begun.")
            return
        preview = from_search.preview(shell.store(), actor, campaign.id, search, type_)
        st.caption(summary(preview))
        if not preview.places:
            return
        surfaces = _surfaces(preview, campaign.id)
        overlapping = st.toggle("Also where it touches another suggestion", value=True, key="bulk:overlapping")
        places = [
            place for place in preview.places if place.surface in surfaces and (overlapping or not place.overlaps)
        ]
        if places:
            _places(places)
        st.button(
            f"Propose in {_number(len(places), 'place')}",
            disabled=not places,
            type="primary",
            on_click=partial(_propose, actor, campaign.id, search, type_, surfaces, overlapping),
        )


def _number(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def summary(preview: Preview) -> str:
    """Return in words what would be proposed, what it touches, and what is left out."""
    repeated = sum(place.repeats for place in preview.places)
    touching = sum(bool(place.overlaps) and not place.repeats for place in preview.places)
    parts = [f"{_number(len(preview.places), 'place')} in {_number(preview.sentences, 'sentence')}"]
    for number, words in (
        (repeated, "suggested already with this type, which they would confirm"),
        (touching, "touch another suggestion"),
        (preview.proposed, "left out: a search has proposed them before"),
        (preview.inside, "left out: they begin or end within a word"),
        (preview.begun, "left out: somebody has begun the sentence, or it is gold"),
    ):
        if number:
            parts.append(f"{number:,} {words}")
    return " · ".join(parts)


def _surfaces(preview: Preview, campaign_id: int) -> list[str]:
    """Return the texts to propose; of several, as an expression or another case finds, some can be left out."""
    counts = preview.surfaces
    if len(counts) == 1:
        return list(counts)
    left_out = st.multiselect(
        f"Leave out some of the {len(counts):,} texts",
        [text for text, _ in counts.most_common()],
        format_func=lambda text: f"{text} · {counts[text]:,}",
        placeholder="none",
        key=f"bulk:left-out:{campaign_id}:{hash(tuple(counts)):x}",
    )
    return [text for text in counts if text not in left_out]


def _places(places: list[Place]) -> None:
    rows = [
        concordance(place.sentence.text, [place.sentence.char_range(place.start, place.end)])
        | {"Touches": " · ".join(place.overlaps)}
        for place in places[:_SHOWN]
    ]
    st.dataframe(
        pd.DataFrame(rows),
        hide_index=True,
        height="auto" if len(rows) < _FEW else _TABLE_HEIGHT,
        column_config=concordance_columns(),
    )
    if len(places) > _SHOWN:
        st.caption(f"The first {_SHOWN:,} of {len(places):,} places are shown.")


def _propose(
    actor: Actor, campaign_id: int, search: Search, type_: str, surfaces: list[str], overlapping: bool
) -> None:
    with shell.shown_errors():
        _, number = from_search.propose(
            shell.store(), actor, campaign_id, search, type_, surfaces=surfaces, overlapping=overlapping
        )
        shell.note(f"{_number(number, 'suggestion')} written. They can be withdrawn under Proposals.")


def proposals_view(actor: Actor, campaign: CampaignView) -> None:
    """Draw what searches have proposed, and withdraw the chosen one."""
    proposals = from_search.proposed(shell.store(), actor, campaign.id)
    if not proposals:
        st.info("Nothing was proposed from a search yet. Search under Browse, then propose a type in all hits.")
        return
    titles = {kind.name: kind.title for kind in campaign.domain.types}
    table = pd.DataFrame(
        [
            {
                "Who and when (UTC)": proposal.words,
                "Texts": ", ".join(proposal.texts),
                "Type": ", ".join(titles.get(name, name) for name in proposal.types),
                "Suggestions": proposal.suggestions,
                "In sentences begun": proposal.begun,
            }
            for proposal in proposals
        ]
    )
    sources = [proposal.source for proposal in proposals]
    chosen = chosen_row(table, sources, key=f"bulk:proposals:{campaign.id}", first=sources[0])
    proposal = proposals[0 if chosen is None else sources.index(chosen)]
    _withdrawal(actor, campaign.id, proposal)


def _withdrawal(actor: Actor, campaign_id: int, proposal: Proposed) -> None:
    free = proposal.suggestions - proposal.begun
    stay = f" {proposal.begun:,} stay, in sentences that somebody has begun." if proposal.begun else ""
    st.caption(as_text(f"Chosen: {proposal.words}.{stay}"))
    st.button(
        f"Withdraw {_number(free, 'suggestion')}",
        disabled=not free,
        on_click=partial(_withdraw, actor, campaign_id, proposal.source),
    )


def _withdraw(actor: Actor, campaign_id: int, source: str) -> None:
    with shell.shown_errors():
        removed, kept = from_search.withdraw(shell.store(), actor, campaign_id, source)
        stay = f" {kept:,} stay: somebody has begun their sentences." if kept else ""
        shell.note(f"{_number(removed, 'suggestion')} withdrawn.{stay}")
