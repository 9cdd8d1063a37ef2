"""What a new user gets: the demo in an empty store, and everything started by one command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from argon2 import PasswordHasher

from db.engine import Store
from db.tables import SentenceRow, SuggestionRow, Task
from db.training_tables import Run, Snapshot, WorkerRow
from tests.support.serving import ROOT, free_port
from workbench.accounts import passwords
from workbench.demo import seed, walk

Counts = dict[tuple[str, str], int]


def _tasks(store: Store) -> Counts:
    """Tasks by stage and whether they are done, in both campaigns together."""
    with store.read() as session:
        rows = session.execute(sa.select(Task.stage, Task.state)).all()
    found: Counts = {}
    for stage, state in rows:
        key = (stage, "done" if state == "done" else "to do")
        found[key] = found.get(key, 0) + 1
    return found


def _count(store: Store, table: type[object]) -> int:
    with store.read() as session:
        return session.scalar(sa.select(sa.func.count()).select_from(table)) or 0


EXPECTED = {
    ("annotate", "done"): 118, ("annotate", "to do"): 40, ("check", "done"): 106, ("check", "to do"): 12,
    ("adjudicate", "done"): 92, ("adjudicate", "to do"): 14,
}  # fmt: skip


@pytest.fixture(autouse=True)
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "HASHER", PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))


def test_demo_has_work_at_every_stage_and_a_curve_to_train(store: Store) -> None:
    lines = list(seed.seed_if_empty(store))
    assert len(lines) == 1 + len(seed.PEOPLE)
    assert _tasks(store) == EXPECTED
    assert _count(store, Snapshot) == 2
    assert _count(store, Run) == len(seed.CURVE_SIZES) * len(seed.CURVE_SEEDS)
    assert _count(store, SuggestionRow) > 500
    assert list(seed.seed_if_empty(store)) == [] and _count(store, SentenceRow) == 158


def test_demo_that_was_interrupted_is_finished_at_the_next_start(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first, begun = walk._first, iter(range(10_000))

    def interrupted(item: Any, record: Any) -> dict[str, Any]:
        if next(begun) == 10:  # in the second batch of annotator 1
            raise KeyboardInterrupt
        return first(item, record)

    with monkeypatch.context() as patch:
        patch.setattr(walk, "_first", interrupted)
        with pytest.raises(KeyboardInterrupt):
            list(seed.seed_if_empty(store))
    assert _tasks(store)["annotate", "done"] == 8
    # The first campaign had begun; the second had not, and stays away rather than surprise who deleted it.
    assert list(seed.seed_if_empty(store)) == []
    assert _count(store, Snapshot) == 1
    found = _tasks(store)
    assert (found["annotate", "done"], found["check", "done"], found["adjudicate", "done"]) == (35, 31, 26)


@pytest.mark.slow
def test_up_starts_web_app_and_worker_and_stops_both(tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "up.log"
    environment = {**os.environ, "CROSSNER_HOME": str(tmp_path), "CROSSNER_PORT": str(port), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "workbench", "up", "--no-demo"]
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=out)
        try:
            _wait_for(log, "The workbench runs at")
            _wait_for(log, "is ready on")
            again = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
            assert again.returncode == 2 and f"Port {port}" in again.stderr
            assert f"CROSSNER_PORT={port + 1}" in again.stderr and "Traceback" not in again.stderr
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(40)
    store = Store(f"sqlite:///{tmp_path / 'workbench.sqlite3'}")
    with store.read() as session:
        pids = list(session.scalars(sa.select(WorkerRow.pid)))
    store.close()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def _wait_for(log: Path, words: str, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if words in log.read_text(encoding="utf-8"):
            return
        time.sleep(0.1)
    raise AssertionError(f"{words!r} did not appear:\n{log.read_text(encoding='utf-8')}")
