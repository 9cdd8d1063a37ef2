"""The real server as a process that tests kill and start again, and browsers in which people are signed in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import sqlalchemy as sa

from crossner_core.domains import load_domain
from db.engine import Store
from db.migrate import migrate
from db.tables import Annotation, AppliedEvent
from tests.support import builders
from tests.support.screens import give_session
from tests.support.serving import BROWSER_ARGUMENTS, CHROMIUM, Server
from workbench.accounts.actors import Actor

KEYS = {kind.name: kind.key for kind in load_domain("music").types}
Spans = list[tuple[int, int, str]]


@dataclass(kw_only=True)
class App(Server):
    """The server with its store and people, so that tests see what it kept."""

    store: Store
    people: dict[str, Actor]

    def spans(self, task: int, name: str = "ann1") -> Spans:
        """What the database holds of a person's work on a task."""
        with self.store.read() as session:
            work = self._work(session, task, name)
            return [(span.start, span.end, span.type) for span in work.spans] if work else []

    def state(self, task: int, name: str = "ann1") -> str:
        """Return the state of a person's work on a task."""
        with self.store.read() as session:
            work = self._work(session, task, name)
            return work.state if work else "none"

    def _work(self, session: Any, task: int, name: str) -> Annotation | None:
        where = (Annotation.task_id == task, Annotation.user_id == self.people[name].id)
        found: Annotation | None = session.scalar(sa.select(Annotation).where(*where))
        return found

    def events_of(self, name: str) -> int:
        """Count the events that were applied under a person's name."""
        query = sa.select(sa.func.count()).select_from(AppliedEvent)
        with self.store.read() as session:
            return session.scalar(query.where(AppliedEvent.user_id == self.people[name].id)) or 0


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    home = tmp_path_factory.mktemp("home")
    store = Store(f"sqlite:///{home / 'workbench.sqlite3'}")
    migrate(store)
    running = App(home=home, store=store, people=builders.make_people(store))
    running.start()
    yield running
    running.kill()
    store.close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=BROWSER_ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def browser_of(chromium: Any, app: App, name: str) -> Iterator[Any]:
    """Open a browser of its own in which this person is signed in."""
    context = chromium.new_context(base_url=app.url)
    sign_in(context, app, name)
    yield context
    context.close()


def sign_in(context: Any, app: App, name: str) -> None:
    token = give_session(app.store, app.people[name])
    context.add_cookies([{"name": "crossner_session", "value": token, "url": app.url}])


def open_screen(context: Any, campaign: int, path: str = "annotate") -> Any:
    page = context.new_page()
    visit(page, campaign, path)
    return page


def visit(page: Any, campaign: int, path: str = "annotate") -> None:
    page.goto(f"/{path}?campaign={campaign}")
    page.wait_for_selector(".editor", timeout=30_000)


def task_of(page: Any) -> int:
    return int(page.locator(".editor").get_attribute("data-task") or 0)


def status_of(page: Any) -> str:
    found: str = page.locator(".editor").get_attribute("data-status")
    return found


def mark(page: Any, token: int, kind: str) -> None:
    """Give one token a type."""
    page.locator(f"#token-{token}").click()
    page.keyboard.press(KEYS[kind])


def wait(check: Callable[[], Any], what: str, seconds: float = 20) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = check()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited {seconds} s for {what}")
