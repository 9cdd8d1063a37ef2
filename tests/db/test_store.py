"""The store keeps what was committed, refuses what the constraints forbid, and rolls back as a whole."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy.exc import IntegrityError

import db
from crossner_core.errors import StorageError, StoreFailed
from db.engine import Store, insert_new, upsert
from db.migrate import migrate
from db.tables import Annotation, AppliedEvent, Campaign, SentenceRow, SpanRow, SparqlCache, Task, User
from db.types import Base, now
from tests.support.postgres import either_store
from tests.support.power_cut import STORE, states_when_acknowledged

__all__ = ["either_store"]


def test_migrations_give_the_tables_of_the_code(store: Store) -> None:
    with store.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []


def test_migrate_twice_changes_nothing(store: Store) -> None:
    migrate(store)
    with store.read() as session:
        assert session.execute(sa.text("select count(*) from alembic_version")).scalar_one() == 1


def test_migrate_refuses_a_newer_store(store: Store) -> None:
    with store.write() as session:
        session.execute(sa.text("update alembic_version set version_num = 'from_the_future'"))
    with pytest.raises(StorageError, match="from_the_future"):
        migrate(store)


def _annotation(store: Store) -> int:
    with store.write() as session:
        user = User(name="ann", display_name="Ann", password_hash="x", role="annotator")
        campaign = Campaign(name="c", domain_name="music", domain_toml="")
        session.add_all([user, campaign])
        session.flush()
        sentence = SentenceRow(
            campaign_id=campaign.id,
            external_id="1",
            content_hash="h",
            text="a b",
            tokens=[[0, 1], [2, 3]],
            meta={},
            position=0.0,
        )
        task = Task(sentence=sentence, stage="annotate")
        session.add(task)
        session.flush()
        annotation = Annotation(task_id=task.id, user_id=user.id)
        session.add(annotation)
        session.flush()
        return annotation.id


@pytest.mark.parametrize(("start", "end"), [(-1, 1), (1, 1), (2, 1)])
def test_store_refuses_impossible_spans(store: Store, start: int, end: int) -> None:
    annotation_id = _annotation(store)
    with pytest.raises(IntegrityError), store.write() as session:
        session.add(SpanRow(annotation_id=annotation_id, start=start, end=end, type="band", surface="a"))


def test_store_refuses_two_spans_at_one_token(store: Store) -> None:
    annotation_id = _annotation(store)
    with pytest.raises(IntegrityError), store.write() as session:
        for kind in ("band", "song"):
            session.add(SpanRow(annotation_id=annotation_id, start=0, end=1, type=kind, surface="a"))


def test_store_refuses_a_lease_without_holder(store: Store) -> None:
    _annotation(store)
    with pytest.raises(IntegrityError), store.write() as session:
        session.execute(sa.update(Task).values(state="leased"))


def test_write_rolls_back_as_a_whole(store: Store) -> None:
    with pytest.raises(RuntimeError), store.write() as session:
        session.add(User(name="x", display_name="X", password_hash="x", role="admin"))
        session.flush()
        raise RuntimeError("stop")
    with store.read() as session:
        assert session.scalars(sa.select(User)).all() == []


def test_insert_says_whether_a_key_was_new(either_store: Store) -> None:
    row = {"name": "ann", "display_name": "Ann", "role": "annotator", "password_hash": "", "created_at": now()}
    with either_store.write() as session:
        assert [insert_new(session, User, row, keys=["name"]) for _ in range(2)] == [True, False]
        assert insert_new(session, User, row | {"name": "bob"}, keys=["name"])
    with either_store.read() as session:
        assert sorted(session.scalars(sa.select(User.name))) == ["ann", "bob"]


def test_upsert_updates_the_named_columns(store: Store) -> None:
    for value in ({"n": 1}, {"n": 2}):
        with store.write() as session:
            upsert(
                session,
                SparqlCache,
                [{"endpoint": "e", "key": "k", "value": value}],
                keys=["endpoint", "key"],
                update=["value"],
            )
    with store.read() as session:
        assert session.scalars(sa.select(SparqlCache.value)).all() == [{"n": 2}]


def test_store_that_is_damaged_says_so_as_a_storage_error(tmp_path: Path) -> None:
    path = tmp_path / "damaged.sqlite3"
    path.write_bytes(b"this is no database at all, and long enough to be read as one" * 40)
    store = Store(f"sqlite:///{path}")
    with pytest.raises(StorageError, match="not a database"), store.read() as session:
        session.execute(sa.text("select 1 from user_account"))
    store.close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "postgresql://ann:hidden@db/work",
            r"postgresql://ann:\*\*\*@db/work needs .*'psycopg'.*requirements-postgres",
        ),
        ("nosuch://db/work", r"Unknown database 'nosuch'.*use sqlite or postgresql"),
        ("work.sqlite3", r"CROSSNER_DATABASE_URL is not a database URL; .*postgresql://"),
    ],
)
def test_store_that_cannot_be_opened_says_what_to_do(monkeypatch: pytest.MonkeyPatch, url: str, message: str) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)  # as where it is not installed
    with pytest.raises(StorageError, match=message):
        Store(url)


def test_migrate_keeps_what_points_at_a_table_that_is_made_anew(tmp_path: Path) -> None:
    store = _at_revision(tmp_path, "0007")
    with store.write() as session:
        for row in (
            "campaign(id, name, domain_name, domain_toml, blind_share, control_share, lease_minutes, seed,"
            " suggestions_on, archived, created_at) values (1, 'c', 'music', '', 0, 0, 1, 1, 1, 0, '2026-01-01')",
            "snapshot(id, campaign_id, hash, content, domain_name, types, counts, created_at)"
            " values (1, 1, 'h', '', 'music', '[]', '{}', '2026-01-01')",
            "job(id, kind, payload, campaign_id, state, priority, attempts, max_attempts, cancel_requested, progress,"
            " message, created_at) values (1, 'simulation', '{}', 1, 'done', 25, 1, 3, 0, 1, '', '2026-01-01')",
            "simulation(id, job_id, snapshot_id, settings, points, created_at)"
            " values (1, 1, 1, '{}', '[]', '2026-01-01')",
        ):
            session.execute(sa.text(f"insert into {row}"))
    migrate(store)
    with store.read() as session:
        for table in ("campaign", "snapshot", "job", "simulation"):
            assert session.execute(sa.text(f"select count(*) from {table}")).scalar_one() == 1, table
        assert session.execute(sa.text("pragma foreign_keys")).scalar_one() == 1
    store.close()


def test_migrate_keeps_what_was_decided_at_a_second_look(tmp_path: Path) -> None:
    store = _at_revision(tmp_path, "0008")
    with store.write() as session:
        for row in (
            "user_account(id, name, display_name, password_hash, role, active, created_at)"
            " values (1, 'eva', 'Eva', '!', 'expert', 1, '2026-01-01')",
            "campaign(id, name, domain_name, domain_toml, blind_share, control_share, lease_minutes, seed,"
            " suggestions_on, archived, created_at) values (1, 'c', 'music', '', 0, 0, 1, 1, 1, 0, '2026-01-01')",
            "sentence(id, campaign_id, external_id, content_hash, text, tokens, meta, split, position, control, blind,"
            " created_at) values (1, 1, 's', 'h', 'a', '[[0, 1]]', '{}', 'pool', 0, 0, 0, '2026-01-01')",
            'second_look_finding(id, campaign_id, sentence_id, found_by, kind, start, "end", there, proposed, score,'
            " why, state, decided_by, decided_at, created_at)"
            " values (1, 1, 1, 'x', 'leak', 0, 1, '[]', '[]', 1, '', 'kept', 1, '2026-01-01', '2026-01-01')",
        ):
            session.execute(sa.text(f"insert into {row}"))
    migrate(store)
    with store.write() as session:
        assert session.execute(sa.text("select state, left_out_id from second_look_finding")).one() == ("kept", None)
        session.execute(sa.text("update second_look_finding set state = 'left_out', left_out_id = 1"))
    for wrong in ("left_out_id = null", "state = 'kept'", "state = 'gone', left_out_id = null"):
        with pytest.raises(IntegrityError), store.write() as session:
            session.execute(sa.text(f"update second_look_finding set {wrong}"))
    with store.migrating() as connection:
        command.downgrade(_config(connection), "0008")
        connection.commit()
    with store.read() as session:
        assert session.execute(sa.text("select state from second_look_finding")).scalar_one() == "kept"
    store.close()


def test_migrate_changes_nothing_where_rows_would_point_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = _at_revision(tmp_path, "0007")

    def careless(config: Config, revision: str) -> None:
        config.attributes["connection"].exec_driver_sql(
            "insert into simulation(id, job_id, snapshot_id, settings, created_at) values (1, 5, 5, '{}', '2026-01-01')"
        )

    monkeypatch.setattr(command, "upgrade", careless)
    with pytest.raises(StorageError, match=r"from revision 0007 to .* rows of simulation with dangling references"):
        migrate(store)
    with store.read() as session:
        assert session.execute(sa.text("select count(*) from simulation")).scalar_one() == 0
    store.close()


def _at_revision(folder: Path, revision: str) -> Store:
    store = Store(f"sqlite:///{folder / 'earlier.sqlite3'}")
    with store.migrating() as connection:
        command.upgrade(_config(connection), revision)
        connection.commit()
    return store


def _config(connection: sa.Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(db.__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    return config


def test_migrate_says_that_the_store_cannot_be_reached(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'absent' / 'store.sqlite3'}")
    with pytest.raises(StorageError, match=r"failed: unable to open database file.*permissions"):
        migrate(store)


def test_advice_fits_the_trouble(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'store.sqlite3'}")
    migrate(store)
    with pytest.raises(StoreFailed, match=r"its disk is full: free some space"), store.write() as session:
        session.execute(sa.text("PRAGMA max_page_count = 1"))
        session.execute(sa.text("CREATE TABLE more AS SELECT randomblob(100000) AS bytes"))
    with pytest.raises(StoreFailed, match=r"let this account write to the file"), store.read() as session:
        session.execute(sa.text("PRAGMA query_only = ON"))
        session.execute(sa.text("DELETE FROM campaign"))
    store.close()
    other = Store(f"sqlite:///{tmp_path / 'store.sqlite3'}")
    (tmp_path / "store.sqlite3").write_bytes(b"SQLite format 3\x00" + b"nonsense" * 2_000)
    with pytest.raises(StoreFailed, match=r"the file is damaged: .*restore a backup"), other.read() as session:
        session.execute(sa.text("SELECT * FROM campaign"))


def test_what_is_acknowledged_is_on_the_disk(tmp_path: Path) -> None:
    states = states_when_acknowledged(tmp_path, 20)
    for number, state in enumerate(states, 1):
        found = Store(f"sqlite:///{state / STORE}")
        with found.read() as session:
            (work,) = session.scalars(sa.select(Annotation))
            assert (work.revision, session.scalar(sa.select(sa.func.count(AppliedEvent.key)))) == (number, number)
        found.close()
    assert len(states) == 20
