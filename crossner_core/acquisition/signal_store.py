"""Signals on disk, one folder per model, so that each model scores a sentence only once."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossner_core.acquisition.signals import TAGS, Part
from crossner_core.errors import CheckpointError, StorageError
from crossner_core.schema import Sentence

_HASHES, _FLAT, _LENGTHS = "hashes", "tags_flat", "tags_lengths"


class SignalStore:
    """The signals of one model (or of one encoder) in a folder; parts are written whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    def missing(self, sentences: Iterable[Sentence], wanted: Collection[str]) -> list[Sentence]:
        """Return the sentences that lack any of the wanted signals, without duplicates."""
        stored = set().union(*(self._hashes(path) for path in self._parts() if self._has(path, wanted)), set())
        missing: dict[str, Sentence] = {}
        for sentence in sentences:
            if (key := sentence.content_hash) not in stored:
                missing.setdefault(key, sentence)
        return list(missing.values())

    def add(self, part: Part) -> None:
        """Store a part; raise StorageError if it cannot be written."""
        arrays: dict[str, NDArray[Any]] = {name: values for name, values in part.signals.items() if name != TAGS}
        arrays[_HASHES] = np.array([bytes.fromhex(key) for key in part.hashes], dtype="V32")
        if TAGS in part.signals:
            rows = list(part.signals[TAGS])
            arrays[_LENGTHS] = np.array([len(row) for row in rows], dtype=np.int64)
            arrays[_FLAT] = np.concatenate([np.zeros(0, dtype=np.uint16), *rows])
        number = 1 + max((int(path.stem.partition("-")[2]) for path in self._parts()), default=0)
        path = self.folder / f"part-{number:06d}.npz"
        beside = path.with_suffix(".writing")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with beside.open("wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
            beside.replace(path)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise StorageError(f"Scores of the pool cannot be written to {path}: {error}. Free some space.") from error

    def load(self, sentences: Sequence[Sentence], wanted: Collection[str]) -> dict[str, NDArray[Any]]:
        """Return the wanted signals with a row for each sentence; raise CheckpointError if any is missing."""
        arrays, seen = self.known(sentences, wanted)
        if not seen.all():
            raise CheckpointError(
                f"{int((~seen).sum())} of {len(sentences)} sentences have no scores in {self.folder}; score the pool."
            )
        return arrays

    def tags(self, sentences: Sequence[Sentence]) -> NDArray[np.object_]:
        """Return TAGS with a row for each sentence, None for one that is missing."""
        arrays, seen = self.known(sentences, [TAGS])
        rows = arrays.get(TAGS, np.empty(len(sentences), dtype=object))
        rows[~seen] = None
        return rows

    def forget(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def known(
        self, sentences: Sequence[Sentence], wanted: Collection[str]
    ) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]:
        """Return the wanted signals with a row for each sentence, and which (N,) are there; the others are zero."""
        rows = {bytes.fromhex(sentence.content_hash): [] for sentence in sentences}  # type: dict[bytes, list[int]]
        for row, sentence in enumerate(sentences):
            rows[bytes.fromhex(sentence.content_hash)].append(row)
        gathered: dict[str, NDArray[Any]] = {}
        seen = np.zeros(len(sentences), dtype=bool)
        for hashes, arrays in self._read(wanted):
            pairs = [(index, row) for index, key in enumerate(hashes) for row in rows.get(key, ())]
            if not pairs:
                continue
            here, targets = (np.array(side) for side in zip(*pairs, strict=True))
            for name, values in arrays.items():
                if name not in gathered:
                    gathered[name] = np.zeros((len(sentences), *values.shape[1:]), dtype=values.dtype)
                gathered[name][targets] = values[here]
            seen[targets] = True
        return gathered, seen

    def _parts(self) -> list[Path]:
        return sorted(self.folder.glob("part-*.npz"))

    def _has(self, path: Path, wanted: Collection[str]) -> bool:
        with np.load(path, allow_pickle=False) as arrays:
            return all((_FLAT if name == TAGS else name) in arrays for name in wanted)

    def _hashes(self, path: Path) -> set[str]:
        with np.load(path, allow_pickle=False) as arrays:
            return {bytes(key).hex() for key in arrays[_HASHES]}

    def _read(self, wanted: Collection[str]) -> Iterator[tuple[list[bytes], Mapping[str, NDArray[Any]]]]:
        for path in self._parts():
            if not self._has(path, wanted):
                continue
            with np.load(path, allow_pickle=False) as arrays:
                values = {name: arrays[name] for name in wanted if name != TAGS}
                if TAGS in wanted:
                    values[TAGS] = _split(arrays[_FLAT], arrays[_LENGTHS])
                yield [bytes(key) for key in arrays[_HASHES]], values


def _split(flat: NDArray[Any], lengths: NDArray[Any]) -> NDArray[np.object_]:
    """Cut an array into rows of these lengths."""
    rows = np.empty(len(lengths), dtype=object)
    for index, row in enumerate(np.split(flat, np.cumsum(lengths)[:-1])):
        rows[index] = row
    return rows
