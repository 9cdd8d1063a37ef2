"""Import large files that were uploaded: all of them, in the transaction that records the job as done, or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from crossner_core.errors import BadInput, NotAllowed
from db import job_rows
from db.engine import Session
from workbench.accounts import accounts
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor
from workbench.accounts.roles import KEEPERS
from workbench.campaigns.domains import domain_of
from workbench.data import exchange, staging
from workbench.jobs.context import Claimed, JobContext
from workbench.jobs.kind import Fields, JobKind, Outcome, register
from workbench.settings import Settings


class ImportPayload(Fields):
    """The folder of the uploads, their names, and how they are read."""

    folder: str
    names: list[str]
    format: str | None = None
    split: str = "pool"
    annotation: str = "suggestions"
    skip_bad: bool = False
    preannotate: bool = True
    options: Mapping[str, Any] = {}


def _import(context: JobContext, payload: ImportPayload) -> Outcome:
    actor = _asked_by(context)
    with context.store.read() as session:
        _, campaign = enter(session, actor, context.campaign_id, *KEEPERS)
        types = domain_of(campaign).type_names
        wants, endpoint = payload.preannotate and campaign.suggestions_on, campaign.endpoint
    files = staging.kept_files(context.settings, payload.folder, payload.names)

    def on_progress(done: float, message: str) -> None:
        if context.should_stop():
            raise staging.Stopped
        context.report(0.95 * done, message)

    place = staging.empty_place(context.settings, payload.folder)
    with suppress(staging.Stopped), faults_in_log(context):
        staged = staging.stage(
            files, types, place, format=payload.format, annotation=payload.annotation, skip_bad=payload.skip_bad,
            options=payload.options, on_progress=on_progress,
        )  # fmt: skip
        context.report(0.95, f"{staged.sentences:,} sentences read; they are being written")
        new: list[int] = []
        write = partial(_add, context=context, payload=payload, actor=actor, staged=staged, new=new)

        def after() -> None:
            staging.forget(context.settings, payload.folder)
            if wants and any(new):
                exchange.suggest_new(context.store, actor, context.campaign_id, endpoint, exchange.MOST_AT_ONCE + 1)

        return Outcome("Imported.", write=write, after=after)
    return Outcome()


def _add(
    session: Session,
    *,
    context: JobContext,
    payload: ImportPayload,
    actor: Actor,
    staged: staging.Staged,
    new: list[int],
) -> None:
    """Add the sentences, and say in the job what came in and what did not."""
    report = staging.add(
        session, actor, context.campaign_id, staged, split=payload.split, annotation=payload.annotation
    )
    new.append(report.added - report.gold - report.first)
    outcome = exchange.outcome_of(staged.read_files, report, "")
    job_rows.set_message(session, context.job.id, staging.in_words(outcome, staged.skipped))
    for line in (*(f"skipped: {line}" for line in outcome.problems), *(f"left out: {line}" for line in outcome.again)):
        job_rows.add_line(session, context.job.id, line)


@contextmanager
def faults_in_log(context: JobContext) -> Iterator[None]:
    """Write all that is wrong with files into the job's log; its error has room for the first faults alone."""
    try:
        yield
    except BadInput as error:
        context.say(*error.problems)
        raise


def _asked_by(context: JobContext) -> Actor:
    actor = accounts.current(context.store, context.job.created_by) if context.job.created_by else None
    if actor is None:
        raise NotAllowed("Who asked for this import has no account any more; import the files anew.")
    return actor


def _forget(settings: Settings, job: Claimed) -> None:
    staging.forget(settings, str(job.payload["folder"]))


register(
    JobKind(
        name=staging.KIND,
        title="import",
        priority=5,
        payload=ImportPayload,
        handle=_import,
        idle="No import is queued or running in this campaign",
        forget=_forget,
        tick=staging.sweep,
    )
)
