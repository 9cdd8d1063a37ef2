"""Bring a store to the newest migration."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

from crossner_core.errors import StorageError
from db.engine import Session, Store, dangling_rows
from db.types import Base

_SCRIPTS = Path(__file__).parent / "migrations"


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def migrate(store: Store) -> None:
    """Upgrade the store's schema to head; do nothing if it is there already.

    Raises StorageError when the store cannot be reached, or was written by a newer version of the workbench.
    """
    with store.migrating() as connection:
        config = _config(connection)
        script = ScriptDirectory.from_config(config)
        current = MigrationContext.configure(connection).get_current_revision()
        known = {revision.revision for revision in script.walk_revisions()}
        if current is not None and current not in known:
            raise StorageError(
                f"The store is at revision {current}, which is unknown to this version; "
                "use the newer version of the workbench that wrote it."
            )
        if current == script.get_current_head():
            return
        connection.rollback()
        lost = set(dangling_rows(connection))
        command.upgrade(config, "head")
        if more := set(dangling_rows(connection)) - lost:
            raise StorageError(
                f"Upgrading the store from revision {current} to {script.get_current_head()} would leave rows of "
                f"{', '.join(sorted({table for table, *_ in more}))} with dangling references. Nothing was changed; "
                "keep using the version that wrote it, and report this."
            )
        connection.commit()


def head() -> str:
    """Return the newest migration of this version."""
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    newest = ScriptDirectory.from_config(config).get_current_head()
    assert newest is not None
    return newest


def revision_in(session: Session) -> str | None:
    """Return the migration that a store is at; None before the first."""
    return MigrationContext.configure(session.connection()).get_current_revision()


def has_tables(session: Session) -> bool:
    """Return whether there are any tables, ours or others."""
    return bool(inspect(session.connection()).get_table_names())


def new_revision(store: Store, message: str) -> None:
    """Write a migration for the difference between the tables and the store (for developers)."""
    with store.engine.connect() as connection:
        command.revision(_config(connection), message=message, autogenerate=True)


def schema_problems(session: Session) -> list[str]:
    """Return how the store differs from the schema of this version; nothing is changed."""
    if (current := revision_in(session)) != head():
        return [f"The store is at revision {current}, this version of the workbench works with {head()}."]
    context = MigrationContext.configure(session.connection())
    return [f"Table or column differs: {difference}." for difference in compare_metadata(context, Base.metadata)]
