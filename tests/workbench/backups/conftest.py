"""A home that every test gets a copy of."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from db.engine import Store
from tests.support.homes import make_home, open_home


@pytest.fixture(scope="session")
def home_template(tmp_path_factory: pytest.TempPathFactory, store_template: Path) -> Path:
    home = tmp_path_factory.mktemp("home") / "home"
    make_home(home, store_template)
    return home


@pytest.fixture
def home(home_template: Path, tmp_path: Path) -> Path:
    """A copy of the home with a trained tagger."""
    return Path(shutil.copytree(home_template, tmp_path / "home"))


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    """The store of the home."""
    opened = open_home(home)
    yield opened
    opened.close()
