"""What stands beside the sentence, in a real browser: the text around it, a key that widens it, the way back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.builders import Tab
from tests.support.campaigns import LINES, document_campaign
from tests.support.live import App, app, browser_of, chromium, mark, open_screen, status_of, task_of, wait

__all__ = ["app", "chromium"]

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(120)]


def shown(page: Any, place: str) -> str:
    text: str = page.locator(f".around.{place}").inner_text()
    return " ".join(text.split())


def test_the_text_around_is_shown_marked_and_widened(app: App, chromium: Any) -> None:
    campaign = document_campaign(app.store, app.people, name="Around")
    with browser_of(chromium, app, "ann1") as context:
        page = open_screen(context, campaign)
        wait(lambda: LINES[1] in shown(page, "after"), "the sentence after")
        assert shown(page, "before") == "" and "gulls.txt" in page.locator(".origin").inner_text()
        first = task_of(page)
        height = page.locator(".sentence").bounding_box()["y"]
        mark(page, 0, "musicalartist")
        page.keyboard.press("Enter")
        wait(lambda: task_of(page) != first, "the next sentence")
        wait(lambda: page.locator(".before .past").count() == 1, "what was marked a moment ago")
        assert page.locator(".before .past").inner_text() == "Maramusical artist"
        assert page.locator(".sentence").bounding_box()["y"] == pytest.approx(height, abs=1)
        page.keyboard.press("+")
        wait(lambda: LINES[4] in shown(page, "after"), "three sentences on either side")
        page.keyboard.press("-")
        page.keyboard.press("-")
        assert not page.locator(".around.after").is_visible()
        page.reload()
        page.wait_for_selector(".sentence [data-i]")
        assert "no text around" in page.locator(".origin").inner_text()
        page.keyboard.press("+")
        wait(lambda: LINES[2] in shown(page, "after"), "the reach that was chosen again")


def test_a_sentence_of_the_strip_opens_again(app: App, chromium: Any) -> None:
    campaign = document_campaign(app.store, app.people, name="Strip")
    with browser_of(chromium, app, "ann2") as context:
        page = open_screen(context, campaign)
        tasks = []
        for _ in range(3):
            tasks.append(task_of(page))
            mark(page, 0, "song")
            page.keyboard.press("Enter")
            wait(lambda: task_of(page) != tasks[-1], "the next sentence")
        wait(lambda: status_of(page) == "saved", "Saved")
        page.reload()
        page.wait_for_selector(".recent .again")
        assert page.locator(".recent .again").all_inner_texts()[-1].startswith("Marasong Vell")
        page.locator(".recent .again").last.click()
        assert task_of(page) == tasks[0]
        mark(page, 1, "band")
        page.keyboard.press("Shift+Enter")
        wait(lambda: task_of(page) == tasks[2], "the one submitted last")
        wait(lambda: app.spans(tasks[0], "ann2") == [(0, 1, "song"), (1, 2, "band")], "the correction")


def test_guidelines_open_by_a_key_and_narrow_as_one_types(app: App, chromium: Any) -> None:
    campaign = document_campaign(app.store, app.people, name="Guidelines")
    for name, stage, spans in (("ann1", "annotate", [(0, 2, "musicalartist")]), ("ann2", "check", [(0, 2, "person")])):
        tab = Tab(app.store, app.people[name], campaign, stage)
        tab.do("submit", tab.items(1)[0], spans)
    expert = Tab(app.store, app.people["eva"], campaign, "adjudicate")
    parts = {"decisions": [{"unit": 0, "choice": "first"}], "comment": "Whoever sings <b>is</b> one."}
    expert.do("submit", expert.items(1)[0], [(0, 2, "musicalartist")], parts=parts)
    with browser_of(chromium, app, "ann3") as context:
        page = open_screen(context, campaign)
        page.keyboard.press(":")
        panel = page.locator(".guidelines")
        wait(lambda: panel.locator(".guide-decision").count() == 1, "the decision")
        assert panel.locator(".guide-type").count() > 10
        decision = panel.locator(".guide-decision").inner_text()
        assert "Mara Vell (musical artist) or Mara Vell (person) → Mara Vell (musical artist)" in decision
        assert "Whoever sings <b>is</b> one." in decision, "as text"
        page.keyboard.type("mara")
        wait(lambda: panel.locator(".guide-type").count() == 1, "the type with that example")
        assert "musical artist" in panel.locator(".guide-type h3").inner_text()
        page.keyboard.press("Enter")
        mark(page, 0, "song")
        assert panel.is_visible(), "it stays beside the work"
        page.keyboard.press(":")
        page.keyboard.press("Escape")
        assert not panel.is_visible()
        page.keyboard.press("Space")
        assert page.locator(".mark.span").count() == 1, "the keys are the sentence's again"


def test_an_expert_sees_the_text_around_and_marks_an_example(app: App, chromium: Any) -> None:
    campaign = document_campaign(app.store, app.people, name="Example")
    for name, stage in (("ann1", "annotate"), ("ann2", "check")):
        tab = Tab(app.store, app.people[name], campaign, stage)
        for item in tab.items(2):
            tab.do("submit", item, [(0, 1, "song")])
    with browser_of(chromium, app, "eva") as context:
        page = open_screen(context, campaign, "adjudicate")
        wait(lambda: LINES[1] in shown(page, "after"), "the sentence after")
        first = task_of(page)
        page.keyboard.press("*")
        assert page.locator('[data-act="example"]').get_attribute("aria-pressed") == "true"
        page.keyboard.press("Enter")
        wait(lambda: task_of(page) != first, "the next sentence")
        wait(lambda: page.locator(".before .past").count() == 1, "gold in the text before")
        page.keyboard.press(":")
        wait(lambda: page.locator(".guide-decision").count() == 1, "the example")
        assert page.locator(".guide-decision li.word").inner_text() == "example"
