"""Open the store and hand out transactions; the only file that distinguishes SQLite from PostgreSQL."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    DisconnectionError,
    IntegrityError,
    NoSuchModuleError,
    ProgrammingError,
)
from sqlalchemy.orm import Session, sessionmaker

from crossner_core.errors import BadInput, StorageError, StoreFailed

__all__ = [
    "Session",
    "Store",
    "backup_sqlite",
    "copied_if_read_only",
    "dangling_rows",
    "in_byte_order",
    "insert_new",
    "integrity_problems",
    "is_postgres",
    "lock_rows",
    "open_copy",
    "set_sequence",
    "sqlite_damage",
    "upsert",
]

_BUSY_TIMEOUT_MS = 15_000
_PRAGMAS_THAT_WRITE = 2
_TRUSTED_S = 1.0
"""Seconds for which a connection to a server counts as sound after its last use; later it is tried first."""
_KEPT, _AT_MOST = 10, 30
"""Connections to a server that a process keeps open, and opens at most: to open one costs as much as a save."""


class Store:
    """An open database; `read()` and `write()` are the only ways to get a session.

    Raises StorageError when the URL names no database, or one whose driver is not installed.
    """

    def __init__(self, url: str) -> None:
        self.url = _parsed(url)
        self.engine = _make_engine(self.url)
        self._round = threading.RLock() if self.url.get_backend_name() == "sqlite" else None
        self._read = sessionmaker(self.engine, expire_on_commit=False)
        at_once = self.engine.execution_options(isolation_level="AUTOCOMMIT") if self._round is None else self.engine
        self._look = sessionmaker(at_once, expire_on_commit=False)
        self._write = sessionmaker(self.engine.execution_options(workbench_write=True), expire_on_commit=False)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Yield a session for reading; changes made in it are not kept."""
        with _storage_errors(self.url), self._read() as session:
            yield session

    @contextmanager
    def look(self) -> Iterator[Session]:
        """Yield a session for a single statement that reads: a server need not begin and end a transaction for it."""
        with _storage_errors(self.url), self._look() as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """Yield a session whose transaction is committed at the end, or rolled back on any error."""
        with self._in_turn(), _storage_errors(self.url), self._write() as session, session.begin():
            yield session

    @contextmanager
    def one_moment(self) -> Iterator[Session]:
        """Yield a session for reading in which each statement sees the store as the first one did."""
        with self.read() as session:
            if self._round is None:  # a transaction of SQLite is like this anyway
                session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
            yield session

    @contextmanager
    def standing_still(self, tables: Sequence[sa.Table]) -> Iterator[Session]:
        """Yield a session during which nobody else writes to these tables."""
        with self.write() as session:
            session.connection()  # SQLite's lock is taken here
            if self._round is None:
                prepare = session.get_bind().dialect.identifier_preparer
                names = ", ".join(prepare.format_table(table) for table in tables)
                session.execute(sa.text(f"LOCK TABLE {names} IN SHARE MODE"))
            yield session

    @contextmanager
    def migrating(self) -> Iterator[sa.Connection]:
        """Yield a connection for migrations; raise StorageError when the store cannot be reached.

        SQLite can alter little of a table, so it is copied into a new one. With foreign keys enforced, dropping the
        old one would delete the rows that refer to it, or clear their keys: enforcement is off on this connection.
        """
        with _storage_errors(self.url):
            connection = self.engine.connect()
        with connection, _without_foreign_keys(connection):
            yield connection

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        """Serialize this process's writes to SQLite.

        SQLite itself sleeps and retries, so that under load some writers wait for seconds. After a timeout here,
        SQLite's own lock decides.
        """
        held = self._round is not None and self._round.acquire(timeout=_BUSY_TIMEOUT_MS / 1000)
        try:
            yield
        finally:
            if self._round is not None and held:
                self._round.release()


@contextmanager
def _without_foreign_keys(connection: sa.Connection) -> Iterator[None]:
    if connection.dialect.name != "sqlite":
        yield
        return
    driver = connection.connection.driver_connection
    assert driver is not None
    driver.execute("PRAGMA foreign_keys=OFF")  # no effect inside a transaction
    try:
        yield
    finally:
        connection.rollback()
        driver.execute("PRAGMA foreign_keys=ON")


@contextmanager
def _storage_errors(url: sa.URL) -> Iterator[None]:
    try:
        yield
    except (IntegrityError, ProgrammingError):
        raise  # a bug of ours, not a failure of the store
    except DataError as error:  # a NUL on PostgreSQL, for example
        raise BadInput(f"The store cannot hold a value: {error.orig}. Change it, then try again.") from error
    except DBAPIError as error:
        where = url.render_as_string(hide_password=True)
        raise StoreFailed(
            f"The store at {where} failed: {error.orig}. Nothing was partly written; {_advice(error.orig)}"
        ) from error


