"""Pre-annotate a campaign's new sentences from links and gazetteer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from db.training_tables import Job
from workbench.accounts.actors import SYSTEM
from workbench.accounts.roles import OVERSEERS
from workbench.jobs.context import JobContext
from workbench.jobs.kind import Fields, JobKind, register
from workbench.suggestions.preannotating import preannotate


def _pre_annotate(context: JobContext, _payload: Fields) -> str:
    report = preannotate(
        context.store,
        SYSTEM,
        context.campaign_id,
        should_stop=context.should_stop,
        on_progress=lambda done: context.report(done, f"{done:.0%} of the new sentences"),
    )
    return f"Pre-annotated: {report}."


def waits_already(job: Job, payload: Mapping[str, Any]) -> bool:
    """Return whether a queued job will do the same; a running one may already be past the new sentences."""
    return job.state == "queued" and job.payload == payload


register(
    JobKind(
        name="preannotate",
        title="pre-annotation",
        priority=10,
        payload=Fields,
        handle=_pre_annotate,
        roles=OVERSEERS,
        idle="No pre-annotation is queued or running in this campaign",
        meets=waits_already,
    )
)
