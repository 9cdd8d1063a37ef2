"""What the span editor's commonest steps cost in keys, links as spans, and what must not move or mislead meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.editor.browser import (
    FOCUSED,
    Harness,
    chromium,
    harness,
    opened,
    press,
    status,
    task_shown,
    wait_for,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["chromium", "harness"]

pytestmark = pytest.mark.browser


def _hint(page: Page, token: int) -> str:
    return str(page.locator(f"#token-{token} .hint").inner_text())


def _keys_for(harness: Harness, page: Page, task: int, act: Callable[[], None]) -> int:
    """Do something that changes a task's work; return how many keys the editor counted for it."""
    wait_for(lambda: status(page) == "saved", "Saved")
    before = _counted(harness, task)
    act()
    wait_for(lambda: _counted(harness, task) > before, "the keys to be saved")
    return _counted(harness, task) - before


def _counted(harness: Harness, task: int) -> int:
    row = harness.row(task)
    return int(row["keystrokes"]) if row else 0


def _mark_by_hints(page: Page, start: int, end: int, key: str) -> None:
    press(page, ";")
    press(page, _hint(page, start), _hint(page, end - 1), key)


def test_accepting_and_retyping_take_one_key_and_a_sentence_that_is_right_two(
    harness: Harness, chromium: Browser
) -> None:
    with opened(chromium, harness) as page:
        assert _keys_for(harness, page, 6, lambda: press(page, "Space")) == 1
        assert harness.spans(6) == [(2, 4, "person")]
        assert _keys_for(harness, page, 6, lambda: press(page, "o")) == 1
        assert harness.spans(6) == [(2, 4, "person"), (5, 8, "organisation")]
        press(page, "Shift+Space", "Enter")
        assert task_shown(page) == 7
        assert _keys_for(harness, page, 7, lambda: press(page, "Shift+Space", "Enter")) == 2
        assert harness.state(7) == "done"
        assert harness.spans(7) == [(3, 5, "musicgenre"), (6, 7, "musicgenre"), (9, 12, "event")]


def test_a_new_span_takes_four_keys_at_most_whatever_its_length(harness: Harness, chromium: Browser) -> None:
    with opened(chromium, harness) as page:
        for length in (1, 2, 5, 17):
            press(page, "0", "0")
            assert _keys_for(harness, page, 6, lambda end=length: _mark_by_hints(page, 0, end, "x")) <= 4
            assert harness.spans(6) == [(0, length, "misc")]
            press(page, "0")


def test_a_link_becomes_a_span_by_one_key(harness: Harness, chromium: Browser) -> None:
    with opened(chromium, harness) as page:
        page.locator("#token-11").click()
        assert _keys_for(harness, page, 6, lambda: press(page, "=")) == 1
        assert harness.spans(6) == [(10, 12, "album")]
        press(page, "Shift+Space", "Enter", "Shift+Space", "Enter")
        assert task_shown(page) == 8
        press(page, "Backspace", "=")
        field = page.get_by_role("textbox", name="Find an entity type")
        assert field.input_value() == "magazine" and page.locator(".chip:visible").count() == 1
        press(page, "Enter")
        wait_for(lambda: harness.spans(8) == [(2, 4, "magazine")], "the link's span")
        assert page.evaluate(FOCUSED)


def test_pages_of_a_link_open_in_a_tab_of_their_own(harness: Harness, chromium: Browser) -> None:
    with opened(chromium, harness) as page:
        page.context.route("https://**/*", lambda route: route.fulfill(body="a page", content_type="text/plain"))
        page.locator("#token-10").click()
        names = page.locator(".pages a").all_inner_texts()
        assert names == ["Wikipedia", "DBpedia", "Wikidata"]
        for name, address in zip(names, _ADDRESSES, strict=True):
            with page.context.expect_page() as opening:
                page.get_by_role("link", name=name).click()
            tab = opening.value
            assert tab.url == address and tab.evaluate("() => window.opener") is None
            tab.close()
        assert page.evaluate(FOCUSED)


