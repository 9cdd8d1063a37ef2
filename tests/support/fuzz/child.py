"""A process that tries cases one after the other and prints a line of JSON for each; `running` starts it.

`python -m tests.support.fuzz.child SEED` reads the cases as JSON from standard input: a list of (way, number).
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from crossner_core.errors import WorkbenchError
from tests.support.fuzz.mutating import mutate
from tests.support.fuzz.ways import WAYS, Scene, Way

SECONDS = 20.0
BYTES = 1_000_000_000
_CASES_A_SCENE = 400


class TooSlow(BaseException):
    """The time of a case is over; no base of errors that a way in may catch."""


class _Errors(logging.Handler):
    """Keeps what is logged with a traceback: a server that survives an error has failed all the same."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.texts.append("".join(traceback.format_exception(*record.exc_info)))  # type: ignore[arg-type]


def main() -> None:
    """Try the cases that standard input lists."""
    seed = int(sys.argv[1])
    logged = _Errors()
    logging.getLogger().addHandler(logged)
    logging.getLogger().setLevel(logging.CRITICAL + 1)
    for name in ("workbench", "crossner_core", "db"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    report = os.fdopen(os.dup(1), "w")  # libraries print to what standard output is
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory() as folder:
        scenes = _scenes(Path(folder))
        scene, prepared = next(scenes), {}
        for count, (name, number) in enumerate(json.load(sys.stdin)):
            if count % _CASES_A_SCENE == _CASES_A_SCENE - 1:
                scene, prepared = next(scenes), {}
            if name not in prepared:
                prepared[name] = WAYS[name].seeds(scene)
            files = mutate(prepared[name], random.Random(f"{seed} {name} {number}"))
            outcome = attempt(WAYS[name], scene, files, logged.texts)
            print(json.dumps({"way": name, "number": number, **outcome}), file=report, flush=True)


def _scenes(folder: Path) -> Iterator[Scene]:
    number = 0
    while True:
        scene = Scene(folder / str(number))
        yield scene
        scene.store.close()
        number += 1


def attempt(way: Way, scene: Scene, files: Mapping[str, bytes], logged: list[str]) -> dict[str, Any]:
    """Feed one input; return verdict, seconds, bytes of memory above what the process had, and words."""
    before = scene.rows() if way.rows else {}
    logged.clear()
    verdict, words, began = "accepted", "", time.perf_counter()
    resident = begin_measuring()
    try:
        with _limits():
            way.feed(scene, files)
    except WorkbenchError as error:
        verdict, words = "refused", str(error)[:300]
        if before and scene.rows() != before:
            verdict = "half import"
    except TooSlow:
        verdict, words = "slow", traceback.format_exc()[-3000:]
    except MemoryError:
        verdict, words = "memory", traceback.format_exc()[-3000:]
    except Exception:
        verdict, words = "traceback", traceback.format_exc()[-3000:]
    if logged:
        verdict, words = "traceback", logged[0][-3000:]
    seconds, memory = time.perf_counter() - began, max(0, peak() - resident)
    if memory > BYTES * 0.9 and verdict in ("accepted", "refused"):
        verdict = "memory"  # the limit itself may have been what was refused
    return {"verdict": verdict, "words": words, "seconds": seconds, "bytes": memory}


@contextlib.contextmanager
def _limits() -> Iterator[None]:
    """Raise TooSlow after `SECONDS`, MemoryError beyond `BYTES` more than the process has."""
    unlimited = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_status("VmSize") + BYTES, unlimited[1]))
    signal.signal(signal.SIGALRM, _too_slow)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, unlimited)


def _too_slow(_number: int, _frame: FrameType | None) -> None:
    raise TooSlow


def begin_measuring() -> int:
    """Set the process's peak of memory back; return what it holds."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak() -> int:
    return _status("VmHWM")


def _status(name: str) -> int:
    """Return a figure of the process's memory in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise KeyError(name)


if __name__ == "__main__":
    main()
