"""Cells in a pool of processes where one dies: the others end, and only the one that dies is given up."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crossner_core.experiments import executor
from crossner_core.experiments.cells import Cell
from crossner_core.experiments.executor import run_cells
from crossner_core.experiments.training_cells import CellEvent, CellTask
from crossner_core.parallel import ShouldStop
from crossner_core.training.recipe import Recipe


def task(corpus: str) -> CellTask:
    return CellTask(Cell(corpus, Recipe(), data_hash="x", encoder_hash="y"), Path(), Path())


def work(given: CellTask, should_stop: ShouldStop) -> Iterator[CellEvent]:
    """Stand in for training: cells of the corpus `bad` kill their process, others take a little longer."""
    if given.cell.corpus == "bad":
        time.sleep(0.2)
        os._exit(1)
    time.sleep(0.6)
    yield CellEvent(given.cell.key, stopped=True)


@pytest.mark.slow
def test_pool_gives_up_the_cell_that_dies_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "cell_events", work)
    tasks = [task("bad"), task("good")]
    events = {event.key: event for event in run_cells(tasks, workers=2)}
    bad, good = (events[given.cell.key] for given in tasks)
    assert "died 2 times with no other cell beside it" in bad.error
    assert not good.error and good.stopped
