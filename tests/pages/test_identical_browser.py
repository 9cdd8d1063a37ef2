"""Identical words in a real browser: marked and proposed by one key, taken by the next sentence, taken back by undo."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from crossner_core.schema import sentence_from_words
from crossner_core.suggest.identical import CONFIDENCE, IDENTICAL
from db.tables import SentenceRow, SuggestionRow, Task
from tests.support import builders
from tests.support.live import KEYS, App, app, browser_of, chromium, open_screen, status_of, task_of, wait
from workbench.campaigns import sentences

__all__ = ["app", "chromium"]

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(120)]

TEXTS = (
    ("The Tin Gulls left Oslo before The Tin Gulls had played .", "gulls.txt"),
    ("Nobody met The Tin Gulls there .", "gulls.txt"),
    ("A ship was called The Tin Gulls , too .", "ships.txt"),
)
BAND = [(0, 3, "band"), (6, 9, "band")]


@pytest.fixture
def campaign(app: App, request: pytest.FixtureRequest) -> int:
    made = builders.make_campaign(app.store, app.people, name=request.node.name[:60])
    with app.store.write() as session:
        session.execute(sa.delete(SentenceRow).where(SentenceRow.campaign_id == made))
    rows = [sentence_from_words(text.split(), id=f"g-{n}", document=name) for n, (text, name) in enumerate(TEXTS)]
    sentences.add_sentences(app.store, app.people["res"], made, rows)
    return made


def proposed(app: App, campaign: int) -> int:
    query = sa.select(sa.func.count()).select_from(SuggestionRow).join(SentenceRow)
    query = query.where(SentenceRow.campaign_id == campaign, SuggestionRow.source == IDENTICAL.id)
    with app.store.read() as session:
        return session.scalar(query) or 0


def mark_band(page: Any) -> None:
    page.locator("#token-0").click()
    for _ in range(2):
        page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press(KEYS["band"])


def test_identical_words_take_one_key_and_one_undo(app: App, campaign: int, chromium: Any) -> None:
    with browser_of(chromium, app, "ann1") as context:
        page = open_screen(context, campaign)
        task = task_of(page)
        mark_band(page)
        line = page.locator(".focus-line")
        wait(lambda: "also 1 here, 1 in this document, 1 elsewhere" in line.inner_text(), "the counts")
        assert page.locator(".offer").inner_text().split() == ["mark", "all", "Ctrl", "Enter"]
        page.keyboard.press("Control+Enter")
        wait(lambda: app.spans(task) == BAND and proposed(app, campaign) == 2, "what the key does")
        assert "proposed 1 in this document, 1 elsewhere" in line.inner_text()
        assert page.locator(".offer").inner_text().startswith("take back")
        page.keyboard.press("Enter")
        wait(lambda: task_of(page) != task, "the next sentence")
        wait(lambda: f"suggested by identical words {CONFIDENCE}" in line.inner_text(), "the suggestion")
        page.keyboard.press("Space")
        second = task_of(page)
        wait(lambda: app.spans(second) == [(2, 5, "band")], "the suggestion to be taken")
        page.keyboard.press("Shift+Enter")
        wait(lambda: task_of(page) == task, "the first sentence again")
        page.keyboard.press("Control+z")
        wait(lambda: app.spans(task) == BAND[:1], "the undo")
        wait(lambda: status_of(page) == "saved", "Saved")
        assert proposed(app, campaign) == 1, "what was taken stays, what nobody decided is withdrawn"


def test_identical_words_asked_for_without_a_connection_are_proposed_after_it(
    app: App, campaign: int, chromium: Any
) -> None:
    with browser_of(chromium, app, "ann1") as context:
        page = open_screen(context, campaign)
        task = task_of(page)
        context.set_offline(True)
        mark_band(page)
        page.keyboard.press("Control+Enter")
        assert page.locator(".mark.span").count() == 2
        page.wait_for_timeout(700)
        assert app.spans(task) == [] and proposed(app, campaign) == 0
        context.set_offline(False)
        wait(lambda: app.spans(task) == BAND and proposed(app, campaign) == 2, "the work and its proposals")
        with app.store.read() as session:
            states = session.scalars(sa.select(Task.state).where(Task.campaign_id == campaign))
            assert set(states) == {"leased"}


def test_checker_and_expert_see_which_spans_came_from_identical_words(app: App, campaign: int, chromium: Any) -> None:
    annotator = builders.Tab(app.store, app.people["ann1"], campaign, "annotate")
    first, *_ = annotator.items()
    event = annotator.event("submit", first, BAND)
    event["work"]["spans"][0]["elsewhere"], event["work"]["spans"][1]["origin"] = True, "identical"
    taken = annotator.items(2)[1]
    annotator.send(event)
    (second, *_) = annotator.items()
    assert second["task"] == taken["task"] and [made["sources"] for made in second["suggestions"]] == [["identical"]]
    event = annotator.event("submit", second, [(2, 5, "band")])
    event["work"]["spans"][0]["origin"] = "accepted"
    annotator.send(event)
    with browser_of(chromium, app, "ann2") as context:
        page = open_screen(context, campaign, "check")
        _see_why(page)
        page.keyboard.press("Escape")
    builders.Tab(app.store, app.people["ann2"], campaign, "check").submit_all(
        {TEXTS[0][0]: BAND, TEXTS[1][0]: [(2, 5, "band")]}
    )
    with browser_of(chromium, app, "eva") as context:
        _see_why(open_screen(context, campaign, "adjudicate"))


def _see_why(page: Any) -> None:
    """Read in the first sentence, on its second span, how that came about, and in the second on the only one."""
    page.locator("#token-6").click()
    why = page.locator(".why")
    wait(lambda: "marked with the same words in this sentence" in why.inner_text(), "the origin")
    task = task_of(page)
    for _ in range(8):
        if task_of(page) != task:
            break
        page.keyboard.press("1")
        page.wait_for_timeout(350)
        page.keyboard.press("Enter")
        page.wait_for_timeout(350)
    page.locator("#token-2").click()
    wait(lambda: "taken from identical" in why.inner_text(), "the source")
