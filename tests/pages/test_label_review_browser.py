"""Label review by keys in a real browser: each decision is saved once, nothing is lost, the next doubt is there."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from tests.support import builders
from tests.support.label_review import gold_of, look, said
from tests.support.live import App, app, browser_of, chromium, wait
from workbench.campaigns import sentences
from workbench.labelling import label_review

__all__ = ["app", "chromium"]

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(180)]

QUEUE = "inconsistent_surfaces"
BAR_MS = 50
"""From the key to the frame with the next doubt, at the 95th percentile."""

# Runs before the page's own listener, which draws the next doubt at once.
_WATCH_KEYS = 'window.addEventListener("keydown", (event) => { window.pressed = event.timeStamp; }, true)'
# Times from the key's own timestamp to the frame after the next doubt was drawn.
_WATCH = """
(root) => {
  window.shown = [];
  let task = root.dataset.task;
  new MutationObserver(() => {
    if (root.dataset.task === task) return;
    task = root.dataset.task;
    const from = window.pressed;
    requestAnimationFrame(() => {
      const {port1, port2} = new MessageChannel();
      port1.onmessage = () => window.shown.push(performance.now() - from);
      port2.postMessage(null);
    });
  }).observe(root, {attributes: true, attributeFilter: ["data-task"]});
}
"""


def make_doubted(app: App, names: int, *, name: str, splits: tuple[str, ...] = ("pool",)) -> int:
    """Make a campaign whose gold calls each of some names a band once and a musical artist twice."""
    campaign = builders.make_campaign(app.store, app.people, name=name)
    for number in range(names):
        rows = [
            said(f"Mara Vell{number} played {where} .", (0, 2, kind), id=f"{number} {where}")
            for where, kind in (("there", "band"), ("in Oslo", "musicalartist"), ("at home", "musicalartist"))
        ]
        sentences.add_sentences(app.store, app.people["res"], campaign, rows, split=splits[number % len(splits)])
    look(app.store, campaign, QUEUE)
    return campaign


class Desk:
    """The page on the first queue, and what the store holds of its decisions."""

    def __init__(self, app: App, campaign: int, page: Any) -> None:
        self.app, self.campaign, self.page = app, campaign, page
        page.goto(f"/label_review?campaign={campaign}")
        self.root = page.locator(".review")
        page.wait_for_selector(".review[data-task]:not([data-task=''])", timeout=30_000)

    def task(self) -> int:
        return int(self.root.get_attribute("data-task") or 0)

    def press(self, key: str) -> None:
        """Press a key once somebody could have read what is shown."""
        self.page.wait_for_timeout(350)
        self.page.keyboard.press(key)

    def saved(self) -> None:
        self.page.wait_for_selector(".review[data-pending='0'][data-status=saved]")

    def states(self) -> dict[int, str]:
        done = label_review.decided(self.app.store, self.app.people["eva"], self.campaign)
        return {finding.id: finding.state for finding in done}


def test_keys_decide_and_the_page_follows(app: App, chromium: Any) -> None:
    campaign = make_doubted(app, 6, name="Keys")
    with browser_of(chromium, app, "eva") as context:
        desk = Desk(app, campaign, context.new_page())
        before, first = gold_of(app.store, campaign), desk.task()
        buttons = [" ".join(text.split()) for text in desk.root.locator("button").all_inner_texts()]
        assert buttons == ["Keep 1", "Change 2", "Reopen 3", "Later 4", "Undo 0"]
        desk.press("2")
        changed = wait(desk.states, "the change")
        assert changed == {first: "changed"} and gold_of(app.store, campaign) != before
        second = desk.task()
        desk.press("1")
        desk.press("4")
        desk.press("3")
        wait(lambda: len(desk.states()) == 3, "three decisions")
        assert set(desk.states().values()) == {"changed", "kept", "reopened"}
        assert desk.states()[second] == "kept"
        desk.page.get_by_text("Decided · 3").wait_for()  # the page draws it without being asked
        desk.page.get_by_text("Inconsistent types · 3").wait_for()
        assert "3 of 6 decided" in desk.root.inner_text()
        for _ in range(3):
            desk.press("0")  # the reopened one cannot be undone here, and says so
        wait(lambda: list(desk.states().values()) == ["reopened"], "both undone")
        assert desk.task() == first and "waits for you under Adjudicate" not in desk.root.inner_text()


def test_key_held_down_decides_one_doubt(app: App, chromium: Any) -> None:
    campaign = make_doubted(app, 4, name="Held")
    with browser_of(chromium, app, "eva") as context:
        desk = Desk(app, campaign, context.new_page())
        for _ in range(8):  # without a release all but the first are repeats
            desk.page.keyboard.down("1")
            time.sleep(0.2)
        desk.page.keyboard.up("1")
        desk.saved()
        assert len(desk.states()) == 1
        desk.press("1")
        wait(lambda: len(desk.states()) == 2, "the second decision")


def test_test_is_altered_only_by_the_same_key_again(app: App, chromium: Any) -> None:
    campaign = make_doubted(app, 2, name="In test", splits=("test",))
    before = gold_of(app.store, campaign)
    with browser_of(chromium, app, "eva") as context:
        desk = Desk(app, campaign, context.new_page())
        desk.press("2")
        desk.page.get_by_text("This sentence is in test").wait_for()
        desk.press("Escape")
        desk.press("2")
        desk.page.get_by_text("This sentence is in test").wait_for()
        assert not desk.states() and gold_of(app.store, campaign) == before
        desk.press("2")
        wait(lambda: list(desk.states().values()) == ["changed"], "the change")
        assert gold_of(app.store, campaign) != before


def test_decisions_without_a_connection_are_kept_and_sent_once(app: App, chromium: Any) -> None:
    campaign = make_doubted(app, 5, name="Offline")
    with browser_of(chromium, app, "eva") as context:
        desk = Desk(app, campaign, context.new_page())
        context.set_offline(True)
        for key in ("1", "1", "0", "1"):
            desk.press(key)
        desk.page.wait_for_selector(".review[data-status=offline]", timeout=20_000)
        assert not desk.states() and "Kept in this browser" in desk.root.inner_text()
        context.set_offline(False)
        wait(lambda: len(desk.states()) == 2, "what waited")
        desk.saved()
    history = [finding.history for finding in label_review.decided(app.store, app.people["eva"], campaign)]
    assert sorted([entry["state"] for entry in steps] for steps in history) == [["kept"], ["kept", "reverted", "kept"]]


def test_decision_that_a_reload_cut_off_is_sent_by_the_next_page(app: App, chromium: Any) -> None:
    campaign = make_doubted(app, 3, name="Reload")
    with browser_of(chromium, app, "eva") as context:
        page = context.new_page()
        desk = Desk(app, campaign, page)
        page.route("**/label-review/**", lambda route: route.abort())
        desk.press("1")
        page.wait_for_selector(".review[data-pending='1']")
        page.unroute("**/label-review/**")
        desk = Desk(app, campaign, page)
        wait(lambda: list(desk.states().values()) == ["kept"], "the decision of the page before")
        desk.press("0")
        wait(lambda: not desk.states(), "the undo after a reload")


def test_server_that_is_killed_loses_nothing_acknowledged(app: App, chromium: Any) -> None:
    campaign = make_doubted(app, 6, name="Killed")
    with browser_of(chromium, app, "eva") as context:
        desk = Desk(app, campaign, context.new_page())
        desk.press("1")
        desk.saved()
        app.kill()
        desk.press("1")
        desk.press("1")
        app.start()
        wait(lambda: len(desk.states()) == 3, "what was decided meanwhile", seconds=60)
    assert all(len(finding.history) == 1 for finding in label_review.decided(app.store, app.people["eva"], campaign))


@pytest.mark.alone
def test_next_doubt_is_there_within_50_ms(app: App, chromium: Any) -> None:
    campaign = make_doubted(app, 45, name="Quick")
    with browser_of(chromium, app, "eva") as context:
        page = context.new_page()
        page.add_init_script(_WATCH_KEYS)
        desk = Desk(app, campaign, page)
        desk.root.evaluate(_WATCH)
        for number in range(40):
            desk.press("1")
            desk.page.wait_for_function("(count) => window.shown.length >= count", arg=number + 1)
        taken = sorted(desk.page.evaluate("() => window.shown"))
        p95 = taken[int(0.95 * len(taken)) - 1]
        print(f"key -> next doubt: p50 {taken[len(taken) // 2]:.1f} ms, p95 {p95:.1f} ms, most {taken[-1]:.1f} ms")
        wait(lambda: len(desk.states()) == 40, "every decision")
        desk.saved()
        assert p95 < BAR_MS, taken
        assert re.search(r"40 of 45 decided, about 1 min left", desk.root.inner_text())
