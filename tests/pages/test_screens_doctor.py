"""The page Doctor: nothing yet, all well, findings with their remedy, and a damaged result."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from db.engine import Store
from tests.support.doctor import Patient, make_patient
from tests.support.screens import healthy, open_screen, words
from workbench.accounts.actors import Actor
from workbench.doctor.examining import examine


@pytest.fixture
def patient(store: Store, people: dict[str, Actor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Patient:
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path / "home"))
    return make_patient(store, people, tmp_path / "home")


def test_doctor_shows_how_to_run_it_then_that_all_is_well(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = patient.people["adm"]
    screen = healthy(open_screen(monkeypatch, patient.store, "doctor", admin))
    assert "Nothing was examined yet" in words(screen) and screen.code[0].value == "workbench doctor"
    examine(patient.store, admin)
    screen = healthy(open_screen(monkeypatch, patient.store, "doctor", admin))
    assert "All is well" in screen.success[0].value
    assert re.search(r"Examined \d seconds? ago", screen.success[0].value)
    assert set(screen.dataframe[0].value["Result"]) == {"ok"} and not screen.expander


def test_doctor_shows_findings_and_what_can_be_done(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    admin = patient.people["adm"]
    patient.sql("UPDATE task SET lease_expires = NULL WHERE state = 'leased'", "UPDATE snapshot SET counts = '{'")
    patient.sql("DELETE FROM decision WHERE id = 1")
    examine(patient.store, admin)
    screen = healthy(open_screen(monkeypatch, patient.store, "doctor", admin))
    assert "2 of 25 checks found something (2 in all); 1 could not look" in screen.warning[0].value.replace("\\", "")
    assert [expander.label for expander in screen.expander] == [
        "gold: 1 found", "leases: 1 found", "snapshots: could not look",
    ]  # fmt: skip
    assert [code.value for code in screen.code] == ["workbench doctor --repair leases"]
    assert "is leased without an end" in str(screen.dataframe[1].value) and "JSONDecodeError" in words(screen)


def test_doctor_says_that_its_result_is_damaged(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    (patient.home / "doctor.json").write_text("{")
    screen = healthy(open_screen(monkeypatch, patient.store, "doctor", patient.people["adm"]))
    assert "is damaged" in screen.error[0].value.replace("\\", "")
