"""The database itself: its file, its schema, its references and its times."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from db import health_rows
from db.engine import integrity_problems
from db.migrate import schema_problems
from workbench.doctor.base import Context, Finding, register

_RESTORE = "No repair is safe: stop the workbench and restore a backup."
_TOLERANCE = dt.timedelta(minutes=2)


@register("integrity", "The database's file is whole", remedy=_RESTORE, order=0)
def integrity(context: Context) -> Iterator[Finding]:
    """Run SQLite's own check."""
    for line in integrity_problems(context.session):
        yield Finding("database", line)


@register(
    "schema",
    "The tables are those of this version",
    remedy="Bring an older store up to date with “workbench migrate”; for a newer one use the version that wrote it.",
    order=1,
)
def schema(context: Context) -> Iterator[Finding]:
    """Compare revision and tables with those of this version."""
    for line in schema_problems(context.session):
        yield Finding("schema", line)


@register("references", "Every row belongs to one that exists", remedy=_RESTORE, order=2)
def references(context: Context) -> Iterator[Finding]:
    """Find rows that refer to nothing, of tables that hold somebody's work."""
    yield from (_finding(lost) for lost in health_rows.dangling(context.session) if not lost.is_trace)


def _remove_traces(context: Context) -> None:
    health_rows.remove_dangling(context.session, health_rows.TRACES)


@register(
    "traces",
    "No log line, link, suggestion, membership or sign-in outlives what it belongs to",
    remedy="Removes these rows; they hold nobody's work.",
    mend=_remove_traces,
    order=2,
)
def traces(context: Context) -> Iterator[Finding]:
    """Find rows that refer to nothing, of tables that only follow from others."""
    yield from (_finding(lost) for lost in health_rows.dangling(context.session) if lost.is_trace)


def _finding(lost: health_rows.Dangling) -> Finding:
    rows = "1 row refers" if lost.count == 1 else f"{lost.count} rows refer"
    return Finding(f"table {lost.table}", f"{rows} by {lost.column} to a row of {lost.target} that does not exist")


@register(
    "clock",
    "No stored time lies in the future",
    remedy="No repair is safe: set the machine's clock right; the order of what was stored meanwhile may be wrong.",
)
def clock(context: Context) -> Iterator[Finding]:
    """Find times beyond now, which a clock that was wrong has left."""
    for table, column, count, latest in health_rows.times_ahead(context.session, _TOLERANCE):
        yield Finding(f"table {table}", f"{count} × {column} in the future, up to {latest:%Y-%m-%d %H:%M} UTC")
