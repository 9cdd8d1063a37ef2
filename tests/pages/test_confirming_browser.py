"""A check in the real app: ringed spans are confirmed by key before it goes, and the expert asks by key."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from db.tables import Annotation, AnnotationVersion
from tests.support import builders
from tests.support.editor.browser import AFTER_ENTER_MS, FOCUSED
from tests.support.live import App, app, browser_of, chromium, open_screen, status_of, task_of, visit, wait
from workbench.campaigns import campaigns
from workbench.labelling import adjudication

__all__ = ["app", "chromium"]

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture
def campaign(app: App, request: pytest.FixtureRequest) -> int:
    """A campaign whose sentences wait for their check, with nothing drawn at random."""
    made = builders.make_campaign(app.store, app.people, name=request.node.name[:60], confirm_share=0.0)
    builders.Tab(app.store, app.people["ann1"], made, "annotate").submit_all()
    return made


def said(page: Any) -> str:
    text: str = page.locator(".say").inner_text()
    return text


def kept(app: App, task: int) -> dict[str, Any]:
    """Return the version of annotator 2's work that was kept."""
    with app.store.read() as session:
        query = sa.select(AnnotationVersion).join(Annotation).where(Annotation.task_id == task)
        return dict(session.scalars(query).one().work)


def test_check_goes_once_every_ringed_span_is_looked_at(app: App, campaign: int, chromium: Any) -> None:
    with browser_of(chromium, app, "ann2") as context:
        page = open_screen(context, campaign, "check")
        task = task_of(page)
        assert page.locator(".mark.wanted").count() == 3
        assert "Annotator 1: by hand; to confirm: new here" in page.locator(".why").inner_text()
        assert "Mara Vell: new here · The Tin Gulls: new here" in page.locator(".to-confirm").inner_text()
        for _ in range(2):
            page.keyboard.press("Enter")
            assert "Confirm Mara Vell (and 2 more spans): new here." in said(page)
            page.wait_for_timeout(AFTER_ENTER_MS)
        page.keyboard.press("Space")
        assert "Mara Vell confirmed. 2 to go." in said(page)
        wait(lambda: status_of(page) == "saved" and app.state(task, "ann2") == "draft", "the draft")
        page.goto("about:blank")
        visit(page, campaign, "check")
        assert page.locator(".mark.wanted").count() == 2
        page.keyboard.press("1")
        page.keyboard.press("!")
        page.keyboard.type("a town?")
        page.keyboard.press("Enter")
        assert page.locator(".mark.wanted").count() == 0
        page.keyboard.press("Enter")
        wait(lambda: app.state(task, "ann2") == "submitted", "the check")
    outcomes = [(start, outcome) for start, _, _, _, outcome in kept(app, task)["to_confirm"]]
    assert outcomes == [(0, "confirmed"), (4, "confirmed"), (8, "flagged")]


def test_check_of_a_page_that_asked_for_nothing_comes_back_with_what_to_confirm(
    app: App, campaign: int, chromium: Any
) -> None:
    campaigns.update_settings(app.store, app.people["adm"], campaign, confirm="none")
    with browser_of(chromium, app, "ann2") as context:
        page = open_screen(context, campaign, "check")
        task = task_of(page)
        assert page.locator(".mark.wanted").count() == 0
        campaigns.update_settings(app.store, app.people["adm"], campaign, confirm="all")
        page.keyboard.press("Enter")
        wait(lambda: status_of(page) == "refused", "the refusal")
        assert "Not confirmed yet (3): 'Mara Vell': new here" in page.locator(".status").inner_text()
        assert app.state(task, "ann2") == "none"
        page.goto("about:blank")
        visit(page, campaign, "check")
        assert (task_of(page), page.locator(".mark.wanted").count()) == (task, 3)
        for key in ("Space", "Space", "Space", "Enter"):
            page.keyboard.press(key)
        wait(lambda: app.state(task, "ann2") == "submitted", "the check")


def test_expert_asks_one_annotator_by_key_and_is_back_in_a_sentence(app: App, campaign: int, chromium: Any) -> None:
    builders.Tab(app.store, app.people["ann2"], campaign, "check").submit_all()
    with browser_of(chromium, app, "eva") as context:
        page = open_screen(context, campaign, "adjudicate")
        task = task_of(page)
        page.keyboard.press("!")
        for key in ("2", "Escape", "!", "2"):
            page.keyboard.press(key)
        pressed = page.locator(".panel [aria-pressed=true]")
        assert pressed.get_attribute("data-asks") == "second"
        page.keyboard.type("A town, or 2?")
        page.keyboard.press("Enter")
        wait(lambda: task_of(page) != task, "the next sentence")
        assert "Asked annotator 2" in said(page)
        assert page.evaluate(FOCUSED), "the focus is not in the sentence"
        page.get_by_text("You asked annotator 2: A town, or 2?").wait_for(timeout=20_000)
    (question,) = adjudication.my_questions(app.store, app.people["ann2"], campaign)
    assert (question.text, question.asks, question.task_id) == ("A town, or 2?", "second", task)
    assert adjudication.my_questions(app.store, app.people["ann1"], campaign) == ()
