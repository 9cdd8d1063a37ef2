"""Arrays on disk: written whole or not at all, whatever the disk refuses and whenever it does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crossner_core.adaptation.prepared import Arrays, ArrayWriter
from crossner_core.errors import StorageError
from tests.support.training_builders import small_files


def write(folder: Path, names: str, pieces: int) -> None:
    with ArrayWriter(folder, dict.fromkeys(names, "<i4")) as writer:
        for _ in range(pieces):
            writer.add(**{name: np.arange(300) for name in names})
        writer.finish({})


@pytest.mark.parametrize("names", ["a", "abc"])
@pytest.mark.parametrize("pieces", [200, 3])  # refused while arrays are added, or only what was buffered at the end
def test_arrays_full_disk_is_said_and_leaves_the_former_ones(tmp_path: Path, names: str, pieces: int) -> None:
    write(tmp_path / "train", names, 1)
    with small_files(2_000), pytest.raises(StorageError, match=r"train cannot be written: .*Free some disk"):
        write(tmp_path / "train", names, pieces)
    assert [path.name for path in tmp_path.iterdir()] == ["train"]
    assert Arrays(tmp_path / "train")[names[-1]].tolist() == list(range(300))


def test_arrays_own_error_is_not_hidden_by_the_disks(tmp_path: Path) -> None:
    with (
        small_files(1_000),
        pytest.raises(KeyError, match="other"),
        ArrayWriter(tmp_path / "t", {"a": "<i4"}) as writer,
    ):
        writer.add(a=np.arange(300))  # 1200 bytes, still in a buffer
        writer.add(other=np.arange(3))
    assert list(tmp_path.iterdir()) == []


def test_arrays_that_cannot_all_be_opened_leave_nothing(tmp_path: Path) -> None:
    with (
        pytest.raises(StorageError, match="t cannot be written"),
        ArrayWriter(tmp_path / "t", {"a": "<i4", "no/b": "<i4"}),
    ):
        raise AssertionError("never entered")
    assert list(tmp_path.iterdir()) == []
