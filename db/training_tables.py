"""Typed tables of retraining: data sets, snapshots, jobs, runs and their events."""

from __future__ import annotations

import datetime as dt
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column, relationship

from db.types import Base, now, one_of

JOB_STATES = ("queued", "running", "done", "failed", "cancelled")


class Dataset(Base):
    """A labelled corpus kept beside campaigns: a source domain, or a reference train, dev and test set."""

    __tablename__ = "dataset"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    domain_name: Mapped[str | None]
    types: Mapped[list[Any]]
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
    created_by: Mapped[int | None] = mapped_column(sa.ForeignKey("user_account.id"))
    splits: Mapped[list[DatasetSplit]] = relationship(cascade="all, delete-orphan", order_by="DatasetSplit.split")

    @property
    def train_sentences(self) -> int:
        """The number of sentences of its train split; 0 without one."""
        return next((part.sentences for part in self.splits if part.split == "train"), 0)


class DatasetSplit(Base):
    """One split of a data set as JSON lines, with the hash of that text."""

    __tablename__ = "dataset_split"
    __table_args__ = (
        sa.UniqueConstraint("dataset_id", "split"),
        one_of("split", ("train", "dev", "test"), "split"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    dataset_id: Mapped[int] = mapped_column(sa.ForeignKey("dataset.id", ondelete="CASCADE"), index=True)
    split: Mapped[str]
    content: Mapped[str] = mapped_column(deferred=True)
    content_hash: Mapped[str]
    sentences: Mapped[int]
    entities: Mapped[int]


class Snapshot(Base):
    """The frozen gold of a campaign at one point in time, named by the hash of its content."""

    __tablename__ = "snapshot"
    __table_args__ = (sa.UniqueConstraint("campaign_id", "hash"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    campaign_id: Mapped[int] = mapped_column(sa.ForeignKey("campaign.id", ondelete="CASCADE"), index=True)
    hash: Mapped[str] = mapped_column(index=True)
    content: Mapped[str] = mapped_column(deferred=True)
    """JSON lines: one gold sentence per line, with its split, in the order it became gold."""
    domain_name: Mapped[str]
    types: Mapped[list[Any]]
    counts: Mapped[dict[str, Any]]
    """`{"pool": n, "dev": n, "test": n, "entities": n}`"""
    created_by: Mapped[int | None] = mapped_column(sa.ForeignKey("user_account.id"))
    created_at: Mapped[dt.datetime] = mapped_column(default=now)


class Run(Base):
    """One training of a recipe on a snapshot or a data set."""

    __tablename__ = "run"
    __table_args__ = (
        one_of("state", JOB_STATES, "state"),
        sa.CheckConstraint("(snapshot_id IS NULL) <> (dataset_id IS NULL)", name="one_source"),
        sa.CheckConstraint("size IS NULL OR size > 0", name="size"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    campaign_id: Mapped[int | None] = mapped_column(sa.ForeignKey("campaign.id", ondelete="CASCADE"), index=True)
    snapshot_id: Mapped[int | None] = mapped_column(sa.ForeignKey("snapshot.id"), index=True)
    dataset_id: Mapped[int | None] = mapped_column(sa.ForeignKey("dataset.id"), index=True)
    group_id: Mapped[str | None] = mapped_column(index=True)
    """Runs of one few-shot curve share it."""
    size: Mapped[int | None]
    """Number of training sentences (nested subset, drawn with `order_seed`); None means all."""
    order_seed: Mapped[int | None]
    recipe: Mapped[dict[str, Any]]
    recipe_hash: Mapped[str]
    seed: Mapped[int]
    state: Mapped[str] = mapped_column(default="queued")
    dev_f1: Mapped[float | None]
    test_f1: Mapped[float | None]
    result: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON(none_as_null=True))
    """Scores (overall, strict, per type), confusion, counts, seconds: everything a page draws."""
    checkpoint: Mapped[str | None]
    """Folder of the best checkpoint, relative to the workbench's home."""
    error: Mapped[str | None]
    created_by: Mapped[int | None] = mapped_column(sa.ForeignKey("user_account.id"))
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
    started_at: Mapped[dt.datetime | None]
    finished_at: Mapped[dt.datetime | None]
    snapshot: Mapped[Snapshot | None] = relationship()
    dataset: Mapped[Dataset | None] = relationship()

    @property
    def training_sentences(self) -> int:
        """The number of target sentences it trains on: its size, or all that its snapshot or data set has."""
        if self.recipe.get("setting") == "source_only":
            return 0
        if self.size is not None:
            return self.size
        if self.snapshot is not None:
            return int(self.snapshot.counts["pool"])
        return self.dataset.train_sentences if self.dataset is not None else 0


class RunEvent(Base):
    """One line of a run's log."""

    __tablename__ = "run_event"
    __table_args__ = (sa.UniqueConstraint("run_id", "number"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    run_id: Mapped[int] = mapped_column(sa.ForeignKey("run.id", ondelete="CASCADE"), index=True)
    number: Mapped[int]
    phase: Mapped[str]
    step: Mapped[int]
    epoch: Mapped[float]
    loss: Mapped[float | None]
    dev_f1: Mapped[float | None]
    is_best: Mapped[bool] = mapped_column(default=False)
    message: Mapped[str] = mapped_column(default="")
    at: Mapped[dt.datetime] = mapped_column(default=now)


class Job(Base):
    """Work for the worker process: claimed by lease, kept alive by heartbeat, retried after a crash."""

    __tablename__ = "job"
    __table_args__ = (
        one_of("state", JOB_STATES, "state"),
        sa.CheckConstraint("progress BETWEEN 0 AND 1", name="progress"),
        sa.Index("ix_job_queue", "state", "priority", "id"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    payload: Mapped[dict[str, Any]]
    run_id: Mapped[int | None] = mapped_column(sa.ForeignKey("run.id", ondelete="CASCADE"), index=True)
    campaign_id: Mapped[int | None] = mapped_column(sa.ForeignKey("campaign.id", ondelete="CASCADE"), index=True)
    state: Mapped[str] = mapped_column(default="queued")
    priority: Mapped[int] = mapped_column(default=10)
    """Lower is sooner."""
    after_id: Mapped[int | None] = mapped_column(sa.ForeignKey("job.id", ondelete="SET NULL"), index=True)
    """A job that has to end before this one begins."""
    worker: Mapped[str | None]
    heartbeat_at: Mapped[dt.datetime | None]
    attempts: Mapped[int] = mapped_column(default=0)
    """Workers that have begun it since its saved state last moved on."""
    max_attempts: Mapped[int] = mapped_column(default=3)
    saved_step: Mapped[int | None]
    """How far its saved state had come when a worker last died on it."""
    cancel_requested: Mapped[bool] = mapped_column(default=False)
    progress: Mapped[float] = mapped_column(default=0.0)
    message: Mapped[str] = mapped_column(default="")
    error: Mapped[str | None]
    created_by: Mapped[int | None] = mapped_column(sa.ForeignKey("user_account.id"))
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
    finished_at: Mapped[dt.datetime | None]


class JobLine(Base):
    """One line of a job's log."""

    __tablename__ = "job_line"

    id: Mapped[int] = mapped_column(primary_key=True)
    job_id: Mapped[int] = mapped_column(sa.ForeignKey("job.id", ondelete="CASCADE"), index=True)
    message: Mapped[str]
    at: Mapped[dt.datetime] = mapped_column(default=now)


class WorkerRow(Base):
    """A worker process that is alive, by its heartbeat."""

    __tablename__ = "worker"

    name: Mapped[str] = mapped_column(primary_key=True)
    host: Mapped[str]
    pid: Mapped[int]
    device: Mapped[str]
    started_at: Mapped[dt.datetime] = mapped_column(default=now)
    heartbeat_at: Mapped[dt.datetime] = mapped_column(default=now)


class Round(Base):
    """One re-ordering of a campaign's queue: by which strategy, with which run's model, and what it moved."""

    __tablename__ = "turn"
    __table_args__ = (one_of("state", JOB_STATES, "state"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    campaign_id: Mapped[int] = mapped_column(sa.ForeignKey("campaign.id", ondelete="CASCADE"), index=True)
    run_id: Mapped[int | None] = mapped_column(sa.ForeignKey("run.id", ondelete="SET NULL"), index=True)
    """The run whose model it uses, or will use; None if there was none yet."""
    strategy: Mapped[str]
    automatic: Mapped[bool] = mapped_column(default=False)
    gold: Mapped[int]
    """Gold sentences of the pool when it began."""
    state: Mapped[str] = mapped_column(default="queued")
    scored: Mapped[int | None]
    """Sentences that its model had not scored before."""
    ordered: Mapped[int | None]
    """Sentences whose place could change."""
    seconds: Mapped[float | None]
    notes: Mapped[list[Any]] = mapped_column(default=list)
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
    finished_at: Mapped[dt.datetime | None]


class SimulationRow(Base):
    """One simulated campaign on a snapshot: a strategy with a seed, with the gold as the oracle."""

    __tablename__ = "simulation"

    id: Mapped[int] = mapped_column(primary_key=True)
    job_id: Mapped[int] = mapped_column(sa.ForeignKey("job.id", ondelete="CASCADE"), index=True)
    snapshot_id: Mapped[int] = mapped_column(sa.ForeignKey("snapshot.id", ondelete="CASCADE"), index=True)
    settings: Mapped[dict[str, Any]]
    """Strategy, sizes, seed, recipe and annotator, as the engine's Simulation has them."""
    points: Mapped[list[Any] | None] = mapped_column(sa.JSON(none_as_null=True))
    """The measurements after each round; None until it has finished."""
    created_at: Mapped[dt.datetime] = mapped_column(default=now)
    snapshot: Mapped[Snapshot] = relationship(lazy="joined")
