"""The real app in a real browser, and everything that goes wrong around it: no edit gets lost, none changes hands."""

from __future__ import annotations

import datetime as dt
import resource
import time
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from crossner_core.domains import load_domain
from db import account_rows
from db.tables import Annotation, Task, User
from db.types import now
from tests.support import builders
from tests.support.live import (
    App,
    app,
    browser_of,
    chromium,
    mark,
    open_screen,
    sign_in,
    status_of,
    task_of,
    visit,
    wait,
)
from workbench.campaigns import campaigns

__all__ = ["app", "chromium"]

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture
def campaign(app: App, request: pytest.FixtureRequest) -> int:
    return builders.make_campaign(app.store, app.people, name=request.node.name[:60])


def test_nothing_lost_between_two_tabs(app: App, campaign: int, chromium: Any) -> None:
    with browser_of(chromium, app, "ann1") as context:
        one, two = open_screen(context, campaign), open_screen(context, campaign)
        task = task_of(one)
        assert task == task_of(two)
        one.bring_to_front()
        mark(one, 0, "person")
        wait(lambda: app.spans(task) == [(0, 1, "person")], "the first tab's draft")
        two.bring_to_front()
        mark(two, 1, "band")
        wait(lambda: status_of(two) == "conflict", "the conflict")
        assert app.spans(task) == [(0, 1, "person")]
        two.get_by_role("button", name="keep mine").click()
        wait(lambda: app.spans(task) == [(1, 2, "band")], "mine on top")
        one.bring_to_front()
        mark(one, 2, "song")
        wait(lambda: status_of(one) == "conflict", "the other tab's conflict")
        one.get_by_role("button", name="take theirs").click()
        wait(lambda: status_of(one) == "saved", "Saved")
        assert one.locator(".mark.span").count() == 1
        assert app.spans(task) == [(1, 2, "band")]


def test_nothing_lost_by_reload_or_leaving(app: App, campaign: int, chromium: Any) -> None:
    with browser_of(chromium, app, "ann1") as context:
        page = open_screen(context, campaign)
        task = task_of(page)
        mark(page, 0, "person")
        page.reload()  # sooner than the pause after which a draft is sent
        page.wait_for_selector(".mark.span", timeout=20_000)
        wait(lambda: app.spans(task) == [(0, 1, "person")], "the draft from before the reload")
        mark(page, 1, "band")
        page.get_by_role("link", name="My work").click()
        page.get_by_role("heading", name="My work").wait_for()
        page.get_by_role("link", name="Annotate").click()
        page.wait_for_selector(".mark.span")
        wait(lambda: len(app.spans(task)) == 2, "the draft from before leaving the page")
        wait(lambda: page.locator(".mark.span").count() == 2 and status_of(page) == "saved", "both on the screen")


def test_nothing_lost_when_a_type_is_taken_away_under_an_open_page(app: App, campaign: int, chromium: Any) -> None:
    music = load_domain("music")
    fewer = replace(music, types=tuple(kind for kind in music.types if kind.name != "band"))
    with browser_of(chromium, app, "ann1") as context:
        page = open_screen(context, campaign)
        task = task_of(page)
        campaigns.update_domain(app.store, app.people["adm"], campaign, fewer)
        mark(page, 0, "band")
        wait(lambda: status_of(page) == "refused", "the refusal")
        mark(page, 2, "person")
        page.wait_for_timeout(1_000)
        wait(lambda: status_of(page) == "refused", "the second refusal")
        assert page.locator('.chip[data-type="band"]').count() == 0
        page.reload()
        page.wait_for_selector(".mark.span", timeout=20_000)
        assert page.locator(".mark.span").count() == 2
        assert "'band'" in page.locator(".status").inner_text()
        mark(page, 0, "song")
        wait(lambda: app.spans(task) == [(0, 1, "song"), (2, 3, "person")], "the mended work")
        wait(lambda: status_of(page) == "saved", "Saved")
        assert not page.get_by_role("button", name="Discard my changes").is_visible()


