"""Rows of the worker processes that are alive."""

from __future__ import annotations

import sqlalchemy as sa

from db.engine import Session, upsert
from db.training_tables import WorkerRow
from db.types import now


def beat(session: Session, *, name: str, host: str, pid: int, device: str) -> None:
    """Record a worker's heartbeat."""
    moment = now()
    row = {"name": name, "host": host, "pid": pid, "device": device, "started_at": moment, "heartbeat_at": moment}
    upsert(session, WorkerRow, [row], keys=["name"], update=["device", "heartbeat_at"])


def remove(session: Session, *, name: str) -> None:
    """Remove a worker that shut down cleanly."""
    session.execute(sa.delete(WorkerRow).where(WorkerRow.name == name))


def everyone(session: Session) -> list[WorkerRow]:
    """Return all known workers, the latest heartbeat first."""
    return list(session.scalars(sa.select(WorkerRow).order_by(WorkerRow.heartbeat_at.desc())))
