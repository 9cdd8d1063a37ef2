"""Column types shared by all tables."""

from __future__ import annotations

import datetime as dt
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase


class UtcTime(sa.TypeDecorator[dt.datetime]):
    """A time in UTC; SQLite drops the time zone, so it is restored on reading."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: dt.datetime | None, dialect: Any) -> dt.datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"A time without a time zone cannot be stored: {value!r}")
        return value.astimezone(dt.UTC)

    def process_result_value(self, value: dt.datetime | None, dialect: Any) -> dt.datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)


def now() -> dt.datetime:
    """The current time in UTC."""
    return dt.datetime.now(dt.UTC)


class Base(DeclarativeBase):
    """Base of all tables, with constraint names that migrations can rely on."""

    metadata = sa.MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {dt.datetime: UtcTime, dict[str, Any]: sa.JSON, list[Any]: sa.JSON, str: sa.Text}  # noqa: RUF012


def one_of(column: str, values: tuple[str, ...], name: str) -> sa.CheckConstraint:
    """Make a CHECK that a text column holds one of `values`."""
    listed = ", ".join(f"'{value}'" for value in values)
    return sa.CheckConstraint(f"{column} IN ({listed})", name=name)


def valid_offsets(name: str = "offsets") -> sa.CheckConstraint:
    """Make the CHECK every span table carries: half-open, not empty, not negative."""
    return sa.CheckConstraint('"start" >= 0 AND "end" > "start"', name=name)
