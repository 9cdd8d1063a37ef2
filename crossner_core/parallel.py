"""Run tasks in parallel: in this process, in processes that may die, or as Ray tasks. Events come as they happen.

Work is a module-level function, as spawned processes and Ray import it by name: it takes a task and `should_stop`, and
yields events; the last one is the task's result.
"""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from typing import Any, Generic, NoReturn, TypeVar

from crossner_core.errors import BadInput, InvalidConfig, WorkbenchError

TRIES = 2
"""How often a worker may die on a task that runs alone."""
_SECONDS_BETWEEN_LOOKS = 0.2
log = logging.getLogger(__name__)

Task = TypeVar("Task")
Event = TypeVar("Event")
ShouldStop = Callable[[], bool]
Work = Callable[[Task, ShouldStop], Iterator[Event]]


class WorkerDied(WorkbenchError):
    """A worker process died on each attempt at a task."""


class Queue(Generic[Task, Event]):
    """Tasks in order; a subclass may hold some back until others have progressed."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._tasks = iter(tasks)
        self._next: Task | None = None

    def take(self) -> Task | None:
        """Return the next task that can start now."""
        task, self._next = self._next, None
        return task if task is not None else next(self._tasks, None)

    def look_ahead(self) -> None:
        """Prepare the next task while all workers are busy: creating it may take time."""
        if self._next is None:
            self._next = next(self._tasks, None)

    def note(self, event: Event) -> None:
        """Handle an event that a task has yielded."""


def _raise(task: Any, error: Exception) -> NoReturn:
    raise error


def never() -> bool:
    """Return False: never stop."""
    return False


def threads_for(workers: int) -> int:
    """Return the number of PyTorch threads for each of `workers` workers; 0 leaves a single one all threads."""
    import torch

    return max(1, torch.get_num_threads() // workers) if workers > 1 else 0


def run_here(work: Work[Task, Event], tasks: Iterable[Task], *, should_stop: ShouldStop = never) -> Iterator[Event]:
    """Run tasks one after another in this process, until `should_stop` returns True."""
    for task in tasks:
        if should_stop():
            return
        yield from work(task, should_stop)


def run_pool(
    work: Work[Task, Event],
    queue: Queue[Task, Event],
    workers: int,
    *,
    should_stop: ShouldStop = never,
    failed: Callable[[Task, Exception], Event] = _raise,
    is_last: Callable[[Event], bool] = lambda event: False,
) -> Iterator[Event]:
    """Run tasks in `workers` processes.

    Once `should_stop` returns True, no new tasks start and running ones are asked to stop. A task whose worker died may
    have run out of memory: it is retried when nothing else is running. `failed` turns a task's exception, or WorkerDied
    if all attempts failed, into an event; without it that is raised. `is_last` identifies the event that completes a
    task: a worker that dies after it is replaced, and the task is not retried.
    """
    pool, again = _Pool(work), list[_Attempt[Task]]()
    try:
        while True:
            began = False
            if should_stop():
                pool.stop()
            elif again or any(worker.attempt.alone for worker in pool.busy):
                if not pool.busy:
                    pool.begin(again.pop(0))
            elif len(pool.busy) < workers and (task := queue.take()) is not None:
                pool.begin(_Attempt(task))
                began = True
            else:
                queue.look_ahead()
            if not pool.busy:
                if not again or should_stop():
                    return
                continue
            for attempt, event, error in pool.events(0 if began else _SECONDS_BETWEEN_LOOKS):
                if isinstance(error, WorkerDied) and attempt.done:
                    continue
                if isinstance(error, WorkerDied) and attempt.deaths < TRIES:
                    attempt.alone = True
                    again.append(attempt)
                    continue
                event = event if error is None else failed(attempt.task, error)
                attempt.done = is_last(event)
                queue.note(event)
                yield event
    finally:
        pool.close()


@dataclass
class _Attempt(Generic[Task]):
    """A task, how often a worker has died on it while no other was running, and whether its last event has arrived."""

    task: Task
    deaths: int = 0
    alone: bool = False
    done: bool = False


class _Worker(Generic[Task]):
    """A process and its pipe; it accepts an attempt once it has reported ready."""

    def __init__(self, work: Work[Task, Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(work, theirs))
        self.process.start()
        theirs.close()
        self.ready = False
        self.attempt: _Attempt[Task]

    def begin(self, attempt: _Attempt[Task]) -> None:
        self.attempt = attempt
        if self.ready:
            self.send(attempt.task)

    def send(self, message: Any) -> None:
        with suppress(OSError):  # if it has died, reading its pipe will reveal that
            self.pipe.send(message)


_STOP = "stop"


class _Pool(Generic[Task]):
    """Processes with one task at a time each, started on demand."""

    def __init__(self, work: Work[Task, Any]) -> None:
        self.work = work
        self.busy: list[_Worker[Task]] = []
        self.idle: list[_Worker[Task]] = []
        self.stopping = False

    def begin(self, attempt: _Attempt[Task]) -> None:
        worker = self.idle.pop() if self.idle else _Worker(self.work)
        self.busy.append(worker)
        worker.begin(attempt)

    def stop(self) -> None:
        """Ask running tasks to stop."""
        if not self.stopping:
            self.stopping = True
            for worker in self.busy:
                if worker.ready:
                    worker.send(_STOP)

    def events(self, seconds: float) -> Iterator[tuple[_Attempt[Task], Any, Exception | None]]:
        """Yield what arrives within `seconds`: attempts with an event or an error."""
        ready = wait_for([worker.pipe for worker in self.busy], seconds)
        for worker in [worker for worker in self.busy if worker.pipe in ready]:
            try:
                kind, value = worker.pipe.recv()
            except (EOFError, OSError):
                self._bury(worker)
                yield worker.attempt, None, WorkerDied(f"Its worker process died {TRIES} times")
                continue
            if kind == "ready":
                worker.ready = True
                worker.send(worker.attempt.task)
                if self.stopping:
                    worker.send(_STOP)
            elif kind == "event":
                yield worker.attempt, value, None
            else:
                self.busy.remove(worker)
                self.idle.append(worker)
                if kind == "error":
                    yield worker.attempt, None, value

    def _bury(self, worker: _Worker[Task]) -> None:
        log.warning("A worker process died; what it had not finished is tried again.")
        self.busy.remove(worker)
        worker.pipe.close()
        worker.process.join()
        worker.attempt.deaths += not self.busy

    def close(self) -> None:
        """End the processes: when its pipe closes, a running one saves and stops."""
        for worker in (*self.busy, *self.idle):
            worker.pipe.close()
        for worker in (*self.busy, *self.idle):
            worker.process.join()


def _serve(work: Work[Any, Any], pipe: Connection) -> None:
    """Run the tasks from a pipe until it closes; any message during a task stops it."""
    _begin_worker()
    with suppress(EOFError, OSError):
        pipe.send(("ready", None))
        while True:
            if (task := pipe.recv()) == _STOP:  # it arrived after the previous task had ended
                continue
            try:
                for event in work(task, pipe.poll):
                    pipe.send(("event", event))
            except Exception as error:
                error.add_note("".join(traceback.format_exception(error)))
                pipe.send(("error", error))
            else:
                pipe.send(("done", None))


def _begin_worker() -> None:
    """Leave Ctrl-C to the parent, and exit when it is gone: nothing else would end an idle worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


