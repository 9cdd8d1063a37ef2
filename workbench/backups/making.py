"""Back up a home folder while it is in use."""

from __future__ import annotations

import datetime as dt
import logging
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossner_core.errors import BadInput, Conflict, StorageError
from crossner_core.folders import beside_of, recover_folder, sync, sync_folder, what_helps
from db import copying
from db.copying import TableSum
from db.engine import Session, Store, backup_sqlite, open_copy
from db.migrate import revision_in
from db.types import now
from workbench.accounts import audit
from workbench.accounts.actors import Actor, admit
from workbench.backups import proofs
from workbench.backups.files import Earlier, link, sha256_of, take_part
from workbench.backups.manifest import GOLD, PARTS, ROWS, STORE, Entry, Manifest, Predictions, backups_in, read_manifest

log = logging.getLogger(__name__)
BY_DEFAULT = ("checkpoints", "encoders", "experiments")
"""What a backup holds besides the store unless something else is asked for: all that was trained."""


@dataclass(frozen=True, slots=True)
class Made:
    """A finished backup: its folder, and how many of its files are links to those of an earlier one."""

    folder: Path
    manifest: Manifest
    linked: int


def back_up(store: Store, actor: Actor, home: Path, target: Path, parts: Sequence[str] = BY_DEFAULT) -> Made:
    """Add a backup of a home to the folder `target`, all of it or nothing; for admins.

    Files that an earlier backup there has are linked, not copied. The store is copied first: each checkpoint that it
    names is then there already.
    """
    admit(store, actor, "admin")
    if unknown := [part for part in parts if part not in PARTS]:
        raise BadInput(f"{unknown[0]!r} is no folder of a home; choose from {', '.join(PARTS)}, or store for none.")
    if target.resolve().is_relative_to(home.resolve()):
        raise BadInput(f"{target} lies within the home {home}; give a folder outside, on another disk if you can.")
    try:
        target.mkdir(parents=True, exist_ok=True)
        # Every unfinished backup has this name, so that the next one finds what a killed process has left.
        recover_folder(target / "backup", to_write=True)
        beside = beside_of(target / "backup")
        beside.mkdir()
        try:
            manifest = _fill(beside, store, home, parts, _newest(target))
            linked = sum((beside / name).stat().st_nlink > 1 for name in manifest.files)
            made = Made(_put(beside, target, manifest), manifest, linked)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise
    except OSError as error:
        raise StorageError(f"{target} cannot be written: {error.strerror or error}. {what_helps(error)}") from error
    _record(store, actor, made.folder, parts=list(manifest.parts))
    return made


def back_up_file(store: Store, actor: Actor, target: Path) -> int:
    """Copy a SQLite store to a new file, all of it or nothing; return its size in bytes. For admins."""
    admit(store, actor, "admin")
    if target.exists():
        raise Conflict(f"{target} already exists; choose another name, so that no earlier backup is lost.")
    if not target.parent.is_dir():
        raise StorageError(f"There is no folder {target.parent}; make it first.")
    unfinished = target.with_name(target.name + ".part")
    try:
        backup_sqlite(store, str(unfinished))
        sync(unfinished)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    _record(store, actor, target)
    return target.stat().st_size


def _record(store: Store, actor: Actor, place: Path, **details: Any) -> None:
    """Record a backup; one of a store that takes no entry now, as on a full disk, is a backup all the same."""
    try:
        audit.record_alone(store, actor, "back_up", ("backup", place), **details)
    except StorageError as error:
        log.warning("The backup %s was not recorded: %s", place, error)


def _newest(target: Path) -> tuple[Earlier, Manifest] | None:
    """Return the newest earlier backup that can be read."""
    for folder in reversed(backups_in(target)):
        try:
            manifest = read_manifest(folder)
        except BadInput:  # damaged: it is left alone, and nothing of it is used
            continue
        return Earlier(folder, manifest.files), manifest
    return None


def _fill(
    beside: Path, store: Store, home: Path, parts: Sequence[str], newest: tuple[Earlier, Manifest] | None
) -> Manifest:
    """Write everything but the manifest into a folder; return that."""
    earlier = newest[0] if newest else None
    made_at = now()
    taken = _take_store(store, beside)
    files = {name: _link_same(beside, name, earlier) for name in taken.names}
    for part in dict.fromkeys(parts):
        files |= take_part(home, part, beside, earlier)
    predicted: tuple[Predictions, ...] = ()
    if "checkpoints" in parts:
        predicted = tuple(proofs.predictions(taken.taggers, beside, files, newest[1].predictions if newest else ()))
    return Manifest(
        made_at=made_at.isoformat(),
        revision=taken.revision,
        parts=tuple(dict.fromkeys(parts)),
        tables=taken.tables,
        files=files,
        predictions=predicted,
        notes=(*taken.notes, *(f"Run {item.run_id}: {item.problem}" for item in predicted if item.problem)),
    )


@dataclass(frozen=True, slots=True)
class _TakenStore:
    names: tuple[str, ...]
    revision: str
    tables: dict[str, TableSum]
    taggers: list[proofs.KeptTagger]
    notes: tuple[str, ...]


def _take_store(store: Store, beside: Path) -> _TakenStore:
    """Write the store, as it is at one moment, and what its gold is."""
    if is_file_store(store):
        backup_sqlite(store, str(beside / STORE))
        copy = open_copy(beside / STORE)
        try:
            with copy.read() as session:
                return _look_through(session, beside, (STORE,), copying.sums(session))
        finally:
            copy.close()
    with store.one_moment() as session:
        (beside / ROWS).mkdir()
        sums = {}
        for table in copying.TABLES:
            lines = copying.Summing(copying.lines(session, table))
            with (beside / ROWS / f"{table.name}.jsonl").open("wb") as file:
                file.writelines(lines)
            sums[table.name] = lines.sum
        return _look_through(session, beside, tuple(f"{ROWS}/{table.name}.jsonl" for table in copying.TABLES), sums)


def is_file_store(store: Store) -> bool:
    """Return whether a store is a SQLite file."""
    return store.url.get_backend_name() == "sqlite"


def _look_through(session: Session, beside: Path, names: tuple[str, ...], sums: dict[str, TableSum]) -> _TakenStore:
    gold = list(proofs.gold_lines(session))
    (beside / GOLD).write_text("".join(f"{line}\n" for line in gold), encoding="utf-8")
    revision = revision_in(session)
    assert revision is not None
    notes = tuple(proofs.unreadable_gold(gold))
    return _TakenStore((*names, GOLD), revision, sums, proofs.kept_taggers(session), notes)


def _link_same(beside: Path, name: str, earlier: Earlier | None) -> Entry:
    """Return the entry of a file just written, which becomes a link to the earlier backup's if that is the same."""
    entry = Entry((beside / name).stat().st_size, sha256_of(beside / name))
    if earlier is not None and earlier.files.get(name) == entry:
        (beside / name).rename(beside / ".same.new")
        if link(earlier, name, entry, beside / name):
            (beside / ".same.new").unlink()
        else:
            (beside / ".same.new").rename(beside / name)
    return entry


def _put(beside: Path, target: Path, manifest: Manifest) -> Path:
    """Write the manifest once all else is on the disk, and give the backup its name."""
    os.sync()
    manifest.write(beside)
    moment = dt.datetime.fromisoformat(manifest.made_at)
    name = moment.strftime("%Y-%m-%dT%H-%M-%SZ")
    folder, number = target / name, 1
    while folder.exists():
        number += 1
        folder = target / f"{name}-{number}"
    beside.rename(folder)
    sync_folder(target)
    return folder
