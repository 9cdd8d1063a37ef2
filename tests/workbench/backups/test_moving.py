"""Moving a store: equal on both sides, into an empty one only, and with nobody at work."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from crossner_core.errors import Conflict, NotAllowed, StorageError
from db import copying, worker_rows
from db.audit.tables import AuditEntry
from db.engine import Store
from db.migrate import migrate
from tests.support.builders import make_person
from tests.support.homes import admin_of, unpack_old_store
from tests.support.postgres import fresh_database, needs_postgres
from workbench.accounts import accounts
from workbench.backups import moving
from workbench.backups.moving import move


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store, not migrated."""
    if request.param == "sqlite":
        opened = Store(f"sqlite:///{tmp_path / 'target.sqlite3'}")
        yield opened
        opened.close()
        return
    with fresh_database() as url:
        opened = Store(url)
        yield opened
        opened.close()


@pytest.fixture
def old(tmp_path: Path) -> Iterator[Store]:
    """The golden store of an earlier version, which has rows in nearly every table, brought to the newest migration."""
    unpack_old_store(tmp_path / "old.sqlite3")
    opened = Store(f"sqlite:///{tmp_path / 'old.sqlite3'}")
    migrate(opened)
    yield opened
    opened.close()


def sums_of(store: Store) -> dict[str, copying.TableSum]:
    with store.read() as session:
        return {name: table for name, table in copying.sums(session).items() if name != "audit_entry"}


def entries_of(store: Store) -> list[str]:
    with store.read() as session:
        return list(session.scalars(sa.select(AuditEntry.action).order_by(AuditEntry.id)))


def test_store_moves_there_and_back(old: Store, target: Store, tmp_path: Path) -> None:
    assert sum(table.rows > 0 for table in sums_of(old).values()) > 20
    accounts.set_role(old, admin_of(old), 1, "admin")
    before, recorded = sums_of(old), entries_of(old)
    moved = move(old, admin_of(old), target)
    assert moved.pop("audit_entry").rows == len(recorded) == 1
    assert moved == before == sums_of(target) == sums_of(old)
    assert entries_of(target) == [*recorded, "move_store"]
    back = Store(f"sqlite:///{tmp_path / 'back.sqlite3'}")
    move(target, admin_of(target), back)
    assert sums_of(back) == before
    back.close()
    person = make_person(target, "newcomer", "annotator")  # keys go on after those that came
    with old.read() as session:
        assert person.id > session.scalar(sa.text("SELECT max(id) FROM user_account"))


def test_target_with_rows_is_refused(store: Store, old: Store, target: Store) -> None:
    move(store, admin_of(store), target)
    kept = sums_of(target)
    with pytest.raises(Conflict, match="is not empty: it has rows in"):
        move(old, admin_of(old), target)
    assert sums_of(target) == kept
    with pytest.raises(Conflict, match="is not empty"):  # onto itself
        move(store, admin_of(store), store)


def test_target_of_something_else_is_refused(store: Store, target: Store) -> None:
    with target.write() as session:
        session.execute(sa.text("CREATE TABLE other (id INTEGER)"))
    with pytest.raises(Conflict, match="holds tables of something else"):
        move(store, admin_of(store), target)


def test_stores_at_other_migrations_are_refused(store: Store, target: Store, tmp_path: Path) -> None:
    unpack_old_store(tmp_path / "old.sqlite3")
    before = Store(f"sqlite:///{tmp_path / 'old.sqlite3'}")
    with pytest.raises(Conflict, match=r"is at revision 0009, this version has .*run workbench migrate"):
        move(before, admin_of(before), target)
    before.close()
    migrate(target)
    with target.write() as session:
        session.execute(sa.text("UPDATE alembic_version SET version_num = '0009'"))
    with pytest.raises(Conflict, match="is at revision 0009"):
        move(store, admin_of(store), target)


def test_living_worker_is_refused(store: Store, target: Store) -> None:
    with store.write() as session:
        worker_rows.beat(session, name="w1", host=socket.gethostname(), pid=os.getpid(), device="cpu")
    with pytest.raises(Conflict, match=r"The worker w1 is at work on .*stop it"):
        move(store, admin_of(store), target)


def test_only_admins_move(store: Store, target: Store) -> None:
    with pytest.raises(NotAllowed):
        move(store, make_person(store, "rosa", "researcher"), target)


def test_nobody_writes_meanwhile(store: Store, target: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that comes while the store is copied waits, so it is in the old store alone and counts as later."""
    began, ended = threading.Event(), threading.Event()
    original = copying.copy

    def write() -> None:
        began.set()
        other = Store(store.url.render_as_string(hide_password=False))
        make_person(other, "late", "annotator")
        other.close()
        ended.set()

    def copy(*sessions: copying.Session) -> dict[str, copying.TableSum]:
        threading.Thread(target=write).start()
        assert began.wait(10) and not ended.wait(0.5)
        return original(*sessions)

    monkeypatch.setattr(moving.copying, "copy", copy)
    move(store, admin_of(store), target)
    assert ended.wait(20)


def test_move_that_fails_leaves_the_target_empty(
    store: Store, old: Store, target: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = copying._insert

    def lossy(session: copying.Session, table: sa.Table, given: copying.Summing) -> None:
        original(session, table, given)
        if table.name == "sentence":
            session.execute(sa.text("UPDATE sentence SET position = 77.5 WHERE id = 1"))

    with monkeypatch.context() as patched:
        patched.setattr(copying, "_insert", lossy)
        with pytest.raises(StorageError, match="The table sentence did not come out the same"):
            move(old, admin_of(old), target)
    with target.read() as session:
        assert not copying.filled(session)
    move(store, admin_of(store), target)
