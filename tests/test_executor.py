"""Cells in a pool of processes where one dies: the others end, and only the one that dies is given up."""

from __future__ import annotations

import os
import time
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import SimpleNamespace

import pytest

from crossner_core.experiments import executor
from crossner_core.experiments.cells import Cell
from crossner_core.experiments.executor import run_pool
from crossner_core.experiments.training_cells import CellEvent, CellTask
from crossner_core.training.recipe import Recipe


def task(corpus: str) -> CellTask:
    return CellTask(Cell(corpus, Recipe(), data_hash="x", encoder_hash="y"), Path(), Path())


def work(given: CellTask) -> CellEvent:
    """Stand in for training: cells of the corpus `bad` kill their process, others take a little longer."""
    if given.cell.corpus == "bad":
        time.sleep(0.2)
        os._exit(1)
    time.sleep(0.6)
    return CellEvent(given.cell.key, stopped=True)


@pytest.mark.slow
def test_pool_gives_up_the_cell_that_dies_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "_work", work)
    tasks = [task("bad"), task("good")]
    events = {event.key: event for event in run_pool(tasks, 2, lambda: False)}
    bad, good = (events[one.cell.key] for one in tasks)
    assert "died 2 times with no other cell beside it" in bad.error
    assert not good.error and good.stopped


@pytest.mark.parametrize(
    ("order", "begun"),
    [
        (["good", "bad"], [["good", "bad"], ["good"], ["bad"], ["bad"]]),
        # The pool breaks before good is handed in: it is no suspect, and begins when bad has been given up.
        (["bad", "good"], [["bad"], ["bad"], ["bad"], ["good"]]),
    ],
)
def test_pool_runs_those_that_were_beside_it_one_at_a_time(
    order: list[str], begun: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []

    def pool(workers: int) -> SimpleNamespace:
        """Stand in for a pool: bad breaks it as soon as it begins, good ends at once in all but the first."""
        seen.append([])
        futures: list[Future[CellEvent]] = []

        def submit(_work: object, given: CellTask) -> Future[CellEvent]:
            if any(future.done() and future.exception() for future in futures):
                raise BrokenProcessPool("died before")
            seen[-1].append(given.cell.corpus)
            futures.append(Future())
            if given.cell.corpus == "bad":
                for future in futures:
                    future.set_exception(BrokenProcessPool("died"))
            elif len(seen) > 1:
                futures[-1].set_result(CellEvent(given.cell.key, stopped=True))
            return futures[-1]

        stop = SimpleNamespace(is_set=lambda: False, set=lambda: None)
        broken = SimpleNamespace(submit=submit, shutdown=lambda **_: None)
        return SimpleNamespace(workers=workers, messages=lambda: iter(()), stop=stop, executor=broken)

    monkeypatch.setattr(executor, "_Pool", pool)
    tasks = [task(corpus) for corpus in order]
    events = {event.key: event for event in run_pool(tasks, 2, lambda: False)}
    assert seen == begun
    errors = {one.cell.corpus: events[one.cell.key].error for one in tasks}
    assert not errors["good"] and "died 2 times" in errors["bad"]
