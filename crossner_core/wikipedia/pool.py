"""Shards made side by side: here, in a pool of processes that may die, or as Ray tasks. Results come as they are done.

At most a few tasks are held at once, so that memory does not grow with their number.
"""

from __future__ import annotations

import logging
import multiprocessing
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from crossner_core.errors import BadInput, WorkbenchError
from crossner_core.processes import begin_worker, ray_session
from crossner_core.wikipedia.shards import ShardReport, ShardTask, build_shard

TRIES = 4
log = logging.getLogger(__name__)


class WorkerDied(WorkbenchError):
    """A worker process died again and again; the message says at which shard and what to do."""


def run_here(tasks: Iterable[ShardTask]) -> Iterator[ShardReport]:
    """Make the shards one after another in this process."""
    return map(build_shard, tasks)


def run_pool(tasks: Iterable[ShardTask], workers: int) -> Iterator[ShardReport]:
    """Make the shards in a pool of processes; those of a worker that died are made again in a new pool.

    Blocks of a dump travel as files: what is too large for a pipe makes the pool of Python before 3.11.5 wait for
    ever if a worker dies while it is being sent.
    """
    with tempfile.TemporaryDirectory(prefix="shards-") as folder:
        yield from _run_pool(tasks, workers, Path(folder))


def _run_pool(tasks: Iterable[ShardTask], workers: int, folder: Path) -> Iterator[ShardReport]:
    waiting, again = iter(tasks), list[ShardTask]()
    tries: dict[int, int] = {}
    while True:
        running: dict[Future[ShardReport], ShardTask] = {}
        executor = _executor(workers)
        try:
            while True:
                room = workers + 1 - len(running)
                for task in [*_pop(again, room), *islice(waiting, max(0, room - len(again)))]:
                    running[_submit(executor, task, again, folder)] = task
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    report = future.result()
                    del running[future]
                    yield report
        except BrokenProcessPool:
            again += running.values()
            _count_tries(running.values(), tries)
        finally:
            executor.shutdown(wait=True, cancel_futures=True)


def _pop(tasks: list[ShardTask], room: int) -> list[ShardTask]:
    taken, tasks[:] = tasks[: max(0, room)], tasks[max(0, room) :]
    return taken


def _submit(
    executor: ProcessPoolExecutor, task: ShardTask, again: list[ShardTask], folder: Path
) -> Future[ShardReport]:
    block = None
    if task.block is not None:
        block = folder / str(task.number)
        block.write_bytes(task.block)
    try:
        return executor.submit(_build, task if block is None else replace(task, block=None), block)
    except BrokenProcessPool:
        again.append(task)
        raise


def _build(task: ShardTask, block: Path | None) -> ShardReport:
    """Make a shard in a worker, from a block that lies in a file if there is one."""
    if block is None:
        return build_shard(task)
    report = build_shard(replace(task, block=block.read_bytes()))
    block.unlink()
    return report


def _count_tries(tasks: Iterable[ShardTask], tries: dict[int, int]) -> None:
    numbers = sorted(task.number for task in tasks)
    log.warning("A worker process died; these shards are made again: %s.", numbers)
    for number in numbers:
        tries[number] = tries.get(number, 0) + 1
    if worst := [number for number in numbers if tries[number] >= TRIES]:
        raise WorkerDied(
            f"A worker process died {TRIES} times while these shards were made: {worst}. If memory is short, take "
            "fewer workers or a smaller shard size. What is finished stays: the same command goes on from there."
        )


def _executor(workers: int) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, mp_context=context, initializer=begin_worker)


def run_ray(tasks: Iterable[ShardTask], address: str, workers: int) -> Iterator[ShardReport]:
    """Make the shards as Ray core tasks on a cluster, or for the address `local` on a Ray of this machine.

    Dump (of a multistream one), gazetteer and corpus folder must lie under the same paths on all machines.
    """
    with ray_session(address, workers) as ray:
        at_once = max(2, int(ray.cluster_resources().get("CPU", workers))) + 1
        yield from _ray_results(ray, iter(tasks), at_once)


def _ray_results(ray: Any, tasks: Iterator[ShardTask], at_once: int) -> Iterator[ShardReport]:
    make: Callable[..., Any] = ray.remote(max_retries=TRIES - 1, num_cpus=1)(build_shard).remote
    running = [make(task) for task in islice(tasks, at_once)]
    while running:
        done, running = ray.wait(running, num_returns=1)
        try:
            report = ray.get(done[0])
        except ray.exceptions.WorkerCrashedError as error:
            raise WorkerDied(
                f"A Ray worker died {TRIES} times at one shard. What is finished stays: the same command goes on."
            ) from error
        except ray.exceptions.RayTaskError as error:
            raise (error.cause if isinstance(error.cause, WorkbenchError) else BadInput(str(error))) from error
        yield report
        running += [make(task) for task in islice(tasks, at_once - len(running))]
