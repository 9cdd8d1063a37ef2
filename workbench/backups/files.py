"""Copy the files of a home folder while they are in use, linking those that an earlier backup has."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from crossner_core.errors import Conflict
from workbench.backups.manifest import Entry

_PASSES = 10
_BLOCK = 1 << 20
Seen = tuple[int, int, int]


@dataclass(slots=True)
class Earlier:
    """An earlier backup in the same folder, whose files are linked where the originals have not changed."""

    folder: Path
    files: Mapping[str, Entry] = field(default_factory=dict)


def take_part(home: Path, part: str, into: Path, earlier: Earlier | None) -> dict[str, Entry]:
    """Copy one folder of a home, again and again until a whole pass sees no change; return its files by path.

    Raises Conflict where it never stands still.
    """
    taken: dict[str, Entry] = {}
    for _ in range(_PASSES):
        present = {path.relative_to(home).as_posix(): seen for path, seen in _files(home / part)}
        for name in taken.keys() - present.keys():
            (into / name).unlink()
            del taken[name]
        changed = [name for name, seen in present.items() if name not in taken or taken[name].seen != seen]
        if not changed:
            return taken
        for name in changed:
            (into / name).unlink(missing_ok=True)
            try:
                taken[name] = take(home / name, into / name, name, earlier)
            except FileNotFoundError:  # removed meanwhile; the next pass no longer sees it
                taken.pop(name, None)
    raise Conflict(f"{home / part} kept changing while it was copied: {changed[0]}. Stop the worker, then try again.")


def take(source: Path, target: Path, name: str, earlier: Earlier | None) -> Entry:
    """Copy a file, or link the earlier backup's where that has the same content."""
    target.parent.mkdir(parents=True, exist_ok=True)
    before = earlier.files.get(name) if earlier else None
    stat = source.stat()
    if before and before.size == stat.st_size and before.seen == _seen(stat) and link(earlier, name, before, target):
        return before
    digest, size = hashlib.sha256(), 0
    with source.open("rb") as original, target.open("wb") as file:
        seen = _seen(os.fstat(original.fileno()))
        while block := original.read(_BLOCK):
            digest.update(block)
            size += file.write(block)
    entry = Entry(size, digest.hexdigest(), seen)
    if before and (before.size, before.sha256) == (entry.size, entry.sha256):
        target.unlink()
        if not link(earlier, name, before, target):
            shutil.copyfile(source, target)
    return entry


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_problems(folder: Path, files: Mapping[str, Entry]) -> list[str]:
    """Return what differs from these entries, and what lies in the folder besides them, in words."""
    problems = []
    for name, entry in files.items():
        try:
            size = (folder / name).stat().st_size
            if size != entry.size:
                problems.append(f"{name} has {size:,} bytes instead of {entry.size:,}.")
            elif sha256_of(folder / name) != entry.sha256:
                problems.append(f"{name} has another content: its hash is not the one of the manifest.")
        except OSError as error:
            problems.append(f"{name} cannot be read: {error.strerror or error}.")
    return problems


def strangers(folder: Path, files: Mapping[str, Entry], *, besides: str) -> list[str]:
    """Return, in words, the files in a folder that none of the entries names."""
    names = {path.relative_to(folder).as_posix() for path, _ in _files(folder)}
    return [f"{name} is not in the manifest." for name in sorted(names - files.keys() - {besides})]


def _files(folder: Path) -> Iterator[tuple[Path, Seen]]:
    """Yield the files of a folder with what they look like, without those that are still being written."""
    entered: set[str] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(place)
        if real in entered:  # a link to a folder above
            folders.clear()
            continue
        entered.add(real)
        folders[:] = sorted(name for name in folders if not _is_unfinished(name))
        for name in sorted(names):
            path = Path(place, name)
            if _is_unfinished(name) or not path.is_file():
                continue
            try:
                yield path, _seen(path.stat())
            except FileNotFoundError:  # removed meanwhile
                continue


def _is_unfinished(name: str) -> bool:
    return name.startswith(".") and name.endswith(".new")


def _seen(stat: os.stat_result) -> Seen:
    return stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino


def link(earlier: Earlier | None, name: str, entry: Entry, target: Path) -> bool:
    """Link the earlier backup's file; False where it is gone, or the file system has no such links."""
    assert earlier is not None
    original = earlier.folder / name
    try:
        if original.stat().st_size != entry.size:
            return False
        target.hardlink_to(original)
    except OSError:
        return False
    return True
