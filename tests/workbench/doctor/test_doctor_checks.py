"""Every finding of the doctor is planted and found, and every repair removes it without losing anybody's work."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from crossner_core.errors import InvalidConfig
from crossner_core.schema import LabelledSentence
from db.engine import Store
from tests.support.builders import make_gold
from tests.support.doctor import DAMAGES, Damage, Patient, keep_checkpoint, names
from workbench.accounts.actors import Actor
from workbench.data import frozen
from workbench.data.snapshots import freeze
from workbench.doctor import base
from workbench.doctor.examining import CheckResult, examine, repair

WORK = ("annotation", "annotation_span", "annotation_flag", "decision", "annotation_version", "applied_event")


def look(patient: Patient, check: str) -> CheckResult:
    (result,) = examine(patient.store, patient.people["adm"], [check]).results
    assert not result.obstacle
    return result


def work(patient: Patient) -> list[list[tuple[object, ...]]]:
    return [patient.rows(f"SELECT * FROM {table} ORDER BY 1") for table in WORK]


def test_every_check_has_damage_that_it_is_for() -> None:
    assert {damage.check for damage in DAMAGES} == set(base.CHECKS.ids())


@pytest.mark.parametrize("damage", DAMAGES, ids=names())
def test_doctor_finds_and_repairs(damage: Damage, patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert look(patient, damage.check).count == 0
    damage.plant(patient, monkeypatch)
    result = look(patient, damage.check)
    lines = [f"{finding.subject}: {finding.problem}" for finding in result.findings]
    assert len(lines) == damage.count and re.search(damage.words, lines[0]), lines
    before = work(patient)
    if result.repairable:
        assert repair(patient.store, patient.people["adm"], damage.check).count == damage.count
        assert look(patient, damage.check).count == 0
    else:
        with pytest.raises(InvalidConfig, match="has no repair"):
            repair(patient.store, patient.people["adm"], damage.check)
        assert look(patient, damage.check).count == damage.count
    assert work(patient) == before


def test_kept_checkpoint_is_no_finding(patient: Patient) -> None:
    keep_checkpoint(patient)
    assert look(patient, "checkpoints").count == 0 and look(patient, "run-folders").count == 0


def test_expired_lease_is_no_finding(patient: Patient) -> None:
    patient.sql("UPDATE task SET lease_expires = '2001-01-01 00:00:00.000000' WHERE state = 'leased'")
    assert look(patient, "leases").count == 0


def test_released_lease_keeps_the_draft(patient: Patient) -> None:
    (held,) = patient.rows("SELECT id, leased_to FROM task WHERE state = 'leased'")
    patient.sql(
        "INSERT INTO annotation (task_id, user_id, origin, revision, state, no_entities, comment, active_ms,"
        f" keystrokes, created_at, updated_at) VALUES ({held[0]}, {held[1]}, 'person', 1, 'draft', 0, 'mine', 1, 1,"
        " '2026-01-01 00:00:00.000000', '2026-01-01 00:00:00.000000')",
        f"UPDATE task SET lease_expires = NULL WHERE id = {held[0]}",
    )
    repair(patient.store, patient.people["adm"], "leases")
    assert patient.rows(f"SELECT state, leased_to FROM task WHERE id = {held[0]}") == [("open", None)]
    assert patient.rows("SELECT comment FROM annotation WHERE state = 'draft'") == [("mine",)]


def test_older_folder_is_put_back_and_fresh_ones_are_left_alone(patient: Patient) -> None:
    corpora = patient.home / "corpora"
    fresh, old = corpora / f".new.{'0' * 32}-1-elsewhere.new", corpora / ".music.old"
    for folder in (fresh, old):
        folder.mkdir(parents=True)
    assert look(patient, "leftovers").count == 0
    os.utime(old, (0, 0))
    assert look(patient, "leftovers").count == 1
    repair(patient.store, patient.people["adm"], "leftovers")
    assert (corpora / "music").is_dir() and fresh.is_dir() and not old.exists()


@pytest.mark.parametrize("check", ["gold", "offsets"])
def test_a_check_reads_sentences_together(store: Store, people: dict[str, Actor], campaign: int, check: str) -> None:
    """Its statements do not become more with the sentences: 200,000 would take a quarter of an hour."""
    make_gold(store, people, campaign)
    sent: list[str] = []
    sa.event.listen(store.engine, "before_cursor_execute", lambda *parts: sent.append(parts[2]))
    (result,) = examine(store, people["adm"], [check]).results
    assert result.state == "ok"
    of_spans = [statement for statement in sent if "FROM annotation_span" in statement or "FROM decision" in statement]
    assert 1 <= len(of_spans) <= 4, of_spans


def test_snapshots_are_hashed_without_holding_their_sentences(
    store: Store, people: dict[str, Actor], campaign: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_gold(store, people, campaign)
    freeze(store, people["res"], campaign)
    read, hold = frozen.from_line, frozen.content_hash
    order: list[str] = []

    def noted(line: str) -> tuple[LabelledSentence, dict[str, Any]]:
        order.append("read")
        return read(line)

    def hashed(types: Sequence[str], lines: Iterable[tuple[str, LabelledSentence]]) -> str:
        order.append("hash")
        return hold(types, lines)

    monkeypatch.setattr(frozen, "from_line", noted)
    monkeypatch.setattr(frozen, "content_hash", hashed)
    assert examine(store, people["adm"], ["snapshots"]).results[0].state == "ok"
    assert order == ["hash", *["read"] * 6]
