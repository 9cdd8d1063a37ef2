"""What every screen shares: who is signed in, which campaign, the header with its help, calm errors."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import streamlit as st

from crossner_core.errors import BadInput, NotAllowed, StoreFailed, WorkbenchError
from db.engine import Store
from pages.components.marked_text import as_text
from pages.components.sign_out import sign_out_button
from workbench.accounts import accounts, sign_in
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import KEEPERS
from workbench.campaigns import campaigns
from workbench.campaigns.campaigns import CampaignView
from workbench.http.cookies import form_token, session_cookie
from workbench.settings import get_settings, open_store

log = logging.getLogger(__name__)

_MOST_PROBLEMS = 50
_CAMPAIGN = "campaign"
_LAST = "shell:last-campaign"
_NOTE_STAYS = 3.0  # seconds
_CLOSED = "shell:closed-campaign"
_PERSON = "shell:person"


@dataclass(slots=True)
class _Note:
    text: str
    drawn: float | None = None
    """When it was first drawn (monotonic, in seconds)."""


def store() -> Store:
    """Return the process's store."""
    return open_store(get_settings())


def session_token() -> str:
    """Return this browser's session token, from the cookies of its websocket."""
    return st.context.cookies.get(session_cookie(get_settings()), "")


def signed_in(*roles: str) -> Actor:
    """Return who is signed in, looked up afresh; stop with a message if nobody is or the role may not see the page."""
    try:
        actor = sign_in.actor_for_token(store(), session_token())
        if actor is None:
            st.warning("You are signed out. Nothing that was saved is lost.")
            st.html('<a href="/auth/login" target="_self">Sign in again</a>')
            st.stop()
        if roles:
            require(actor, *roles)
    except NotAllowed as error:
        st.info(as_text(str(error)))
        st.stop()
    except StoreFailed as error:
        store_failed(error)
        st.stop()
    _forget_other_person(actor)
    return actor


def store_failed(error: StoreFailed) -> None:
    """Log why the store failed, and show only that it did: its words name paths, hosts and accounts."""
    log.error("A page was not drawn: %s", error)
    st.error(StoreFailed.TRY_LATER)


def _forget_other_person(actor: Actor) -> None:
    """Clear the session state if someone else has signed in with the same browser since."""
    if st.session_state.setdefault(_PERSON, actor.id) != actor.id:
        for key in list(st.session_state):
            del st.session_state[key]
        _notes().clear()
        st.session_state[_PERSON] = actor.id


def header(title: str, line: str, *, help: str = "") -> None:
    """Draw the screen's name, the line that explains it, and its help drawer (Markdown)."""
    with st.container(gap=None):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.subheader(title, anchor=False, width="stretch")
            if help:
                with st.popover("Help", type="tertiary"):
                    st.markdown(help)
        st.caption(line)
    notes = _notes_to_draw()
    newest = max((note.drawn or 0.0 for note in notes), default=0.0)
    # A place of its own: what is below must not move to another when a note comes. Its style begins with the newest.
    with st.container(key=f"notes-{newest:.3f}"):
        for note in notes:
            st.success(note.text)


def page(actor: Actor, title: str, line: str, *, help: str = "") -> CampaignView | None:
    """Draw the header of a screen that shows one campaign; return the campaign, or explain why there is none."""
    header(title, line, help=help)
    campaign = current_campaign(actor)
    if campaign is None:
        make = "Make one under New campaign." if actor.role in KEEPERS else "An admin can add you to one."
        st.info(f"There is no campaign for you yet. {make}")
    return campaign


@st.cache_resource(scope="session", show_spinner=False)
def _notes() -> list[_Note]:
    """Return the session's notes. Outside the session's state, as a run that was overtaken must not touch that."""
    return []


def note(text: str) -> None:
    """Show a line of success (Markdown) under the header of the next run (for use before `st.rerun`)."""
    _notes().append(_Note(text))


def _notes_to_draw() -> list[_Note]:
    """Return the new notes, and for some seconds those of before.

    The next thing that a person does can end the run that draws a note before the browser has it.
    """
    now, notes = time.monotonic(), _notes()
    for note in notes.copy():  # the run before, which may not have ended yet, can still add one
        note.drawn = note.drawn or now
        if now - note.drawn > _NOTE_STAYS:
            notes.remove(note)
    return notes.copy()


