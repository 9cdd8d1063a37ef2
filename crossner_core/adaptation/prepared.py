"""A tokenised corpus on disk: streamed once, then read by memory map in any order.

One file per array, `<name>.bin`, and `meta.json`. Memory use does not depend on the corpus's size, and a resumed run
does not read the text again. Texts become blocks of equal length, in which documents follow each other, separated by
[SEP], without padding; labelled sentences become windows of subwords with tags, in batches of similar length.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self, TypeVar

import numpy as np
import numpy.typing as npt

from crossner_core.adaptation.texts import CHUNK, PretrainText, is_held_out
from crossner_core.encoders.base import Encoder
from crossner_core.encoders.windows import Window
from crossner_core.errors import BadInput, CheckpointError, StorageError, UnknownType
from crossner_core.folders import beside_of, put_in_place, recover_folder, what_helps, write_json
from crossner_core.models.heads import head_tags
from crossner_core.schema import LabelledSentence
from crossner_core.tags import tags_from_spans
from crossner_core.training.batches import CHUNK as BUCKET
from crossner_core.training.batches import shuffled_batches
from crossner_core.training.checkpoint import META, read_json

FORMAT = 1
TRAIN, HELD_OUT = "train", "held_out"
KNOWN_WORDS = 200_000  # maximum number of words whose subwords are cached
HEAD = 100  # documents that identify a corpus
UNSCORED = -1  # the tag of a subword that is not the first of a scored token
BUFFER = 1024  # buckets that are shuffled into batches at once, which bounds the cost of ordering an epoch

Array = npt.NDArray[Any]
Ids = npt.NDArray[np.int64]
T = TypeVar("T")


class ArrayWriter:
    """Write arrays in pieces to a temporary folder; `finish` moves it into place, leaving early removes it."""

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
        """Append to each array; raise StorageError if that fails."""
        try:
            for name, values in arrays.items():
                data = np.ascontiguousarray(values, self.dtypes[name]).tobytes()
                self._digest.update(data)
                self._files[name].write(data)
                self.lengths[name] += len(values)
        except OSError as error:
            raise self._refused(error) from error

    def finish(self, meta: Mapping[str, Any]) -> None:
        """Replace an older folder; `hash` in its meta covers all arrays."""
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
        """Close what is still open and remove what was not moved into place; `finish` raises if closing fails."""
        for file in self._files.values():
            with contextlib.suppress(OSError):  # buffered bytes that a full disk rejects are discarded here
                file.close()
        shutil.rmtree(self._beside, ignore_errors=True)

    def _refused(self, error: OSError) -> StorageError:
        return StorageError(f"{self.folder} cannot be written: {error}. {what_helps(error)}")


class Arrays:
    """Prepared arrays by name, each a memory map that takes no memory until it is read."""

    def __init__(self, folder: Path) -> None:
        """Open a folder; raise CheckpointError if it is missing, damaged or of another version."""
        self.meta = read_json(folder / META)
        if self.meta.get("format") != FORMAT:
            raise CheckpointError(f"{folder} has format {self.meta.get('format')!r}; supported is {FORMAT}. Delete it.")
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


def corpus_head(documents: Iterable[Sequence[str]]) -> str:
    """SHA-256 of the first documents: enough to notice that a run is resumed with another corpus."""
    first = [list(words) for words in itertools.islice(documents, HEAD)]
    return hashlib.sha256(json.dumps(first).encode()).hexdigest()


class WordIds:
    """The subwords of words, tokenising each word once: many times faster than tokenising running text."""

    def __init__(self, tokenizer: Any, unknown_word: str = "") -> None:
        self.tokenizer = tokenizer
        self.special = frozenset(tokenizer.all_special_ids)
        self.unknown_word = unknown_word
        self._known: dict[str, list[int]] = {}

    def documents(self, documents: Sequence[Sequence[str]]) -> list[list[int]]:
        """Return each document's subwords, without special ones except the unknown.

        A word spelled like a special subword (`[SEP]`) becomes the unknown one.
        """
        if len(self._known) > KNOWN_WORDS:
            self._known.clear()
        new = sorted({word for words in documents for word in words} - self._known.keys())
        if new:
            rows = [[word] for word in new]
            encoded = self.tokenizer(rows, is_split_into_words=True, add_special_tokens=False, verbose=False)
            for word, ids in zip(new, encoded["input_ids"], strict=True):
                hidden = word == self.unknown_word or not self.special.isdisjoint(ids)
                self._known[word] = [self.tokenizer.unk_token_id] if hidden else ids
        known = self._known
        return [[number for word in words for number in known[word]] for words in documents]


def prepare_blocks(
    folder: Path,
    text: PretrainText[Sequence[str]],
    words: WordIds,
    *,
    share: float,
    seed: int,
    meta: dict[str, Any],
) -> Iterator[int]:
    """Write a text's `train` and `held_out` under a folder; see `_prepare`."""

    def add(writer: ArrayWriter, documents: Sequence[Sequence[str]]) -> None:
        _add_documents(writer, words.documents(documents), words.tokenizer.sep_token_id)

    return prepare_documents(folder, text, len(words.tokenizer), add, share=share, seed=seed, meta=meta)