def _advice(trouble: BaseException | None) -> str:
    """Return what helps against an error of a driver."""
    if not isinstance(trouble, sqlite3.Error):
        return "check that its server is running and accepts this account, then try again."
    name = getattr(trouble, "sqlite_errorname", None) or ""
    return next((advice for start, advice in _SQLITE_ADVICE.items() if name.startswith(start)), "try again.")


_DAMAGED = "the file is damaged: stop the app and its workers, and restore a backup (workbench restore)."
_SQLITE_ADVICE = {
    "SQLITE_FULL": "its disk is full: free some space, then try again.",
    "SQLITE_READONLY": "let this account write to the file and its folder, then try again.",
    "SQLITE_CANTOPEN": "check that the folder exists and the permissions of folder and file, then try again.",
    "SQLITE_PERM": "check the permissions of folder and file, then try again.",
    "SQLITE_BUSY": "another process holds it: wait until it has ended, then try again.",
    "SQLITE_LOCKED": "another process holds it: wait until it has ended, then try again.",
    "SQLITE_IOERR": "its disk reports an error or is full: check it, then try again.",
    "SQLITE_CORRUPT": _DAMAGED,
    "SQLITE_NOTADB": _DAMAGED,
}


def _parsed(url: str) -> sa.URL:
    try:
        return sa.make_url(url)
    except ArgumentError as error:
        raise StorageError(
            "CROSSNER_DATABASE_URL is not a database URL; expected is postgresql://USER:PASSWORD@HOST/DATABASE."
        ) from error


