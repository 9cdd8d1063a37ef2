"""Linking in a real browser: two keys link a span, the check sees it, the expert settles a difference."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from crossner_core.gazetteer.titles import resource_uri
from crossner_core.schema import NIL, Link, sentence_from_words
from db.tables import Annotation, SentenceRow, SpanRow
from tests.support import builders
from tests.support.live import KEYS, App, app, browser_of, chromium, open_screen, status_of, task_of, wait
from workbench.campaigns import sentences

__all__ = ["app", "chromium"]

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(120)]
QUEEN = resource_uri("Queen (band)")


@pytest.fixture
def campaign(app: App, request: pytest.FixtureRequest) -> int:
    made = builders.make_campaign(app.store, app.people, name=request.node.name[:60], linking=True, confirm="none")
    with app.store.write() as session:
        session.execute(sa.delete(SentenceRow).where(SentenceRow.campaign_id == made))
    row = sentence_from_words(["Queen", "met", "The", "Tin", "Gulls", "."], id="q", links=[Link(0, 1, "Queen (band)")])
    sentences.add_sentences(app.store, app.people["res"], made, [row])
    return made


def links(app: App, name: str) -> list[str | None]:
    """Return the entities of a person's spans, in order."""
    query = sa.select(SpanRow.entity).join(Annotation, Annotation.id == SpanRow.annotation_id)
    with app.store.read() as session:
        return list(session.scalars(query.where(Annotation.user_id == app.people[name].id).order_by(SpanRow.start)))


def mark(page: Any, start: int, more: int) -> None:
    page.locator(f"#token-{start}").click()
    for _ in range(more):
        page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press(KEYS["band"])


def test_two_keys_link_a_span_and_the_next_needs_one(app: App, campaign: int, chromium: Any) -> None:
    with browser_of(chromium, app, "ann1") as context:
        page = open_screen(context, campaign)
        task = task_of(page)
        mark(page, 2, 2)
        mark(page, 0, 0)
        page.keyboard.press("@")
        panel = page.locator(".entities")
        wait(lambda: "Queen (band)" in panel.inner_text(), "the candidates")
        assert "linked here" in panel.inner_text()
        page.keyboard.press("1")
        wait(lambda: "Link The Tin Gulls to" in panel.inner_text(), "the next span")
        page.keyboard.press("0")
        wait(lambda: not panel.is_visible(), "the panel to close")
        wait(lambda: links(app, "ann1") == [QUEEN, NIL], "both links")
        page.keyboard.press("Control+z")
        wait(lambda: links(app, "ann1") == [QUEEN, None], "the undo")
        page.keyboard.press("Enter")
        wait(lambda: "1 span not linked" in page.locator(".say").inner_text(), "the question")
        page.keyboard.press("@")
        wait(panel.is_visible, "the panel")
        page.keyboard.type("Q42")
        page.keyboard.press("Enter")
        wait(lambda: links(app, "ann1") == [QUEEN, "http://www.wikidata.org/entity/Q42"], "what was typed")
        wait(lambda: status_of(page) == "saved" and task_of(page) == task, "Saved")
        page.keyboard.press("Enter")
        wait(lambda: task_of(page) != task and status_of(page) == "saved", "the end of the queue")
    with browser_of(chromium, app, "ann2") as context:
        page = open_screen(context, campaign, "check")
        wait(lambda: "Queen (band)" in page.locator(".focus-line").inner_text(), "the link in the line below")
        page.keyboard.press("@")
        wait(lambda: "Queen (band)" in panel_of(page), "the candidates")
        page.keyboard.press("0")
        wait(lambda: "relinked" in page.locator(".changes").inner_text(), "the change")
        wait(lambda: links(app, "ann2")[:1] == [NIL], "the other link")
        page.keyboard.press("Enter")
        wait(lambda: task_of(page) == 0 and status_of(page) == "saved", "the end of the queue")
    with browser_of(chromium, app, "eva") as context:
        page = open_screen(context, campaign, "adjudicate")
        words = "entity: same span, other resource"
        wait(lambda: words in page.locator(".focus-line").inner_text(), "the difference")
        page.keyboard.press("1")
        page.keyboard.press("Enter")
        wait(lambda: links(app, "eva")[:1] == [QUEEN], "the decision")


def panel_of(page: Any) -> str:
    return str(page.locator(".entities").inner_text())
