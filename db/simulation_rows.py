"""Rows of simulated campaigns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import defer

from db.engine import Session
from db.training_tables import Job, SimulationRow

KIND = "simulation"


def add(session: Session, *, job_id: int, snapshot_id: int, settings: Mapping[str, Any]) -> None:
    """Add a pending simulated campaign."""
    session.add(SimulationRow(job_id=job_id, snapshot_id=snapshot_id, settings=dict(settings)))


def of_job(session: Session, job_id: int) -> list[SimulationRow]:
    """Return a job's simulated campaigns in the order they run."""
    query = sa.select(SimulationRow).where(SimulationRow.job_id == job_id)
    return list(session.scalars(query.order_by(SimulationRow.id)))


def open_ids(session: Session) -> list[int]:
    """Return the ids of the simulated campaigns whose job is queued or running."""
    query = sa.select(SimulationRow.id).join(Job, Job.id == SimulationRow.job_id)
    return list(session.scalars(query.where(Job.state.in_(("queued", "running")))))


def newest_jobs(session: Session, campaign_id: int, *, with_points: bool = False, limit: int = 1) -> list[Job]:
    """Return the jobs with simulated campaigns on a campaign's gold, newest first.

    `with_points` asks for jobs with at least one finished campaign. Jobs without campaigns are left out: an earlier
    migration deleted some.
    """
    those = sa.select(SimulationRow.job_id)
    if with_points:
        those = those.where(SimulationRow.points.is_not(None))
    query = sa.select(Job).where(Job.kind == KIND, Job.campaign_id == campaign_id, Job.id.in_(those))
    return list(session.scalars(query.order_by(Job.id.desc()).limit(limit)))


def told(session: Session, job_ids: Sequence[int]) -> dict[int, list[tuple[SimulationRow, bool]]]:
    """Return the simulated campaigns of jobs by job, each with whether it is finished; their points are not read."""
    query = sa.select(SimulationRow, SimulationRow.points.is_not(None)).options(defer(SimulationRow.points))
    by_job: dict[int, list[tuple[SimulationRow, bool]]] = {id: [] for id in job_ids}
    for row, is_through in session.execute(query.where(SimulationRow.job_id.in_(job_ids)).order_by(SimulationRow.id)):
        by_job[row.job_id].append((row, bool(is_through)))
    return by_job


def save_points(session: Session, id: int, points: Sequence[Mapping[str, Any]]) -> None:
    """Store the measurements of a finished simulated campaign."""
    session.execute(
        sa.update(SimulationRow).where(SimulationRow.id == id).values(points=[dict(point) for point in points])
    )
