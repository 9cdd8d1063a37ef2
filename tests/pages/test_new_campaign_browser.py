"""A researcher makes a campaign in a real browser, told nothing but the screen: how long, how many actions."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support.builders import SENTENCES, Tab
from tests.support.editor.people import choose
from tests.support.live import App, app, browser_of, chromium
from workbench.campaigns import campaigns

__all__ = ["app", "chromium"]
pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(180)]

PLAIN = "\n".join(text for text, _ in SENTENCES).encode()
TYPES = "musical artist: people who make music\nband\nalbum: a titled record\ncountry\naward\n"
_COUNT = """
window.done = {clicks: 0, keys: 0};
addEventListener("click", (event) => { if (event.isTrusted && event.detail) window.done.clicks += 1; }, true);
addEventListener("keydown", (event) => { if (event.isTrusted) window.done.keys += 1; }, true);
"""
MOST_CLICKS, MOST_SECONDS = 12, 180
# Seconds of a practised person for a key, and for a click with pointing and thinking.
# Source: Card, Moran and Newell, The keystroke-level model, 1980.
A_KEY, A_CLICK = 0.28, 1.1 + 0.2 + 1.35


def names(app: App) -> set[str]:
    return {view.name for view in campaigns.list_campaigns(app.store, app.people["res"])}


def drawn(page: Any) -> None:
    """Wait until the script has run for what was done last."""
    page.wait_for_timeout(300)
    page.wait_for_selector('[data-test-script-state="notRunning"]', timeout=30_000)


def choose_file(page: Any) -> None:
    with page.expect_file_chooser() as chooser:
        page.get_by_test_id("stFileUploaderDropzone").locator("visible=true").first.click()
    chooser.value.set_files([{"name": "songs.txt", "mimeType": "text/plain", "buffer": PLAIN}])
    page.get_by_test_id("stDataFrame").first.wait_for(state="visible", timeout=30_000)
    drawn(page)


def domain_here(page: Any) -> None:
    box, music = page.get_by_role("combobox", name="Which domain"), page.get_by_role("option", name="Music")
    choose(page, box.first, music.first)
    drawn(page)


def domain_pasted(page: Any) -> None:
    page.get_by_test_id("stButtonGroup").get_by_text("A new one, from a list of types").click()
    drawn(page)
    page.get_by_label("Name of the domain").click()
    page.keyboard.type("Folk songs")
    page.get_by_label("Its types, one a line").click()
    page.keyboard.press("Control+v")  # counted; the clipboard of a headless browser is empty
    page.keyboard.insert_text(TYPES)
    page.keyboard.press("Control+Enter")
    page.get_by_text("a titled record").locator("visible=true").last.wait_for(timeout=30_000)
    drawn(page)


@pytest.mark.parametrize(("name", "choose"), [("Songs", domain_here), ("Folk", domain_pasted)])
def test_new_campaign_takes_a_researcher_under_three_minutes(
    app: App, chromium: Any, name: str, choose: Any, record_property: Any
) -> None:
    errors: list[str] = []
    with browser_of(chromium, app, "res") as context:
        page = context.new_page()
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.add_init_script(_COUNT)
        began = time.monotonic()
        page.goto("/new_campaign")
        page.get_by_label("Name of the campaign").click()
        page.keyboard.type(name)
        choose(page)
        page.get_by_role("button", name="Next").click()
        drawn(page)
        choose_file(page)
        for title in ("Who annotates, checks and adjudicates", "Blind share", "Gazetteer"):
            page.get_by_role("button", name="Next").click()
            page.get_by_label(title).first.wait_for(state="visible", timeout=30_000)
            drawn(page)
        line = page.get_by_text("of 6 sentences get suggestions").first.inner_text(timeout=30_000)
        assert name not in names(app)
        page.get_by_role("button", name="Make the campaign").click()
        page.get_by_text(f"The campaign {name} is made. 6 sentences").wait_for(timeout=30_000)
        waited, done = time.monotonic() - began, page.evaluate("window.done")
        seconds = waited + done["keys"] * A_KEY + done["clicks"] * A_CLICK
        figures = f"{name}: {done['clicks']} clicks, {done['keys']} keys, {waited:.1f} s waited, {seconds:.0f} s in all"
        print(figures)
        record_property("figures", figures)
        assert page.get_by_role("combobox", name="Campaign").first.input_value() == name
    assert done["clicks"] <= MOST_CLICKS and seconds < MOST_SECONDS, figures
    assert errors == []
    made = next(view for view in campaigns.list_campaigns(app.store, app.people["res"]) if view.name == name)
    assert made.sentences == 6
    # As many as were shown beforehand, but for controls, whose suggestions are withheld.
    items = Tab(app.store, app.people["ann1"], made.id, "annotate").items(6)
    assert 0 < sum(bool(item["suggestions"]) for item in items) <= int(line.removeprefix("Only ").split()[0])
