"""Start the real app server on a free port for a test, and stop it; sign a client or a browser in."""

from __future__ import annotations

import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
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


def free_port() -> int:
    """Return a port nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
    process = _start(home, port or free_port(), environment or {}, root, log)
    try:
        yield wait_until_ready(process, log), process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@dataclass
class Server:
    """The server as a process that is killed and started again on the same store and port."""

    home: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        log = self.home / f"server-{self.port}.log"
        self.process = _start(self.home, self.port, self.environment, ROOT, log)
        wait_until_ready(self.process, log)

    def kill(self) -> None:
        """Kill it in the middle of whatever it does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def limit_files(self, size: int) -> None:
        """Let it write no file beyond `size` bytes, as if the disk were full."""
        assert self.process is not None
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def _start(home: Path, port: int, environment: Mapping[str, str], root: Path, log: Path) -> subprocess.Popen[bytes]:
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("CROSSNER_", "STREAMLIT_"))}
    variables |= {"CROSSNER_HOME": str(home), "CROSSNER_PORT": str(port), "PYTHONUNBUFFERED": "1"}
    variables |= {"PYTHONPATH": str(root), **environment}
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "workbench.http.server"], cwd=root, env=variables, stdout=output, stderr=output
        )


@contextmanager
def worker_process(home: Path) -> Iterator[None]:
    """Run a worker on a home; what it prints goes to `home/worker.log`."""
    environment = {**os.environ, "CROSSNER_HOME": str(home)}
    with (home / "worker.log").open("ab") as log:
        command = [sys.executable, "-m", "workbench.jobs.worker"]
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait(60)


def resident_bytes(pid: int) -> int:
    """Return the bytes of memory that a process holds."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


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
