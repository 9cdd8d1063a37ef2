"""Rows of the domains that users defined."""

from __future__ import annotations

import sqlalchemy as sa

from db.engine import Session
from db.tables import Campaign, DomainRow
from db.training_tables import Dataset
from db.types import now


def find(session: Session, name: str) -> DomainRow | None:
    """Return a user's domain by name."""
    return session.scalar(sa.select(DomainRow).where(DomainRow.name == name))


def listed(session: Session) -> list[DomainRow]:
    """Return all users' domains by name."""
    return list(session.scalars(sa.select(DomainRow).order_by(DomainRow.name)))


def save(session: Session, *, name: str, toml: str, user_id: int | None) -> None:
    """Add a domain, or replace the definition stored under its name."""
    row = find(session, name)
    if row is None:
        session.add(DomainRow(name=name, toml=toml, created_by=user_id))
    else:
        row.toml, row.updated_at = toml, now()
    session.flush()


def delete(session: Session, name: str) -> None:
    """Delete a user's domain."""
    session.execute(sa.delete(DomainRow).where(DomainRow.name == name))


def used_by(session: Session, name: str) -> list[str]:
    """Return what uses the domain, in words."""
    campaigns = session.scalars(sa.select(Campaign.name).where(Campaign.domain_name == name).order_by(Campaign.name))
    datasets = session.scalars(sa.select(Dataset.name).where(Dataset.domain_name == name).order_by(Dataset.name))
    return [f"campaign {name!r}" for name in campaigns] + [f"data set {name!r}" for name in datasets]
