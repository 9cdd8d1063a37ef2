"""The page list for the person who is signed in, and the frame around each page: sidebar and tabs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import streamlit as st

from pages import shell
from pages.components.sidebar_links import KEY, as_navigation
from workbench.accounts.actors import Actor
from workbench.accounts.roles import EVERYONE, KEEPERS, LABELLERS, OVERSEERS

_HERE = Path(__file__).parent
_NAME = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="180" height="24" role="img" aria-label="CrossNER workbench">'
    "<style>text{fill:#1d2530;font:600 16px 'Source Sans 3','Source Sans Pro',system-ui,sans-serif}"
    "@media(prefers-color-scheme:dark){text{fill:#e6ebf1}}</style>"
    '<text x="1" y="18" textLength="166" lengthAdjust="spacingAndGlyphs">CrossNER workbench</text></svg>'
)
"""The app's name as its logo; an SVG, as `st.logo` takes no text."""

_STYLE = """
[data-testid="stCaptionContainer"], [data-testid="stCaptionContainer"] * { opacity: 1 }
[data-testid="stCaptionContainer"] { color: #5a626c }
[data-testid^="stBaseButton-primary"] kbd { color: #fff; opacity: 1 }
[data-testid="stMain"] [data-testid="stPageLink-NavLink"] { padding-left: 0; padding-right: 0 }
.st-key-rooms [data-testid="stPageLink-NavLink"] { padding: 0 .5rem }
[data-testid="stLayoutWrapper"]:has(> [class*="st-key-notes-"] [data-testid="stAlert"]) {
  position: sticky; top: 4rem; z-index: 99; animation: leaves .2s 8s forwards
}
@keyframes leaves { to { top: -12rem } }
[class*="st-key-notes-"] [data-testid="stAlert"] { background: #fff; border-radius: 6px }
@media (prefers-color-scheme: dark) {
  [data-testid="stCaptionContainer"] { color: #a3adb8 }
  [class*="st-key-notes-"] [data-testid="stAlert"] { background: #14181d }
  [data-testid="stMultiSelectTagsContainer"] [data-tag] { background-color: #2d6cb5 }
  [data-testid^="stBaseButton-primary"] { background-color: #2d6cb5; border-color: #2d6cb5 }
}
"""
"""Captions, main buttons and chosen values at a contrast of 4.5:1 or more (Streamlit's are at 4.2 in light and 2.9 in
dark), links to pages in line with the text around them, and for a while notes of success also in sight of a person who
has scrolled."""


@dataclass(frozen=True, slots=True)
class Screen:
    """One page: its file, its title, who sees it; the address is the file's name.

    Screens of one `room` are tabs behind one link of the sidebar, which leads to the first.
    """

    file: str
    title: str
    roles: tuple[str, ...]
    room: str = ""


SECTIONS: dict[str, tuple[Screen, ...]] = {
    "": (Screen("welcome", "Start", EVERYONE),),
    "Work": (
        Screen("annotate", "Annotate", LABELLERS),
        Screen("check", "Check", LABELLERS),
        Screen("adjudicate", "Adjudicate", ("expert",)),
        Screen("label_review", "Label review", ("expert",)),
        Screen("my_work", "My work", LABELLERS),
    ),
    "Campaign": (
        Screen("campaign", "Overview", OVERSEERS, room="Overview and queue"),
        Screen("queue", "Queue", OVERSEERS, room="Overview and queue"),
        Screen("data", "Sentences", EVERYONE),
        Screen("domains", "Domains", KEEPERS),
        Screen("campaigns", "Campaigns", KEEPERS, room="Campaigns"),
        Screen("new_campaign", "New campaign", KEEPERS, room="Campaigns"),
        Screen("corpus", "Corpus", OVERSEERS, room="Corpora and gazetteer"),
        Screen("gazetteer", "Gazetteer", EVERYONE, room="Corpora and gazetteer"),
        Screen("coverage", "Coverage", OVERSEERS, room="Corpora and gazetteer"),
        Screen("overlap", "Overlap", OVERSEERS, room="Corpora and gazetteer"),
    ),
    "Models": (
        Screen("adaptation", "Adaptation", OVERSEERS, room="Adaptation and encoders"),
        Screen("encoders", "Encoders", OVERSEERS, room="Adaptation and encoders"),
        Screen("compare", "Compare", OVERSEERS, room="Compare and errors"),
        Screen("errors", "Errors", OVERSEERS, room="Compare and errors"),
        Screen("studies", "Studies", OVERSEERS),
    ),
    "Admin": (
        Screen("people", "People", ("admin",)),
        Screen("audit", "Audit trail", KEEPERS),
        Screen("doctor", "Doctor", ("admin",)),
    ),
    "You": (Screen("account", "My account", EVERYONE),),
}
OLD_ADDRESSES = {"second_look": "label_review"}
"""Addresses that pages had before, which still lead to them."""

