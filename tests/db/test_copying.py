"""Rows as lines: each type comes out as it went in, on either database, and what one cannot hold is named."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from crossner_core.errors import BadInput, StorageError
from db import copying
from db.engine import Store
from db.migrate import migrate
from db.tables import Campaign, SparqlCache, User
from db.training_tables import Job
from db.types import now
from tests.support.postgres import fresh_database, fresh_store, needs_postgres

ODD_TEXTS = ("", " ", "é", "e\u0301", "🦊", "\u2028", "a\tb\nc", "'; --", "NULL", "\\u0000", "zz", "Zz", "_", "ß")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty migrated store."""
    if request.param == "sqlite":
        opened = Store(f"sqlite:///{tmp_path / 'target.sqlite3'}")
        migrate(opened)
        yield opened
        opened.close()
        return
    with fresh_store() as opened:
        yield opened


def add_user(store: Store, *, name: str = "adm", shown: str = "Adm") -> int:
    with store.write() as session:
        user = User(name=name, display_name=shown, password_hash="!", role="admin", active=False)
        session.add(user)
        session.flush()
        return user.id


def copy(source: Store, target: Store) -> dict[str, copying.TableSum]:
    with source.read() as before, target.write() as after:
        return copying.copy(before, after)


def test_each_type_comes_out_as_it_went_in(store: Store, target: Store) -> None:
    moment = dt.datetime(2026, 3, 29, 2, 30, 0, 123456, dt.timezone(dt.timedelta(hours=2)))
    value = {"z": 1, "a": [1.5, -0.0, 1e-300, 2**60, True, None, "🦊", "\ud800"], "": {}}
    with store.write() as session:
        session.add(User(name="ada", display_name="Ada", password_hash="!", role="admin", created_at=moment))
        for text in ODD_TEXTS:
            session.add(SparqlCache(endpoint=text, key=text, value={"text": text}, fetched_at=moment))
        session.add(Campaign(name="c", domain_name="music", domain_toml="", blind_share=0.1 + 0.2, turn_recipe=value))
        session.add(Campaign(name="d", domain_name="music", domain_toml="", source_weights={}, archived=True))
    assert copy(store, target)["sparql_cache"].rows == len(ODD_TEXTS)
    with target.read() as session:
        first, second = session.scalars(sa.select(Campaign).order_by(Campaign.id))
        assert first.turn_recipe == value and list(first.turn_recipe) == ["z", "a", ""]
        assert first.blind_share == 0.1 + 0.2 and first.source_weights is None and second.source_weights == {}
        assert (first.archived, second.archived) == (False, True)
        assert session.scalar(sa.select(User)).created_at == moment.astimezone(dt.UTC)
        assert {row.key for row in session.scalars(sa.select(SparqlCache))} == set(ODD_TEXTS)


def test_more_rows_than_a_batch_come_in_order(store: Store, target: Store) -> None:
    with store.write() as session:
        for number in range(copying._BATCH * 2 + 1):
            session.add(SparqlCache(endpoint=str(number), key="k", value={}))
    copy(store, target)
    with store.read() as before, target.read() as after:
        table = SparqlCache.__table__
        lines = list(copying.lines(before, table))
        assert lines == list(copying.lines(after, table)) and len(lines) == copying._BATCH * 2 + 1
        assert lines == sorted(lines, key=lambda line: json.loads(line)[0].encode())


def test_rows_that_refer_to_later_ones_are_copied(store: Store, target: Store) -> None:
    with store.write() as session:
        jobs = [Job(kind="run", payload={}) for _ in range(3)]
        session.add_all(jobs)
        session.flush()
        jobs[0].after_id, jobs[2].after_id = jobs[2].id, jobs[1].id
        waiting = [job.after_id for job in jobs]
    copy(store, target)
    with target.read() as session:
        assert list(session.scalars(sa.select(Job.after_id).order_by(Job.id))) == waiting


def test_keys_go_on_after_the_copied_ones(store: Store, target: Store) -> None:
    with store.write() as session:
        session.add(User(id=41, name="ada", display_name="Ada", password_hash="!", role="admin"))
    copy(store, target)
    assert add_user(target) == 42


def test_store_that_is_not_empty_refuses_the_rows_in_words(store: Store, target: Store) -> None:
    add_user(store)
    add_user(target)
    with pytest.raises(StorageError, match="Rows of user_account were refused"):
        copy(store, target)


def test_line_that_is_no_row_is_refused(target: Store) -> None:
    for line in (b"{", b"[1]", b"7", b"\xff", b'[1,"a","A","!","admin",true,"yesterday"]'):
        with target.write() as session:
            with pytest.raises(BadInput, match="A line of user_account is no row of it"):
                copying.fill(session, lambda name, line=line: [line] if name == "user_account" else [])
            session.rollback()


def test_every_table_of_a_store_is_copied(store: Store) -> None:
    with store.read() as session:
        names = set(sa.inspect(session.connection()).get_table_names())
    assert names - {"alembic_version"} == {table.name for table in copying.TABLES}


def test_filled_names_the_tables_with_rows(store: Store) -> None:
    with store.read() as session:
        assert copying.filled(session) == []
    add_user(store)
    with store.read() as session:
        assert copying.filled(session) == ["user_account"]


def test_sums_change_with_every_value(store: Store) -> None:
    add_user(store)
    with store.read() as session:
        before = copying.sums(session)
    for column, value in (("active", True), ("created_at", now()), ("display_name", "Adm ")):
        with store.write() as session:
            session.execute(sa.update(User).values({column: value}))
        with store.read() as session:
            after = copying.sums(session)
        assert {name for name in after if after[name] != before[name]} == {"user_account"}, column
        before = after


@needs_postgres[0]
@needs_postgres[1]
@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"name": "a\x00b"}, r"The row of campaign with id 1 has a NUL character in name"),
        ({"seed": 2**40}, r"The row of campaign with id 1 has the number 1099511627776, beyond 2147483647, in seed"),
        ({"turn_recipe": {"a": [float("nan")]}}, r"has nan, which is no number of JSON, in turn_recipe"),
        ({"turn_recipe": {"a": [{"b": float("-inf")}]}}, r"has -inf, which is no number of JSON, in turn_recipe"),
    ],
)
def test_what_postgres_cannot_hold_is_named(store: Store, values: dict[str, object], reason: str) -> None:
    with store.write() as session:
        session.add(Campaign(**{"name": "c", "domain_name": "music", "domain_toml": "", **values}))
    with fresh_database() as url:
        server = Store(url)
        migrate(server)
        with pytest.raises(StorageError, match=reason):
            copy(store, server)
        with server.read() as session:
            assert not copying.filled(session)
        server.close()
