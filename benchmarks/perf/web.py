"""What an annotator feels beside 24 others, what the server holds, and the same step in plain Streamlit."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.perf.row import Row
from benchmarks.saves import measure, percentiles
from tests.support.serving import browser_page, free_port

ANNOTATORS, SECONDS, SUBMITS = 25, 15.0, 15
NEXT_BAR, MEMORY_BAR = 50.0, 400.0
PLAIN = """
import streamlit as st

number = st.session_state.setdefault("number", 0)
st.write(f"Sentence {number}")
st.multiselect("Entities", ["Person", "Place"])
if st.button("Next"):
    st.session_state.number += 1
    st.rerun()
"""
# From the click to the frame after the next sentence was drawn.
_CLICK = """
() => new Promise((done) => {
  const texts = () => [...document.querySelectorAll("p")].map((each) => each.textContent);
  const text = () => texts().find((each) => each.startsWith("Sentence"));
  const before = text(), began = performance.now();
  new MutationObserver((_, watch) => {
    if (text() && text() !== before) {
      watch.disconnect();
      requestAnimationFrame(() => done(performance.now() - began));
    }
  }).observe(document.body, {subtree: true, childList: true, characterData: true});
  [...document.querySelectorAll("button")].find((each) => each.textContent.trim() === "Next").click();
})
"""


def rows(data: Path) -> Iterator[Row]:
    """Yield latency and memory of the web process."""
    measured = measure("SQLite", annotators=ANNOTATORS, seconds=SECONDS, submits=SUBMITS)
    ours, plain = percentiles(measured.enter_to_next), percentiles(_plain())
    saved = percentiles(measured.acknowledged)
    yield Row(
        f"Enter → next sentence, beside {ANNOTATORS} others, p50 / p95",
        f"{ours['p50']} / {ours['p95']} ms",
        f"plain Streamlit, alone: {plain['p50']} / {plain['p95']} ms",
        "",
        f"under {NEXT_BAR:.0f} ms at p95",
        ours["p95"] < NEXT_BAR,
    )
    yield Row(
        "an event sent → acknowledged, p50 / p95",
        f"{saved['p50']} / {saved['p95']} ms, {len(measured.lost)} of {measured.events} lost",
    )
    yield Row(
        f"memory of the web process with {ANNOTATORS} sessions",
        f"{measured.megabytes:.0f} MB, {measured.megabytes_a_session:.1f} MB a session",
        "",
        "",
        f"under {MEMORY_BAR:.0f} MB",
        measured.megabytes < MEMORY_BAR,
    )


def _wait(port: int) -> None:
    """Wait until something listens; raise OSError after a minute."""
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.2)
    raise OSError("Plain Streamlit did not start within a minute.")


def _plain() -> list[float]:
    """Return milliseconds from a click to the next sentence in a page of ten lines."""
    with tempfile.TemporaryDirectory() as text:
        page, log, port = Path(text) / "plain.py", Path(text) / "log", free_port()
        page.write_text(PLAIN, encoding="utf-8")
        words = ["--server.port", str(port), "--server.headless", "true", "--browser.gatherUsageStats", "false"]
        with log.open("wb") as printed:
            server = subprocess.Popen(
                [sys.executable, "-m", "streamlit", "run", str(page), *words], stdout=printed, stderr=printed
            )
        try:
            _wait(port)
            with browser_page(f"http://127.0.0.1:{port}") as tab:
                tab.goto("/")
                tab.get_by_role("button", name="Next").wait_for(timeout=60_000)
                return [float(tab.evaluate(_CLICK)) for _ in range(SUBMITS + 3)][3:]
        finally:
            server.kill()
            server.wait()
