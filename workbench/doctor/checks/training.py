"""Snapshots, data sets, runs, jobs and rounds: what is frozen is unchanged, and nothing waits for ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from crossner_core.errors import WorkbenchError
from crossner_core.schema import LabelledSentence
from db import health_rows, job_rows, round_rows, snapshot_rows
from db.training_tables import Job, Round
from db.types import now
from workbench.data import frozen
from workbench.doctor.base import Context, Finding, register
from workbench.jobs.kind import job_kinds
from workbench.jobs.lease import STALE_SECONDS

_WHY = "Its job ended without it; the doctor ended it. Start it again."


@register(
    "snapshots",
    "Snapshots and data sets are what their hashes name",
    remedy="No repair is safe: restore a backup; what was trained on a changed one cannot be reproduced.",
)
def snapshots(context: Context) -> Iterator[Finding]:
    """Hash every content anew, and count it."""
    for snapshot_id in health_rows.snapshot_ids(context.session):
        row = snapshot_rows.get(context.session, snapshot_id, content=True)
        assert row is not None
        counts = {name: int(count) for name, count in row.counts.items()}
        problem = _changed(row.content, row.types, row.hash, split=None, counts=counts)
        if problem:
            yield Finding(f"snapshot {row.hash[:12]}", problem)
        context.session.expunge(row)
    for name, types, part in health_rows.splits(context.session):
        counts = {part.split: part.sentences, "entities": part.entities}
        problem = _changed(part.content, types, part.content_hash, split=part.split, counts=counts)
        if problem:
            yield Finding(f"data set {name!r}, {part.split}", problem)


def _changed(content: str, types: Iterable[str], named: str, *, split: str | None, counts: Mapping[str, int]) -> str:
    """Return how a content differs from its hash and counts; empty if it does not."""
    seen: Counter[str] = Counter()
    try:
        hashed = frozen.content_hash(tuple(types), _counted(content, split, seen))
    except (WorkbenchError, TypeError, ValueError, KeyError) as error:
        return f"cannot be read: {error}"
    if hashed != named:
        return "its content is not what its hash names"
    if +seen != {name: count for name, count in counts.items() if count}:
        return f"has {dict(+seen)}, but is listed with {dict(counts)}"
    return ""


def _counted(content: str, split: str | None, seen: Counter[str]) -> Iterator[tuple[str, LabelledSentence]]:
    """Yield each sentence with its split, and count both sentences and entities."""
    for item, values in frozen.each_line(content):
        seen[split or values["split"]] += 1
        seen["entities"] += len(item.spans)
        yield split or values["split"], item


def _end_runs(context: Context) -> None:
    for run in health_rows.runs_without_job(context.session):
        run.state, run.error, run.finished_at = "failed", _WHY, now()


@register(
    "runs",
    "Every unfinished run has a job that will finish it",
    remedy="Marks the run as failed, so that it can be started again; its saved state stays.",
    mend=_end_runs,
)
def runs(context: Context) -> Iterator[Finding]:
    """Find runs that are queued or running without a job."""
    for run in health_rows.runs_without_job(context.session):
        yield Finding(f"run {run.id}", f"is {run.state}, but no job is under way for it")


@register(
    "jobs",
    "Every unfinished job can be done, and a running one is alive",
    remedy="No repair is needed: the next worker takes up a dead worker's job; cancel a job that cannot be done.",
)
def jobs(context: Context) -> Iterator[Finding]:
    """Find jobs of unknown kinds, without what they are for, and of workers that are not heard of."""
    kinds = job_kinds()
    for job in health_rows.open_jobs(context.session):
        for problem in _job_problems(context, job, kinds):
            yield Finding(f"job {job.id}", problem)


def _job_problems(context: Context, job: Job, kinds: tuple[str, ...]) -> Iterator[str]:
    if job.kind not in kinds:
        yield f"is of the kind {job.kind!r}, which this version does not know"
    if job.kind == "run" and job.run_id is None:
        yield "is to train a run, but names none"
    if job.kind == "turn" and _round_of(context, job.payload) is None:
        yield f"is for round {job.payload.get('turn_id')!r}, which does not exist"
    if job.after_id == job.id:
        yield "waits for itself"
    if job.state == "running" and job_rows.older_than(job.heartbeat_at, STALE_SECONDS):
        beat = f"{job.heartbeat_at:%Y-%m-%d %H:%M:%S} UTC" if job.heartbeat_at else "never"
        ahead = job.heartbeat_at is not None and job.heartbeat_at > now()
        yield f"is running, but its last heartbeat {'lies in the future: ' if ahead else 'was '}{beat}"


def _round_of(context: Context, payload: Mapping[str, Any]) -> Round | None:
    number = payload.get("turn_id")
    return round_rows.get(context.session, number) if isinstance(number, int) else None


def _end_rounds(context: Context) -> None:
    for round_ in _stuck(context):
        round_.state, round_.finished_at, round_.notes = "failed", now(), [*round_.notes, _WHY]


@register(
    "rounds",
    "Every unfinished round has a run or job that will finish it",
    remedy="Marks the round as failed, so that the next one can begin; the queue keeps its order.",
    mend=_end_rounds,
)
def rounds(context: Context) -> Iterator[Finding]:
    """Find turns whose job is done without them; the worker itself settles those whose job or run failed."""
    for round_ in _stuck(context):
        yield Finding(f"round {round_.id}", f"of campaign {round_.campaign_id} is {round_.state}, but its job is done")


def _stuck(context: Context) -> list[Round]:
    jobs = [(round_, round_rows.job_of(context.session, round_)) for round_ in health_rows.open_rounds(context.session)]
    return [round_ for round_, job in jobs if job is not None and job.state == "done"]
