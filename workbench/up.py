"""Start everything on one machine: migrations, the demo where the store is empty, the web app and one worker."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from types import FrameType

from db.migrate import migrate
from workbench.http.server import address, listen
from workbench.out_of_process import environment
from workbench.settings import Settings, get_settings, open_store

_START_SECONDS = 60
_STOP_SECONDS = 10


def prepare(settings: Settings, *, demo: bool = True) -> None:
    """Bring the store to the newest migration and fill an empty one with the demo."""
    store = open_store(settings)
    migrate(store)
    if demo:
        from workbench.demo import seed, wiki

        for line in seed.seed_if_empty(store):
            print(line, flush=True)
        if seed.is_demo(store):
            for line in wiki.make_if_absent(settings):
                print(line, flush=True)


def up(*, demo: bool = True) -> int:
    """Run until interrupted; return the exit code."""
    settings = get_settings()
    listen(settings.host, settings.port).close()  # report a taken port before creating anything
    prepare(settings, demo=demo)
    with _Family() as family:
        # -P: files of the working directory (a `db` or `queue.py` of the user's) must not hide modules.
        family.start("web", [sys.executable, "-P", "-m", "workbench.http.server"])
        family.start("worker", [sys.executable, "-P", "-m", "workbench.jobs.worker"])
        url = address(settings.host, settings.port)
        if not _wait_for(f"{url}/health", family):
            print("The web app did not start; see the lines above.", file=sys.stderr)
            return 1
        print(f"\nThe workbench runs at {url}  (Ctrl-C stops it)", flush=True)
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
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
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
        # A session of its own, so that Ctrl-C reaches the children through us, in order.
        self._children[name] = subprocess.Popen(command, env=environment(), start_new_session=True)

    def alive(self, name: str) -> bool:
        return self._children[name].poll() is None and not self._stopping

    def watch(self) -> int:
        """Wait; restart a dead worker (at most once every ten seconds); stop when the web app ends."""
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
