"""Train cells in parallel: here, in processes that may die, or as Ray tasks. Events are yielded as they happen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from crossner_core.errors import InvalidConfig
from crossner_core.experiments.training_cells import CellEvent, CellTask, cell_events
from crossner_core.parallel import (
    Queue,
    ShouldStop,
    WorkerDied,
    never,
    run_here,
    run_pool,
    run_ray,
    threads_for,
)
from crossner_core.training.processes import present
from crossner_core.training.recipe import effective, source_options

_ALONE = " with no other cell beside it; if memory is short, make its batches smaller."


def run_cells(
    tasks: Sequence[CellTask], *, workers: int = 1, ray: str = "", should_stop: ShouldStop = never
) -> Iterator[CellEvent]:
    """Train cells in this process (1 worker), in several, or on a Ray cluster; each ends with a `last` event.

    Once `should_stop` returns True, running cells save and stop (on Ray, their last save is at most half a minute old)
    and no new ones begin. Cells that need the same source stage wait until the first of them has trained it.
    """
    if workers < 1:
        raise InvalidConfig(f"workers is {workers}; it must be 1 or more.")
    if present().size > 1 and (workers > 1 or ray):
        raise InvalidConfig("The launched processes train each cell together: leave workers at 1, and --ray out.")
    return _events(tasks, workers, ray, should_stop)


def _events(tasks: Sequence[CellTask], workers: int, ray: str, should_stop: ShouldStop) -> Iterator[CellEvent]:
    if ray:
        yield from run_ray(cell_events, Line(tasks), ray, workers, should_stop=should_stop, failed=_failed)
        return
    # Each cell sets its thread count itself: the environment is read too late, as importing this module loads PyTorch.
    # A cell that runs alone gets as many as one among others, or its results would depend on what was cached before.
    before = torch.get_num_threads()
    tasks = [replace(task, threads=threads_for(workers)) for task in tasks]
    try:
        if workers > 1 and len(tasks) > 1:
            yield from run_pool(
                cell_events, Line(tasks), workers, should_stop=should_stop, failed=_failed,
                is_last=lambda event: event.last,
            )  # fmt: skip
        else:
            yield from run_here(cell_events, tasks, should_stop=should_stop)
    finally:
        torch.set_num_threads(before)


def source_group(task: CellTask) -> str:
    """Return the key of the source stage that a cell shares with others; empty if it has none."""
    cell = task.cell
    values = effective(cell.recipe.to_dict())
    if "source_seed" not in values:  # one source checkpoint serves all seeds, or there is none
        return ""
    own = [cell.corpus] if cell.recipe.source_head == "target" else []
    parts = [cell.encoder_hash, cell.source, source_options(cell.recipe), *own]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class Line(Queue[CellTask, CellEvent]):
    """The waiting tasks: the first of each source group starts first, the others once it is past the source stage."""

    def __init__(self, tasks: Sequence[CellTask]) -> None:
        self.groups = {task.cell.key: source_group(task) for task in tasks}
        firsts = {group: task.cell.key for task in reversed(tasks) if (group := self.groups[task.cell.key])}
        self.waiting = sorted(tasks, key=lambda task: task.cell.key not in firsts.values())
        self.busy: set[str] = set()
        self.ready = {""}

    def take(self) -> CellTask | None:
        """Return the next task that can start now."""
        for task in self.waiting:
            group = self.groups[task.cell.key]
            if group in self.ready or group not in self.busy:
                self.busy.add(group)
                self.waiting.remove(task)
                return task
        return None

    def note(self, event: CellEvent) -> None:
        """Release a group when one of its cells is past the source stage; if it fails, the next takes over."""
        group = self.groups[event.key]
        if event.past_source or event.result is not None:
            self.ready.add(group)
        elif event.last:
            self.busy.discard(group)

    def look_ahead(self) -> None:
        """Choose only when a worker is free: more tasks may be ready then."""


def _failed(task: CellTask, error: Exception) -> CellEvent:
    return CellEvent(task.cell.key, error=f"{error}{_ALONE if isinstance(error, WorkerDied) else ''}")