def test_nothing_lost_offline(app: App, campaign: int, chromium: Any) -> None:
    with browser_of(chromium, app, "ann1") as context:
        page = open_screen(context, campaign)
        task = task_of(page)
        context.set_offline(True)
        mark(page, 0, "person")
        page.keyboard.press("Enter")
        wait(lambda: task_of(page) != task, "the next sentence without a connection")
        context.set_offline(False)
        wait(lambda: app.state(task) == "submitted", "the submit", 40)
        wait(lambda: status_of(page) == "saved", "Saved")
        assert app.spans(task) == [(0, 1, "person")]


def test_nothing_lost_when_the_server_is_killed_again_and_again(app: App, campaign: int, chromium: Any) -> None:
    with browser_of(chromium, app, "ann1") as context:
        page = open_screen(context, campaign)
        first = task_of(page)
        mark(page, 0, "person")
        wait(lambda: status_of(page) == "saved", "the acknowledgement")
        app.kill()
        assert app.spans(first) == [(0, 1, "person")], "an acknowledged edit is gone"
        mark(page, 1, "band")
        page.keyboard.press("Enter")
        second = task_of(page)
        mark(page, 0, "album")
        wait(lambda: status_of(page) == "offline", "Not saved")
        assert app.state(first) == "draft"
        page.goto("about:blank")
        app.start()
        visit(page, campaign)
        wait(lambda: app.state(first) == "submitted", "the submit from before the kill")
        assert len(app.spans(first)) == 2
        wait(lambda: app.spans(second) == [(0, 1, "album")], "the draft from before the kill")
        assert page.locator(".mark.span").count() == 1
        for pause in (0.0, 0.05):
            before = task_of(page)
            mark(page, 1, "misc")
            page.keyboard.press("Enter")
            time.sleep(pause)
            app.kill()
            app.start()
            wait(lambda task=before: app.state(task) == "submitted", f"the submit {pause} s before a kill", 40)
        wait(lambda: status_of(page) == "saved", "Saved")


def test_nothing_lost_to_another_name_after_a_restart(app: App, campaign: int, chromium: Any) -> None:
    with browser_of(chromium, app, "ann1") as context:
        page = open_screen(context, campaign)
        task, before = task_of(page), app.events_of("ann2")
        app.kill()
        mark(page, 0, "person")
        wait(lambda: status_of(page) == "offline", "Not saved")
        sign_in(context, app, "ann2")
        app.start()
        page.get_by_text("Somebody else left unsaved changes in this browser").wait_for(timeout=40_000)
        wait(lambda: page.locator(".editor").count() == 1, "one editor")
        time.sleep(5)  # longer than the browser waits before it sends again
        assert (app.events_of("ann2"), app.spans(task, "ann2"), app.spans(task)) == (before, [], [])
        assert page.locator(".mark.span").count() == 0
        sign_in(context, app, "ann1")
        visit(page, campaign)
        wait(lambda: app.spans(task) == [(0, 1, "person")], "the edit under its author's name")


def test_nothing_lost_or_shown_when_another_signs_in(app: App, campaign: int, chromium: Any) -> None:
    with browser_of(chromium, app, "ann1") as context:
        page = open_screen(context, campaign)
        task = task_of(page)
        mark(page, 0, "person")
        page.get_by_role("button", name="Sign out").click()  # the draft may not have been sent yet
        page.wait_for_selector("#password")
        before = app.events_of("ann2")
        sign_in(context, app, "ann2")
        visit(page, campaign)
        time.sleep(5)
        assert page.locator(".mark.span").count() == 0 and app.events_of("ann2") == before
        assert app.spans(task, "ann2") == []
        context.clear_cookies()
        sign_in(context, app, "ann1")
        visit(page, campaign)
        wait(lambda: app.spans(task) == [(0, 1, "person")], "the draft of the first person")