def _make_engine(url: sa.URL) -> sa.Engine:
    if url.get_backend_name() != "sqlite":
        return _make_server_engine(url)
    engine = sa.create_engine(url, connect_args={"timeout": _BUSY_TIMEOUT_MS / 1000, "check_same_thread": False})

    @sa.event.listens_for(engine, "connect")
    def _set_pragmas(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver must not begin transactions of its own
        cursor = connection.cursor()
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",  # a commit is on the disk before anything acknowledges it
            f"busy_timeout={_BUSY_TIMEOUT_MS}",
            "foreign_keys=ON",
        )[_PRAGMAS_THAT_WRITE if "immutable" in url.query else 0 :]:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        write = connection.get_execution_options().get("workbench_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine


def _make_server_engine(url: sa.URL) -> sa.Engine:
    where = url.render_as_string(hide_password=True)
    try:
        engine = sa.create_engine(url, pool_size=_KEPT, max_overflow=_AT_MOST - _KEPT)
    except NoSuchModuleError as error:
        raise StorageError(f"Unknown database {url.drivername!r} in {where}; use sqlite or postgresql.") from error
    except ImportError as error:
        raise StorageError(
            f"The store at {where} needs the Python package {error.name or 'psycopg'!r}, which cannot be loaded: "
            f"{error}. For postgresql:// run: pip install -r requirements-postgres.txt"
        ) from error
    _look_at_idle_connections(engine)
    return engine


def _look_at_idle_connections(engine: sa.Engine) -> None:
    """Replace connections that broke while they lay idle; between two saves that costs nothing."""

    @sa.event.listens_for(engine, "checkin")
    def _note(_connection: Any, record: Any) -> None:
        record.info["idle_since"] = time.monotonic()

    @sa.event.listens_for(engine, "checkout")
    def _look(connection: Any, record: Any, _proxy: Any) -> None:
        if time.monotonic() - record.info.get("idle_since", time.monotonic()) < _TRUSTED_S:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.dbapi.Error as error:  # type: ignore[union-attr]
            raise DisconnectionError("The connection broke while it lay idle.") from error


def upsert(
    session: Session,
    table: type[Any],
    rows: Sequence[Mapping[str, Any]],
    *,
    keys: Sequence[str],
    update: Sequence[str] = (),
) -> None:
    """Insert rows; where `keys` already exist, set the columns named in `update`, or leave the row alone."""
    if not rows:
        return
    statement = _insert(session, table)
    if update:
        statement = statement.on_conflict_do_update(
            index_elements=list(keys), set_={name: statement.excluded[name] for name in update}
        )
    else:
        statement = statement.on_conflict_do_nothing(index_elements=list(keys))
    session.execute(statement, [dict(row) for row in rows])


def insert_new(session: Session, table: type[Any], row: Mapping[str, Any], *, keys: Sequence[str]) -> bool:
    """Insert a row unless `keys` already exist; return whether it was inserted, also where two do so at a time."""
    statement = _insert(session, table).values(**row).on_conflict_do_nothing(index_elements=list(keys))
    # Counted by what comes back: where the database gives the primary key, PostgreSQL's driver counts no rows.
    return session.execute(statement.returning(getattr(table, keys[0]))).first() is not None


def in_turn(session: Session, what: str) -> None:
    """Let one transaction at a time go on from here to its end, of those that name the same (in SQLite all do)."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext(what))))


def _insert(session: Session, table: type[Any]) -> Any:
    """Return an insert of the store's dialect, which says what happens where a key is there already."""
    make = sqlite.insert if session.get_bind().dialect.name == "sqlite" else postgresql.insert
    return make(table)


def lock_rows(statement: sa.Select[Any]) -> sa.Select[Any]:
    """Lock the selected rows until the transaction ends, skipping locked ones (SQLite has a single lock).

    Others can still add rows that refer to them, and a row that only gets new references is not skipped.
    """
    return statement.with_for_update(skip_locked=True, key_share=True)


def backup_sqlite(store: Store, target: str) -> None:
    """Copy a SQLite store to the file `target` while it is in use; raise StorageError for another database."""
    if store.url.get_backend_name() != "sqlite":
        raise StorageError("Only a SQLite store can be copied this way; dump any other with its database's own tool.")
    import sqlite3

    source = store.engine.raw_connection()
    try:
        destination = sqlite3.connect(target)
        try:
            source.driver_connection.backup(destination)  # type: ignore[union-attr]
        finally:
            destination.close()
    except (sqlite3.Error, DBAPIError) as error:
        raise StorageError(f"The copy to {target} failed: {error}. Check the folder and free space.") from error
    finally:
        source.close()


def open_copy(path: Path) -> Store:
    """Open a SQLite file that nobody writes to, without writing anything beside it."""
    url = sa.URL.create(
        "sqlite",
        database=f"file:{quote(str(path.resolve()))}",
        query={"mode": "ro", "immutable": "1", "uri": "true"},
    )
    return Store(url.render_as_string())


def copied_if_read_only(url: str, folder: Path) -> Store | None:
    """Copy a SQLite store that lies on a read-only disk into `folder`, with its log, and open that; None for any other.

    To read a store SQLite writes beside it; nobody can change a store on such a disk meanwhile.
    """
    parsed = _parsed(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return None
    file = Path(parsed.database)
    if not file.is_file() or not os.statvfs(file.parent).f_flag & os.ST_RDONLY:
        return None
    for suffix in ("", "-wal"):
        if (part := file.with_name(file.name + suffix)).is_file():
            shutil.copyfile(part, folder / part.name)
    return Store(f"sqlite:///{(folder / file.name).resolve()}")


def is_postgres(session: Session) -> bool:
    """Return whether the store lies on a PostgreSQL server."""
    return session.get_bind().dialect.name == "postgresql"


def in_byte_order(session: Session, column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    """Return what to order by so that every database gives the same order: text by its bytes."""
    if not isinstance(column.type, sa.Text):
        return column
    return column.collate("C" if is_postgres(session) else "BINARY")


def set_sequence(session: Session, column: sa.Column[Any]) -> None:
    """Have a generated key go on after the largest one in the table (SQLite does so by itself)."""
    if not is_postgres(session):
        return
    sequence = sa.func.pg_get_serial_sequence(f'"{column.table.name}"', column.name)
    largest = sa.select(sa.func.coalesce(sa.func.max(column), 0) + 1).scalar_subquery()
    session.execute(sa.select(sa.func.setval(sequence, largest, False)))


def integrity_problems(session: Session) -> list[str]:
    """Return the first lines in which SQLite's own check finds its file damaged; a server checks its files itself."""
    if is_postgres(session):
        return []
    return [row[0] for row in session.execute(sa.text("PRAGMA integrity_check(20)")) if row[0] != "ok"]


def dangling_rows(connection: sa.Connection) -> list[tuple[str, int, str]]:
    """Return table, row id and referenced table of rows with dangling foreign keys, which only SQLite lets in."""
    if connection.dialect.name != "sqlite":
        return []
    rows = connection.exec_driver_sql("PRAGMA foreign_key_check")
    return [(table, row, target) for table, row, target, _ in rows]


def sqlite_damage(session: Session) -> list[str]:
    """Return what SQLite itself finds wrong with its file, in words; nothing for another database."""
    lost = [
        f"Row {row} of {table} refers to a row of {target} that is not there."
        for table, row, target in dangling_rows(session.connection())
    ]
    return [*(f"SQLite: {line}." for line in integrity_problems(session)), *lost[:20]]
