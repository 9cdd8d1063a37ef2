"""Runs the harness and a real browser for the editor's tests."""

from __future__ import annotations

import json
import os
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

from tests.support.paths import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

CHROMIUM_ARGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass
class Harness:
    """A running page with nothing but the editor, over an SQLite file."""

    store: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "uvicorn", "tests.support.editor.harness:app", "--log-level", "error"]
        command += ["--host", "127.0.0.1", "--port", str(self.port), "--ws", "websockets-sansio"]
        options = {"BROWSER_GATHER_USAGE_STATS": "false", "SERVER_FILE_WATCHER_TYPE": "none"}
        env = os.environ | {f"STREAMLIT_{name}": value for name, value in options.items()}
        env |= {"EDITOR_STORE": str(self.store), "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT
        )
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


AFTER_ENTER_MS = 310
FOCUSED = """() => { let at = document.activeElement;
  while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
  return at && (at.classList.contains('sentence') || at.classList.contains('empty')) }"""


def press(page: Page, *keys: str) -> None:
    """Press keys; a second Enter waits until it no longer counts as a slip of the first."""
    before = ""
    for key in keys:
        if key == before == "Enter":
            page.wait_for_timeout(AFTER_ENTER_MS)
        page.keyboard.press(key)
        before = key


def status(page: Page) -> str | None:
    return page.locator(".editor").last.get_attribute("data-status")


def task_shown(page: Page) -> int:
    return int(page.locator(".editor").last.get_attribute("data-task") or 0)


def submit_times(page: Page, count: int) -> list[float]:
    """Milliseconds from Enter to the frame after the next sentence is drawn, sorted."""
    page.evaluate(TIMING)
    for _ in range(count):
        press(page, "Shift+Space")
        before = task_shown(page)
        press(page, "Enter")
        if task_shown(page) == before:
            page.wait_for_timeout(AFTER_ENTER_MS)
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
