"""Move a store to another database: SQLite to PostgreSQL, or back."""

from __future__ import annotations

from crossner_core.errors import Conflict, StorageError
from db import copying
from db.copying import TableSum
from db.engine import Store
from db.migrate import has_tables, head, migrate, revision_in
from workbench.accounts import audit
from workbench.accounts.actors import Actor, admit, fresh
from workbench.backups.checking import sum_problems
from workbench.jobs.queue import worker_status


def move(source: Store, actor: Actor, target: Store) -> dict[str, TableSum]:
    """Copy all tables into an empty store in one transaction, and return their sums, which are the same in both.

    Nobody else can write to the source meanwhile; it stays as it is. For admins. Raises Conflict for a target that
    holds anything, for stores at different migrations, and while a worker is alive.
    """
    admit(source, actor, "admin")
    with source.read() as session:
        if (revision := revision_in(session)) != head():
            raise Conflict(
                f"The store {_name(source)} is at revision {revision}, this version has {head()}; "
                "run workbench migrate on it first."
            )
    if (worker := worker_status(source)).alive:
        raise Conflict(f"The worker {worker.name} is at work on {_name(source)}; stop it and the app, then move.")
    make_ready(target)
    with source.standing_still(copying.TABLES) as before:
        fresh(before, actor, "admin")
        with target.write() as after:
            sums = copying.copy(before, after)
    with target.read() as session:
        if problems := sum_problems(sums, copying.sums(session)):
            raise StorageError(f"The store {_name(target)} is not what was copied: {problems[0]} Use the old one.")
    audit.record_alone(target, actor, "move_store", ("store", _name(target)), source=_name(source))
    return sums


def make_ready(target: Store) -> None:
    """Bring an empty store to the newest migration; raise Conflict as `check_empty` does."""
    check_empty(target)
    migrate(target)


def check_empty(target: Store) -> None:
    """Raise Conflict for a store with rows, at another migration, or with tables of something else."""
    with target.read() as session:
        revision = revision_in(session) if has_tables(session) else None
        if revision is None and has_tables(session):
            raise Conflict(f"{_name(target)} holds tables of something else; give an empty database.")
        if revision not in (None, head()):
            raise Conflict(
                f"The store {_name(target)} is at revision {revision}, this version has {head()}; give an empty one."
            )
        if revision is not None and (filled := copying.filled(session)):
            raise Conflict(
                f"The store {_name(target)} is not empty: it has rows in {', '.join(filled[:3])}"
                f"{' and other tables' if len(filled) > 3 else ''}. Give an empty database; nothing was changed."
            )


def _name(store: Store) -> str:
    return store.url.render_as_string(hide_password=True)
