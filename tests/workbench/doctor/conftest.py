"""A healthy store with a home folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from db.engine import Store
from tests.support.doctor import Patient, make_patient
from workbench.accounts.actors import Actor


@pytest.fixture
def patient(store: Store, people: dict[str, Actor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Patient:
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path / "home"))
    return make_patient(store, people, tmp_path / "home")