@contextmanager
def shown_errors() -> Iterator[None]:
    """Show an error of the workbench calmly instead of ending the page; any other error is a bug and propagates."""
    try:
        yield
    except StoreFailed as error:
        store_failed(error)
    except WorkbenchError as error:
        (st.warning if isinstance(error, NotAllowed) else st.error)(as_text(str(error)))
        if isinstance(error, BadInput) and error.problems:
            shown = "\n".join(error.problems[:_MOST_PROBLEMS])
            more = len(error.problems) - _MOST_PROBLEMS
            st.code(shown + (f"\n… and {more} more" if more > 0 else ""), language=None, wrap_lines=True)


def current_campaign(actor: Actor) -> CampaignView | None:
    """Return the campaign chosen in the sidebar, or the person's first; None when there is none."""
    with shown_errors():
        mine = _choosable(actor)
        chosen = st.session_state.get(_CAMPAIGN)
        return next((campaign for campaign in mine if campaign.id == chosen), mine[0] if mine else None)
    return None


def choose(campaign_id: int) -> None:
    """Make a campaign the chosen one in the next run (for use before `st.rerun`)."""
    st.session_state.pop(_CAMPAIGN, None)
    st.query_params[_CAMPAIGN] = str(campaign_id)


def sidebar(actor: Actor, draw_links: Callable[[], None]) -> None:
    """Draw the campaign chooser, the links, who is signed in, and the sign-out button."""
    with st.sidebar:
        with shown_errors():
            _choose_campaign(actor, _choosable(actor))
        draw_links()
        with st.container(gap="small"):
            st.page_link("account.py", label=as_text(f"{actor.display_name} · {actor.role}"))
            sign_out_button(form_token=form_token(session_token()))


def closed(actor: Actor, title: str, roles: Sequence[str]) -> None:
    """Say that a page is not for the person's role, and whom to ask."""
    header(title, "This page is closed to you.")
    why_closed(actor, title, roles)
    st.page_link("welcome.py", label="Go to Start")


def why_closed(actor: Actor, title: str, roles: Sequence[str]) -> None:
    """Draw for which roles a page is, and who can give the person one of them."""
    allowed = _listed([f"{role}s" for role in roles])
    with shown_errors():
        st.info(as_text(f"{title} is for {allowed}; you are signed in as {actor.role}."))
        admins = [name for name in accounts.list_admins(store(), actor) if name != actor.display_name]
        st.text(f"To get another role, ask {_listed(admins, 'or')}." if admins else "Only an admin can change roles.")


def _listed(words: Sequence[str], last: str = "and") -> str:
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _choosable(actor: Actor) -> list[CampaignView]:
    return [campaign for campaign in campaigns.list_campaigns(store(), actor) if not campaign.archived]


def _choose_campaign(actor: Actor, mine: list[CampaignView]) -> None:
    """Keep the choice in the session (across pages), the address (shared links) and the store (the next visit)."""
    if not mine:
        return
    names = {campaign.id: campaign.name for campaign in mine}
    asked = st.query_params.get(_CAMPAIGN, "")
    if _LAST not in st.session_state:
        st.session_state[_LAST] = campaigns.last_campaign(store(), actor)
    if st.session_state.get(_CAMPAIGN) not in names:
        last = st.session_state[_LAST] if st.session_state[_LAST] in names else mine[0].id
        st.session_state[_CAMPAIGN] = int(asked) if asked.isdecimal() and int(asked) in names else last
    chosen = st.selectbox("Campaign", list(names), key=_CAMPAIGN, format_func=names.__getitem__)
    if asked not in ("", *map(str, names)):
        st.session_state[_CLOSED] = (asked, chosen)
    closed_one, instead = st.session_state.get(_CLOSED, ("", None))
    if instead == chosen:
        words = "it is archived or gone, or you are not a member. An admin can add you."
        st.caption(as_text(f"Campaign {closed_one} is not open to you: {words}"))
    if asked != str(chosen):
        st.query_params[_CAMPAIGN] = str(chosen)
    if st.session_state[_LAST] != chosen:
        st.session_state[_LAST] = chosen
        campaigns.choose_campaign(store(), actor, chosen)
