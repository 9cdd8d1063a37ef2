"""The span editor's life in a real browser, with what the database holds after each step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.editor.browser import (
    AFTER_ENTER_MS,
    FOCUSED,
    Harness,
    chromium,
    harness,
    opened,
    press,
    status,
    submit_times,
    task_shown,
    visit,
    wait_for,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser

__all__ = ["chromium", "harness"]


@pytest.mark.browser
def test_editor_annotates_a_sentence_without_a_mouse(harness: Harness, chromium: Browser) -> None:
    with opened(chromium, harness) as page:
        assert task_shown(page) == 6
        press(page, "m", "Space", "Space", "Backspace")
        press(page, ";", "s", "s", "x")
        wait_for(lambda: harness.state(6) == "draft", "the draft to arrive")
        press(page, ",")
        page.keyboard.type("crisp, clear")
        press(page, "Enter", "Enter")
        assert task_shown(page) == 7
        wait_for(lambda: harness.state(6) == "done", "the submit to arrive")
    expected = [(1, 2, "misc"), (2, 4, "musicalartist"), (5, 8, "band"), (10, 12, "album")]
    assert harness.spans(6) == expected
    row = harness.row(6)
    assert row is not None
    assert row["work"]["comment"] == "crisp, clear"
    assert [one["source"] for one in row["work"]["rejected"]] == ["gazetteer"]
    assert row["keystrokes"] >= 10
    assert row["active_ms"] > 0


@pytest.mark.browser
def test_editor_keeps_every_one_of_many_fast_submits(harness: Harness, chromium: Browser) -> None:
    with opened(chromium, harness, "?total=4") as page:
        for _ in range(4):
            press(page, "Shift+Space", "Enter", "Enter")
        wait_for(lambda: all(harness.state(task) == "done" for task in range(6, 10)), "four submits")
        wait_for(lambda: page.locator(".empty").is_visible(), "the empty text")
        assert "Thank you" in page.locator(".empty").inner_text()
    assert harness.spans(6)[0] == (2, 4, "person")


@pytest.mark.browser
def test_editor_takes_a_held_enter_as_one(harness: Harness, chromium: Browser) -> None:
    with opened(chromium, harness) as page:
        for shown, said in ((6, "Enter again"), (7, "")):
            for _ in range(8):
                page.keyboard.down("Enter")
            page.keyboard.up("Enter")
            assert task_shown(page) == shown
            assert said in page.locator(".say").inner_text()
            page.wait_for_timeout(AFTER_ENTER_MS)
        wait_for(lambda: harness.state(6) == "done", "the submit to arrive")
        wait_for(lambda: status(page) == "saved", "Saved")
    assert harness.state(7) is None


@pytest.mark.browser
def test_editor_refuses_open_suggestions_only_when_told_and_brings_them_back(
    harness: Harness, chromium: Browser
) -> None:
    with opened(chromium, harness) as page:
        page.keyboard.press("Enter")
        page.keyboard.press("Enter")
        assert task_shown(page) == 6
        assert "4 suggestions undecided: Enter again refuses them" in page.locator(".say").inner_text()
        press(page, "Escape", "Enter")
        assert task_shown(page) == 6
        page.wait_for_timeout(AFTER_ENTER_MS)
        press(page, "Enter")
        wait_for(lambda: harness.state(6) == "done", "the submit")
        assert harness.spans(6) == []
        wait_for(lambda: status(page) == "saved", "Saved")
        visit(page, harness)
        assert task_shown(page) == 7
        press(page, "Shift+Enter")
        assert task_shown(page) == 6
        assert page.locator(".mark.suggestion").count() == 0
        press(page, "Control+z")
        assert page.locator(".mark.suggestion").count() == 4
        press(page, "Shift+Space", "Enter")
        wait_for(lambda: len(harness.spans(6)) == 4 and harness.state(6) == "done", "the submit anew")


@pytest.mark.browser
def test_editor_says_what_a_span_would_replace(harness: Harness, chromium: Browser) -> None:
    with opened(chromium, harness) as page:
        press(page, "Space", "Home", "ArrowRight", "ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight", "s")
        question = "Mira Solberg left (song) would replace Mira Solberg (person)"
        assert question in page.locator(".say").inner_text()
        wait_for(lambda: harness.spans(6) == [(2, 4, "person")], "the first span")
        press(page, "Escape", "s", "s")
        wait_for(lambda: harness.spans(6) == [(2, 5, "song")], "the answer")


@pytest.mark.browser
def test_editor_brings_unsent_work_back_after_the_server_was_killed(harness: Harness, chromium: Browser) -> None:
    context = chromium.new_context()
    with opened(context, harness) as page:
        press(page, "Space")
        wait_for(lambda: len(harness.spans(6)) == 1, "the first draft")
        harness.kill()
        press(page, "Space")
        wait_for(lambda: status(page) == "offline", "Not saved")
        page.goto("about:blank")
        harness.start()
        visit(page, harness)
        assert page.locator(".mark.span").count() == 2
        assert "unsent changes were restored" in page.locator(".say").inner_text()
        wait_for(lambda: len(harness.spans(6)) == 2, "the recovered draft")
        wait_for(lambda: status(page) == "saved", "Saved")
    context.close()


@pytest.mark.browser
def test_editor_sends_what_it_kept_when_the_server_returns(harness: Harness, chromium: Browser) -> None:
    with opened(chromium, harness) as page:
        harness.kill()
        press(page, "Shift+Space", "Enter")
        assert task_shown(page) == 7
        wait_for(lambda: status(page) == "offline", "Not saved")
        harness.start()
        wait_for(lambda: harness.state(6) == "done", "the submit after the restart", 40)
        wait_for(lambda: status(page) == "saved", "Saved")
    assert len(harness.spans(6)) == 4


@pytest.mark.browser
def test_editor_shows_a_conflict_between_two_tabs_and_resolves_it(harness: Harness, chromium: Browser) -> None:
    context = chromium.new_context()
    with opened(context, harness) as first, opened(context, harness) as second:
        press(first, "Space")
        wait_for(lambda: len(harness.spans(6)) == 1, "the first tab's draft")
        second.bring_to_front()
        press(second, "m", "Space")
        wait_for(lambda: status(second) == "conflict", "the conflict")
        assert harness.spans(6) == [(2, 4, "person")]
        shown = second.locator(".conflict").inner_text()
        for words in ("saved by you in another tab or browser", "retyped by mine", "only in mine", "(band)"):
            assert words in shown
        second.get_by_role("button", name="keep mine").click()
        wait_for(lambda: harness.spans(6) == [(2, 4, "musicalartist"), (5, 8, "band")], "mine on top")
        wait_for(lambda: status(second) == "saved", "Saved")
        first.bring_to_front()
        press(first, "Space")
        wait_for(lambda: status(first) == "conflict", "the other tab's conflict")
        first.get_by_role("button", name="take theirs").click()
        first.wait_for_function("() => true")
        assert first.locator(".mark.span").count() == 2
        wait_for(lambda: status(first) == "saved", "Saved")
    assert harness.spans(6) == [(2, 4, "musicalartist"), (5, 8, "band")]
    context.close()


@pytest.mark.browser
def test_editor_checks_the_work_of_annotator_1(harness: Harness, chromium: Browser) -> None:
    with opened(chromium, harness, "?mode=check") as page:
        press(page, "!")
        page.keyboard.type("an artist?")
        press(page, "Enter", "Tab", "o", "Tab", "Backspace")
        changes = page.locator(".changes").inner_text()
        assert all(word in changes for word in ("retyped", "deleted", "flagged", "an artist?"))
        press(page, "Enter")
        wait_for(lambda: harness.state(6) == "done", "the submit")
    row = harness.row(6)
    assert row is not None
    assert harness.spans(6) == [(2, 4, "person"), (6, 8, "organisation")]
    assert [(one["start"], one["note"]) for one in row["work"]["flags"]] == [(2, "an artist?"), (6, ""), (10, "")]


@pytest.mark.browser
def test_editor_adjudicates_every_kind_of_unit(harness: Harness, chromium: Browser) -> None:
    with opened(chromium, harness, "?mode=adjudicate") as page:
        press(page, "0", "2", "Enter")
        assert "undecided" in page.locator(".say").inner_text()
        assert harness.state(6) != "done"
        press(page, "1", "s", "2", "Enter")
        wait_for(lambda: harness.state(6) == "done", "the submit")
    row = harness.row(6)
    assert row is not None
    choices = [one["choice"] for one in row["work"]["decisions"]]
    assert choices == ["none", "second", "first", "other", "second", "first"]
    assert (10, 12, "song") in harness.spans(6)


@pytest.mark.browser
def test_editor_follows_code_points_and_reading_direction(harness: Harness, chromium: Browser) -> None:
    with opened(chromium, harness) as page:
        for _ in range(4):
            press(page, "Shift+Space", "Enter", "Enter")
            page.wait_for_timeout(50)
        assert task_shown(page) == 10
        press(page, "Space", "End", "ArrowLeft", "l", "Enter")
        wait_for(lambda: harness.state(10) == "done", "the emoji sentence")
        row = harness.row(10)
        assert row is not None
        assert [one["surface"] for one in row["work"]["spans"]] == ["Zoë Ångström", "Åbo"]
        assert page.locator(".sentence").evaluate("node => getComputedStyle(node).direction") == "rtl"
        press(page, "Home", "ArrowLeft", "ArrowLeft")
        assert page.locator(".sentence").get_attribute("aria-activedescendant") == "token-2"


@pytest.mark.browser
def test_editor_keeps_streamlit_shortcuts_out_and_names_things_for_screen_readers(
    harness: Harness, chromium: Browser
) -> None:
    with opened(chromium, harness) as page:
        runs = page.evaluate(
            "() => { window.heard = []; document.addEventListener('keydown', (e) => window.heard.push(e.key)) }"
        )
        assert runs is None
        press(page, "r", "c", "k")
        assert page.evaluate("() => window.heard") == []
        assert page.get_by_role("listbox").count() == 1
        option = page.get_by_role(
            "option", name="Northern, suggested album, link 0.97, Wikipedia: Northern Rooms (album)"
        )
        assert option.count() == 1
        assert page.get_by_role("option", selected=True).count() >= 1
        press(page, "/")
        page.keyboard.type("magaz")
        assert page.locator(".chip:visible").count() == 1
        press(page, "Enter")
        assert page.evaluate(FOCUSED)
        press(page, "Escape", "Tab")
        assert not page.evaluate(FOCUSED)


@pytest.mark.browser
def test_editor_fits_360_pixels_and_marks_by_mouse(harness: Harness, chromium: Browser) -> None:
    with opened(chromium, harness, viewport={"width": 360, "height": 740}) as page:
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 360
        page.locator("#token-0").click()
        page.locator("#token-1").click(modifiers=["Shift"])
        page.locator('.chip[data-type="event"]').click()
        wait_for(lambda: harness.spans(6) == [(0, 2, "event")], "the span by shift-click")
        start, end = page.locator("#token-12").bounding_box(), page.locator("#token-14").bounding_box()
        assert start and end
        page.mouse.move(start["x"] + 3, start["y"] + 8)
        page.mouse.down()
        page.mouse.move(end["x"] + 3, end["y"] + 8, steps=6)
        page.mouse.up()
        press(page, "v")
        wait_for(lambda: (12, 15, "event") in harness.spans(6), "the span by dragging")


@pytest.mark.alone
@pytest.mark.browser
def test_editor_shows_the_next_sentence_within_50_ms(harness: Harness, chromium: Browser) -> None:
    with opened(chromium, harness, "?total=60") as page:
        took = submit_times(page, 50)
    assert took[len(took) * 95 // 100] < 50, took
