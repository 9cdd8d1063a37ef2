"""Atomic folders and files: written under a temporary name, then renamed."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from crossner_core.errors import NotFound, StorageError
from crossner_core.processes import has_ended

# A half-written folder of a process on another machine is kept for this long after its last change.
SECONDS_LEFT_ALONE = 3600


def replace_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Let `fill(path)` write into a new folder, which then replaces `folder`; if it raises, `folder` is unchanged."""
    _sweep_beside(folder)
    beside = beside_of(folder)
    try:
        beside.mkdir(parents=True)
        fill(beside)
        put_in_place(beside, folder)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def put_in_place(beside: Path, folder: Path) -> None:
    """Replace `folder` by `beside`, deleting the old one last; after a crash, `recover_folder` finds one of the two."""
    old = folder.with_name(f".{folder.name}.old")
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    beside.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def recover_folder(folder: Path, *, to_write: bool = False) -> None:
    """Restore the old folder after a crash between the two renames.

    Half-written ones are kept, as another process may be writing them; with `to_write`, abandoned ones are removed.
    """
    old = folder.with_name(f".{folder.name}.old")
    if not folder.exists() and old.exists():
        old.rename(folder)
    if to_write:
        _sweep_beside(folder)


def beside_of(folder: Path) -> Path:
    """Return the name of a new temporary folder, which identifies its process."""
    return folder.with_name(f".{folder.name}.{uuid.uuid4().hex}-{os.getpid()}-{socket.gethostname()}.new")


def _sweep_beside(folder: Path) -> None:
    """Remove half-written folders of this machine's ended processes, and any unchanged for an hour."""
    known = re.compile(rf"\.{re.escape(folder.name)}\.[0-9a-f]+(?:-(\d+)-(.*))?\.new")
    try:
        leftovers = [path for path in folder.parent.iterdir() if path.name.endswith(".new")]
    except OSError:  # nothing has been written there yet
        return
    for path in leftovers:
        if (name := known.fullmatch(path.name)) is None:
            continue
        if (name[1] and has_ended(name[2], int(name[1]))) or _unchanged(path):
            shutil.rmtree(path, ignore_errors=True)


def _unchanged(folder: Path) -> bool:
    """Return whether nothing in a folder has changed for an hour."""
    try:
        latest = max(path.stat().st_mtime for path in (folder, *folder.rglob("*")))
    except OSError:  # a listed path is gone: the folder is being moved or removed
        return False
    return time.time() - latest > SECONDS_LEFT_ALONE


def for_owner_only() -> None:
    """Make what this process and its children write readable by nobody but its owner."""
    os.umask(0o077)


def check_writable(folder: Path) -> None:
    """Create a folder if needed; raise StorageError if it is not writable, before any work can be lost."""
    probe = folder / f".{uuid.uuid4().hex}.new"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise StorageError(f"{folder} cannot be written to: {error.strerror or error}. {what_helps(error)}") from error


def what_helps(error: Exception) -> str:
    """Return advice on a failed write."""
    if isinstance(error, OSError) and error.errno not in (None, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
        return "Give a folder that can be written to."
    return "Free some disk and resume."


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write a JSON file atomically."""
    write_text(path, json.dumps(values, indent=1, sort_keys=True))


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically; raise StorageError if that fails."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically; raise StorageError if that fails."""
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(data)
        sync(beside)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise StorageError(f"{path} cannot be written: {error}. {what_helps(error)}") from error


def sync(path: Path) -> None:
    """Flush a file's content to disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to disk, so that what was renamed there stays renamed."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_name(value: str) -> bool:
    """Return whether a word can name a corpus or gazetteer: a subfolder, never a path outside."""
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}", value) is not None


def named_folders(folder: Path) -> list[Path]:
    """Return the subfolders with valid names, sorted."""
    inside = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    return [path for path in inside if is_name(path.name)]


def find_folder(folder: Path, kind: str, name: str) -> Path:
    """Return the folder of a `corpus` or `gazetteer` (`kind`) by its name; raise NotFound listing existing ones."""
    if not is_name(name) or not (folder / name).is_dir():
        known = ", ".join(path.name for path in named_folders(folder)) or "none yet"
        raise NotFound(f"There is no {kind} {name!r}; there are: {known}. Make one with workbench {kind} build.")
    return folder / name


def abandoned(root: Path) -> list[Path]:
    """Return what interrupted writes left anywhere below a folder, outermost only, sorted.

    That is what `replace_folder` and `write_bytes` write beside, by processes that have ended or unchanged for an
    hour, and older folders (`.NAME.old`) that a crash kept from being deleted or put back.
    """
    paths: list[Path] = []
    for folder, names, files in os.walk(root):
        left = [name for name in (*names, *files) if _is_abandoned(Path(folder, name))]
        paths += [Path(folder, name) for name in left]
        names[:] = [name for name in names if name not in left]
    return sorted(paths)


def settle_abandoned(path: Path) -> None:
    """Delete what `abandoned` returned; put an older folder back whose successor never came."""
    old = re.fullmatch(r"\.(.+)\.old", path.name)
    if old is not None and not path.with_name(old[1]).exists():
        path.rename(path.with_name(old[1]))
    elif path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _is_abandoned(path: Path) -> bool:
    name = re.fullmatch(r"\..*?\.?(?:[0-9a-f]{32})(?:-(\d+)-(.*))?\.new|\..+\.old", path.name)
    if name is None:
        return False
    return bool(name[1] and has_ended(name[2], int(name[1]))) or _unchanged(path)