_ADDRESSES = (
    "https://en.wikipedia.org/wiki/Northern_Rooms_(album)",
    "https://dbpedia.org/resource/Northern_Rooms_(album)",
    "https://www.wikidata.org/wiki/Special:ItemByTitle?site=enwiki&page=Northern%20Rooms%20(album)",
)


@pytest.mark.parametrize("width", [1100, 360])
@pytest.mark.parametrize("mode", ["annotate", "check", "adjudicate"])
def test_types_stand_still_whatever_token_is_clicked(
    harness: Harness, chromium: Browser, mode: str, width: int
) -> None:
    with opened(chromium, harness, f"?mode={mode}", viewport={"width": width, "height": 900}) as page:
        chips = page.locator(".types")
        page.locator("#token-0").click()
        start = chips.bounding_box()
        for token in range(18):
            page.locator(f"#token-{token}").click()
            assert chips.bounding_box() == start, token


def test_a_guideline_of_two_lines_does_not_move_the_types(harness: Harness, chromium: Browser) -> None:
    with opened(chromium, harness) as page:
        chips, guide = page.locator(".types"), page.locator(".guide")
        before = chips.bounding_box()
        guide.evaluate("node => node.append('A long guideline, with its examples and exceptions. '.repeat(5))")
        assert chips.bounding_box() == before


def test_the_counter_moves_with_enter_before_the_server_answers(harness: Harness, chromium: Browser) -> None:
    with opened(chromium, harness) as page:
        counter = page.locator(".progress")
        assert counter.inner_text() == "0 done, 12 left"
        harness.kill()
        for done in (1, 2):
            press(page, "Shift+Space", "Enter")
            assert counter.inner_text() == f"{done} done, {12 - done} left"
        press(page, "Shift+Enter")
        assert counter.inner_text() == "1 done, 11 left"
        harness.start()
        wait_for(lambda: status(page) == "saved", "Saved", 40)
        assert counter.inner_text() == "1 done, 11 left"


@pytest.fixture
def adjudicating(harness: Harness, chromium: Browser) -> Iterator[Any]:
    with opened(chromium, harness, "?mode=adjudicate") as page:
        yield page


def _choice(page: Page, kind: str, key: str) -> Any:
    return page.get_by_role("listitem").filter(has_text=kind).locator(".choice").filter(has_text=key)


def test_key_1_takes_what_its_chip_shows_and_nothing_where_it_shows_a_dash(adjudicating: Page) -> None:
    page = adjudicating
    page.locator("#token-14").click()
    assert _choice(page, "missing", "1").inner_text().split() == ["1", "–"]
    press(page, "1")
    assert "no span here" in page.locator(".say").inner_text()
    assert page.locator(".units-title").inner_text().startswith("1 of 6 decided")
    page.locator("#token-1").click()
    press(page, "1")
    assert _choice(page, "extra", "1").get_attribute("aria-pressed") == "true"
    assert page.locator(".units-title").inner_text().startswith("2 of 6 decided")


def test_what_both_agreed_on_is_drawn_lightly_until_the_expert_changes_it(adjudicating: Page) -> None:
    page = adjudicating
    fill = "node => getComputedStyle(node).backgroundColor"
    bergen = page.locator(".mark", has_text="Bergen")
    assert bergen.evaluate(fill) == "rgba(0, 0, 0, 0)"
    assert page.locator("#token-14").evaluate(fill) != "rgba(0, 0, 0, 0)"
    page.locator("#token-16").click()
    press(page, "c")
    assert bergen.evaluate(fill) != "rgba(0, 0, 0, 0)"
    page.locator("#token-14").click()
    press(page, "0")
    assert page.locator("#token-14").evaluate(fill) == "rgba(0, 0, 0, 0)"
