"""Settings under which webhooks may reach this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from db.engine import Store
from tests.support.webhooks import settings_here
from workbench.settings import Settings


@pytest.fixture
def settings(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings of the environment and of the worker alike."""
    made = settings_here(store, tmp_path / "home")
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    return made
