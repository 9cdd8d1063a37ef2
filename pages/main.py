"""The page list for the person who is signed in, and the sidebar."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from pages import shell
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
@media (prefers-color-scheme: dark) {
  [data-testid="stCaptionContainer"] { color: #a3adb8 }
  [data-testid^="stBaseButton-primary"] { background-color: #2d6cb5; border-color: #2d6cb5 }
}
"""
"""Captions and the main buttons at a contrast of 4.5:1 or more (Streamlit's are at 4.2 in light and 2.9 in dark), and
links to pages in line with the text around them."""


@dataclass(frozen=True, slots=True)
class Screen:
    """One page: its file, its title, who sees it; the address is the file's name."""

    file: str
    title: str
    roles: tuple[str, ...]


SECTIONS: dict[str, tuple[Screen, ...]] = {
    "": (Screen("welcome", "Start", EVERYONE),),
    "Work": (
        Screen("annotate", "Annotate", LABELLERS),
        Screen("check", "Check", LABELLERS),
        Screen("adjudicate", "Adjudicate", ("expert",)),
        Screen("second_look", "Label review", ("expert",)),
        Screen("my_work", "My work", LABELLERS),
    ),
    "Campaign": (
        Screen("campaign", "Overview", OVERSEERS),
        Screen("queue", "Queue", OVERSEERS),
        Screen("data", "Sentences", EVERYONE),
        Screen("domains", "Domains", KEEPERS),
    ),
    "Corpus": (
        Screen("corpus", "Corpus", OVERSEERS),
        Screen("gazetteer", "Gazetteer", EVERYONE),
        Screen("coverage", "Coverage", OVERSEERS),
        Screen("overlap", "Overlap", OVERSEERS),
    ),
    "Model": (
        Screen("adaptation", "Adaptation", OVERSEERS),
        Screen("compare", "Compare", OVERSEERS),
        Screen("errors", "Errors", OVERSEERS),
        Screen("studies", "Studies", OVERSEERS),
        Screen("encoders", "Encoders", OVERSEERS),
    ),
    "Admin": (
        Screen("people", "People", ("admin",)),
        Screen("campaigns", "Campaigns", ("admin",)),
        Screen("doctor", "Doctor", ("admin",)),
    ),
    "You": (Screen("account", "My account", EVERYONE),),
}


def page_list(role: str) -> dict[str, list[st.Page]]:
    """Return the pages a role sees, by section."""
    pages: dict[str, list[st.Page]] = {}
    for section, screens in SECTIONS.items():
        for screen in screens:
            file = _HERE / f"{screen.file}.py"
            if role in screen.roles:
                page = st.Page(file, title=screen.title, url_path=screen.file, default=screen.file == "welcome")
                pages.setdefault(section, []).append(page)
    return pages


def main() -> None:
    """Draw the frame and run the page that the address names, if this person may see it."""
    st.set_page_config(page_title="CrossNER workbench", page_icon="🏷️", layout="wide", initial_sidebar_state=240)
    st.logo(_NAME, size="medium")
    st.html(f"<style>{_STYLE}</style>")
    actor = shell.signed_in()
    chosen = st.navigation(page_list(actor.role), expanded=True)
    shell.sidebar(actor)
    chosen.run()


if __name__ == "__main__":
    main()
