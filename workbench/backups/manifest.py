"""What a backup holds: the folder of one, its manifest, and the newest of several."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from crossner_core.errors import BadInput, NotFound
from crossner_core.folders import write_text
from db.copying import TableSum

FORMAT = 1
MANIFEST = "manifest.json"
STORE = "workbench.sqlite3"
ROWS = "rows"
"""The folder with a file of lines for each table, where the store was no SQLite file."""
GOLD = "gold.jsonl"
PARTS = ("checkpoints", "encoders", "experiments", "signals", "corpora", "tagged", "gazetteers")
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
class Manifest:
    """A backup's content: tables, files by their path in it, and what its taggers predict."""

    made_at: str
    revision: str
    parts: tuple[str, ...]
    tables: Mapping[str, TableSum]
    files: Mapping[str, Entry]
    predictions: tuple[Predictions, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def has_store_file(self) -> bool:
        """Whether the store is a SQLite file; else it is lines of rows."""
        return STORE in self.files

    def write(self, folder: Path) -> None:
        """Write the manifest, which makes a folder a backup."""
        values = {"format": FORMAT, **asdict(self)}
        write_text(folder / MANIFEST, json.dumps({"sha256": _hash(values), "backup": values}, indent=1))


def read_manifest(folder: Path) -> Manifest:
    """Read a backup's manifest; raise BadInput where it was changed or is of a newer version."""
    path = folder / MANIFEST
    try:
        values = json.loads(path.read_bytes())
        backup = values["backup"]
        if _hash(backup) != values["sha256"]:
            raise BadInput(f"{path} was changed after the backup was made; use another backup.")
        if backup.pop("format") != FORMAT:
            raise BadInput(f"{path} is of another version of the workbench; use the version that made it.")
        files = {name: _entry(**entry) for name, entry in backup.pop("files").items()}
        _check_paths(path, files)
        return Manifest(
            files=files,
            tables={name: TableSum(**entry) for name, entry in backup.pop("tables").items()},
            predictions=tuple(Predictions(**entry) for entry in backup.pop("predictions")),
            parts=tuple(backup.pop("parts")),
            notes=tuple(backup.pop("notes")),
            **backup,
        )
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(f"{path} is damaged ({type(error).__name__}: {error}); use another backup.") from error


def _entry(size: int, sha256: str, seen: list[int] | None) -> Entry:
    return Entry(size, sha256, None if seen is None else (seen[0], seen[1], seen[2]))


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