Rooms = dict[str, list[tuple[str, list[st.Page]]]]
"""By section: what each link of the sidebar is called, and the pages behind it."""


def page_list(role: str) -> dict[str, list[st.Page]]:
    """Return the pages a role sees, by section."""
    pages: dict[str, list[st.Page]] = {}
    for section, screens in SECTIONS.items():
        for screen in screens:
            if role in screen.roles:
                pages.setdefault(section, []).append(_page(screen))
    return pages


def rooms_of(pages: dict[str, list[st.Page]]) -> Rooms:
    """Group pages by their rooms; one that is alone in its room keeps its own title."""
    screens = {screen.file: screen for section in SECTIONS.values() for screen in section}
    rooms: Rooms = {}
    for section, listed in pages.items():
        by_room: dict[str, list[st.Page]] = {}
        for page in listed:
            screen = screens[page.url_path or "welcome"]
            by_room.setdefault(screen.room or screen.title, []).append(page)
        rooms[section] = [(name if len(own) > 1 else own[0].title, own) for name, own in by_room.items()]
    return rooms


def _page(screen: Screen) -> st.Page:
    file = _HERE / f"{screen.file}.py"
    return st.Page(file, title=screen.title, url_path=screen.file, default=screen.file == "welcome")


def _pages_elsewhere(actor: Actor) -> list[st.Page]:
    """Return what the other addresses lead to: why a page is closed to this role, or where it is now."""
    screens = [screen for section in SECTIONS.values() for screen in section]
    closed = [screen for screen in screens if actor.role not in screen.roles]
    pages = [_script(partial(shell.closed, actor, each.title, each.roles), each.title, each.file) for each in closed]
    for old, new in OLD_ADDRESSES.items():
        screen = next(screen for screen in screens if screen.file == new)
        if actor.role in screen.roles:
            pages.append(_script(partial(st.switch_page, f"{new}.py"), screen.title, old))
        else:
            pages.append(_script(partial(shell.closed, actor, screen.title, screen.roles), screen.title, old))
    return pages


def _script(run: Callable[[], object], title: str, address: str) -> st.Page:
    def draw() -> None:
        run()

    return st.Page(draw, title=title, url_path=address)


def _links(rooms: Rooms, chosen: st.Page) -> None:
    """Draw the sidebar's links, by section; that of the room one is in is marked as the current page."""
    with st.container(key=KEY):
        for section, listed in rooms.items():
            if section == "You":
                continue  # it is behind the name at the foot
            with st.container(gap="xsmall"):
                if section:
                    st.caption(section)
                for title, pages in listed:
                    st.page_link(chosen if chosen in pages else pages[0], label=title)
    as_navigation(chosen.url_path)


def _tabs(rooms: Rooms, chosen: st.Page) -> None:
    """Draw links to the other pages of the room one is in."""
    for listed in rooms.values():
        for _, pages in listed:
            if chosen in pages and len(pages) > 1:
                with st.container(horizontal=True, gap="small", key="rooms"):
                    for page in pages:
                        st.page_link(page, label=page.title, width="content")


def main() -> None:
    """Draw the frame and run the page that the address names, if this person may see it."""
    st.set_page_config(page_title="CrossNER workbench", page_icon="🏷️", layout="wide", initial_sidebar_state=240)
    st.logo(_NAME, size="medium")
    st.html(f"<style>{_STYLE}</style>")
    actor = shell.signed_in()
    pages = page_list(actor.role)
    rooms = rooms_of(pages)
    # Streamlit's own list would put headings between its items, which is no list for a screen reader.
    every: Sequence[st.Page] = [page for section in pages.values() for page in section] + _pages_elsewhere(actor)
    chosen = st.navigation(every, position="hidden")
    shell.sidebar(actor, partial(_links, rooms, chosen))
    _tabs(rooms, chosen)
    chosen.run()


if __name__ == "__main__":
    main()
