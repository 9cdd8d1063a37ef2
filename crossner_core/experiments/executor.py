"""Cells trained side by side: here, in processes that may die, or as Ray tasks. Events come as they happen."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import queue
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from typing import Any

import torch

from crossner_core.errors import InvalidConfig
from crossner_core.experiments.training_cells import CellEvent, CellTask, cell_events
from crossner_core.processes import begin_worker, ray_session
from crossner_core.training.processes import present
from crossner_core.training.recipe import effective, source_options

TRIES = 2
_SECONDS_BETWEEN_LOOKS = 0.2
_ALONE = "with no other cell beside it; if memory is short, make its batches smaller."


def run_cells(
    tasks: Sequence[CellTask], *, workers: int = 1, ray: str = "", should_stop: Callable[[], bool] = lambda: False
) -> Iterator[CellEvent]:
    """Train cells in this process (1 worker), in several, or on a Ray cluster; each ends with a `last` event.

    Once `should_stop` says so, what is being trained is saved (on Ray it was, half a minute ago at most) and nothing
    new begins. Cells that need the same source
    stage wait until the first of them has trained it.
    """
    if workers < 1:
        raise InvalidConfig(f"workers is {workers}; it must be 1 or more.")
    if present().size > 1 and (workers > 1 or ray):
        raise InvalidConfig("The launched processes train each cell together: leave workers at 1, and --ray out.")
    if ray:
        return run_ray(tasks, ray, workers, should_stop)
    # Each cell sets its number itself: by the environment it comes too late, as reading this module loads PyTorch. One
    # that is left alone has as many as beside others, or its figures would hang on what was there before.
    shared = [replace(task, threads=threads_for(workers)) for task in tasks]
    return run_pool(shared, workers, should_stop) if workers > 1 and len(tasks) > 1 else run_here(shared, should_stop)


def threads_for(workers: int) -> int:
    """Return how many of this process's threads each of so many workers gets; 0 leaves a single one all of them."""
    return max(1, torch.get_num_threads() // workers) if workers > 1 else 0


def source_group(task: CellTask) -> str:
    """Return what names the source stage that a cell shares with others; empty if it has none."""
    cell = task.cell
    values = effective(cell.recipe.to_dict())
    if "source_seed" not in values:  # one source checkpoint serves all seeds, or there is none
        return ""
    parts = [cell.encoder_hash, cell.source, source_options(cell.recipe)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class Line:
    """The tasks that wait: the first of each source group goes first, its others when it is past the source stage."""

    def __init__(self, tasks: Sequence[CellTask]) -> None:
        self.groups = {task.cell.key: source_group(task) for task in tasks}
        firsts = {group: task.cell.key for task in reversed(tasks) if (group := self.groups[task.cell.key])}
        self.waiting = sorted(tasks, key=lambda task: task.cell.key not in firsts.values())
        self.busy: set[str] = set()
        self.ready = {""}

    def take(self) -> CellTask | None:
        """Return the next task that can begin now."""
        for task in self.waiting:
            group = self.groups[task.cell.key]
            if group in self.ready or group not in self.busy:
                self.busy.add(group)
                self.waiting.remove(task)
                return task
        return None

    def note(self, event: CellEvent) -> None:
        """Let a group go on when one of its cells is past the source stage; a failed one leaves it to the next."""
        group = self.groups[event.key]
        if event.past_source or event.result is not None:
            self.ready.add(group)
        elif event.last:
            self.busy.discard(group)

    def put_back(self, task: CellTask) -> None:
        """Take a task back whose worker died."""
        self.busy.discard(self.groups[task.cell.key])
        self.waiting.insert(0, task)


def run_here(tasks: Sequence[CellTask], should_stop: Callable[[], bool]) -> Iterator[CellEvent]:
    """Train one cell after another in this process, which has as many threads as before in the end."""
    before = torch.get_num_threads()
    try:
        for task in tasks:
            if should_stop():
                return
            yield from cell_events(task, should_stop)
    finally:
        torch.set_num_threads(before)


def run_pool(tasks: Sequence[CellTask], workers: int, should_stop: Callable[[], bool]) -> Iterator[CellEvent]:
    """Train in a pool of processes; cells whose worker died go on from their checkpoints.

    A worker that dies takes the others down, and nobody can tell whose cell it was: all of them go on one at a time
    until each has ended. One that dies alone is tried once more.
    """
    line = Line(tasks)
    tries, suspects = dict[str, int](), list[CellTask]()
    while (suspects or line.waiting) and not should_stop():
        running: dict[Future[CellEvent], CellTask] = {}
        alone = suspects.pop(0) if suspects else None
        pool = _Pool(workers if alone is None else 1)
        try:
            yield from _run_pool(pool, line, running, should_stop, alone)
        except BrokenProcessPool:
            if alone is None:
                suspects.extend(running.values())
                continue
            tries[alone.cell.key] = tries.get(alone.cell.key, 0) + 1
            if tries[alone.cell.key] < TRIES:
                suspects.insert(0, alone)
                continue
            died = CellEvent(alone.cell.key, error=f"Its worker process died {TRIES} times {_ALONE}")
            line.note(died)
            yield died
        finally:
            pool.stop.set()  # what still trains is saved first: after Ctrl-C too
            pool.executor.shutdown(wait=True, cancel_futures=True)


def _run_pool(
    pool: _Pool,
    line: Line,
    running: dict[Future[CellEvent], CellTask],
    should_stop: Callable[[], bool],
    alone: CellTask | None,
) -> Iterator[CellEvent]:
    """Train what the line gives, or one task alone; raise BrokenProcessPool where a worker dies."""
    if alone is not None:
        running[pool.executor.submit(_work, alone)] = alone
    while True:
        if should_stop():
            pool.stop.set()
        while alone is None and len(running) < pool.workers and not pool.stop.is_set() and (task := line.take()):
            try:
                running[pool.executor.submit(_work, task)] = task
            except BrokenProcessPool:  # it has not begun
                line.put_back(task)
                raise
        if not running:
            return
        done, _ = wait(running, timeout=_SECONDS_BETWEEN_LOOKS)
        ended = [future for future in done if future.exception() is None]
        for event in [*pool.messages(), *(future.result() for future in ended)]:
            line.note(event)
            yield event
        for future in ended:
            del running[future]
        for future in done:
            if (error := future.exception()) is not None:
                raise error


class _Pool:
    """Processes of their own for cells, a queue for what they say, and a flag that stops them."""

    def __init__(self, workers: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.workers, self.queue, self.stop = workers, context.Queue(), context.Event()
        begin = (self.queue, self.stop)
        self.executor = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=begin)

    def messages(self) -> Iterator[CellEvent]:
        """Yield what the workers have said since."""
        while True:
            try:
                yield self.queue.get_nowait()
            except queue.Empty:
                return


_worker: dict[str, Any] = {}


def _begin(messages: Any, stop: Any) -> None:
    begin_worker()
    _worker.update(messages=messages, stop=stop)


def _work(task: CellTask) -> CellEvent:
    """Train a cell in a worker; return its last event."""
    for event in cell_events(task, _worker["stop"].is_set):
        if not event.last:
            _worker["messages"].put(event)
    return event


def run_ray(
    tasks: Sequence[CellTask], address: str, workers: int, should_stop: Callable[[], bool]
) -> Iterator[CellEvent]:
    """Train as Ray core tasks on a cluster, or for the address `local` on a Ray of this machine.

    `workers` cells are trained at once. Data, encoders and results must lie under the same paths on all machines.
    """
    with ray_session(address, workers) as ray:
        line, running = Line(tasks), dict[Any, CellTask]()
        needs = _ray_needs(ray, workers)
        remote = ray.remote(max_retries=TRIES - 1, **needs)(last_event).remote
        while not should_stop():
            while len(running) < workers and (task := line.take()) is not None:
                running[remote(task)] = task
            if not running:
                return
            done, _ = ray.wait(list(running), num_returns=1, timeout=1.0)
            for one in done:
                event = _ray_event(ray, one, running.pop(one))
                line.note(event)
                yield event


def last_event(task: CellTask) -> CellEvent:
    """Train a cell; return its last event."""
    *_, event = cell_events(task)
    return event


def _ray_needs(ray: Any, workers: int) -> dict[str, float]:
    """Return what a task asks of the cluster: its share, and no more than the smallest machine has."""
    smallest = min(int(node["Resources"].get("CPU", 1)) for node in ray.nodes() if node["Alive"])
    all_of_it = ray.cluster_resources()
    cpus = max(1, min(smallest, int(all_of_it.get("CPU", 1)) // workers))
    return {"num_cpus": cpus, "num_gpus": min(1.0, all_of_it.get("GPU", 0) / workers)}


def _ray_event(ray: Any, reference: Any, task: CellTask) -> CellEvent:
    try:
        event: CellEvent = ray.get(reference)
    except ray.exceptions.RayError as error:
        return CellEvent(task.cell.key, error=f"Its Ray task failed: {str(error).strip().splitlines()[-1]}")
    return event
