"""A simulated annotator on the annotate page in headless Chromium, timed from inside the page."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.support.serving import browser_page, browser_sign_in

if TYPE_CHECKING:
    from playwright.sync_api import Page

PATIENCE_MS = 30_000
_AFTER_LAST_KEY_MS = 1_000
"""Longer than the autosave delay, so that the draft has been sent before Enter."""

# Notes when a message with events is posted.
_WATCH_POSTS = """
window.probe = {sent: [], shown: [], saved: [], enter: null};
const fetched = window.fetch;
window.fetch = function (url, options) {
  const text = options?.body;
  if (typeof text === "string" && text.includes('"events":[{')) window.probe.sent.push({at: performance.now(), text});
  return fetched.call(this, url, options);
};
"""

# Times from the key's own timestamp to the frame that shows another task, and to the status Saved.
_WATCH_EDITOR = """
(root) => {
  const {probe} = window;
  let status = root.dataset.status;
  let task = root.dataset.task;
  window.addEventListener("keydown", (event) => {
    if (event.key === "Enter") probe.enter = {at: event.timeStamp, task: root.dataset.task};
  }, true);
  const painted = (run) => requestAnimationFrame(() => {
    const {port1, port2} = new MessageChannel();
    port1.onmessage = run;
    port2.postMessage(null);
  });
  new MutationObserver(() => {
    if (root.dataset.task !== task) {
      task = root.dataset.task;
      const {enter} = probe;
      probe.enter = null;
      const note = () => probe.shown.push({task: enter.task, enter: enter.at, at: performance.now()});
      if (enter && enter.task !== task) painted(note);
    }
    if (root.dataset.status !== status) {
      status = root.dataset.status;
      if (status === "saved") probe.saved.push(performance.now());
    }
  }).observe(root, {attributes: true, attributeFilter: ["data-task", "data-status"]});
}
"""


@dataclass(slots=True)
class Timings:
    """Milliseconds of one person's session; `events` are the acknowledged events as they were sent."""

    enter_to_next: list[float] = field(default_factory=list)
    draft_sent_to_saved: list[float] = field(default_factory=list)
    submit_sent_to_saved: list[float] = field(default_factory=list)
    enter_to_saved: list[float] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)


class Person:
    """An annotator who accepts the suggestions of one sentence after another and submits them with Enter."""

    def __init__(self, page: Page, user: int, rng: random.Random) -> None:
        self.page, self.user, self.rng = page, user, rng
        self.root = page.locator(".editor")
        self.root.evaluate(_WATCH_EDITOR)

    def work(self, submits: int) -> Timings:
        """Submit `submits` sentences and return what the page measured."""
        self.page.evaluate("() => Object.assign(window.probe, {sent: [], shown: [], saved: [], enter: null})")
        for done in range(submits):
            self._accept_all_one_by_one()
            self.page.wait_for_timeout(_AFTER_LAST_KEY_MS)
            self.page.keyboard.press("Enter")
            self._wait_until_shown_and_saved(done + 1)
            self.page.wait_for_timeout(self.rng.uniform(200, 600))
        return timings(self.page.evaluate("() => window.probe"), self.user)

    def _accept_all_one_by_one(self) -> None:
        for _ in range(self.page.locator(".mark.suggestion").count()):
            self.page.keyboard.press("Space")
            self.page.wait_for_timeout(self.rng.uniform(60, 140))

    def _wait_until_shown_and_saved(self, submits: int) -> None:
        self.page.wait_for_function(
            """(submits) => probe.shown.length >= submits && probe.saved.length
                 && probe.saved.at(-1) > probe.sent.at(-1).at && probe.sent.at(-1).text.includes('"kind":"submit"')""",
            arg=submits,
            polling=50,
            timeout=PATIENCE_MS,
        )


def timings(probe: Mapping[str, Any], user: int) -> Timings:
    """Compute the durations from what the page recorded: messages sent, sentences shown, moments of Saved."""
    durations = Timings()
    enter_of = {int(sentence["task"]): sentence["enter"] for sentence in probe["shown"]}
    durations.enter_to_next = [sentence["at"] - sentence["enter"] for sentence in probe["shown"]]
    seen: set[str] = set()
    for message in probe["sent"]:
        saved = next((moment for moment in probe["saved"] if moment > message["at"]), None)
        for event in outbox_events(message["text"]):
            if saved is None or event["key"] in seen:
                continue
            seen.add(event["key"])
            durations.events.append(_sent_event(event, user))
            target = durations.submit_sent_to_saved if event["kind"] == "submit" else durations.draft_sent_to_saved
            target.append(saved - message["at"])
            if event["kind"] == "submit":
                durations.enter_to_saved.append(saved - enter_of[event["task"]])
    return durations


def outbox_events(text: str) -> list[dict[str, Any]]:
    """Return the events in a message to the server."""
    return list(json.loads(text)["events"])


def _sent_event(event: Mapping[str, Any], user: int) -> dict[str, Any]:
    spans = [(span["start"], span["end"], span["type"]) for span in event["work"]["spans"]]
    return {"user": user, "task": event["task"], "key": event["key"], "kind": event["kind"], "spans": spans}


@contextmanager
def at_the_annotate_page(address: str, person: Mapping[str, Any], seed: int) -> Iterator[Person]:
    """Sign in with a fresh browser and open the annotate page."""
    with browser_page(address, viewport={"width": 1280, "height": 800}) as page:
        page.add_init_script(_WATCH_POSTS)
        browser_sign_in(page, person["name"], person["password"], path="/annotate")
        page.wait_for_selector(".editor[data-task] .tok", timeout=PATIENCE_MS)
        page.wait_for_timeout(1_000)
        page.locator(".editor .sentence").focus()
        yield Person(page, person["id"], random.Random(seed))
