"""The span editor: its pure modules in Node, its bundle, and its life in a real browser."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pages.components.span_editor import HERE, MODULES, bundle

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

ROOT = Path(__file__).parents[1]
CHROMIUM_ARGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


def node() -> str:
    """Path of Node; the test is skipped where there is none."""
    found = shutil.which("node")
    if not found:
        pytest.skip("node is not installed: the editor's modules are only tested where it is")
    return found


def test_editor_modules_pass_their_node_tests() -> None:
    files = sorted(str(path) for path in (ROOT / "tests" / "editor").glob("*.test.mjs"))
    assert len(files) >= 5
    done = subprocess.run([node(), "--test", *files], capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "# pass 0" not in done.stdout


def test_bundle_is_one_valid_module(tmp_path: Path) -> None:
    (tmp_path / "bundle.mjs").write_text(bundle(), encoding="utf-8")
    done = subprocess.run([node(), "--check", str(tmp_path / "bundle.mjs")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^export .*", bundle(), re.MULTILINE) == ["export default function mount(component) {"]
    assert not re.search(r"^import\b", bundle(), re.MULTILINE)


def test_bundle_holds_every_module_after_what_it_uses() -> None:
    assert {path.name for path in HERE.glob("*.js")} == set(MODULES)
    for place, name in enumerate(MODULES):
        used = re.findall(r'from "\./([\w.]+)"', (HERE / name).read_text(encoding="utf-8"))
        assert set(used) <= set(MODULES[:place]), name


def test_editor_never_turns_data_into_markup() -> None:
    for path in HERE.glob("*.js"):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", path.read_text()), path


@dataclass
class Harness:
    """A running page with nothing but the editor, over an SQLite file."""

    store: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "streamlit", "run", str(ROOT / "tests" / "editor" / "harness.py")]
        options = {
            "server.port": self.port, "server.address": "127.0.0.1", "server.headless": "true",
            "browser.gatherUsageStats": "false", "server.fileWatcherType": "none",
        }  # fmt: skip
        command += [part for name, value in options.items() for part in (f"--{name}", str(value))]
        env = os.environ | {"EDITOR_STORE": str(self.store)}
        self.process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
        wait_for(self.healthy, "the harness to start", 40)

    def healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/_stcore/health", timeout=1) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False

    def kill(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def row(self, task: int) -> dict[str, Any] | None:
        """What the database holds of a task."""
        if not self.store.exists():
            return None
        with closing(sqlite3.connect(self.store, timeout=15)) as db:
            db.row_factory = sqlite3.Row
            try:
                row = db.execute("SELECT * FROM work WHERE task = ?", (task,)).fetchone()
            except sqlite3.OperationalError:
                return None
        return dict(row) | {"work": json.loads(row["work"])} if row else None

    def spans(self, task: int) -> list[tuple[int, int, str]]:
        row = self.row(task)
        return [(one["start"], one["end"], one["type"]) for one in row["work"]["spans"]] if row else []

    def state(self, task: int) -> str | None:
        row = self.row(task)
        return row["state"] if row else None


def wait_for(check: Callable[[], Any], what: str, seconds: float = 15) -> None:
    """Poll until `check` is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if check():
            return
        time.sleep(0.05)
    raise AssertionError(f"waited {seconds} s for {what}")


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    running = Harness(tmp_path / "work.db", port)
    running.start()
    yield running
    running.kill()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        if not path and not Path(playwright.chromium.executable_path).exists():
            pytest.skip("no Chromium: install one, or name it in $CHROMIUM")
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGS)
        yield browser
        browser.close()


@contextmanager
def opened(browser: Browser | BrowserContext, harness: Harness, query: str = "", **options: Any) -> Iterator[Page]:
    """A page with the editor on it; it must not have thrown at the end."""
    context = browser.new_context(**options) if hasattr(browser, "new_context") else browser
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    visit(page, harness, query)
    yield page
    assert errors == []
    if context is not browser:
        context.close()
    else:
        page.close()


def visit(page: Page, harness: Harness, query: str = "") -> None:
    page.goto(f"http://127.0.0.1:{harness.port}/{query}")
    page.wait_for_selector(".editor", timeout=20000)
    page.wait_for_function(FOCUSED)


FOCUSED = """() => { let at = document.activeElement; while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
  return at && (at.classList.contains('sentence') || at.classList.contains('empty')) }"""


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def status(page: Page) -> str | None:
    return page.locator(".editor").get_attribute("data-status")


def task_shown(page: Page) -> int:
    return int(page.locator(".editor").get_attribute("data-task") or 0)


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
        assert "unsent changes are back" in page.locator(".say").inner_text()
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
        runs = page.evaluate("() => { window.heard = []; document.addEventListener('keydown', (e) => window.heard.push(e.key)) }")
        assert runs is None
        press(page, "r", "c", "k")
        assert page.evaluate("() => window.heard") == []
        assert page.get_by_role("listbox").count() == 1
        option = page.get_by_role("option", name="Northern, suggested album, link 0.97, Wikipedia: Northern Rooms (album)")
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


@pytest.mark.browser
def test_editor_shows_the_next_sentence_within_50_ms(harness: Harness, chromium: Browser) -> None:
    with opened(chromium, harness, "?total=60") as page:
        took = submit_times(page, 50)
    print(took)
    assert took[len(took) * 95 // 100] < 50, took


def submit_times(page: Page, count: int) -> list[float]:
    """Milliseconds from Enter to the frame after the next sentence is drawn, sorted."""
    page.evaluate(TIMING)
    for _ in range(count):
        press(page, "Shift+Space")
        before = task_shown(page)
        press(page, "Enter")
        if task_shown(page) == before:
            press(page, "Enter")
        page.wait_for_timeout(150)
    times: list[float] = page.evaluate("() => window.took")
    assert len(times) >= count - 2
    return sorted(times)


TIMING = """() => {
  window.took = [];
  const root = document.querySelector('[data-testid=stBidiComponentIsolated]').shadowRoot.querySelector('.editor');
  let pressed = 0;
  window.addEventListener('keydown', (e) => { if (e.key === 'Enter') pressed = performance.now(); }, true);
  let task = root.dataset.task;
  new MutationObserver(() => {
    if (task === root.dataset.task) return;
    task = root.dataset.task;
    requestAnimationFrame(() => { const painted = new MessageChannel();
      painted.port1.onmessage = () => window.took.push(performance.now() - pressed); painted.port2.postMessage(0); });
  }).observe(root, { attributes: true, attributeFilter: ['data-task'] });
}"""
