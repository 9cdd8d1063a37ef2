"""Rows of whole stores as lines of JSON: what one database gives, every other takes, and a hash proves equal."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from crossner_core.errors import BadInput, StorageError
from db import label_review_tables, tables, training_tables
from db.accounts import identity_tables
from db.audit import tables as audit_tables
from db.engine import Session, in_byte_order, is_postgres, set_sequence
from db.programs import webhook_tables
from db.types import Base, UtcTime

_MODULES = (audit_tables, identity_tables, label_review_tables, tables, training_tables, webhook_tables)
"""Each adds its tables to the metadata."""
TABLES: Sequence[sa.Table] = tuple(Base.metadata.sorted_tables)
"""Every table, after those it refers to."""
_BATCH = 500
_LARGEST_INTEGER = 2**31 - 1


@dataclass(frozen=True, slots=True)
class TableSum:
    """How many rows a table has, and the SHA-256 of all its lines."""

    rows: int
    sha256: str


class Summing:
    """Lines that are counted and hashed as they pass."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines, self._digest, self._rows = lines, hashlib.sha256(), 0

    def __iter__(self) -> Iterator[bytes]:
        for line in self._lines:
            self._digest.update(line)
            self._rows += 1
            yield line

    @property
    def sum(self) -> TableSum:
        """The sum of the lines that have passed."""
        return TableSum(self._rows, self._digest.hexdigest())


def lines(session: Session, table: sa.Table) -> Iterator[bytes]:
    """Yield each row as a line of JSON, its columns in their order; by primary key, alike on every database."""
    query = sa.select(*table.columns).order_by(*(in_byte_order(session, key) for key in table.primary_key))
    try:
        for row in session.execute(query.execution_options(yield_per=_BATCH)):
            yield json.dumps([_plain(value) for value in row], separators=(",", ":")).encode() + b"\n"
    except (ValueError, TypeError) as error:
        raise StorageError(
            f"A row of {table.name} cannot be read: {error}. The store was changed from outside; restore a backup."
        ) from error


def sums(session: Session) -> dict[str, TableSum]:
    """Return the sum of each table."""
    return {table.name: sum_of(session, table) for table in TABLES}


def sum_of(session: Session, table: sa.Table) -> TableSum:
    """Return the sum of a table."""
    passing = Summing(lines(session, table))
    for _ in passing:
        pass
    return passing.sum


def filled(session: Session) -> list[str]:
    """Return the names of the tables that hold rows."""
    return [
        table.name for table in TABLES if session.execute(sa.select(sa.literal(1)).select_from(table).limit(1)).first()
    ]


def forget_processes(session: Session) -> None:
    """Delete signed-in browsers and workers, which belong to the server they were on, and tokens of the API.

    A token that was revoked after a backup must not be valid again where that is restored.
    """
    gone = (
        identity_tables.ProviderSession,
        tables.LoginSession,
        tables.ApiReply,
        tables.ApiToken,
        training_tables.WorkerRow,
    )
    for table in (row.__table__ for row in gone):
        session.execute(sa.delete(table))  # type: ignore[arg-type]


def copy(source: Session, target: Session) -> dict[str, TableSum]:
    """Copy all rows into an empty store, read them back, and return their sums.

    Raises StorageError where a table does not come out the same; the target's transaction must then be rolled back.
    """
    by_name = {table.name: table for table in TABLES}
    return fill(target, lambda name: lines(source, by_name[name]))


def fill(session: Session, lines_of: Callable[[str], Iterable[bytes]]) -> dict[str, TableSum]:
    """Insert the lines of every table, by its name, into an empty store, as `copy` does."""
    expected = {}
    for table in TABLES:
        passing = Summing(lines_of(table.name))
        try:
            _insert(session, table, passing)
        except sa.exc.StatementError as error:
            raise StorageError(f"Rows of {table.name} were refused, so nothing was copied: {error.orig}") from error
        expected[table.name] = passing.sum
    for table in TABLES:
        if (actual := sum_of(session, table)) != expected[table.name]:
            raise StorageError(
                f"The table {table.name} did not come out the same: {expected[table.name].rows} rows went in, "
                f"{actual.rows} with another hash came out. Nothing was kept; report this."
            )
    return expected


def _insert(session: Session, table: sa.Table, given: Iterable[bytes]) -> None:
    """Insert rows; keys within the same table are set once all are there."""
    own_keys = [
        column.name for column in table.columns if any(key.column.table is table for key in column.foreign_keys)
    ]
    read = _reader(table)
    later: list[dict[str, Any]] = []
    batch: list[dict[str, Any]] = []
    for line in given:
        row = read(line)
        if is_postgres(session):
            _refuse_unfit(table, row)
        for name in own_keys:
            if row[name] is not None:
                later.append({"_id": row["id"], name: row[name]})
                row[name] = None
        batch.append(row)
        if len(batch) == _BATCH:
            session.execute(sa.insert(table), batch)
            batch = []
    if batch:
        session.execute(sa.insert(table), batch)
    for name in own_keys:
        values = [{"_id": row["_id"], "_value": row[name]} for row in later if name in row]
        if values:
            by_id = sa.update(table).where(table.c.id == sa.bindparam("_id"))
            session.connection().execute(by_id.values({name: sa.bindparam("_value")}), values)
    if len(table.primary_key) == 1 and isinstance(table.primary_key.columns[0].type, sa.Integer):
        set_sequence(session, table.primary_key.columns[0])


def _reader(table: sa.Table) -> Callable[[bytes], dict[str, Any]]:
    """Return what makes a row of a line; it raises BadInput for a line that is none."""
    names = [column.name for column in table.columns]
    times = {column.name for column in table.columns if isinstance(column.type, UtcTime)}

    def read(line: bytes) -> dict[str, Any]:
        try:
            row = dict(zip(names, json.loads(line), strict=True))
            for name in times:
                row[name] = None if row[name] is None else dt.datetime.fromisoformat(row[name])
        except (ValueError, TypeError, RecursionError) as error:
            raise BadInput(f"A line of {table.name} is no row of it: {line[:60]!r} ({error}).") from error
        return row

    return read


def _refuse_unfit(table: sa.Table, row: dict[str, Any]) -> None:
    """Raise StorageError for a value that SQLite takes and PostgreSQL does not, naming the row."""
    for column in table.columns:
        if reason := _unfit(column, row[column.name]):
            keys = ", ".join(f"{key.name} {row[key.name]!r}" for key in table.primary_key)
            raise StorageError(
                f"The row of {table.name} with {keys} has {reason} in {column.name}, which PostgreSQL cannot hold. "
                "Nothing was copied; change that row in the source, then copy again."
            )


def _unfit(column: sa.Column[Any], value: Any) -> str | None:
    if isinstance(value, str) and "\x00" in value:
        return "a NUL character"
    if isinstance(column.type, sa.Integer) and isinstance(value, int) and abs(value) > _LARGEST_INTEGER:
        return f"the number {value}, beyond {_LARGEST_INTEGER},"
    if isinstance(column.type, sa.JSON) and (number := _no_number(value)) is not None:
        return f"{number}, which is no number of JSON,"
    return None


def _no_number(value: Any) -> float | None:
    """Return a NaN or infinity within a JSON value."""
    if isinstance(value, float):
        return None if math.isfinite(value) else value
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((number for part in parts if (number := _no_number(part)) is not None), None)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, dt.datetime) else value
