"""Make a campaign with the sentences of large uploads: all of it in the transaction that ends the job, or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from db import job_rows
from db.engine import Session
from workbench.accounts.actors import Actor, admit
from workbench.accounts.roles import KEEPERS
from workbench.data import exchange, new_campaign, staging
from workbench.data.new_campaign import FromFiles, Plan, Written
from workbench.jobs import uploads
from workbench.jobs.context import Claimed, JobContext
from workbench.jobs.kind import Fields, JobKind, Outcome, register
from workbench.settings import Settings


class CampaignPayload(Fields):
    """What `make_campaign` takes, with the folder of the uploads and their names."""

    folder: str
    names: list[str]
    name: str
    domain: str = ""
    draft: str = ""
    member_ids: tuple[int, ...] = ()
    settings: Mapping[str, Any] = {}
    reading: Mapping[str, Any] = {}


def _make(context: JobContext, payload: CampaignPayload) -> Outcome:
    actor = uploads.asked_by(context)
    admit(context.store, actor, *KEEPERS)
    plan = Plan.of(
        context.store,
        name=payload.name,
        domain=payload.domain,
        draft=payload.draft,
        member_ids=payload.member_ids,
        settings=payload.settings,
    )
    files = staging.kept_files(context.settings, payload.folder, payload.names)
    place = staging.empty_place(context.settings, payload.folder)
    with suppress(staging.Stopped), uploads.faults_in_log(context):
        source = new_campaign.from_files(
            files, plan.kinds, payload.reading, place, on_progress=uploads.progress_of(context)
        )
        context.report(uploads.READ, f"{source.staged.sentences:,} sentences read; they are being written")
        done: list[Written] = []
        write = partial(_write, context=context, actor=actor, plan=plan, source=source, done=done)

        def after() -> None:
            staging.forget(context.settings, payload.folder)
            if done[0].to_suggest:
                exchange.suggest_new(context.store, actor, done[0].id, done[0].endpoint, exchange.MOST_AT_ONCE + 1)

        return Outcome("Made.", write=write, after=after)
    return Outcome()


def _write(
    session: Session, *, context: JobContext, actor: Actor, plan: Plan, source: FromFiles, done: list[Written]
) -> None:
    """Write the campaign, whose job it is from now on."""
    written = new_campaign.write(session, actor, plan, source)
    job_rows.give_campaign(session, context.job.id, written.id)
    assert written.outcome is not None
    uploads.say_outcome(session, context, written.outcome, source.staged.skipped)
    done.append(written)


def _forget(settings: Settings, job: Claimed) -> None:
    staging.forget(settings, str(job.payload["folder"]))


register(
    JobKind(
        name=staging.NEW_CAMPAIGN,
        title="new campaign",
        priority=5,
        payload=CampaignPayload,
        handle=_make,
        idle="No new campaign is queued or being made",
        forget=_forget,
    )
)
