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
        wait(lambda: f"suggested by identical {CONFIDENCE}" in line.inner_text(), "the suggestion")
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
