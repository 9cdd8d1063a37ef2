"""Uploads wait in the web process's memory: how many files and bytes one person, and all together, may hold there."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from starlette.requests import HTTPConnection

from workbench.accounts.actors import Actor
from workbench.accounts.roles import KEEPERS

MOST_FILES = 2_000
MOST_BYTES = 400_000_000
"""Of one person; the largest import is three files of 100 MB."""
MOST_BYTES_OF_ALL = 1_500_000_000

_ADDRESS = re.compile(r"/_stcore/upload_file/([^/]+)/([^/]+)")

Held = Callable[[str, Sequence[str]], Sequence[str]]
"""Takes a browser session of the frontend and ids of files; returns those that it still holds."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an upload is refused before its body is read."""

    status: int
    reason: str


@dataclass(slots=True)
class _Upload:
    size: int
    under_way: bool = True


@dataclass(slots=True)
class Uploads:
    """What each person has uploaded and `held` still finds; without `held`, what is under way."""

    held: Held = lambda _session, _files: ()
    _of: dict[int, dict[tuple[str, str], _Upload]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def admitted(self, actor: Actor, connection: HTTPConnection) -> Iterator[Refusal | None]:
        """Count the upload of a request, if it is one, while the block runs and as long as it is held after."""
        address = _ADDRESS.fullmatch(connection.url.path) if connection.scope["method"] in ("PUT", "POST") else None
        if address is None:
            yield None
            return
        key, length = (address[1], address[2]), connection.headers.get("content-length", "")
        refusal = self._enter(actor, key, length)
        try:
            yield refusal
        finally:
            if refusal is None:
                self._of[actor.id][key].under_way = False

    def _enter(self, actor: Actor, key: tuple[str, str], length: str) -> Refusal | None:
        if actor.role not in KEEPERS:
            return Refusal(403, f"Uploads are for {' or '.join(KEEPERS)}.")
        if not length.isdecimal():
            return Refusal(411, "An upload must state its length.")
        with self._lock:
            self._forget()
            mine = self._of.setdefault(actor.id, {})
            others = [upload.size for other, upload in mine.items() if other != key]  # the same file again replaces it
            strangers = [
                upload.size for id_, theirs in self._of.items() if id_ != actor.id for upload in theirs.values()
            ]
            if len(others) >= MOST_FILES:
                return Refusal(413, f"{len(others)} uploaded files wait already; import or remove some first.")
            if sum(others) + int(length) > MOST_BYTES:
                return Refusal(413, f"{sum(others) // 1_000_000} MB wait already of {MOST_BYTES // 1_000_000} MB.")
            if sum(strangers) + sum(others) + int(length) > MOST_BYTES_OF_ALL:
                return Refusal(503, "Too many uploads of others wait; try again later.")
            mine[key] = _Upload(int(length))
        return None

    def _forget(self) -> None:
        """Drop what the frontend no longer holds."""
        for person, uploads in list(self._of.items()):
            sessions = {session for session, _ in uploads}
            kept = {(name, file) for name in sessions for file in self.held(name, [f for s, f in uploads if s == name])}
            left = {key: upload for key, upload in uploads.items() if upload.under_way or key in kept}
            self._of[person] = left


def _sizes(uploads: dict[tuple[str, str], _Upload]) -> list[int]:
    return [upload.size for upload in uploads.values()]
