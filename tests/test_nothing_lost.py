"""The real app in a real browser, and everything that goes wrong around it: no edit gets lost, none changes hands."""

from __future__ import annotations

import datetime as dt
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from crossner_core.domains import load_domain
from db import account_rows
from db.engine import Store
from db.migrate import migrate
from db.tables import Annotation, AppliedEvent, Task, User
from db.types import now
from tests import builders
from tests.screens import give_session
from tests.serving import BROWSER_ARGUMENTS, CHROMIUM, ROOT, _wait_until_ready, free_port
from workbench import campaigns
from workbench.actors import Actor

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(120)]

KEYS = {kind.name: kind.key for kind in load_domain("music").types}
Spans = list[tuple[int, int, str]]


@dataclass
class App:
    """The server as a process that can be killed and started again on the same store and port."""

    home: Path
    store: Store
    people: dict[str, Actor]
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    url: str = ""

    def start(self) -> None:
        variables = {key: text for key, text in os.environ.items() if not key.startswith(("CROSSNER_", "STREAMLIT_"))}
        variables |= {"CROSSNER_HOME": str(self.home), "CROSSNER_PORT": str(self.port), "PYTHONUNBUFFERED": "1"}
        log = self.home / "server.log"
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "workbench.http.server"], cwd=ROOT, env=variables, stdout=output, stderr=output
            )
        self.url = _wait_until_ready(self.process, log)

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def limit_files(self, size: int) -> None:
        """Let the server write no file beyond `size` bytes, as if the disk were full."""
        assert self.process is not None
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

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
    running = App(home, store, builders.make_people(store))
    running.start()
    yield running
    running.kill()
    store.close()


@pytest.fixture
def campaign(app: App, request: pytest.FixtureRequest) -> int:
    return builders.make_campaign(app.store, app.people, name=request.node.name[:60])


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=BROWSER_ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def _browser_of(chromium: Any, app: App, name: str) -> Iterator[Any]:
    """Open a browser of its own in which this person is signed in."""
    context = chromium.new_context(base_url=app.url)
    _sign_in(context, app, name)
    yield context
    context.close()


def _sign_in(context: Any, app: App, name: str) -> None:
    token = give_session(app.store, app.people[name])
    context.add_cookies([{"name": "crossner_session", "value": token, "url": app.url}])


def _open(context: Any, campaign: int, path: str = "annotate") -> Any:
    page = context.new_page()
    _visit(page, campaign, path)
    return page


def _visit(page: Any, campaign: int, path: str = "annotate") -> None:
    page.goto(f"/{path}?campaign={campaign}")
    page.wait_for_selector(".editor", timeout=30_000)


def _task(page: Any) -> int:
    return int(page.locator(".editor").get_attribute("data-task") or 0)


def _status(page: Any) -> str:
    found: str = page.locator(".editor").get_attribute("data-status")
    return found


def _mark(page: Any, token: int, kind: str) -> None:
    """Give one token a type."""
    page.locator(f"#token-{token}").click()
    page.keyboard.press(KEYS[kind])


def _wait(check: Callable[[], Any], what: str, seconds: float = 20) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = check()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited {seconds} s for {what}")


def test_nothing_lost_between_two_tabs(app: App, campaign: int, chromium: Any) -> None:
    with _browser_of(chromium, app, "ann1") as context:
        one, two = _open(context, campaign), _open(context, campaign)
        task = _task(one)
        assert task == _task(two)
        one.bring_to_front()
        _mark(one, 0, "person")
        _wait(lambda: app.spans(task) == [(0, 1, "person")], "the first tab's draft")
        two.bring_to_front()
        _mark(two, 1, "band")
        _wait(lambda: _status(two) == "conflict", "the conflict")
        assert app.spans(task) == [(0, 1, "person")]
        two.get_by_role("button", name="keep mine").click()
        _wait(lambda: app.spans(task) == [(1, 2, "band")], "mine on top")
        one.bring_to_front()
        _mark(one, 2, "song")
        _wait(lambda: _status(one) == "conflict", "the other tab's conflict")
        one.get_by_role("button", name="take theirs").click()
        _wait(lambda: _status(one) == "saved", "Saved")
        assert one.locator(".mark.span").count() == 1
        assert app.spans(task) == [(1, 2, "band")]


