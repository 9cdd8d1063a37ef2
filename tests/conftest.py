"""Fixtures shared by all tests: a fresh migrated store in a file, people of every role, a small campaign."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from db.engine import Store
from db.migrate import migrate
from tests.support import builders
from tests.support.postgres import fresh_store
from workbench.accounts.actors import Actor

# Before torch is imported, and for every process that a test starts: on small models more threads only wait for each
# other, and two test processes that compute with two threads each take ten times as long as with one.
os.environ.setdefault("OMP_NUM_THREADS", "1")

SHARED = Path(__file__).resolve().parents[2] / "shared"


SLOW = frozenset((Path(__file__).parent / "slow.txt").read_text(encoding="utf-8").split())
"""Tests that together take more than half of the processor time of all that are not marked slow themselves."""

SECONDS = {"slow": 5, "browser": 10}
"""About what a test with this mark takes, where others take a tenth of a second."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow, and sort by file, longest first: no process is left with a long file at the end."""
    for item in items:
        if item.nodeid.partition("[")[0] in SLOW:
            item.add_marker("slow")
    files: Counter[Path] = Counter()
    for item in items:
        files[item.path] += max(
            [1, *(10 * seconds for mark, seconds in SECONDS.items() if item.get_closest_marker(mark))]
        )
    items.sort(key=lambda item: (-files[item.path], item.path))


@pytest.fixture(autouse=True)
def own_main_module() -> Iterator[None]:
    """Put `__main__` back: Streamlit's test runner leaves its script there, which a spawned process would run."""
    own = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = own


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with real data beside the checkout; tests that need it skip without it."""
    if not SHARED.is_dir():
        pytest.skip(f"real data is not at {SHARED}")
    return SHARED


@pytest.fixture(scope="session")
def store_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated, empty store, made once and copied for each test."""
    path = tmp_path_factory.mktemp("template") / "store.sqlite3"
    store = Store(f"sqlite:///{path}")
    migrate(store)
    with store.engine.connect() as connection:
        connection.exec_driver_sql("COMMIT")
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    store.close()
    return path


@pytest.fixture
def store(store_template: Path, tmp_path: Path) -> Iterator[Store]:
    """A fresh store in a SQLite file of its own; on the PostgreSQL server with CROSSNER_STORES=postgresql."""
    if os.environ.get("CROSSNER_STORES") == "postgresql":
        with fresh_store() as elsewhere:
            yield elsewhere
        return
    path = tmp_path / "store.sqlite3"
    shutil.copyfile(store_template, path)
    fresh = Store(f"sqlite:///{path}")
    yield fresh
    fresh.close()


@pytest.fixture
def people(store: Store) -> dict[str, Actor]:
    """Annotators ann1, ann2 and ann3, the expert eva, the researcher res and the admin adm."""
    return builders.make_people(store)


@pytest.fixture
def campaign(store: Store, people: dict[str, Actor]) -> int:
    """The id of a music campaign of six sentences with everybody in it."""
    return builders.make_campaign(store, people)