def test_nothing_lost_when_a_session_is_revoked(app: App, campaign: int, chromium: Any) -> None:
    with browser_of(chromium, app, "ann1") as context:
        page = open_screen(context, campaign)
        task = task_of(page)
        with app.store.write() as session:
            account_rows.revoke_sessions_of(session, user_id=app.people["ann1"].id)
        mark(page, 0, "person")
        page.get_by_text("Not saved: you are signed out.").wait_for(timeout=20_000)
        assert app.state(task) == "none" and page.locator(".mark.span").count() == 1
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_selector("#password")
        assert page.url.endswith(f"/auth/login?next=%2Fannotate%3Fcampaign%3D{campaign}")
        sign_in(context, app, "ann1")
        visit(page, campaign)
        wait(lambda: app.spans(task) == [(0, 1, "person")], "the edit after signing in again")


def test_nothing_lost_when_a_role_changes(app: App, campaign: int, chromium: Any) -> None:
    with browser_of(chromium, app, "ann3") as context:
        page = open_screen(context, campaign)
        task = task_of(page)
        _set_role(app, "ann3", "researcher")
        mark(page, 0, "person")
        page.get_by_text("is a researcher").wait_for(timeout=20_000)
        assert app.state(task, "ann3") == "none"
        _set_role(app, "ann3", "annotator")
        visit(page, campaign)
        wait(lambda: app.spans(task, "ann3") == [(0, 1, "person")], "the edit under the old role")


def _set_role(app: App, name: str, role: str) -> None:
    with app.store.write() as session:
        session.get_one(User, app.people[name].id).role = role


def test_nothing_lost_when_a_campaign_is_archived(app: App, campaign: int, chromium: Any) -> None:
    with browser_of(chromium, app, "ann1") as context:
        page = open_screen(context, campaign)
        task = task_of(page)
        campaigns.update_settings(app.store, app.people["adm"], campaign, archived=True)
        mark(page, 0, "person")
        page.get_by_text("is archived").wait_for(timeout=20_000)
        assert app.state(task) != "submitted"
        campaigns.update_settings(app.store, app.people["adm"], campaign, archived=False)
        visit(page, campaign)
        wait(lambda: task_of(page) == task and page.locator(".mark.span").count() == 1, "the work from before")
        mark(page, 1, "band")
        wait(lambda: app.spans(task) == [(0, 1, "person"), (1, 2, "band")], "work on top of it")


def test_nothing_lost_when_the_lease_ran_out(app: App, campaign: int, chromium: Any) -> None:
    with browser_of(chromium, app, "ann1") as context:
        page = open_screen(context, campaign)
        task = task_of(page)
        with app.store.write() as session:
            for row in session.scalars(sa.select(Task).where(Task.campaign_id == campaign)):
                row.lease_expires = now() - dt.timedelta(minutes=1) if row.lease_expires else None
        other = builders.Tab(app.store, app.people["ann2"], campaign, "annotate")
        theirs = next(item for item in other.items(6) if item["task"] == task)
        assert other.do("submit", theirs, [(2, 3, "song")]).rejections == []
        mark(page, 0, "person")
        page.keyboard.press("Enter")
        page.get_by_text("finished this sentence").wait_for(timeout=20_000)
        assert app.spans(task, "ann2") == [(2, 3, "song")] and app.state(task, "ann2") == "submitted"
        assert app.spans(task) == [(0, 1, "person")] and app.state(task) == "superseded"
        wait(lambda: task_of(page) != task, "another sentence")


