"""A corpus as numbers on disk: written once in a stream, then read by memory map in any order.

One file an array, `<name>.bin`, and `meta.json`. Whatever the corpus's size, memory holds what is being read, and a
resumed run reads no text again.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from crossner_core.errors import CheckpointError, StorageError
from crossner_core.folders import beside_of, put_in_place, recover_folder, what_helps, write_json
from crossner_core.training.checkpoint import META, read_json

FORMAT = 1
Array = npt.NDArray[Any]


class ArrayWriter:
    """Write arrays piece by piece beside their folder; `finish` puts it in place, leaving early removes it."""

    def __init__(self, folder: Path, dtypes: Mapping[str, str]) -> None:
        self.folder, self.dtypes = folder, {name: np.dtype(kind) for name, kind in dtypes.items()}
        self.lengths = dict.fromkeys(dtypes, 0)
        self._beside = beside_of(folder)
        self._digest = hashlib.sha256()
        self._files: dict[str, BinaryIO] = {}

    def __enter__(self) -> Self:
        recover_folder(self.folder, to_write=True)
        try:
            self._beside.mkdir(parents=True)
            for name in self.dtypes:
                self._files[name] = (self._beside / f"{name}.bin").open("wb")
        except OSError as error:
            self._clear()
            raise self._refused(error) from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._clear()

    def add(self, **arrays: Array) -> None:
        """Append to each array; raise StorageError where the disk refuses."""
        try:
            for name, values in arrays.items():
                data = np.ascontiguousarray(values, self.dtypes[name]).tobytes()
                self._digest.update(data)
                self._files[name].write(data)
                self.lengths[name] += len(values)
        except OSError as error:
            raise self._refused(error) from error

    def finish(self, meta: Mapping[str, Any]) -> None:
        """Put the folder in place of an older one; `hash` in its meta is of all arrays."""
        kinds = {name: kind.str for name, kind in self.dtypes.items()}
        made = {"format": FORMAT, "dtypes": kinds, "lengths": self.lengths, "hash": self._digest.hexdigest()}
        try:
            for file in self._files.values():
                file.close()
            write_json(self._beside / META, {**meta, **made})
            put_in_place(self._beside, self.folder)
        except OSError as error:
            raise self._refused(error) from error

    def _clear(self) -> None:
        """Close what is still open and remove what was not put in place; `finish` says what closing could not write."""
        for file in self._files.values():
            with contextlib.suppress(OSError):  # buffered bytes that a full disk refuses: they are thrown away here
                file.close()
        shutil.rmtree(self._beside, ignore_errors=True)

    def _refused(self, error: OSError) -> StorageError:
        return StorageError(f"{self.folder} cannot be written: {error}. {what_helps(error)}")


class Arrays:
    """Prepared arrays by name, each a memory map that costs no memory until it is read."""

    def __init__(self, folder: Path) -> None:
        """Open a folder; raise CheckpointError if it is missing, damaged or of another version."""
        self.meta = read_json(folder / META)
        if self.meta.get("format") != FORMAT:
            raise CheckpointError(f"{folder} has format {self.meta.get('format')!r}; known is {FORMAT}. Delete it.")
        self._arrays = {name: self._map(folder / f"{name}.bin", name) for name in self.meta["dtypes"]}

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    @property
    def hash(self) -> str:
        """SHA-256 of all numbers, in the order they were written."""
        return str(self.meta["hash"])

    def _map(self, path: Path, name: str) -> Array:
        kind, length = np.dtype(self.meta["dtypes"][name]), int(self.meta["lengths"][name])
        if not length:
            return np.zeros(0, kind)  # an empty file cannot be mapped
        try:
            return np.memmap(path, kind, "r", shape=(length,))
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path} is damaged: {error}. Delete {path.parent} and start again.") from error


def number_type(highest: int) -> str:
    """Name the smallest unsigned type that holds numbers up to `highest`."""
    return "<u2" if highest < 2**16 else "<u4"
