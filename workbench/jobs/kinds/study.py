"""Train the cells of a study that have no result yet, and make its tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crossner_core.errors import Conflict
from db.engine import Session
from db.training_tables import Job
from workbench.jobs.context import Claimed, JobContext, require_space
from workbench.jobs.kind import Fields, JobKind, register
from workbench.runs.studies import known_study, own_places
from workbench.settings import Settings


class Asked(Fields):
    """A study with its config and data; what is not given is taken from the worker's settings."""

    study: str
    config: dict[str, Any]
    data: str
    section: str = ""
    workers: int | None = None
    ray: str | None = None


def work_through(context: JobContext, asked: Asked) -> str:
    """Run a study's job; return a summary.

    Raises NothingMeasured if not a single cell could be trained.
    """
    from crossner_core.experiments.running import NothingMeasured, run_study

    settings, known = context.settings, known_study(asked.study)
    require_space(settings.experiments)
    corpora = asked.config.get("corpora") or known.corpora
    events = run_study(
        known.id,
        known.config.from_dict(own_places(asked.config, settings.experiments.parent, corpora)),
        data=Path(asked.data),
        out=settings.experiments,
        workers=asked.workers or settings.study_workers,
        ray=asked.ray if asked.ray is not None else settings.ray or "",
        section=asked.section,
        should_stop=context.should_stop,
    )
    result = None
    try:
        for event in events:
            context.report(
                event.done / event.total if event.total else 0.0,
                f"{event.done} of {event.total} · {event.message}",
            )
            result = event.result or result
    except NothingMeasured:
        if not context.should_stop():
            raise
    if result is None:
        return "Stopped before there was a table."
    if result.missing:
        return f"{len(result.missing)} of {len(result.cells) + len(result.missing)} cells have no result yet."
    return f"All {len(result.cells)} cells have their result."


def _saved_step(_session: Session, settings: Settings, _job: Claimed) -> int:
    """Count the results of all studies: a cell belongs to whichever study asked for it."""
    from crossner_core.experiments.records import CELLS, SIMULATIONS, Records

    return sum(len(Records(settings.experiments, name, dict, dict).keys()) for name in (CELLS, SIMULATIONS))


def _meets(job: Job, payload: Mapping[str, Any]) -> bool:
    """Return whether a job runs this study and section; raise Conflict if it does so with other values."""
    if any(job.payload.get(name, "") != payload.get(name, "") for name in ("study", "section")):
        return False
    before, now = ({**values, **values["config"]} for values in (job.payload, json.loads(json.dumps(payload))))
    other = sorted(name for name in {*before, *now} - {"config"} if before.get(name) != now.get(name))
    if other:
        raise Conflict(
            f"The study {payload['study']!r} is {job.state} with other values of {', '.join(other)} (job {job.id}), "
            "and continues with those: cancel it first, or name another section for the results of these."
        )
    return True


register(
    JobKind(
        name="study",
        title="study",
        priority=30,  # it takes hours: the runs that a person waits for go first
        payload=Asked,
        handle=work_through,
        meets=_meets,
        saved_step=_saved_step,
    )
)