def test_nothing_lost_when_the_disk_is_full(app: App, campaign: int, chromium: Any) -> None:
    with browser_of(chromium, app, "ann1") as context:
        page = open_screen(context, campaign)
        task = task_of(page)
        app.limit_files(0)
        try:
            mark(page, 0, "person")
            page.get_by_text("Not saved. Your changes wait").wait_for(timeout=20_000)
            page.keyboard.press("Enter")
            wait(lambda: task_of(page) != task, "the next sentence on a full disk")
            wait(lambda: status_of(page) == "offline", "Not saved")
            assert app.state(task) == "none"
        finally:
            app.limit_files(resource.RLIM_INFINITY)
        wait(lambda: app.state(task) == "submitted", "the edit once there is space")
        assert app.spans(task) == [(0, 1, "person")]
        wait(lambda: status_of(page) == "saved", "Saved")
        assert page.get_by_text("Not saved. Your changes wait").count() == 0


def test_nothing_lost_by_reopening_before_and_after_the_next_stage(app: App, campaign: int, chromium: Any) -> None:
    with browser_of(chromium, app, "ann1") as context:
        page = open_screen(context, campaign)
        task = task_of(page)
        mark(page, 0, "person")
        page.keyboard.press("Enter")
        wait(lambda: app.state(task) == "submitted", "the first submit")
        page.keyboard.press("Shift+Enter")
        wait(lambda: task_of(page) == task and app.state(task) == "draft", "the sentence back")
        page.wait_for_timeout(1_000)  # until the server's list of what comes next is there
        assert task_of(page) == task, "the sentence that was brought back went away again"
        mark(page, 1, "band")
        page.keyboard.press("Enter")
        wait(lambda: app.state(task) == "submitted", "the second submit")
        assert app.spans(task) == [(0, 1, "person"), (1, 2, "band")]
        checker = builders.Tab(app.store, app.people["ann2"], campaign, "check")
        assert len(checker.items()) == 1
        page.keyboard.press("Shift+Enter")
        page.get_by_text("The next stage of this sentence has begun").wait_for(timeout=20_000)
        wait(lambda: status_of(page) == "saved" and task_of(page) != task, "the next sentence")
        assert app.state(task) == "submitted" and len(app.spans(task)) == 2


def test_nothing_lost_by_three_browsers_through_all_stages(app: App, campaign: int, chromium: Any) -> None:
    """Three experts work side by side: everything becomes gold, and nobody has a sentence at two stages."""
    names = ("eva", "ena", "edo")
    for name in names[1:]:
        if name not in app.people:
            app.people[name] = builders.make_person(app.store, name, "expert")
    campaigns.add_members(app.store, app.people["adm"], campaign, [app.people[name].id for name in names])
    with (
        browser_of(chromium, app, "eva") as one,
        browser_of(chromium, app, "ena") as two,
        browser_of(chromium, app, "edo") as three,
    ):
        pages = [open_screen(context, campaign) for context in (one, two, three)]
        for path in ("annotate", "check", "adjudicate"):
            for page in pages:
                visit(page, campaign, path)
            _empty_the_queue(app, campaign, pages, path)
    with app.store.read() as session:
        work = session.execute(
            sa.select(Task.sentence_id, Task.stage, Annotation.user_id)
            .join(Annotation)
            .where(Task.campaign_id == campaign, Annotation.state == "submitted")
        ).all()
    assert len(work) == 3 * len(builders.SENTENCES)
    assert len({(sentence, user) for sentence, _, user in work}) == len(work), "somebody worked at two stages"


def _empty_the_queue(app: App, campaign: int, pages: list[Any], stage: str) -> None:
    end = time.monotonic() + 40
    while _done(app, campaign, stage) < len(builders.SENTENCES):
        assert time.monotonic() < end, f"{stage}: {_done(app, campaign, stage)} done"
        for page in pages:
            page.bring_to_front()
            if task_of(page):
                page.locator("[role=listbox]").first.focus()
                if stage == "annotate":
                    page.keyboard.press("0")
                page.keyboard.press("Enter")
            page.wait_for_timeout(60)


def _done(app: App, campaign: int, stage: str) -> int:
    where = (Task.campaign_id == campaign, Task.stage == stage, Task.state == "done")
    with app.store.read() as session:
        return session.scalar(sa.select(sa.func.count()).select_from(Task).where(*where)) or 0
