"""A healthy store with a home folder, and the damage that each check of the doctor is to find in it."""

from __future__ import annotations

import socket
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from safetensors.numpy import save_file

from crossner_core.schema import sentence_from_words
from crossner_core.training.recipe import Recipe
from db.engine import Store
from tests.support.builders import Tab, make_campaign, make_gold
from tests.support.training_store import own_dataset
from workbench.accounts.actors import Actor
from workbench.campaigns import sentences
from workbench.data import snapshots
from workbench.doctor.checks import home as home_checks
from workbench.runs import adaptation, rounds

LATE = ("A lease is held on this one .", "Nobody has this one .")


@dataclass(frozen=True)
class Patient:
    """A store and its home folder; `sql` changes the file with neither foreign keys nor checks enforced."""

    store: Store
    home: Path
    people: Mapping[str, Actor]
    campaign_id: int
    run_id: int
    cell_id: int

    def sql(self, *statements: str) -> None:
        file = self.store.url.database
        assert file is not None
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            for statement in ("PRAGMA foreign_keys=OFF", "PRAGMA ignore_check_constraints=ON", *statements):
                connection.execute(statement)
        self.store.engine.dispose()

    def rows(self, query: str) -> list[tuple[object, ...]]:
        file = self.store.url.database
        assert file is not None
        with closing(sqlite3.connect(file)) as connection:
            return connection.execute(query).fetchall()

    @property
    def checkpoints(self) -> Path:
        return self.home / "checkpoints"


def make_patient(store: Store, people: Mapping[str, Actor], home: Path) -> Patient:
    """Fill a store with gold, a lease, a snapshot, a data set, runs, jobs and a round; nothing is wrong with it."""
    home.mkdir()
    campaign_id = make_campaign(store, people)
    make_gold(store, people, campaign_id)
    late = [sentence_from_words(text.split(), id=f"late-{number}") for number, text in enumerate(LATE)]
    sentences.add_sentences(store, people["res"], campaign_id, late)
    Tab(store, people["ann1"], campaign_id, "annotate").items(1)
    own_dataset(store, people["res"])
    snapshot = snapshots.freeze(store, people["res"], campaign_id)
    run_id = adaptation.start_run(store, people["res"], snapshot_id=snapshot.id, recipe=Recipe(max_epochs=1))
    cell_id = adaptation.start_run(store, people["res"], snapshot_id=snapshot.id, recipe=Recipe(max_epochs=1), size=2)
    rounds.change_round_settings(store, people["res"], campaign_id, strategy="longest")
    rounds.order_now(store, people["res"], campaign_id)
    return Patient(store, home, people, campaign_id, run_id, cell_id)


Plant = Callable[[Patient, pytest.MonkeyPatch], object]


@dataclass(frozen=True)
class Damage:
    """Damage that `check` must find, `count` times, in words that match `words`."""

    check: str
    words: str
    plant: Plant
    count: int = 1


def _sql(*statements: str) -> Plant:
    return lambda patient, monkeypatch: patient.sql(*statements)


_HELD = "WHERE state = 'leased'"
_LATE = "(SELECT id FROM sentence WHERE external_id = 'late-1')"
_FIRST_SPAN = "WHERE id = (SELECT min(id) FROM annotation_span)"
_OTHER_SURFACE = "UPDATE annotation_span SET surface = 'Somebody'"
_FIRST_SENTENCE = "WHERE id = (SELECT min(id) FROM sentence)"
_SUGGESTION = (
    "INSERT INTO suggestion (sentence_id, start, end, type, source, score, run_id) VALUES (1, 0, {end}, 'band', {rest})"
)


def _end_run(patient: Patient, checkpoint: str | None) -> None:
    named = f"'{checkpoint}'" if checkpoint else "NULL"
    patient.sql(f"UPDATE run SET state = 'done', checkpoint = {named} WHERE id = {patient.run_id}")


