"""A database of its own on the PostgreSQL server that CROSSNER_POSTGRES names; counts of statements."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from db.engine import Store
from db.migrate import migrate

URL = os.environ.get("CROSSNER_POSTGRES", "")
needs_postgres = [
    pytest.mark.postgres,
    pytest.mark.skipif(not URL, reason="set CROSSNER_POSTGRES to the URL of a PostgreSQL server to try one"),
]


@contextmanager
def fresh_database(server_url: str = URL) -> Iterator[str]:
    """Make an empty database, yield its URL, and drop it, even if the server was stopped in between."""
    name = f"crossner_test_{uuid.uuid4().hex[:12]}"
    server = sa.create_engine(server_url, isolation_level="AUTOCOMMIT", pool_pre_ping=True)
    with server.connect() as connection:
        connection.exec_driver_sql(f'CREATE DATABASE "{name}"')
    try:
        yield sa.make_url(server_url).set(database=name).render_as_string(hide_password=False)
    finally:
        with server.connect() as connection:
            connection.exec_driver_sql(f'DROP DATABASE "{name}" WITH (FORCE)')
        server.dispose()


@contextmanager
def fresh_store() -> Iterator[Store]:
    """Yield a migrated store in a database of its own."""
    with fresh_database() as url:
        store = Store(url)
        try:
            migrate(store)
            yield store
        finally:
            store.close()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def either_store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """A fresh store, on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        yield request.getfixturevalue("store")
        return
    with fresh_store() as fresh:
        yield fresh


_BEGINS = ("BEGIN", "BEGIN IMMEDIATE")


@contextmanager
def counted(store: Store) -> Iterator[list[str]]:
    """Yield the statements that are sent to the store meanwhile."""
    sent: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement not in _BEGINS:
            sent.append(" ".join(statement.split()))

    sa.event.listen(store.engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        sa.event.remove(store.engine, "before_cursor_execute", note)
