"""A healthy store with a home folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from db.engine import Store
from tests.support.builders import Tab, make_people
from tests.support.doctor import Patient, make_patient


@pytest.fixture(scope="session")
def well(store_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Patient:
    """Made once, closed, and copied for each test."""
    folder = tmp_path_factory.mktemp("well")
    shutil.copyfile(store_template, folder / "store.sqlite3")
    store = Store(f"sqlite:///{folder / 'store.sqlite3'}")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CROSSNER_HOME", str(folder / "home"))
        patient = make_patient(store, make_people(store), folder / "home")
    store.close()
    return patient


@pytest.fixture
def patient(well: Patient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Patient]:
    shutil.copytree(well.home.parent, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path / "home"))
    store = Store(f"sqlite:///{tmp_path / 'store.sqlite3'}")
    Tab(store, well.people["ann1"], well.campaign_id, "annotate").items(1)  # renews the lease, which ages with the run
    yield replace(well, store=store, home=tmp_path / "home")
    store.close()
