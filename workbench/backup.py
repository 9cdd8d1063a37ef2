"""Copy the store while it is in use."""

from __future__ import annotations

from pathlib import Path

from crossner_core.errors import Conflict, StorageError
from db.engine import Store, backup_sqlite
from workbench.accounts.actors import Actor, fresh, require


def backup(store: Store, actor: Actor, target: Path) -> int:
    """Copy a SQLite store to a new file, all of it or nothing; return its size in bytes. For admins."""
    require(actor, "admin")
    with store.read() as session:
        fresh(session, actor, "admin")
    if target.exists():
        raise Conflict(f"{target} already exists; choose another name, so that no earlier backup is lost.")
    if not target.parent.is_dir():
        raise StorageError(f"There is no folder {target.parent}; make it first.")
    unfinished = target.with_name(target.name + ".part")
    try:
        backup_sqlite(store, str(unfinished))
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return target.stat().st_size