def test_nothing_lost_by_reload_or_leaving(app: App, campaign: int, chromium: Any) -> None:
    with _browser_of(chromium, app, "ann1") as context:
        page = _open(context, campaign)
        task = _task(page)
        _mark(page, 0, "person")
        page.reload()  # sooner than the pause after which a draft is sent
        page.wait_for_selector(".mark.span", timeout=20_000)
        _wait(lambda: app.spans(task) == [(0, 1, "person")], "the draft from before the reload")
        _mark(page, 1, "band")
        page.get_by_role("link", name="My work").click()
        page.get_by_role("heading", name="My work").wait_for()
        page.get_by_role("link", name="Annotate").click()
        page.wait_for_selector(".mark.span")
        _wait(lambda: len(app.spans(task)) == 2, "the draft from before leaving the page")
        _wait(lambda: page.locator(".mark.span").count() == 2 and _status(page) == "saved", "both on the screen")


def test_nothing_lost_offline(app: App, campaign: int, chromium: Any) -> None:
    with _browser_of(chromium, app, "ann1") as context:
        page = _open(context, campaign)
        task = _task(page)
        context.set_offline(True)
        _mark(page, 0, "person")
        page.keyboard.press("Enter")
        _wait(lambda: _task(page) != task, "the next sentence without a connection")
        context.set_offline(False)
        _wait(lambda: app.state(task) == "submitted", "the submit", 40)
        _wait(lambda: _status(page) == "saved", "Saved")
        assert app.spans(task) == [(0, 1, "person")]


def test_nothing_lost_when_the_server_is_killed_again_and_again(app: App, campaign: int, chromium: Any) -> None:
    with _browser_of(chromium, app, "ann1") as context:
        page = _open(context, campaign)
        first = _task(page)
        _mark(page, 0, "person")
        _wait(lambda: _status(page) == "saved", "the acknowledgement")
        app.kill()
        assert app.spans(first) == [(0, 1, "person")], "an acknowledged edit is gone"
        _mark(page, 1, "band")
        page.keyboard.press("Enter")
        second = _task(page)
        _mark(page, 0, "album")
        _wait(lambda: _status(page) == "offline", "Not saved")
        assert app.state(first) == "draft"
        page.goto("about:blank")
        app.start()
        _visit(page, campaign)
        _wait(lambda: app.state(first) == "submitted", "the submit from before the kill")
        assert len(app.spans(first)) == 2
        _wait(lambda: app.spans(second) == [(0, 1, "album")], "the draft from before the kill")
        assert page.locator(".mark.span").count() == 1
        for pause in (0.0, 0.03, 0.1):
            before = _task(page)
            _mark(page, 1, "misc")
            page.keyboard.press("Enter")
            time.sleep(pause)
            app.kill()
            app.start()
            _wait(lambda task=before: app.state(task) == "submitted", f"the submit {pause} s before a kill", 40)
        _wait(lambda: _status(page) == "saved", "Saved")


def test_nothing_lost_to_another_name_after_a_restart(app: App, campaign: int, chromium: Any) -> None:
    with _browser_of(chromium, app, "ann1") as context:
        page = _open(context, campaign)
        task, before = _task(page), app.events_of("ann2")
        app.kill()
        _mark(page, 0, "person")
        _wait(lambda: _status(page) == "offline", "Not saved")
        _sign_in(context, app, "ann2")
        app.start()
        page.get_by_text("Somebody else left changes in this browser").wait_for(timeout=40_000)
        _wait(lambda: page.locator(".editor").count() == 1, "one editor")
        time.sleep(5)  # longer than the browser waits before it sends again
        assert (app.events_of("ann2"), app.spans(task, "ann2"), app.spans(task)) == (before, [], [])
        assert page.locator(".mark.span").count() == 0
        _sign_in(context, app, "ann1")
        _visit(page, campaign)
        _wait(lambda: app.spans(task) == [(0, 1, "person")], "the edit under its author's name")


def test_nothing_lost_or_shown_when_another_signs_in(app: App, campaign: int, chromium: Any) -> None:
    with _browser_of(chromium, app, "ann1") as context:
        page = _open(context, campaign)
        task = _task(page)
        _mark(page, 0, "person")
        page.get_by_role("button", name="Sign out").click()  # the draft may not have been sent yet
        page.wait_for_selector("#password")
        before = app.events_of("ann2")
        _sign_in(context, app, "ann2")
        _visit(page, campaign)
        time.sleep(5)
        assert page.locator(".mark.span").count() == 0 and app.events_of("ann2") == before
        assert app.spans(task, "ann2") == []
        context.clear_cookies()
        _sign_in(context, app, "ann1")
        _visit(page, campaign)
        _wait(lambda: app.spans(task) == [(0, 1, "person")], "the draft of the first person")


