"""A whole examination: healthy stores, its exit status, what is kept of it, and what keeps it from looking."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from crossner_core.errors import BadInput, Conflict, InvalidConfig, NotAllowed
from db.engine import Store
from db.migrate import migrate
from tests.golden import kept, stored
from tests.support.doctor import DAMAGES, Patient
from workbench import cli
from workbench.accounts import accounts
from workbench.accounts.actors import Actor
from workbench.data import archive
from workbench.demo import seed
from workbench.doctor import base
from workbench.doctor.checks import tasks
from workbench.doctor.examining import Examination, examine, last_examination, repair
from workbench.settings import Settings, open_store


def findings(examination: Examination) -> list[str]:
    return [
        f"{result.id}: {result.obstacle or result.findings[0]}"
        for result in examination.results
        if result.state != "ok"
    ]


def run(patient: Patient, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = cli.main(["--home", str(patient.home), "doctor", *arguments])
    captured = capsys.readouterr()
    return status, captured.out + captured.err


@pytest.fixture
def on_command_line(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> Patient:
    monkeypatch.setenv("CROSSNER_DATABASE_URL", str(patient.store.url))
    return patient


def test_store_at_all_stages_is_well(patient: Patient) -> None:
    examination = examine(patient.store, patient.people["adm"])
    assert findings(examination) == [] and examination.exit_status == 0
    assert [result.id for result in examination.results] == list(base.CHECKS.ids())
    assert examination.line == f"All is well: {len(base.CHECKS.ids())} checks found nothing."


@pytest.mark.parametrize(("free", "count"), [((9, 8), 1), ((9, 2**62), 0)], ids=["still so", "over"])
def test_what_changes_between_two_looks_is_found_and_what_is_over_is_not(
    patient: Patient, monkeypatch: pytest.MonkeyPatch, free: tuple[int, int], count: int
) -> None:
    seen = iter(free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=next(seen)))
    (result,) = examine(patient.store, patient.people["adm"], ["disk"]).results
    assert (result.count, list(seen)) == (count, [])


def test_demo_is_well(tmp_path: Path) -> None:
    store = open_store(Settings(home=tmp_path / "home"))
    migrate(store)
    list(seed.seed_if_empty(store))
    assert findings(examine(store, accounts.operator(store))) == []


def test_old_store_and_imported_archive_are_well(tmp_path: Path) -> None:
    home = tmp_path / "home"
    store = stored.restore(home)
    shutil.copytree(kept.FOLDER / "old_run" / "tagger", home / "checkpoints" / "run-1" / "tagger")
    admin = accounts.operator(store)
    archive.import_campaign(store, admin, stored.OLD_ARCHIVE.read_bytes(), name="Imported")
    assert findings(examine(store, admin)) == []


def test_whole_examination_is_kept_and_a_part_of_one_is_not(patient: Patient) -> None:
    admin = patient.people["adm"]
    assert last_examination(patient.store, admin) is None
    whole = examine(patient.store, admin)
    examine(patient.store, admin, ["disk"])
    assert last_examination(patient.store, admin) == whole
    (patient.home / "doctor.json").write_text('{"at": 3}')
    with pytest.raises(BadInput, match=r"doctor\.json is damaged"):
        last_examination(patient.store, admin)


def test_exit_status_and_lines(on_command_line: Patient, capsys: pytest.CaptureFixture[str]) -> None:
    patient = on_command_line
    status, text = run(patient, capsys)
    assert status == 0 and "All is well" in text
    patient.sql("UPDATE task SET lease_expires = NULL WHERE state = 'leased'")
    status, text = run(patient, capsys)
    assert status == 1 and "1 found         leases" in text and "is leased without an end" in text
    assert "→ --repair leases: Releases the lease" in text
    status, text = run(patient, capsys, "--repair", "leases")
    assert status == 0 and "leases: 1 repaired" in text
    status, text = run(patient, capsys, "--json", "--only", "leases", "--only", "disk")
    assert status == 0 and [result["id"] for result in json.loads(text)["results"]] == ["disk", "leases"]


def test_unknown_check_and_missing_repair_are_refused(
    on_command_line: Patient, capsys: pytest.CaptureFixture[str]
) -> None:
    status, text = run(on_command_line, capsys, "--only", "everything")
    assert status == 2 and "Unknown check 'everything'; choose one of integrity, schema" in text
    status, text = run(on_command_line, capsys, "--repair", "gold")
    assert status == 2 and "The check 'gold' has no repair" in text


def test_no_store_is_made_by_looking(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CROSSNER_DATABASE_URL", raising=False)
    assert cli.main(["--home", str(tmp_path / "none"), "doctor"]) == 2
    assert "There is no store at" in capsys.readouterr().err and not (tmp_path / "none").exists()


def test_older_schema_keeps_table_checks_from_looking(
    on_command_line: Patient, capsys: pytest.CaptureFixture[str]
) -> None:
    patient = on_command_line
    patient.sql("UPDATE alembic_version SET version_num = 'r0009_left_out'")
    status, text = run(patient, capsys)
    assert status == 2 and "The store is at revision r0009_left_out" in text and "could not look  gold" in text
    assert patient.rows("SELECT version_num FROM alembic_version") == [("r0009_left_out",)]


def test_broken_value_keeps_only_its_check_from_looking(patient: Patient, caplog: pytest.LogCaptureFixture) -> None:
    patient.sql("UPDATE snapshot SET counts = '{'")
    results = {result.id: result for result in examine(patient.store, patient.people["adm"]).results}
    assert results["snapshots"].state == "could not look" and "JSONDecodeError" in results["snapshots"].obstacle
    assert [id for id, result in results.items() if result.state != "ok"] == ["snapshots"]
    assert "could not look" in caplog.text


@pytest.mark.parametrize("name", ["ann1", "eva", "res"])
def test_doctor_is_for_admins(patient: Patient, name: str) -> None:
    actor = patient.people[name]
    for call in (examine, last_examination, lambda store, actor: repair(store, actor, "leases")):
        with pytest.raises(NotAllowed):
            call(patient.store, actor)


def test_repair_that_leaves_something_changes_nothing(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    patient.sql("UPDATE task SET lease_expires = NULL WHERE state = 'leased'")
    check = base.CHECKS["leases"]
    for module_check in (base.Check(check.id, check.title, check.remedy, check.find, tasks._put_right, check.order),):
        monkeypatch.setitem(base.CHECKS, "leases", module_check)
    patient.sql("UPDATE task SET position = position + 5 WHERE id = 1")
    with pytest.raises(Conflict, match="left 1 of 1 findings"):
        repair(patient.store, patient.people["adm"], "leases")
    assert patient.rows("SELECT count(*) FROM task t JOIN sentence s ON s.id = t.sentence_id"
                        " WHERE t.position <> s.position") == [(1,)]  # fmt: skip


def test_what_passes_while_people_work_is_no_finding(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def find(context: base.Context) -> list[base.Finding]:
        seen.append(1)
        return [base.Finding("task 1", "is between two steps")] if len(seen) == 1 else []

    base.CHECKS.load()
    monkeypatch.setitem(base.CHECKS, "passing", base.Check("passing", "Passing", "None.", find))
    (result,) = examine(patient.store, patient.people["adm"], ["passing"]).results
    assert len(seen) == 2 and result.count == 0


def test_damages_cover_repairs() -> None:
    assert {damage.check for damage in DAMAGES if base.CHECKS.one(damage.check).mend} == {
        "traces", "stages", "places", "leases", "runs", "rounds", "cells", "leftovers",
    }  # fmt: skip


def test_unknown_check_names_the_known(store: Store, people: dict[str, Actor]) -> None:
    with pytest.raises(InvalidConfig, match="choose one of integrity, schema"):
        examine(store, people["adm"], ["nothing"])