def _damaged_checkpoint(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = keep_checkpoint(patient)
    file = folder / "tensors.safetensors"
    file.write_bytes(file.read_bytes()[:-8])


def keep_checkpoint(patient: Patient) -> Path:
    """End the run with a checkpoint that can be read; return its folder."""
    folder = patient.checkpoints / f"run-{patient.run_id}" / "tagger"
    folder.mkdir(parents=True)
    (folder / "meta.json").write_text("{}")
    save_file({"weight": np.zeros(4)}, folder / "tensors.safetensors")
    _end_run(patient, str(folder.relative_to(patient.home)))
    return folder


def _end_cell(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    (patient.checkpoints / f"run-{patient.cell_id}").mkdir(parents=True)
    patient.sql(f"UPDATE run SET state = 'done' WHERE id = {patient.cell_id}")


def _half_written(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    name = f".music.{uuid.uuid4().hex}-{ended.pid}-{socket.gethostname()}.new"
    (patient.home / "corpora" / name / "sentences").mkdir(parents=True)


def _make_folder(*parts: str) -> Plant:
    return lambda patient, monkeypatch: patient.home.joinpath(*parts).mkdir(parents=True)


def _provider(text: str) -> Plant:
    """Describe a sign-in provider that nobody answers for."""
    lines = 'issuer = "http://127.0.0.1:9"\nclient_id = "c"\naddress = "http://127.0.0.1:8501"\n' + text
    return lambda patient, monkeypatch: (patient.home / "oidc.toml").write_text(lines)


DAMAGES = (
    Damage(
        "integrity",
        "ix_annotation_task_id",
        _sql(
            "PRAGMA writable_schema=ON",
            "UPDATE sqlite_master SET sql = replace(sql, 'task_id)', 'user_id)') WHERE name = 'ix_annotation_task_id'",
        ),
        count=17,
    ),
    Damage("schema", "ix_annotation_user_id", _sql("DROP INDEX ix_annotation_user_id")),
    Damage("references", "1 row refers by task_id", _sql("DELETE FROM task WHERE id = 1")),
    Damage("traces", "1 row refers by campaign_id", _sql("INSERT INTO campaign_member VALUES (999, 1)")),
    Damage("clock", "task: 1 × created_at in the future, up to 2999", _sql(
        "UPDATE task SET created_at = '2999-01-01 00:00:00.000000' WHERE id = 1"
    )),
    Damage("clock", "job: 1 × heartbeat_at", _sql(
        "UPDATE job SET heartbeat_at = '2999-01-01 00:00:00.000000' WHERE id = 1"
    )),
    Damage("offsets", "was stored as 'Somebody'", _sql(f"{_OTHER_SURFACE} {_FIRST_SPAN}")),
    Damage("offsets", "lies outside its 10 tokens", _sql(f'UPDATE annotation_span SET "end" = 900 {_FIRST_SPAN}')),
    Damage("offsets", "not those of its hash", _sql(f"UPDATE sentence SET text = text || '!' {_FIRST_SENTENCE}")),
    Damage("offsets", "sentence 1: cannot be read", _sql(f"UPDATE sentence SET tokens = '[[5, 2]]' {_FIRST_SENTENCE}")),
    Damage("offsets", r"suggestion 1: \[0, 90\) lies outside the 10 tokens of sentence 1", _sql(
        _SUGGESTION.format(end=90, rest="'link', 0.5, NULL")
    )),
    Damage("offsets", r"link \d+: \[0, 90\) lies outside", _sql('UPDATE link SET "end" = 90 WHERE id = 1')),
    Damage("suggestions", "source 'oracle': 1 suggestions of a source that is not registered", _sql(
        _SUGGESTION.format(end=2, rest="'oracle', 0.5, NULL")
    )),
    Damage("suggestions", "run 999: 1 suggestions of a run that does not exist", _sql(
        _SUGGESTION.format(end=2, rest="'model:run 999', 0.5, 999")
    )),
    Damage("stages", "has no task, so nobody is ever given it", _sql(f"DELETE FROM task WHERE sentence_id = {_LATE}")),
    Damage("stages", "annotate is done, but sentence 8 has no task to check", _sql(
        f"UPDATE task SET state = 'done', done_by = 1 WHERE sentence_id = {_LATE}"
    )),
    Damage("order", "is to check sentence 1, whose annotate is not done", _sql(
        "UPDATE task SET state = 'open' WHERE stage = 'annotate' AND sentence_id = 1"
    )),
    Damage("places", "queued elsewhere", _sql("UPDATE task SET position = position + 5 WHERE id = 1")),
    Damage("work", "annotate is done, but there is no submitted work", _sql(
        "UPDATE annotation SET state = 'draft' WHERE id = 1"
    )),
    Damage("work", "annotate has submitted work, but is open", _sql("UPDATE task SET state = 'open' WHERE id = 1")),
    Damage("leases", "is done, but still has a lease", _sql(
        "UPDATE task SET lease_expires = '2999-01-01 00:00:00.000000' WHERE id = 1"
    )),
    Damage("leases", "is leased without an end", _sql(f"UPDATE task SET lease_expires = NULL {_HELD}")),
    Damage("leases", "is leased until 2999-01-01", _sql(
        f"UPDATE task SET lease_expires = '2999-01-01 00:00:00.000000' {_HELD}"
    )),
    Damage("leases", "is leased to account None", _sql(f"UPDATE task SET leased_to = NULL {_HELD}")),
    Damage("leases", "which is closed or gone", _sql("UPDATE user_account SET active = 0 WHERE name = 'ann1'")),
    Damage("leases", "who may not annotate in campaign 1", _sql(
        "UPDATE user_account SET role = 'researcher' WHERE name = 'ann1'"
    )),
    Damage("leases", "who may not annotate in campaign 1", _sql(
        "DELETE FROM campaign_member WHERE user_id = (SELECT id FROM user_account WHERE name = 'ann1')"
    )),
    Damage("gold", "sentence 1: is gold, but: 1 of 3 units are undecided", _sql(
        "DELETE FROM decision WHERE id = (SELECT min(id) FROM decision)"
    )),
    Damage("gold", "is gold, but: Unit 0 is decided as 'none', but the spans do not match", _sql(
        "UPDATE decision SET choice = 'none' WHERE id = (SELECT min(id) FROM decision)"
    )),
    Damage("snapshots", "its content is not what its hash names", _sql(
        "UPDATE snapshot SET content = replace(content, 'Oslo', 'Rome')"
    )),
    Damage("snapshots", "cannot be read", _sql("UPDATE snapshot SET content = substr(content, 1, 50)")),
    Damage("snapshots", "but is listed with", _sql(
        """UPDATE snapshot SET counts = '{"pool": 7, "dev": 0, "test": 0, "entities": 1}'"""
    )),
    Damage("snapshots", "data set 'own', dev: its content is not", _sql(
        "UPDATE dataset_split SET content_hash = 'x' WHERE split = 'dev'"
    )),
    Damage("runs", "run 1: is queued, but no job is under way for it", _sql("DELETE FROM job WHERE run_id = 1")),
    Damage("runs", "run 1: is running, but no job is under way", _sql(
        "UPDATE run SET state = 'running' WHERE id = 1", "UPDATE job SET state = 'failed' WHERE run_id = 1"
    )),
    Damage("jobs", "is of the kind 'magic'", _sql("UPDATE job SET kind = 'magic' WHERE id = 1")),
    Damage("jobs", "names none", _sql("UPDATE job SET run_id = NULL WHERE id = 1")),
    Damage("jobs", "for round 99, which does not exist", _sql(
        """UPDATE job SET payload = '{"turn_id": 99}' WHERE kind = 'turn'"""
    )),
    Damage("jobs", "waits for itself", _sql("UPDATE job SET after_id = id WHERE id = 1")),
    Damage("jobs", "its last heartbeat lies in the future: 2999", _sql(
        "UPDATE job SET state = 'running', heartbeat_at = '2999-01-01 00:00:00.000000' WHERE id = 1"
    )),
    Damage("jobs", "its last heartbeat was 2001", _sql(
        "UPDATE job SET state = 'running', heartbeat_at = '2001-01-01 00:00:00.000000' WHERE id = 1"
    )),
    Damage("rounds", "round 1: of campaign 1 is queued, but its job is done", _sql(
        "UPDATE job SET state = 'done' WHERE kind = 'turn'"
    )),
    Damage("checkpoints", "is done, but names no checkpoint", lambda patient, monkeypatch: _end_run(patient, None)),
    Damage("checkpoints", "The checkpoint of run 1 is gone", lambda patient, monkeypatch: _end_run(
        patient, "checkpoints/run-1/tagger"
    )),
    Damage("checkpoints", "cannot be read", _damaged_checkpoint),
    Damage("run-folders", "run-77: is the folder of a run that does not exist", _make_folder("checkpoints", "run-77")),
    Damage("cells", "holds the weights of a finished cell", _end_cell),
    Damage("leftovers", "was left half-written", _half_written),
    Damage("builds", "has no manifest.json", _make_folder("corpora", "half")),
    Damage("builds", "has no manifest.json", _make_folder("gazetteers", "half")),
    Damage("disk", "MB are free, a run needs", lambda patient, monkeypatch: monkeypatch.setattr(
        home_checks, "LEAST_FREE_BYTES", 2**62
    )),
    Damage("sign-in-provider", "connection failed", _provider("")),
    Damage("sign-in-provider", "NO_SUCH_SECRET .* is not set", _provider('secret_variable = "NO_SUCH_SECRET"')),
    Damage("sign-in-provider", "colour is no key", _provider('colour = "red"')),
    Damage("packages", "numpy: is installed as .*; tested is ==0.1", lambda patient, monkeypatch: monkeypatch.setattr(
        home_checks, "_required", lambda: [Requirement("numpy==0.1")]
    )),
    Damage("packages", "no-such-thing: is not installed", lambda patient, monkeypatch: monkeypatch.setattr(
        home_checks, "_required", lambda: [Requirement("no-such-thing==1")]
    )),
)  # fmt: skip
"""Of each check, the damage it is for; the comparison with the registry is a test."""


def names() -> Iterator[str]:
    """Yield a name for each damage."""
    return (f"{damage.check}-{number}" for number, damage in enumerate(DAMAGES))
