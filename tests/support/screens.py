"""Run one screen in Streamlit's own test runner, with a real session in the store for the person who looks at it."""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from crossner_core.options.base import option
from db import account_rows
from db.engine import Store
from db.types import now
from pages import shell
from pages.components.html_report import HtmlReport
from tests.support.paths import ROOT
from workbench.accounts.actors import Actor
from workbench.accounts.sign_in import token_hash

PAGES = ROOT / "pages"
PATIENCE_S = 20.0  # for one run of a page, on a busy machine too


def give_session(store: Store, actor: Actor) -> str:
    """Sign the person in without a password and return the token."""
    token = secrets.token_urlsafe(16)
    with store.write() as session:
        account_rows.open_session(
            session, user_id=actor.id, token_hash=token_hash(token), expires_at=now() + dt.timedelta(hours=1)
        )
    return token


def open_screen(
    monkeypatch: pytest.MonkeyPatch,
    store: Store,
    screen: str,
    actor: Actor | None,
    *,
    campaign: int | None = None,
    query: dict[str, str] | None = None,
    timeout: float = PATIENCE_S,
) -> AppTest:
    """Run `pages/<screen>.py` as this person (None: a stranger) and return it; `main` draws the frame around Start.

    `campaign` is the one chosen in the sidebar, which a screen alone does not draw; `query` is the address's.
    """
    token = give_session(store, actor) if actor is not None else ""
    monkeypatch.setattr(shell, "store", lambda: store)
    monkeypatch.setattr(shell, "session_token", lambda: token)
    st.cache_resource.clear()
    st.cache_data.clear()
    test = AppTest.from_file(PAGES / f"{screen}.py", default_timeout=timeout)
    if campaign is not None:
        test.session_state["campaign"] = campaign
    for name, value in (query or {}).items():
        test.query_params[name] = value
    return test.run()


def part(draw: Callable[..., None], *args: object) -> AppTest:
    """Return a page of which this function draws the whole, not yet run; it imports what it needs itself."""
    return AppTest.from_function(draw, default_timeout=PATIENCE_S, args=args)


def made_reports(monkeypatch: pytest.MonkeyPatch, *modules: str) -> dict[str, str]:
    """Return what fills with the reports that pages offer, as HTML by name; `modules` are those that offer them.

    Each is made in another thread, as on a click: there is no session state there.
    """
    made: dict[str, str] = {}

    def keep(make: Callable[[], HtmlReport], *, name: str) -> None:
        with ThreadPoolExecutor(1) as threads:
            made[name] = threads.submit(make).result().data().decode()

    for module in modules:
        monkeypatch.setattr(f"{module}.report_download", keep)
    return made


def healthy(test: AppTest) -> AppTest:
    """Return the screen, which shows no exception."""
    assert not test.exception, [each.value for each in test.exception]
    return test


def html(test: AppTest) -> str:
    """Return the HTML that stands on the screen."""
    return "\n".join(element.proto.body for element in test.get("html"))


def words(test: AppTest) -> str:
    """Return what stands on the screen, messages, texts and HTML."""
    kinds = (test.error, test.warning, test.info, test.success, test.caption, test.text, test.markdown, test.code)
    return "\n".join([*(str(element.value) for kind in kinds for element in kind), html(test)])


def press(test: AppTest, label: str) -> AppTest:
    """Press the first button whose label starts so."""
    next(button for button in test.button if button.label.startswith(label)).click()
    return healthy(test.run())


@dataclass(frozen=True)
class OwnOptions:
    """Options of a test: one that decides about another, and a list."""

    mode: str = option("plain", "What to do.", choices=("plain", "fancy"))
    twist: float = option(0.5, "How much of it.", min=0.0, max=1.0, only={"mode": ("fancy",)})
    sizes: tuple[int, ...] = option((10, 25), "Numbers of sentences.")
