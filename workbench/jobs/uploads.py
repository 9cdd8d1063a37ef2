"""What jobs share that read uploads: who asked for it, progress that can be stopped, and what is in the log after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from crossner_core.errors import BadInput, NotAllowed
from db import job_rows
from db.engine import Session
from workbench.accounts import accounts
from workbench.accounts.actors import Actor
from workbench.data import staging
from workbench.data.exchange import ImportOutcome
from workbench.jobs.context import JobContext

READ = 0.95
"""The share of the progress that is reading; the rest is writing."""


def asked_by(context: JobContext) -> Actor:
    """Return who asked for a job, as the store has them now; raise NotAllowed without an account."""
    actor = accounts.current(context.store, context.job.created_by) if context.job.created_by else None
    if actor is None:
        raise NotAllowed("Who asked for this import has no account any more; import the files anew.")
    return actor


def progress_of(context: JobContext) -> Callable[[float, str], None]:
    """Return what reading reports to; it raises `staging.Stopped` where the job is to stop."""

    def on_progress(done: float, message: str) -> None:
        if context.should_stop():
            raise staging.Stopped
        context.report(READ * done, message)

    return on_progress


@contextmanager
def faults_in_log(context: JobContext) -> Iterator[None]:
    """Write all that is wrong with files into the job's log; its error has room for the first faults alone."""
    try:
        yield
    except BadInput as error:
        context.say(*error.problems)
        raise


def say_outcome(session: Session, context: JobContext, outcome: ImportOutcome, skipped: int) -> None:
    """Say in the job what came in and what did not, in the transaction that ends it."""
    job_rows.set_message(session, context.job.id, staging.in_words(outcome, skipped))
    for line in (*(f"skipped: {line}" for line in outcome.problems), *(f"left out: {line}" for line in outcome.again)):
        job_rows.add_line(session, context.job.id, line)
