"""Rows of data sets: labelled corpora kept beside campaigns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import selectinload, undefer

from db.engine import Session
from db.tables import Campaign
from db.training_tables import Dataset, DatasetSplit, Job, Run, SimulationRow


def find(session: Session, name: str) -> Dataset | None:
    """Return a data set by name, with its splits (not their content)."""
    return session.scalar(_query().where(Dataset.name == name))


def get(session: Session, dataset_id: int) -> Dataset | None:
    """Return a data set by id, with its splits (not their content)."""
    return session.scalar(_query().where(Dataset.id == dataset_id))


def listed(session: Session) -> list[Dataset]:
    """Return all data sets by name."""
    return list(session.scalars(_query().order_by(Dataset.name)))


def content(session: Session, *, dataset_id: int, split: str) -> str | None:
    """Return the JSON lines of one split; None when the data set lacks it."""
    query = sa.select(DatasetSplit).where(DatasetSplit.dataset_id == dataset_id, DatasetSplit.split == split)
    row = session.scalar(query.options(undefer(DatasetSplit.content)))
    return row.content if row else None


def add(
    session: Session,
    *,
    name: str,
    domain_name: str | None,
    types: Sequence[str],
    created_by: int | None,
    splits: Sequence[dict[str, Any]],
) -> int:
    """Add a data set with its splits; return its id."""
    row = Dataset(name=name, domain_name=domain_name, types=list(types), created_by=created_by)
    row.splits = [DatasetSplit(**values) for values in splits]
    session.add(row)
    session.flush()
    return row.id


def runs_of(session: Session, dataset_id: int) -> int:
    """Return how many runs were trained on the data set."""
    return session.scalar(sa.select(sa.func.count(Run.id)).where(Run.dataset_id == dataset_id)) or 0


def recipes_of_source(session: Session, name: str) -> list[dict[str, Any]]:
    """Return the recipes that may name a data set as their source: of runs, rounds and pending simulated campaigns.

    A round's recipe omits fields at their defaults.
    """
    runs = sa.select(Run.recipe).where(Run.recipe["source"].as_string().contains(name, autoescape=True))
    played = sa.select(SimulationRow.settings).join(Job, Job.id == SimulationRow.job_id)
    played = played.where(Job.state.in_(("queued", "running")))
    return [
        *session.scalars(runs),
        *session.scalars(sa.select(Campaign.turn_recipe)),
        *(settings["recipe"] for settings in session.scalars(played)),
    ]


def delete(session: Session, dataset_id: int) -> None:
    """Delete a data set and its splits."""
    row = session.get(Dataset, dataset_id)
    if row is not None:
        session.delete(row)
        session.flush()


def _query() -> sa.Select[Dataset]:
    return sa.select(Dataset).options(selectinload(Dataset.splits))
