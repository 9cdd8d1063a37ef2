"""Label review of a campaign's gold: run each requested check over it and queue the findings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from crossner_core.errors import BadInput, Conflict
from crossner_core.label_review.base import Desk, Gold, check
from crossner_core.options.label_review import LabelReviewOptions
from db import campaign_rows
from db.engine import Session
from db.training_tables import Job
from workbench.accounts.roles import OVERSEERS
from workbench.campaigns.domains import domain_of
from workbench.data import layers
from workbench.jobs.context import JobContext
from workbench.jobs.kind import Fields, JobKind, register
from workbench.labelling.label_review import keep_findings

# The checks that use models; the others take moments.
_WITH_ENCODER = ("label_errors",)


class Asked(Fields):
    """The ids of the checks, and their options."""

    checks: list[str]
    options: dict[str, Any]


def look(context: JobContext, asked: Asked) -> str:
    """Run the job's checks in turn, storing the findings of each as soon as it is done; return a summary.

    A check that this gold does not allow (fewer sentences than folds) is reported in the summary; the others still run.
    """
    campaign_id, options = context.campaign_id, LabelReviewOptions(**asked.options)
    with context.store.read() as session:
        gold, ids = gold_of(session, campaign_id)
    lines = []
    for number, id in enumerate(asked.checks):
        chosen = check(id)
        context.message = chosen.title
        encoder = context.encoder(options.encoder) if id in _WITH_ENCODER else None
        report = partial(_report, context, number, len(asked.checks))
        try:
            findings = chosen.find(gold, options, Desk(encoder, context.should_stop, report))
        except BadInput as error:
            lines.append(f"{chosen.title}: {error}")
            continue
        if findings is None or context.lost.is_set():
            break
        with context.store.write() as session:
            stand, before = keep_findings(session, campaign_id, id, findings, ids)
        lines.append(f"{chosen.title}: {stand}" + (f" ({before} decided before)" if before else ""))
        report(1.0)
    return " · ".join(lines)


def gold_of(session: Session, campaign_id: int) -> tuple[Gold, list[int]]:
    """Return a campaign's gold for the checks, and the id of each of its sentences; raise BadInput without gold."""
    campaign = campaign_rows.find(session, campaign_id)
    assert campaign is not None, "jobs are deleted with their campaign"
    rows = sorted(layers.gold(session, campaign_id), key=lambda row: row.sentence_id)
    items, splits = tuple(row.labelled for row in rows), tuple(row.split for row in rows)
    domain = domain_of(campaign)
    return Gold(items, splits, domain.type_names, domain.titles), [row.sentence_id for row in rows]


def _report(context: JobContext, number: int, checks: int, done: float) -> None:
    context.progress = (number + done) / checks


def _meets(_job: Job, _payload: Mapping[str, Any]) -> bool:
    raise Conflict("A label review is already queued or running; wait until it is done.")


register(
    JobKind(
        name="second_look",
        title="label review",
        priority=10,
        payload=Asked,
        handle=look,
        roles=OVERSEERS,
        idle="No label review is queued or running in this campaign",
        meets=_meets,
    )
)
