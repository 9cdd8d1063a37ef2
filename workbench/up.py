"""Start everything on one machine: migrations, the demo where the store is empty, the web app and one worker."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from crossner_core.errors import StorageError, WorkbenchError
from db.migrate import migrate
from workbench.settings import Settings, get_settings, open_store

_ROOT = Path(__file__).resolve().parents[1]
_START_SECONDS = 60
_STOP_SECONDS = 10


class PortTaken(WorkbenchError):
    """The address the web app should listen on is in use."""


def check_port(host: str, port: int) -> None:
    """Raise PortTaken when nothing can listen on `host:port`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortTaken(
                    f"Port {port} on {host} is taken, perhaps by a workbench that is already running: "
                    f"open http://{host}:{port}, or choose another port: CROSSNER_PORT={port + 1} make app"
                ) from error
            raise PortTaken(
                f"Cannot listen on {host}:{port}: {error.strerror}. Set CROSSNER_HOST and CROSSNER_PORT."
            ) from error


def prepare(settings: Settings, *, demo: bool = True) -> None:
    """Bring the store to the newest migration and fill an empty one with the demo."""
    try:
        settings.home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"The folder {settings.home} cannot be made: {error.strerror}. Set CROSSNER_HOME."
        ) from error
    store = open_store(settings)
    migrate(store)
    if demo:
        from workbench.demo import seed

        for line in seed.seed_if_empty(store):
            print(line, flush=True)


def up(*, demo: bool = True) -> int:
    """Run until interrupted; return the exit code."""
    settings = get_settings()
    check_port(settings.host, settings.port)
    prepare(settings, demo=demo)
    with _Family() as family:
        family.start("web", [sys.executable, "-m", "workbench.http.server"])
        family.start("worker", [sys.executable, "-m", "workbench.worker"])
        address = f"http://{settings.host}:{settings.port}"
        if not _wait_for(f"{address}/health", family):
            print("The web app did not start; the lines above say why.", file=sys.stderr)
            return 1
        print(f"\nThe workbench runs at {address}  (Ctrl-C stops it)", flush=True)
        return family.watch()


def _wait_for(url: str, family: _Family) -> bool:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and family.alive("web"):
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    return False


class _Family:
    """The child processes: started together, watched, and stopped together."""

    def __init__(self) -> None:
        self._commands: dict[str, Sequence[str]] = {}
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._stopping = False

    def __enter__(self) -> _Family:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_error: object) -> None:
        for child in self._children.values():
            if child.poll() is None:
                child.terminate()
        for child in self._children.values():
            try:
                child.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping = True

    def start(self, name: str, command: Sequence[str]) -> None:
        self._commands[name] = command
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        # A session of its own, so that Ctrl-C reaches the children through us, in order.
        self._children[name] = subprocess.Popen(command, cwd=_ROOT, env=environment, start_new_session=True)

    def alive(self, name: str) -> bool:
        return self._children[name].poll() is None and not self._stopping

    def watch(self) -> int:
        """Wait; start a worker that died again (at most once in ten seconds); stop when the web app ends."""
        started = time.monotonic()
        while not self._stopping:
            if not self.alive("web"):
                return self._children["web"].returncode or 1
            if not self.alive("worker") and time.monotonic() - started > 10:
                print(
                    f"The worker ended (exit code {self._children['worker'].returncode}); starting it again.",
                    flush=True,
                )
                self.start("worker", self._commands["worker"])
                started = time.monotonic()
            time.sleep(0.3)
        return 0