def run_ray(
    work: Work[Task, Event],
    queue: Queue[Task, Event],
    address: str,
    workers: int,
    *,
    shared: bool = True,
    should_stop: ShouldStop = never,
    failed: Callable[[Task, Exception], Event] = _raise,
) -> Iterator[Event]:
    """Run tasks on a Ray cluster, or with the address `local` on a local Ray; yield the last event of each.

    `shared` gives each of `workers` tasks its share of the cluster's CPUs and GPUs; without it a task has one CPU, and
    all CPUs are used. Once `should_stop` returns True, it returns without waiting. Tasks must find their files under
    the same paths on all machines.
    """
    with _ray_session(address, workers) as ray:
        needs = _part_of_cluster(ray, workers) if shared else {"num_cpus": 1}
        at_once = workers if shared else max(2, int(ray.cluster_resources().get("CPU", workers))) + 1
        remote = ray.remote(max_retries=TRIES, **needs)(_last_event).remote
        running = dict[Any, Task]()
        while not should_stop():
            while len(running) < at_once and (task := queue.take()) is not None:
                running[remote(work, task)] = task
            if not running:
                return
            done, _ = ray.wait(list(running), num_returns=1, timeout=1.0)
            for reference in done:
                event = _ray_event(ray, reference, running.pop(reference), failed)
                queue.note(event)
                yield event


def _last_event(work: Work[Task, Event], task: Task) -> Event:
    *_, event = work(task, never)
    return event


def _ray_event(ray: Any, reference: Any, task: Task, failed: Callable[[Task, Exception], Event]) -> Event:
    try:
        event: Event = ray.get(reference)
        return event
    except ray.exceptions.RayTaskError as error:
        why = f"Its Ray task failed: {str(error).strip().splitlines()[-1]}"
        return failed(task, error.cause if isinstance(error.cause, WorkbenchError) else BadInput(why))
    except ray.exceptions.RayError as error:
        return failed(task, BadInput(f"Its Ray task failed: {str(error).strip().splitlines()[-1]}"))


def _part_of_cluster(ray: Any, workers: int) -> dict[str, float]:
    """Return the resources each of `workers` tasks requests: at most what the smallest machine has."""
    smallest = min(int(node["Resources"].get("CPU", 1)) for node in ray.nodes() if node["Alive"])
    whole = ray.cluster_resources()
    cpus = max(1, min(smallest, int(whole.get("CPU", 1)) // workers))
    return {"num_cpus": cpus, "num_gpus": min(1.0, whole.get("GPU", 0) / workers)}


@contextmanager
def _ray_session(address: str, workers: int) -> Iterator[Any]:
    """Connect to a cluster, or with the address `local` start a local Ray; yield the module, then disconnect.

    Raises InvalidConfig if Ray is not installed or does not respond.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError as error:
        raise InvalidConfig("Ray is not installed: pip install -r requirements-ray.txt, or leave --ray out.") from error
    options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    try:
        if address == "local":
            ray.init(address="local", num_cpus=workers, include_dashboard=False, **options)
        else:
            ray.init(address=address, **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InvalidConfig(
            f"No Ray responds at {address!r} ({error}). Use HOST:PORT or ray://HOST:PORT of a cluster, or local."
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()
