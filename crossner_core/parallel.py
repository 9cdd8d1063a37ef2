"""Tasks side by side: in this process, in processes that may die, or as Ray tasks. Events come as they happen.

Work is a function of a module, as spawned processes and Ray import it by name: it takes a task and `should_stop`, and
yields events; the last one is what the task came to.
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
"""How often a worker may die at a task with no other task beside it."""
_SECONDS_BETWEEN_LOOKS = 0.2
log = logging.getLogger(__name__)

Task = TypeVar("Task")
Event = TypeVar("Event")
ShouldStop = Callable[[], bool]
Work = Callable[[Task, ShouldStop], Iterator[Event]]


class WorkerDied(WorkbenchError):
    """A worker process died each time a task was tried."""


class Queue(Generic[Task, Event]):
    """Tasks in their order; a subclass may hold some back until others have come so far."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._tasks = iter(tasks)
        self._next: Task | None = None

    def take(self) -> Task | None:
        """Return the next task that can begin now."""
        task, self._next = self._next, None
        return task if task is not None else next(self._tasks, None)

    def look_ahead(self) -> None:
        """Have the next task ready while all workers are busy: making it may take its time."""
        if self._next is None:
            self._next = next(self._tasks, None)

    def note(self, event: Event) -> None:
        """See an event that a task has yielded."""


def _raise(task: Any, error: Exception) -> NoReturn:
    raise error


def never() -> bool:
    """Return False: nothing stops."""
    return False


def threads_for(workers: int) -> int:
    """Return how many of this process's PyTorch threads each of so many workers gets; 0 leaves a single one all."""
    import torch

    return max(1, torch.get_num_threads() // workers) if workers > 1 else 0


def run_here(work: Work[Task, Event], tasks: Iterable[Task], *, should_stop: ShouldStop = never) -> Iterator[Event]:
    """Do one task after another in this process, until `should_stop` returns True."""
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
    """Do tasks in so many processes.

    Once `should_stop` returns True, nothing new begins and what is at work is asked to stop. A task whose worker died
    may have been short of memory: it is tried again when nothing else is at work. `failed` makes an event of what a
    task raised, or of WorkerDied where all tries failed; without it that is raised. `is_last` tells the event by which
    a task is done: a worker that dies after it is replaced, and the task is not tried again.
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
    """A task, how often a worker has died at it with no other one at work, and whether its last event has come."""

    task: Task
    deaths: int = 0
    alone: bool = False
    done: bool = False


class _Worker(Generic[Task]):
    """A process and the pipe to it; it takes an attempt once it has sent that it is ready."""

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
        with suppress(OSError):  # it has died, which is noticed when its pipe is read
            self.pipe.send(message)


_STOP = "stop"


class _Pool(Generic[Task]):
    """Processes that each have one task at a time, begun when they are needed."""

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
        """Ask what is at work to stop."""
        if not self.stopping:
            self.stopping = True
            for worker in self.busy:
                if worker.ready:
                    worker.send(_STOP)

    def events(self, seconds: float) -> Iterator[tuple[_Attempt[Task], Any, Exception | None]]:
        """Yield what came within so many seconds: attempts with an event, or with what they ended by."""
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
        """Let the processes end: without its pipe one that is at work stops, and saves what it has."""
        for worker in (*self.busy, *self.idle):
            worker.pipe.close()
        for worker in (*self.busy, *self.idle):
            worker.process.join()


def _serve(work: Work[Any, Any], pipe: Connection) -> None:
    """Do the tasks that come through a pipe until it is closed; anything in it while one is at work stops that."""
    _begin_worker()
    with suppress(EOFError, OSError):
        pipe.send(("ready", None))
        while True:
            if (task := pipe.recv()) == _STOP:  # it came when the task before had ended
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
    """Leave Ctrl-C to the parent, and end when it is gone: nobody else would end an idle worker."""
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
    """Do tasks on a Ray cluster, or for the address `local` on a Ray of this machine; yield the last event of each.

    `shared` gives each of `workers` tasks its part of the cluster's CPUs and GPUs; without it a task has one CPU, and
    all CPUs are used. Once `should_stop` returns True, nothing is waited for. What tasks read and write must lie under
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
    """Return what each of so many tasks asks of the cluster, which is no more than the smallest machine has."""
    smallest = min(int(node["Resources"].get("CPU", 1)) for node in ray.nodes() if node["Alive"])
    whole = ray.cluster_resources()
    cpus = max(1, min(smallest, int(whole.get("CPU", 1)) // workers))
    return {"num_cpus": cpus, "num_gpus": min(1.0, whole.get("GPU", 0) / workers)}


@contextmanager
def _ray_session(address: str, workers: int) -> Iterator[Any]:
    """Connect to a cluster, or for the address `local` begin a Ray of this machine; yield the module, and let go.

    Raises InvalidConfig where Ray is not installed or does not answer.
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
            f"No Ray answers at {address!r} ({error}). Give HOST:PORT or ray://HOST:PORT of a cluster, or local."
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()
