"""Run many cases in child processes; a child that dies or hangs costs one case, the one it was at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any

from tests.support.fuzz.child import SECONDS
from tests.support.fuzz.ways import WAYS
from tests.support.paths import ROOT

Case = tuple[str, int]
GOOD = ("accepted", "refused")
_START_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a case; `words` is the error's message, or its traceback."""

    way: str
    number: int
    verdict: str
    words: str = ""
    seconds: float = 0.0
    bytes: int = 0


def plan(cases: int, ways: Sequence[str] = ()) -> list[Case]:
    """Share cases out among the ways by their weights; each gets at least one."""
    chosen = [WAYS[name] for name in ways or WAYS]
    whole = sum(way.weight for way in chosen)
    return [(way.name, number) for way in chosen for number in range(max(1, cases * way.weight // whole))]


def run(cases: Sequence[Case], *, seed: int, processes: int = 2) -> list[Result]:
    """Try the cases, each process its share of every way; return the results in the order of the cases."""
    shares = [cases[first::processes] for first in range(processes)]
    with ThreadPoolExecutor(processes) as pool:
        results = chain.from_iterable(pool.map(lambda share: list(_run_share(share, seed)), shares))
        by_case = {(result.way, result.number): result for result in results}
    return [by_case[case] for case in cases]


def _run_share(cases: Sequence[Case], seed: int) -> Iterator[Result]:
    done = 0
    while done < len(cases):
        for result in _run_child(cases[done:], seed):
            yield result
            done += 1
        if done < len(cases):
            yield Result(*cases[done], "died", "The process died or hung at this case.", SECONDS)
            done += 1


def _run_child(cases: Sequence[Case], seed: int) -> Iterator[Result]:
    """Yield the results of a child until it ends, or is killed because a case does not."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.support.fuzz.child", str(seed)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes) as child:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(json.dumps(cases))
        child.stdin.close()
        while (line := _line(child)).endswith("\n"):
            yield Result(**json.loads(line))
        child.kill()


def _line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    watchdog = threading.Timer(SECONDS + _START_SECONDS, child.kill)
    watchdog.start()
    try:
        return child.stdout.readline()
    finally:
        watchdog.cancel()
