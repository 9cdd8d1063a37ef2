"""Run one job: its kind's handler, then record the outcome in one transaction with what the kind writes."""

from __future__ import annotations

import logging
from typing import Any

from crossner_core.errors import WorkbenchError
from crossner_core.memory import give_back_freed
from workbench.jobs import lease
from workbench.jobs.context import JobContext, LeaseLost
from workbench.jobs.kind import JobKind, Outcome, job_kind

log = logging.getLogger(__name__)


def run_job(context: JobContext) -> None:
    """Run a job to its end and record the outcome; the worker survives any error of the job."""
    kind = job_kind(context.job.kind)
    try:
        _settle(context, kind, _handle(context, kind))
    except LeaseLost:
        log.warning("Job %s now belongs to another worker.", context.job.id)
    except WorkbenchError as error:
        _fail(context, kind, str(error))
    except MemoryError:
        _fail(context, kind, "Memory ran out. Lower batch_size or max_length, or choose a smaller encoder.")
    except OSError as error:
        _fail(
            context, kind, f"The system refused: {error}. Check free disk space and permissions, then start it again."
        )
    except Exception as error:  # a worker must outlive any job; the traceback goes to its log
        log.exception("Job %s failed", context.job.id)
        what = str(error).strip().splitlines()[0] if str(error).strip() else "no message"
        _fail(context, kind, f"Stopped by an error: {type(error).__name__}: {what}. The worker's log has the details.")
    finally:
        give_back_freed()


def _handle(context: JobContext, kind: JobKind[Any]) -> Outcome:
    job = context.job
    if job.attempts > 1:
        kind.say(context, f"Attempt {job.attempts} of {job.max_attempts}: the previous worker stopped.")
    outcome = kind.handle(context, kind.payload.from_dict(job.payload))
    return Outcome(outcome) if isinstance(outcome, str) else outcome


def _settle(context: JobContext, kind: JobKind[Any], outcome: Outcome) -> None:
    if context.lost.is_set():
        raise LeaseLost
    job, why_back = context.job, context.why_back()
    if outcome.finished or (outcome.finished is None and not context.cancelled.is_set() and not why_back):
        state, message = "done", outcome.message
    elif context.cancelled.is_set():
        stays = "; work done so far is kept" if outcome.finished is None else ""
        state, message = "cancelled", f"Cancelled{stays}."
    else:
        state, message = "queued", why_back
    with context.store.write() as session:
        if state == "queued":
            held = lease.give_back(session, job, context.worker, message, counted=False)
        else:
            held = lease.end(session, job, context.worker, state, message)
        if not held:
            raise LeaseLost
        if state == "done":
            outcome.write(session)
    if state == "done":
        outcome.after()
    elif state == "cancelled":
        kind.forget(context.settings, job)


def _fail(context: JobContext, kind: JobKind[Any], error: str) -> None:
    """Record why a job failed. Annotations are in other tables and are not touched."""
    log.error("Job %s failed: %s", context.job.id, error)
    try:
        with context.store.write() as session:
            held = lease.end(session, context.job, context.worker, "failed", error=error)
        if held:
            kind.say(context, f"Failed: {error}")
    except Exception as refused:
        # The lease expires, and the job is retried once the store accepts writes again.
        log.error("The failure could not be recorded: %s", refused)