def test_nothing_lost_when_a_session_is_revoked(app: App, campaign: int, chromium: Any) -> None:
    with _browser_of(chromium, app, "ann1") as context:
        page = _open(context, campaign)
        task = _task(page)
        with app.store.write() as session:
            account_rows.revoke_sessions_of(session, user_id=app.people["ann1"].id)
        _mark(page, 0, "person")
        page.wait_for_selector("#password", timeout=20_000)
        assert app.state(task) == "none"
        _sign_in(context, app, "ann1")
        _visit(page, campaign)
        _wait(lambda: app.spans(task) == [(0, 1, "person")], "the edit after signing in again")


def test_nothing_lost_when_a_role_changes(app: App, campaign: int, chromium: Any) -> None:
    with _browser_of(chromium, app, "ann3") as context:
        page = _open(context, campaign)
        task = _task(page)
        _set_role(app, "ann3", "researcher")
        _mark(page, 0, "person")
        page.get_by_text("is a researcher").wait_for(timeout=20_000)
        assert app.state(task, "ann3") == "none"
        _set_role(app, "ann3", "annotator")
        _visit(page, campaign)
        _wait(lambda: app.spans(task, "ann3") == [(0, 1, "person")], "the edit under the old role")


def _set_role(app: App, name: str, role: str) -> None:
    with app.store.write() as session:
        session.get_one(User, app.people[name].id).role = role


def test_nothing_lost_when_a_campaign_is_archived(app: App, campaign: int, chromium: Any) -> None:
    with _browser_of(chromium, app, "ann1") as context:
        page = _open(context, campaign)
        task = _task(page)
        campaigns.update_settings(app.store, app.people["adm"], campaign, archived=True)
        _mark(page, 0, "person")
        page.get_by_text("is archived").wait_for(timeout=20_000)
        assert app.state(task) != "submitted"
        campaigns.update_settings(app.store, app.people["adm"], campaign, archived=False)
        _visit(page, campaign)
        _wait(lambda: _task(page) == task and page.locator(".mark.span").count() == 1, "the work from before")
        _mark(page, 1, "band")
        _wait(lambda: app.spans(task) == [(0, 1, "person"), (1, 2, "band")], "work on top of it")


def test_nothing_lost_when_the_lease_ran_out(app: App, campaign: int, chromium: Any) -> None:
    with _browser_of(chromium, app, "ann1") as context:
        page = _open(context, campaign)
        task = _task(page)
        with app.store.write() as session:
            for row in session.scalars(sa.select(Task).where(Task.campaign_id == campaign)):
                row.lease_expires = now() - dt.timedelta(minutes=1) if row.lease_expires else None
        other = builders.Tab(app.store, app.people["ann2"], campaign, "annotate")
        theirs = next(item for item in other.items(6) if item["task"] == task)
        assert other.do("submit", theirs, [(2, 3, "song")]).rejections == []
        _mark(page, 0, "person")
        page.keyboard.press("Enter")
        page.get_by_text("finished this sentence").wait_for(timeout=20_000)
        assert app.spans(task, "ann2") == [(2, 3, "song")] and app.state(task, "ann2") == "submitted"
        assert app.spans(task) == [(0, 1, "person")] and app.state(task) == "superseded"
        _wait(lambda: _task(page) != task, "another sentence")


def test_nothing_lost_when_the_disk_is_full(app: App, campaign: int, chromium: Any) -> None:
    with _browser_of(chromium, app, "ann1") as context:
        page = _open(context, campaign)
        task = _task(page)
        app.limit_files(0)
        try:
            _mark(page, 0, "person")
            page.get_by_text("Not saved. Your changes wait").wait_for(timeout=20_000)
            page.keyboard.press("Enter")
            _wait(lambda: _task(page) != task, "the next sentence on a full disk")
            _wait(lambda: _status(page) == "offline", "Not saved")
            assert app.state(task) == "none"
        finally:
            app.limit_files(resource.RLIM_INFINITY)
        _wait(lambda: app.state(task) == "submitted", "the edit once there is space")
        assert app.spans(task) == [(0, 1, "person")]
        _wait(lambda: _status(page) == "saved", "Saved")
        assert page.get_by_text("Not saved. Your changes wait").count() == 0