def prepare_documents(
    folder: Path,
    text: PretrainText[Sequence[str]],
    highest: int,
    add: Callable[[ArrayWriter, Sequence[Sequence[str]]], None],
    *,
    share: float,
    seed: int,
    meta: dict[str, Any],
) -> Iterator[int]:
    """Write a text whose `ids`, which `add` appends for some documents, are at most `highest`; see `_prepare`."""
    dtypes, draw = {"ids": number_type(highest)}, partial(is_held_out, share=share, seed=seed)
    lacks = (
        "There is no text to train on: use another corpus, or a larger share of it.",
        "There is no held-out text to measure on: provide some, or raise held_out_share.",
    )
    return _prepare(folder, text, dtypes, add, lambda chunk: draw([" ".join(words) for words in chunk]), lacks, meta)


class Blocks:
    """A prepared text as blocks of `size` subwords: [CLS], a stretch of the text, [SEP]."""

    def __init__(self, arrays: Arrays, tokenizer: Any, size: int) -> None:
        self.ids, self.size = arrays["ids"], size
        self.first, self.last, self.pad = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id
        self.room = size - 2

    def __len__(self) -> int:
        return -(-len(self.ids) // self.room)

    def rows(self, indices: Sequence[int] | npt.NDArray[np.int64]) -> tuple[Ids, npt.NDArray[np.int64]]:
        """Return blocks and their lengths, (B, L) and (B,); only the text's last block can be padded."""
        rows = np.full((len(indices), self.size), self.pad, np.int64)
        lengths = np.zeros(len(indices), np.int64)
        for row, index in enumerate(indices):
            text = self.ids[index * self.room : (index + 1) * self.room]
            rows[row, 0], rows[row, 1 : len(text) + 1], rows[row, len(text) + 1] = self.first, text, self.last
            lengths[row] = len(text) + 2
        width = int(lengths.max())
        return rows[:, :width], lengths


def prepare_windows(
    folder: Path,
    text: PretrainText[LabelledSentence],
    encoder: Encoder,
    max_length: int,
    *,
    share: float,
    seed: int,
    meta: dict[str, Any],
) -> Iterator[int]:
    """Write sentences, `train` and `held_out`, under a folder; see `_prepare`. Also raises UnknownType."""
    index = {tag: number for number, tag in enumerate(head_tags(text.types))}

    def add(writer: ArrayWriter, sentences: Sequence[LabelledSentence]) -> None:
        _add_sentences(writer, sentences, encoder, index, max_length)

    dtypes = {"ids": number_type(len(encoder.tokenizer)), "tags": "<i4", "lengths": "<u4"}
    draw = partial(is_held_out, share=share, seed=seed)
    lacks = (
        "The corpus has no labelled sentence; use another one.",
        "There is no held-out sentence to measure on: provide some, or raise held_out_share.",
    )
    return _prepare(folder, text, dtypes, add, lambda chunk: draw([item.sentence.text for item in chunk]), lacks, meta)


def _prepare(
    folder: Path,
    text: PretrainText[T],
    dtypes: Mapping[str, str],
    add: Callable[[ArrayWriter, Sequence[T]], None],
    drawn: Callable[[Sequence[T]], npt.NDArray[np.bool_]],
    lacks: tuple[str, str],
    meta: dict[str, Any],
) -> Iterator[int]:
    """Write `train` and `held_out` under a folder; yield the number of subwords so far after each chunk of items.

    Without separate held-out items, those that are `drawn` are held out, duplicates together. `meta` is stored with the
    training text, which is moved into place last. Raises BadInput with a message of `lacks` if either has no text,
    StorageError if the disk is full.
    """
    with ArrayWriter(folder / HELD_OUT, dtypes) as aside, ArrayWriter(folder / TRAIN, dtypes) as train:
        for chunk in _chunks(text.items()):
            out = drawn(chunk) if text.held_out is None else np.zeros(len(chunk), bool)
            add(aside, list(itertools.compress(chunk, out)))
            add(train, list(itertools.compress(chunk, ~out)))
            yield train.lengths["ids"]
        for chunk in _chunks(text.held_out() if text.held_out else ()):
            add(aside, chunk)
        for writer, why in zip((train, aside), lacks, strict=True):
            if not writer.lengths["ids"]:
                raise BadInput(why)
        aside.finish({})
        train.finish(meta)


class TaggedWindows:
    """Prepared sentences, one window at a time."""

    def __init__(self, arrays: Arrays) -> None:
        self.ids, self.tags, self.lengths = arrays["ids"], arrays["tags"], arrays["lengths"]
        self._ends = np.cumsum(self.lengths, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.lengths)

    def read(self, indices: Iterable[int]) -> tuple[list[Window], list[list[int]]]:
        """Return windows, each as a sentence of its own numbered from 0, and the indices of their tokens' tags."""
        windows, tags = [], []
        for number, index in enumerate(indices):
            end = int(self._ends[index])
            start = end - int(self.lengths[index])
            known = self.tags[start:end]
            places = np.flatnonzero(known != UNSCORED)
            tags.append(known[places].tolist())
            windows.append(Window(number, 0, len(places), tuple(self.ids[start:end].tolist()), tuple(places.tolist())))
        return windows, tags


class Buckets:
    """Batches of similar length in an order determined by a seed; a pass takes 8 bytes of memory per window."""

    def __init__(self, lengths: npt.NDArray[np.uint32], batch_size: int) -> None:
        self.lengths, self.batch_size = lengths, batch_size
        self._order: tuple[tuple[int, ...], npt.NDArray[np.int64]] | None = None
        self._part: tuple[tuple[int, ...], list[npt.NDArray[np.int64]]] | None = None

    def __len__(self) -> int:
        return -(-len(self.lengths) // self.batch_size)

    def batch(self, key: tuple[int, ...], number: int) -> npt.NDArray[np.int64]:
        """Return the windows of one batch of the pass identified by `key`."""
        per_part = BUCKET * BUFFER
        part = number // per_part
        if self._part is None or self._part[0] != (*key, part):
            if self._order is None or self._order[0] != key:
                self._order = key, np.random.default_rng(key).permutation(len(self.lengths))
            size = per_part * self.batch_size
            mine = self._order[1][part * size : (part + 1) * size]
            rng = np.random.default_rng((*key, part))
            batches = shuffled_batches(self.lengths[mine].tolist(), self.batch_size, rng)
            self._part = (*key, part), [mine[batch] for batch in batches]
        return self._part[1][number % per_part]


def _add_documents(writer: ArrayWriter, documents: Sequence[Sequence[int]], separator: int) -> None:
    filled = [ids for ids in documents if ids]
    if not filled:
        return
    joined = [number for ids in filled for number in (separator, *ids)]
    writer.add(ids=np.asarray(joined[0 if writer.lengths["ids"] else 1 :]))


def _add_sentences(
    writer: ArrayWriter, items: Sequence[LabelledSentence], encoder: Encoder, index: dict[str, int], max_length: int
) -> None:
    windows = encoder.windows([item.sentence for item in items], max_length)
    if not windows:
        return
    known = [_tags(item, index) for item in items]
    tags = np.full(sum(len(window.input_ids) for window in windows), UNSCORED, np.int64)
    at = 0
    for window in windows:
        tags[at + np.asarray(window.positions)] = known[window.sentence][window.start : window.end]
        at += len(window.input_ids)
    ids = np.fromiter(itertools.chain.from_iterable(window.input_ids for window in windows), np.int64, len(tags))
    writer.add(ids=ids, tags=tags, lengths=np.asarray([len(window.input_ids) for window in windows]))


def _tags(item: LabelledSentence, index: dict[str, int]) -> list[int]:
    try:
        return [index[tag] for tag in tags_from_spans(item.spans, len(item.sentence.tokens))]
    except KeyError:
        types = {tag[2:] for tag in index if tag != "O"}
        unknown = sorted({span.type for span in item.spans} - types)
        raise UnknownType(
            f"Sentence {item.sentence.id} has entity type {', '.join(unknown)}; which is not among the {len(types)} "
            "types given for the corpus."
        ) from None


def _chunks(items: Iterable[T]) -> Iterator[list[T]]:
    stream = iter(items)
    while chunk := list(itertools.islice(stream, CHUNK)):
        yield chunk
