"""Import large files that were uploaded: all of them, in the transaction that records the job as done, or none."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from db.engine import Session
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor
from workbench.accounts.roles import KEEPERS
from workbench.campaigns.domains import domain_of
from workbench.data import exchange, staging
from workbench.jobs import uploads
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
    actor = uploads.asked_by(context)
    with context.store.read() as session:
        _, campaign = enter(session, actor, context.campaign_id, *KEEPERS)
        types = domain_of(campaign).type_names
        wants, endpoint = payload.preannotate and campaign.suggestions_on, campaign.endpoint
    files = staging.kept_files(context.settings, payload.folder, payload.names)
    place = staging.empty_place(context.settings, payload.folder)
    with suppress(staging.Stopped), uploads.faults_in_log(context):
        staged = staging.stage(
            files, types, place, format=payload.format, annotation=payload.annotation, skip_bad=payload.skip_bad,
            options=payload.options, on_progress=uploads.progress_of(context),
        )  # fmt: skip
        context.report(uploads.READ, f"{staged.sentences:,} sentences read; they are being written")
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
    uploads.say_outcome(session, context, outcome, staged.skipped)


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
