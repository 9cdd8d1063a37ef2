"""From a list to the editor and back: the button that opens a sentence, and the link to the list it came from."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode

import streamlit as st

from pages import shell
from pages.components.marked_text import as_text
from pages.parts.work.desk import STAGE_TITLES
from workbench.accounts.actors import Actor
from workbench.accounts.roles import EVERYONE, OVERSEERS
from workbench.campaigns.campaigns import CampaignView
from workbench.labelling.opening import Opening, open_in_editor

BACK, HIT = "back", "hit"
"""Names in the address: of the list to go back to, and in that of the sentence that was opened."""
_LISTS = {"data": ("the search", EVERYONE), "errors": ("Errors", OVERSEERS), "compare": ("Compare", OVERSEERS)}


def offer_opening(actor: Actor, campaign: CampaignView, sentence_id: int, opening: Opening, *, page: str) -> None:
    """Draw the button that opens a sentence in the actor's editor, or why there is none; `page` is the list's."""
    if opening.stage is None:
        st.caption(as_text(f"Read only. {opening.reason}"))
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        title = STAGE_TITLES[opening.stage]
        if st.button(f"Open in {title}", key=f"open:{page}:{sentence_id}", type="primary"):
            with shell.shown_errors():
                stage = open_in_editor(shell.store(), actor, campaign.id, sentence_id)
                address = {"campaign": str(campaign.id), BACK: _address(page, sentence_id)}
                st.switch_page(f"{stage}.py", query_params=address)
        if opening.is_gold:
            test = " Models are measured on it: it is in test." if opening.split == "test" else ""
            st.caption(f"It stops being gold until you send it again.{test}")


def back_link(actor: Actor) -> None:
    """Draw the link to the list that the open sentence came from, if the address names one."""
    page, _, query = st.query_params.get(BACK, "").partition("?")
    words, roles = _LISTS.get(page, ("", ()))
    if actor.role in roles:
        st.page_link(
            f"{page}.py", label=f"Back to {words}", icon=":material/arrow_back:", query_params=parse_qsl(query)
        )


def left_address(page: str) -> dict[str, str]:
    """Return the parameters that a list's address had when a sentence of it was opened.

    `switch_page` leaves a step in the browser's history that has the list's path and the editor's parameters; to
    somebody who steps back onto it, the list is what it was.
    """
    left, _, query = st.query_params.get(BACK, "").partition("?")
    return dict(parse_qsl(query)) if left == page else {}


def hit_in_address(page: str) -> int | None:
    """Return the sentence to choose in a list that somebody comes back to."""
    asked = st.query_params.get(HIT) or left_address(page).get(HIT, "")
    return int(asked) if asked.isdecimal() else None


def _address(page: str, sentence_id: int) -> str:
    address = left_address(page) | st.query_params.to_dict()
    kept = {name: value for name, value in address.items() if name not in (HIT, BACK)}
    return f"{page}?{urlencode(kept | {HIT: str(sentence_id)})}"
