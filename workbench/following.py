"""Train runs and do other jobs in this process and follow what they say, whoever does them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from db import job_rows, run_rows
from db.engine import Store
from workbench import jobs
from workbench.accounts.actors import Actor
from workbench.runs.adaptation import RunDetail, get_run
from workbench.runs.run_views import waits_for
from workbench.settings import Settings
from workbench.worker import Worker

_POLL_SECONDS = 0.3


def train_here(
    store: Store, actor: Actor, settings: Settings, run_ids: Sequence[int], *, echo: Callable[[str], None] = print
) -> int:
    """Train these runs in this process, or watch the worker that took them; return 0 when all are done, else 1.

    Interrupted, a run goes back to the queue with its state saved.
    """
    worker = Worker(store, settings, run_ids=run_ids)
    ended = threading.Event()
    thread = threading.Thread(target=_work, args=(worker, ended), name="trainer", daemon=True)
    thread.start()
    seen = dict.fromkeys(run_ids, 0)
    open_runs, told = list(run_ids), set[int]()
    try:
        while open_runs:
            for run_id in list(open_runs):
                detail = get_run(store, actor, run_id, after=seen[run_id])
                seen[run_id] = max([seen[run_id], *(event.number for event in detail.events)])
                _tell(detail, echo)
                if detail.run.state in run_rows.FINAL:
                    open_runs.remove(run_id)
                    echo(_ending(detail))
            waiting = _waiting(store, open_runs, told, echo)
            if ended.is_set() and waiting < set(open_runs) and not _somebody_works(store, open_runs):
                # The job of a worker that died can be taken up again once its lease is over.
                ended.clear()
                worker = Worker(store, settings, run_ids=open_runs)
                thread = threading.Thread(target=_work, args=(worker, ended), name="trainer", daemon=True)
                thread.start()
            time.sleep(_POLL_SECONDS)
    finally:
        worker.stop()
        thread.join()
    with store.read() as session:
        states = [run.state for run in (run_rows.get(session, run_id) for run_id in run_ids) if run is not None]
    return 0 if all(state == "done" for state in states) else 1


def work_here(
    store: Store, actor: Actor, settings: Settings, job_id: int, *, echo: Callable[[str], None] = print
) -> int:
    """Do a job without a run in this process, or watch the worker that took it; return 0 when it is done, else 1.

    Interrupted, it goes back to the queue.
    """
    worker, ended, said = Worker(store, settings, job_ids=[job_id]), threading.Event(), ""
    thread = threading.Thread(target=_work, args=(worker, ended), name="worker", daemon=True)
    thread.start()
    try:
        while (job := jobs.get_job(store, actor, job_id)).state not in run_rows.FINAL:
            if job.message not in ("", said):
                said = job.message
                echo(said)
            others_work = job.state == "running" and jobs.worker_status(store).alive
            if ended.is_set() and not others_work:
                # The job of a worker that died can be taken up again once its lease is over.
                ended.clear()
                worker = Worker(store, settings, job_ids=[job_id])
                thread = threading.Thread(target=_work, args=(worker, ended), name="worker", daemon=True)
                thread.start()
            time.sleep(_POLL_SECONDS)
        echo(f"job {job.id} {job.state}: {job.error or job.message}")
        return 0 if job.state == "done" else 1
    finally:
        worker.stop()
        thread.join()


def _work(worker: Worker, ended: threading.Event) -> None:
    try:
        worker.run(once=True)
    finally:
        ended.set()


def _somebody_works(store: Store, run_ids: Sequence[int]) -> bool:
    with store.read() as session:
        runs = [run_rows.get(session, run_id) for run_id in run_ids]
    running = any(run is not None and run.state == "running" for run in runs)
    return running and jobs.worker_status(store).alive


def _waiting(store: Store, run_ids: Sequence[int], told: set[int], echo: Callable[[str], None]) -> set[int]:
    """Return the runs that another job has to end for, and say so once of each."""
    with store.read() as session:
        awaited = job_rows.awaited_by(session, run_ids)
    for run_id in sorted(awaited.keys() - told):
        echo(f"run {run_id} · {waits_for(awaited[run_id])}; a worker has to do that.")
    told.update(awaited)
    return set(awaited)


def _tell(detail: RunDetail, echo: Callable[[str], None]) -> None:
    for event in detail.events:
        where = f"run {detail.run.id} · {event.phase} · epoch {event.epoch:.0f} · step {event.step}"
        if event.message:
            echo(f"run {detail.run.id} · {event.message}")
        elif event.dev_f1 is not None:
            best = " *" if event.is_best else ""
            echo(f"{where} · loss {event.loss or 0:.4f} · dev F1 {100 * event.dev_f1:.2f}{best}")


def _ending(detail: RunDetail) -> str:
    run = detail.run
    if run.state != "done":
        return f"run {run.id} {run.state}: {run.error or run.message}"
    scores = [
        f"{name} F1 {100 * f1:.2f}" for name, f1 in (("dev", run.dev_f1), ("test", run.test_f1)) if f1 is not None
    ]
    strict = ((detail.result or {}).get("test") or {}).get("strict_iob2")
    if strict:
        both = strict["support"] + strict["predicted"]
        scores.append(f"test strict IOB2 {100 * 2 * strict['correct'] / both if both else 0:.2f}")
    return f"run {run.id} done: {' · '.join(scores) or 'no scores'}"
