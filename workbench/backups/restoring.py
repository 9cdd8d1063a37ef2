"""Restore a backup into an empty home, and prove that the new home is equal."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from crossner_core.errors import Conflict, StorageError
from crossner_core.folders import beside_of, recover_folder, sync_folder, what_helps
from db import copying
from db.engine import Store
from db.migrate import migrate
from db.programs import webhook_rows
from workbench.accounts import audit
from workbench.backups import proofs
from workbench.backups.checking import Source, fill_from_rows, open_source, store_problems
from workbench.backups.files import file_problems
from workbench.backups.manifest import GOLD, ROWS, STORE, Entry
from workbench.backups.moving import check_empty, make_ready
from workbench.settings import Settings

_RESTORED = "The store was restored from a backup; switch the webhook on if this server is to send."


@dataclass(frozen=True, slots=True)
class Restored:
    """A restored home: where, from what, how many taggers predict the same, and what could not be compared."""

    home: Path
    source: Source
    taggers: int
    skipped: tuple[str, ...]


def restore(path: Path, settings: Settings) -> Restored:
    """Restore a backup, the newest in a folder, or a copied store, into an empty home and store.

    All is copied beside and proven equal (hashes, counts, each gold sentence, predictions) before it is put in place.
    Signed-in browsers and workers are left out: a session ended since the backup must not be valid again. Webhooks are
    off: the server that was backed up may still send.

    Needs no account, as an empty home has none. Raises Conflict for a home or store that is not empty, StorageError
    naming what differs.
    """
    source = open_source(path)
    home = settings.home.resolve()
    try:
        with _workplace(home) as beside, _other_store(settings) as target:
            _copy_files(source, beside)
            taggers, skipped = _restore_store(source, beside)
            if target is not None:
                _hand_over(beside / STORE, target)
            os.sync()
            for entry in sorted(beside.iterdir(), key=lambda entry: entry.name == STORE):  # without a store no home
                entry.rename(home / entry.name)
            sync_folder(home)
    except OSError as error:
        raise StorageError(f"{home} cannot be written: {error.strerror or error}. {what_helps(error)}") from error
    return Restored(home, source, taggers, tuple(skipped))


@contextmanager
def _workplace(home: Path) -> Iterator[Path]:
    """Yield a folder within an empty home, which is removed again; raise Conflict for any other home."""
    is_new = not home.exists()
    if home.exists():
        if not home.is_dir():
            raise Conflict(f"{home} is no folder; give a new one.")
        recover_folder(home / "restore", to_write=True)
        if inside := sorted(path.name for path in home.iterdir()):
            raise Conflict(
                f"The home {home} is not empty: it holds {', '.join(inside[:3])}. Restore into a new folder; nothing "
                "was changed."
            )
    beside = beside_of(home / "restore")
    beside.mkdir(parents=True)
    try:
        yield beside
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        if is_new and not any(home.iterdir()):
            home.rmdir()


def _copy_files(source: Source, beside: Path) -> None:
    """Copy all files but rows and gold; raise StorageError unless each copy has the hash of the manifest."""
    files: dict[str, Entry] = {}
    for name, entry in source.manifest.files.items():
        if name == GOLD or name.startswith(f"{ROWS}/"):
            continue
        files[name] = entry
        (beside / name).parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copyfile(source.file(name), beside / name)
        except FileNotFoundError:  # reported with all else that differs
            continue
    own = {name: entry for name, entry in source.manifest.files.items() if name not in files}
    _require_none(source, [*file_problems(beside, files), *file_problems(source.path, own)])


def _restore_store(source: Source, beside: Path) -> tuple[int, list[str]]:
    """Make and prove the store in a folder; return how many taggers predict the same, and what was not compared."""
    if not source.manifest.has_store_file:
        fill_from_rows(source, beside / STORE)
    store = Store(f"sqlite:///{beside / STORE}")
    try:
        _require_none(source, store_problems(store, source))
        migrate(store)
        with store.write() as session:
            _require_none(source, proofs.gold_problems(session, source.gold) if source.gold else [])
            taggers = proofs.kept_taggers(session)
            copying.forget_processes(session)
            webhook_rows.switch_off_all(session, _RESTORED)
            audit.record(session, None, "restore_backup", ("backup", source.path.name))
    finally:
        store.close()
    recorded = source.manifest.predictions
    if not recorded:
        return 0, [] if not taggers else ["Predictions were not compared: the backup holds no checkpoints."]
    now = tuple(proofs.predictions(taggers, beside, source.manifest.files))
    problems, skipped = proofs.prediction_problems(recorded, now)
    _require_none(source, problems)
    return len(recorded) - len(skipped), skipped


@contextmanager
def _other_store(settings: Settings) -> Iterator[Store | None]:
    """Yield the store of these settings if it is no file in their home; raise Conflict unless it is empty."""
    if settings.url == f"sqlite:///{settings.home.resolve() / STORE}":
        yield None
        return
    target = Store(settings.url)
    try:
        check_empty(target)
        yield target
    finally:
        target.close()


def _hand_over(path: Path, target: Store) -> None:
    """Copy the restored store into an empty one, and remove it."""
    make_ready(target)
    restored = Store(f"sqlite:///{path}")
    try:
        with restored.read() as before, target.write() as after:
            copying.copy(before, after)
    finally:
        restored.close()
    path.unlink()


def _require_none(source: Source, problems: list[str]) -> None:
    if problems:
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise StorageError(
            f"{source.path} cannot be restored: {' '.join(problems[:3])}{more} Nothing was "
            "restored; use another backup."
        )
