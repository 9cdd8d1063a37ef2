"""Worker processes that a test catches half-way."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

import pytest

from db import run_rows
from db.engine import Store

# Takes its time over a step, so that a test can catch it half-way.
SLOW_STEPS = (
    "import time, crossner_core.training.engine as engine\n"
    "learn = engine.TaskRun.learn\n"
    "engine.TaskRun.learn = lambda self, *given: (time.sleep(0.05), learn(self, *given))[1]\n"
)
# Saves after every step, too.
SLOW = f"import crossner_core.training.loop as loop\nloop.SECONDS_BETWEEN_SAVES = 0.0\n{SLOW_STEPS}"
QUICK_TO_NOTICE = "from workbench.jobs import lease\nlease.STALE_SECONDS = 1.0\nlease.GONE_SECONDS = 0.5\n"


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None:
            assert process.stderr is not None
            pytest.fail(f"the worker ended with {process.returncode}: {process.stderr.read()[-2000:]}")
        if time.monotonic() > end:
            process.kill()
            pytest.fail("waited too long for the worker")
        time.sleep(0.05)


def finish(process: subprocess.Popen[str]) -> str:
    _, errors = process.communicate(timeout=90)
    assert process.returncode == 0, errors
    return errors


def steps_done(store: Store, run_id: int) -> int:
    with store.read() as session:
        return max((event.step for event in run_rows.events(session, run_id)), default=0)
