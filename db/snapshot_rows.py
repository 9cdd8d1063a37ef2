"""Rows of snapshots: frozen gold, named by the hash of its content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.orm import undefer

from db.engine import Session
from db.training_tables import Run, Snapshot


def find(session: Session, *, campaign_id: int, hash: str) -> Snapshot | None:
    """Return the campaign's snapshot of this hash."""
    return session.scalar(sa.select(Snapshot).where(Snapshot.campaign_id == campaign_id, Snapshot.hash == hash))


def by_prefix(session: Session, *, prefix: str, campaign_id: int | None = None) -> list[Snapshot]:
    """Return a campaign's snapshots, or any, whose hash starts with `prefix`; more than one if it is too short."""
    query = sa.select(Snapshot).where(Snapshot.hash.startswith(prefix, autoescape=True)).order_by(Snapshot.id)
    if campaign_id is not None:
        query = query.where(Snapshot.campaign_id == campaign_id)
    return list(session.scalars(query.limit(2)))


def get(session: Session, snapshot_id: int, *, content: bool = False) -> Snapshot | None:
    """Return a snapshot by id, with its content if wanted."""
    return session.get(Snapshot, snapshot_id, options=[undefer(Snapshot.content)] if content else [])


def listed(session: Session, *, campaign_id: int) -> list[Snapshot]:
    """Return the campaign's snapshots, newest first."""
    query = sa.select(Snapshot).where(Snapshot.campaign_id == campaign_id).order_by(Snapshot.id.desc())
    return list(session.scalars(query))


def run_counts(session: Session, *, campaign_id: int) -> dict[int, int]:
    """Return how many runs each snapshot of the campaign has."""
    query = sa.select(Run.snapshot_id, sa.func.count()).where(Run.campaign_id == campaign_id).group_by(Run.snapshot_id)
    return {key: count for key, count in session.execute(query) if key is not None}


def add(
    session: Session,
    *,
    campaign_id: int,
    hash: str,
    content: str,
    domain_name: str,
    types: Sequence[str],
    counts: Mapping[str, int],
    created_by: int | None,
) -> int:
    """Add a snapshot; return its id."""
    row = Snapshot(
        campaign_id=campaign_id,
        hash=hash,
        content=content,
        domain_name=domain_name,
        types=list(types),
        counts=dict(counts),
        created_by=created_by,
    )
    session.add(row)
    session.flush()
    return row.id
