"""What a person sees after going on, in a real browser: the search is as it was, and what was done is in sight."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import builders
from tests.support.editor.people import Person
from tests.support.live import App, app, browser_of, chromium, open_screen, task_of, wait
from workbench.data import browsing
from workbench.data.searching import Search

__all__ = ["app", "chromium"]

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture
def sent(app: App) -> int:
    """A campaign in which ann1 has sent three sentences."""
    campaign = builders.make_campaign(app.store, app.people, name="Sent")
    tab = builders.Tab(app.store, app.people["ann1"], campaign, "annotate")
    for item in tab.items(3):
        tab.do("submit", item, [(0, 2, "musicalartist")])
    return campaign


def test_a_hit_opens_in_the_editor_and_back_leads_to_the_same_search(app: App, sent: int, chromium: Any) -> None:
    line = browsing.browse(app.store, app.people["res"], sent, Search(text="cello")).lines[0]
    with browser_of(chromium, app, "ann1") as context:
        page = context.new_page()
        page.goto(f"/data?campaign={sent}")
        box = page.get_by_role("searchbox")
        box.fill("mara|cello")
        box.press("Enter")
        page.get_by_text("No sentence matches.").wait_for()
        page.get_by_text("Regular expression").click()
        page.get_by_text("1–2 of 2 sentences").wait_for()
        assert "q=mara" in page.url and "regex=true" in page.url

        box.fill("the (cello|album)")
        box.press("Enter")
        page.get_by_text("1–2 of 2 sentences").wait_for()
        box.fill("(x+x+)+y|the cello")
        box.press("Enter")
        page.get_by_text("1–1 of 1 sentences").wait_for()
        page.get_by_role("button", name="Open in Annotate").click()
        page.wait_for_selector(".editor", timeout=30_000)
        wait(lambda: page.locator(".editor").get_attribute("data-task"), "the task")
        with app.store.read() as session:
            from db.tables import Task

            opened = session.get(Task, task_of(page))
        assert opened is not None and (opened.sentence_id, opened.state) == (line.id, "leased")

        page.get_by_role("link", name="Back to the search").click()
        page.get_by_text("1–1 of 1 sentences").wait_for()
        assert page.get_by_role("searchbox").input_value() == "(x+x+)+y|the cello"
        page.go_back()
        page.wait_for_selector(".editor", timeout=30_000)
        page.go_back()
        page.get_by_text("1–1 of 1 sentences").wait_for()
        assert page.get_by_role("searchbox").input_value() == "(x+x+)+y|the cello"


def test_types_proposed_in_all_hits_reach_the_next_annotator(app: App, chromium: Any) -> None:
    campaign = builders.make_campaign(app.store, app.people, name="Proposed")
    with browser_of(chromium, app, "eva") as context:
        person = _proposing(context, campaign)
        person.presses("Propose in 1 place")
        person.reads("1 suggestion written")
    with browser_of(chromium, app, "ann2") as context:
        page = open_screen(context, campaign)
        page.get_by_text("a search (eva").first.wait_for()


def test_a_person_who_goes_on_at_once_still_reads_what_was_written(app: App, chromium: Any) -> None:
    campaign = builders.make_campaign(app.store, app.people, name="Hasty")
    with browser_of(chromium, app, "eva") as context:
        person = _proposing(context, campaign)
        button = person.page.get_by_role("button", name="Propose in 1 place")
        switch = person.page.get_by_label("Regular expression")
        goes_on = "(button, onward) => { button.click(); setTimeout(() => onward.click(), 2) }"
        button.evaluate(goes_on, switch.element_handle())
        wait(switch.is_checked, "the switch")
        person.rests()
        person.ticks("Regular expression")
        person.reads("1 suggestion written")


def _proposing(context: Any, campaign: int) -> Person:
    """Open Sentences at a search, and choose what to propose in its hits."""
    person = Person("eva", context.new_page())
    person.page.goto(f"/data?campaign={campaign}&q=mara+vell")
    person.ticks("Propose a type in all hits")
    person.chooses("Type to propose for", "musical artist")
    person.reads("1 place in 1 sentence")
    return person


def test_a_note_of_success_is_in_sight_for_a_while_of_who_has_scrolled(app: App, chromium: Any) -> None:
    with browser_of(chromium, app, "ann1") as context:
        page = context.new_page()
        page.set_viewport_size({"width": 1200, "height": 400})
        page.goto("/account")
        notes = page.locator('[class*="st-key-notes-"]')

        def rename(name: str) -> None:
            page.get_by_label("Display name").fill(name)
            page.get_by_role("button", name="Change the name").click()
            page.get_by_text(f"{name} · annotator").wait_for()

        def place() -> float:
            """Scroll down and return how far below the window's top the notes are."""
            page.locator('[data-testid="stMain"]').evaluate("main => { main.scrollTop = 260 }")
            box = notes.bounding_box()
            return box["y"] if box and box["height"] else -1.0

        for name in ("Ann One", "Ann Two"):  # the second comes while the first is still drawn
            rename(name)
            wait(lambda: 0 < place() < 200, "a note in sight")
            page.evaluate("document.getAnimations().forEach(animation => animation.finish())")
            assert place() < 0
