"""What a backup holds: the folder of one, its manifest, and the newest of several."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from crossner_core.errors import BadInput, NotFound
from crossner_core.folders import write_text
from crossner_core.records import Record, read_json
from db.copying import TableSum

T = TypeVar("T")
FORMAT = 1
MANIFEST = "manifest.json"
STORE = "workbench.sqlite3"
ROWS = "rows"
"""The folder with a file of lines for each table, where the store was no SQLite file."""
GOLD = "gold.jsonl"
PARTS = ("checkpoints", "encoders", "experiments", "signals", "corpora", "tagged", "gazetteers", "uploads")
"""The folders of a home that can be part of a backup."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a backup; `seen` is what its original looked like: time of change, of any change, and number."""

    size: int
    sha256: str
    seen: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Predictions:
    """What a run's tagger predicts for the first sentences it was measured on, or why that is not known.

    `answers` holds `[start, end, type, score]` for each span of each sentence; `files` names the checkpoint's content.
    """

    run_id: int
    files: str
    answers: list[list[list[Any]]] | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Manifest(Record):
    """A backup's content: tables, files by their path in it, and what its taggers predict."""

    made_at: str
    revision: str
    parts: tuple[str, ...]
    tables: Mapping[str, TableSum]
    files: Mapping[str, Entry]
    predictions: tuple[Predictions, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def has_store_file(self) -> bool:
        """Whether the store is a SQLite file; else it is lines of rows."""
        return STORE in self.files

    def write(self, folder: Path) -> None:
        """Write the manifest, which makes a folder a backup."""
        values = {"format": FORMAT, **self.to_dict()}
        write_text(folder / MANIFEST, json.dumps({"sha256": _hash(values), "backup": values}, indent=1))


def read_manifest(folder: Path) -> Manifest:
    """Read a backup's manifest; raise BadInput where it was changed or is of a newer version."""
    path = folder / MANIFEST
    sealed = _undamaged(path, lambda: read_json(_Sealed, path.read_bytes(), MANIFEST))
    if _hash(sealed.backup) != sealed.sha256:
        raise BadInput(f"{path} was changed after the backup was made; use another backup.")
    if sealed.backup.pop("format", None) != FORMAT:
        raise BadInput(f"{path} is of another version of the workbench; use the version that made it.")
    manifest = _undamaged(path, lambda: Manifest.from_dict(sealed.backup))
    _check_paths(path, manifest.files)
    return manifest


def _undamaged(path: Path, read: Callable[[], T]) -> T:
    try:
        return read()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}.") from error
    except BadInput as error:
        raise BadInput(f"{path} is damaged ({str(error).rstrip('.')}); use another backup.") from error


@dataclass(frozen=True, slots=True)
class _Sealed:
    """A manifest's file: its values, and their hash."""

    sha256: str
    backup: dict[str, Any]


def _check_paths(path: Path, files: Mapping[str, Entry]) -> None:
    """Raise BadInput for a file that would lie outside a home folder."""
    for name in files:
        steps = PurePosixPath(name).parts
        in_part = len(steps) > 1 and steps[0] in (*PARTS, ROWS)
        if "\\" in name or ".." in steps or not (in_part or name in (STORE, GOLD)):
            raise BadInput(f"{path} names the file {name!r}, which is no part of a home folder; use another backup.")


def backups_in(folder: Path) -> list[Path]:
    """Return the finished backups in a folder, oldest first."""
    if not folder.is_dir():
        return []
    return sorted(path.parent for path in folder.glob(f"[!.]*/{MANIFEST}"))


def find_backup(path: Path) -> Path:
    """Return this backup, or the newest one in this folder; raise NotFound where there is none."""
    if (path / MANIFEST).is_file():
        return path
    if finished := backups_in(path):
        return finished[-1]
    what = "It holds no finished backup" if path.is_dir() else "There is no such folder"
    raise NotFound(f"{path} is no backup. {what}; give the folder that workbench backup wrote, or one backup in it.")


def _hash(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
