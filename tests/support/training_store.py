"""Builders for tests of retraining: a researcher, a data set of own sentences, a worker in this process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from crossner_core.formats import write
from crossner_core.schema import LabelledSentence
from crossner_core.training.recipe import Recipe
from db import account_rows, job_rows
from db.engine import Store
from tests.support.paths import ROOT
from tests.support.training_builders import own_sentences, save_encoder, tiny_recipe
from workbench.accounts.actors import Actor
from workbench.data.datasets import DatasetView, import_dataset
from workbench.jobs import context, lease
from workbench.jobs.context import JobContext
from workbench.jobs.worker import Worker
from workbench.settings import Settings


def person(store: Store, role: str, name: str | None = None) -> Actor:
    """Add an account that nobody can sign in to."""
    with store.write() as session:
        user = account_rows.add(session, name=name or role, display_name=role.title(), password_hash="!", role=role)
        return Actor(user.id, user.name, user.display_name, user.role)


def as_jsonl(items: tuple[LabelledSentence, ...]) -> bytes:
    return write(items, "jsonl").encode()


def own_dataset(store: Store, actor: Actor, *, name: str = "own", train: int = 24, test: bool = True) -> DatasetView:
    """Import a data set of own sentences."""
    splits: dict[str, Any] = {
        "train": ("train.jsonl", as_jsonl(own_sentences(train))),
        "dev": ("dev.jsonl", as_jsonl(own_sentences(6, offset=30))),
    }
    if test:
        splits["test"] = ("test.jsonl", as_jsonl(own_sentences(6, offset=40)))
    return import_dataset(store, actor, name=name, splits=splits)


def recipe_here(folder: Path, **changes: object) -> Recipe:
    """Return a recipe whose encoder is a tiny one in a folder."""
    place = folder / "encoder"
    if not place.is_dir():
        save_encoder(place)
    return tiny_recipe(**{"encoder": str(place), **changes})


def settings_for(store: Store, home: Path) -> Settings:
    return Settings(home=home, database_url=str(store.url), worker_threads=1)


def work(store: Store, home: Path) -> int:
    """Let a worker in this process empty the queue; return the number of jobs."""
    return Worker(store, settings_for(store, home)).run(once=True)


def start_worker(
    store: Store, home: Path, *, prelude: str = "", once: bool = True, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start a worker process; `prelude` is run in it before."""
    code = f"{prelude}\nfrom workbench.jobs.worker import main\nraise SystemExit(main(once={once}))"
    variables = {
        **os.environ,
        "CROSSNER_HOME": str(home),
        "CROSSNER_DATABASE_URL": str(store.url),
        "CROSSNER_WORKER_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        **(environment or {}),
    }
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=variables, stderr=subprocess.PIPE, text=True)


def when_asked(
    monkeypatch: pytest.MonkeyPatch, kind: str, call: Callable[[JobContext], object], *, step: int = 1
) -> None:
    """Have something happen once, when a job of a kind asks for the n-th time whether to stop."""
    asked, should_stop = [0], JobContext.should_stop

    def heard(self: JobContext) -> bool:
        if self.job.kind == kind:
            asked[0] += 1
            if asked[0] == step:
                call(self)
        return should_stop(self)

    monkeypatch.setattr(JobContext, "should_stop", heard)


def meanwhile(monkeypatch: pytest.MonkeyPatch, kind: str, call: Callable[[], object], *, step: int = 5) -> None:
    """Have something happen once, while a job of a kind is at its n-th step; who gives way looks after each step."""
    when_asked(monkeypatch, kind, lambda _lease: call(), step=step)
    monkeypatch.setattr(context, "SECONDS_BETWEEN_LOOKS", 0.0)
    monkeypatch.setattr(lease, "TAKEN_SECONDS", 0.0)


def beat(store: Store, held: JobContext) -> None:
    """Do what the worker's next heartbeat does for a job in hand."""
    with store.write() as session:
        row = job_rows.get(session, held.job.id)
        assert row is not None and row.worker is not None
        told = job_rows.beat(session, job_id=row.id, worker=row.worker, progress=held.progress, message=held.message)
    if told:
        held.cancelled.set()


def ended(store: Store) -> list[tuple[str, str, int]]:
    """Return the kind, state and attempts of all jobs that have ended, in the order in which they did."""
    with store.read() as session:
        found = [job for job in job_rows.recent(session) if job.finished_at is not None]
        return [(job.kind, job.state, job.attempts) for job in sorted(found, key=lambda job: job.finished_at)]
