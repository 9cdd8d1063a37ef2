"""Suggest entities with an outside model, in the order in which people will open the sentences."""

from __future__ import annotations

from db import suggestion_rows
from db.engine import Session
from workbench.accounts.actors import SYSTEM
from workbench.jobs.context import Claimed, JobContext
from workbench.jobs.kind import PATIENT_ABOVE, Fields, JobKind, register
from workbench.jobs.kinds.preannotate import waits_already
from workbench.settings import Settings
from workbench.suggestions import asking_outside


class Asked(Fields):
    """The model's name in the file of outside models."""

    name: str


def suggest(context: JobContext, asked: Asked) -> str:
    """Ask the model about all open sentences; return a summary. Answers are kept, so that it resumes where it was."""
    report = asking_outside.ask(
        context.store,
        SYSTEM,
        context.campaign_id,
        asked.name,
        should_stop=context.should_stop,
        on_progress=lambda done, of: context.report(done / max(of, 1), f"{done} of {of} sentences"),
    )
    context.say(f"{asked.name}: {report}.")
    return f"{asked.name}: {report}."


def _saved_step(session: Session, _settings: Settings, job: Claimed) -> int:
    """Count the answers that came: they are kept."""
    row = suggestion_rows.allowance(session, job.campaign_id or 0, str(job.payload.get("name")))
    return 0 if row is None else row.answered


register(
    JobKind(
        name=asking_outside.JOB,
        title="suggestions of an outside model",
        priority=PATIENT_ABOVE + 2,  # a service takes its time: rounds and what people wait for go first
        payload=Asked,
        handle=suggest,
        idle="No outside model is being asked in this campaign, or waits to be",
        meets=waits_already,
        can_resume=lambda settings, job: True,
        saved_step=_saved_step,
        names=lambda job: f"Asking {job.payload.get('name')} (job {job.id})",
    )
)
