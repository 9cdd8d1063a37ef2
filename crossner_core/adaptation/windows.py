"""Labelled sentences → windows of subwords with tags on disk → batches of similar length."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from crossner_core.adaptation.blocks import HELD_OUT, TRAIN, is_held_out
from crossner_core.adaptation.prepared import Arrays, ArrayWriter, number_type
from crossner_core.errors import BadInput, UnknownType
from crossner_core.models.heads import head_tags
from crossner_core.schema import LabelledSentence
from crossner_core.tags import tags_from_spans
from crossner_core.training.batches import CHUNK as BUCKET
from crossner_core.training.batches import Window, encode, shuffled_batches

CHUNK = 512  # sentences read ahead, at most
UNSCORED = -1  # the tag of a subword that is not the first of a scored token
BUFFER = 1024  # batches are made of so many buckets' windows at once, which bounds what an epoch's order costs


def prepare_windows(
    folder: Path,
    sentences: Iterable[LabelledSentence],
    held_out: Iterable[LabelledSentence] | None,
    tokenizer: Any,
    types: Sequence[str],
    max_length: int,
    *,
    share: float,
    seed: int,
    meta: dict[str, Any],
) -> Iterator[int]:
    """Write `train` and `held_out` below a folder; yield the subwords so far after each chunk of sentences.

    Without held-out sentences of their own, a share is held out, copies of a sentence together. `meta` is kept with the
    training sentences, which are put in place last. Raises BadInput where either is empty, UnknownType, StorageError.
    """
    index = {tag: at for at, tag in enumerate(head_tags(types))}
    dtypes = {"ids": number_type(len(tokenizer)), "tags": "<i4", "lengths": "<u4"}
    with ArrayWriter(folder / HELD_OUT, dtypes) as aside, ArrayWriter(folder / TRAIN, dtypes) as train:
        for chunk in _chunks(sentences):
            out = np.zeros(len(chunk), bool)
            if held_out is None:
                out = is_held_out([item.sentence.text for item in chunk], share, seed)
            away = [item for item, one in zip(chunk, out, strict=True) if one]
            here = [item for item, one in zip(chunk, out, strict=True) if not one]
            _add(aside, away, tokenizer, index, max_length)
            _add(train, here, tokenizer, index, max_length)
            yield train.lengths["ids"]
        for chunk in _chunks(held_out or ()):
            _add(aside, chunk, tokenizer, index, max_length)
        if not train.lengths["lengths"]:
            raise BadInput("The corpus holds no labelled sentence; give one with some.")
        if not aside.lengths["lengths"]:
            raise BadInput("There is no held-out sentence to measure on: give some, or raise held_out_share.")
        aside.finish({})
        train.finish(meta)


class TaggedWindows:
    """Prepared sentences, a window at a time."""

    def __init__(self, arrays: Arrays) -> None:
        self.ids, self.tags, self.lengths = arrays["ids"], arrays["tags"], arrays["lengths"]
        self._ends = np.cumsum(self.lengths, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.lengths)

    def read(self, indices: Iterable[int]) -> tuple[list[Window], list[list[int]]]:
        """Return windows, each as a sentence of its own numbered from 0, and the indices of their tokens' tags."""
        windows, tags = [], []
        for number, at in enumerate(indices):
            end = int(self._ends[at])
            start = end - int(self.lengths[at])
            known = self.tags[start:end]
            places = np.flatnonzero(known != UNSCORED)
            tags.append(known[places].tolist())
            windows.append(Window(number, 0, len(places), tuple(self.ids[start:end].tolist()), tuple(places.tolist())))
        return windows, tags


class Buckets:
    """Batches of similar length in an order that follows from a seed; a pass costs 8 bytes a window of memory."""

    def __init__(self, lengths: npt.NDArray[np.uint32], batch_size: int) -> None:
        self.lengths, self.batch_size = lengths, batch_size
        self._order: tuple[tuple[int, ...], npt.NDArray[np.int64]] | None = None
        self._part: tuple[tuple[int, ...], list[npt.NDArray[np.int64]]] | None = None

    def __len__(self) -> int:
        return -(-len(self.lengths) // self.batch_size)

    def batch(self, key: tuple[int, ...], number: int) -> npt.NDArray[np.int64]:
        """Return the windows of one batch of the pass that `key` names."""
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


def _add(
    writer: ArrayWriter, items: Sequence[LabelledSentence], tokenizer: Any, index: dict[str, int], max_length: int
) -> None:
    windows = encode([item.sentence for item in items], tokenizer, max_length)
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
            f"Sentence {item.sentence.id} has entity type {', '.join(unknown)}; the corpus is said to have "
            f"{len(types)} types, not this one."
        ) from None


def _chunks(items: Iterable[LabelledSentence]) -> Iterator[list[LabelledSentence]]:
    stream = iter(items)
    while chunk := list(itertools.islice(stream, CHUNK)):
        yield chunk
