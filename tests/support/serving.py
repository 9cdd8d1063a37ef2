"""Start the real app server on a free port for a test, and stop it; sign a client or a browser in."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.paths import ROOT

CHROMIUM = next(
    (
        str(path)
        for path in map(Path, ("/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"))
        if path.exists()
    ),
    None,
)
BROWSER_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_START_SECONDS = 60.0
_LOG = "server.log"


@contextmanager
def serve(home: Path, *, port: int = 0, environment: dict[str, str] | None = None) -> Iterator[str]:
    """Run the app server on the store of `home` (made if absent) and yield its base URL.

    What the server prints goes to `home/server.log`; a server that does not start fails the test with it.
    """
    with server_process(home, port=port, environment=environment) as (url, _process):
        yield url


@contextmanager
def server_process(
    home: Path, *, port: int = 0, environment: dict[str, str] | None = None, root: Path = ROOT, log_name: str = _LOG
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run the server of the checkout `root`, as `serve` does, and yield its process, too."""
    home.mkdir(parents=True, exist_ok=True)
    log = home / log_name
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("CROSSNER_", "STREAMLIT_"))}
    variables |= {"CROSSNER_HOME": str(home), "CROSSNER_PORT": str(port or free_port()), "PYTHONUNBUFFERED": "1"}
    variables |= {"PYTHONPATH": str(root)} | (environment or {})
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "workbench.http.server"], cwd=root, env=variables, stdout=output, stderr=output
        )
    try:
        yield wait_until_ready(process, log), process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port() -> int:
    """Return a port nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_ready(process: subprocess.Popen[bytes], log: Path) -> str:
    """Wait for a server that writes to `log` to answer; return its base URL."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        addresses = re.findall(r"Web app: (\S+)", log.read_text(encoding="utf-8"))
        if addresses and _answers(addresses[-1]):
            return addresses[-1]
        time.sleep(0.05)
    raise AssertionError(f"The server did not start:\n{log.read_text(encoding='utf-8')}")


def _answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/health", timeout=2).text == "ok"
    except httpx.TransportError:
        return False


def form_token(page: str) -> str:
    """Find the hidden token of a sign-in or sign-out page."""
    found = re.search(r'name="form_token" value="([0-9a-f]+)"', page)
    assert found, page
    return found.group(1)


def post_sign_in(client: httpx.Client, name: str, password: str, **fields: str) -> httpx.Response:
    """Fetch the form and send it, as a browser would; `fields` replace what the form holds."""
    page = client.get("/auth/login")
    data = {"form_token": form_token(page.text) if page.status_code == 200 else "", "name": name, "password": password}
    return client.post("/auth/login", data=data | fields)


@contextmanager
def browser_page(base_url: str, **context_options: Any) -> Iterator[Any]:
    """Open a page in headless Chromium whose context has `context_options` (viewport, color_scheme, …)."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=BROWSER_ARGUMENTS)
        try:
            context = browser.new_context(base_url=base_url, **context_options)
            yield context.new_page()
        finally:
            browser.close()


def browser_sign_in(page: Any, name: str, password: str, *, path: str = "/") -> None:
    """Sign in through the form and wait until the screen at `path` is drawn."""
    page.goto(f"/auth/login?next={path}")
    page.fill("#name", name)
    page.fill("#password", password)
    page.click("button[type=submit]")
    page.wait_for_selector('[data-testid="stMain"] [data-testid="stHeading"]', timeout=30_000)
