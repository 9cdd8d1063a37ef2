"""Results by key: one file each while studies run, one packed file for permanent storage.

`OUT/NAME/KEY.json` is written atomically, so that any number of processes may add to a folder and be killed.
`OUT/NAME.jsonl` holds them as lines sorted by key: equal results give equal bytes, whichever study requested them, and
each is there once. Both are read; if the packed file exists, a study that ends moves its files into it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from crossner_core.errors import BadInput, StorageError
from crossner_core.folders import write_json, write_text

CELLS, SIMULATIONS = "cells", "simulations"
Result = TypeVar("Result")


class Records(Generic[Result]):
    """The results called `name` in a folder; `write` turns one into plain values, `read` does the reverse."""

    def __init__(
        self,
        out: Path,
        name: str,
        read: Callable[[Mapping[str, Any]], Result],
        write: Callable[[Result], Mapping[str, Any]],
    ) -> None:
        self.folder = Path(out) / name
        self.packed = Path(out) / f"{name}.jsonl"
        self._read, self._write = read, write
        self._lines: dict[str, dict[str, Any]] = {}
        self._stamp: tuple[int, int] | None = None

    def keys(self) -> tuple[str, ...]:
        """Return the keys of all results, sorted."""
        return tuple(sorted({path.stem for path in self.folder.glob("*.json")} | set(self._packed())))

    def get(self, key: str) -> Result | None:
        """Return a result if it exists; another process may have just written or packed it.

        Raises StorageError for a file that cannot be read, BadInput for a damaged one.
        """
        path = self.folder / f"{key}.json"
        try:
            return self._read(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            values = self._packed().get(key)
            return None if values is None else self._made(values, f"{self.packed}, {key}")
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error}.") from error
        except (ValueError, TypeError, KeyError) as error:
            raise _damaged(path, error) from error

    def put(self, key: str, result: Result) -> None:
        """Store a result; raise StorageError if it cannot be written."""
        write_json(self.folder / f"{key}.json", self._write(result))

    def pack(self) -> int:
        """Move the files into the packed file; return the number of results in it."""
        paths = sorted(self.folder.glob("*.json"))
        lines = dict(self._packed())
        for path in paths:
            try:
                lines[path.stem] = {**json.loads(path.read_text(encoding="utf-8")), "key": path.stem}
            except ValueError as error:
                raise _damaged(path, error) from error
        if paths:
            write_text(self.packed, "".join(f"{_line(lines[key])}\n" for key in sorted(lines)))
            for path in paths:
                path.unlink(missing_ok=True)
        return len(lines)

    def _packed(self) -> dict[str, dict[str, Any]]:
        """Return the packed results by key; the file is reread when it has changed."""
        try:
            status = self.packed.stat()
            if self._stamp != (stamp := (status.st_size, status.st_mtime_ns)):
                rows = [json.loads(line) for line in self.packed.read_text(encoding="utf-8").splitlines()]
                self._lines, self._stamp = {row["key"]: row for row in rows}, stamp
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise StorageError(f"{self.packed} cannot be read: {error}.") from error
        except (ValueError, TypeError, KeyError) as error:
            raise _damaged(self.packed, error) from error
        return self._lines

    def _made(self, values: Mapping[str, Any], where: str) -> Result:
        try:
            return self._read(values)
        except (ValueError, TypeError, KeyError) as error:
            raise _damaged(where, error) from error


def pack(out: Path, *, begin: bool = True) -> dict[str, int]:
    """Pack all results of a folder; return their counts by name. Without `begin`, only where a packed file exists."""
    counts = {}
    for name in (CELLS, SIMULATIONS):
        records: Records[dict[str, Any]] = Records(out, name, dict, dict)
        if records.packed.exists() or (begin and records.keys()):
            counts[name] = records.pack()
    return counts


def _line(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def _damaged(where: object, error: Exception) -> BadInput:
    return BadInput(f"{where} is damaged: {error!r}. Delete it; it will be recreated.")
