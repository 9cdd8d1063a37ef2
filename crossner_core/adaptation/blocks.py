"""Words → subwords on disk → blocks of one length: documents follow each other, parted by [SEP], without padding."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from crossner_core.adaptation.prepared import Arrays, ArrayWriter, number_type
from crossner_core.errors import BadInput
from crossner_core.subsets import keys_of, uniform

TRAIN, HELD_OUT = "train", "held_out"
CHUNK = 512  # documents read ahead, at most
KNOWN_WORDS = 200_000  # words whose subwords are remembered, at most
HEAD = 100  # documents by which a corpus is known again

Ids = npt.NDArray[np.int64]


class WordIds:
    """The subwords of words, each word's asked for once: many times faster than tokenising running text."""

    def __init__(self, tokenizer: Any, unknown_word: str = "") -> None:
        self.tokenizer = tokenizer
        self.special = frozenset(tokenizer.all_special_ids)
        self.unknown_word = unknown_word
        self._known: dict[str, list[int]] = {}

    def documents(self, documents: Sequence[Sequence[str]]) -> list[list[int]]:
        """Return each document's subwords, without special ones but the unknown.

        A word that is written like a special subword (`[SEP]`) becomes the unknown one.
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


def corpus_head(documents: Iterable[Sequence[str]]) -> str:
    """SHA-256 of the first documents: enough to notice that a run goes on with another corpus."""
    first = [list(words) for words in itertools.islice(documents, HEAD)]
    return hashlib.sha256(json.dumps(first).encode()).hexdigest()


def is_held_out(documents: Sequence[str], share: float, seed: int) -> npt.NDArray[np.bool_]:
    """Tell which documents are held out; equal ones go the same way, wherever they stand."""
    return uniform(keys_of(documents, seed=seed, use="held-out")) < share


def prepare_blocks(
    folder: Path,
    texts: Iterable[Sequence[str]],
    held_out: Iterable[Sequence[str]] | None,
    words: WordIds,
    *,
    share: float,
    seed: int,
    meta: dict[str, Any],
) -> Iterator[int]:
    """Write `train` and `held_out` below a folder; yield the subwords so far after each chunk of documents.

    Without held-out text of its own, a share of the documents is held out. `meta` is kept with the training text, which
    is put in place last. Raises BadInput where either is without text, StorageError where the disk is full.
    """
    dtypes = {"ids": number_type(len(words.tokenizer))}
    with ArrayWriter(folder / HELD_OUT, dtypes) as aside, ArrayWriter(folder / TRAIN, dtypes) as train:
        for chunk in _chunks(texts):
            ids = words.documents(chunk)
            out = np.zeros(len(chunk), bool)
            if held_out is None:
                out = is_held_out([" ".join(document) for document in chunk], share, seed)
            _add(aside, [one for one, away in zip(ids, out, strict=True) if away], words.tokenizer.sep_token_id)
            _add(train, [one for one, away in zip(ids, out, strict=True) if not away], words.tokenizer.sep_token_id)
            yield train.lengths["ids"]
        for chunk in _chunks(held_out or ()):
            _add(aside, words.documents(chunk), words.tokenizer.sep_token_id)
        if not train.lengths["ids"]:
            raise BadInput("There is no text to train on: give a corpus with some, or a larger share of it.")
        if not aside.lengths["ids"]:
            raise BadInput("There is no held-out text to measure on: give some, or raise held_out_share.")
        aside.finish({})
        train.finish(meta)


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
        for row, at in enumerate(indices):
            text = self.ids[at * self.room : (at + 1) * self.room]
            rows[row, 0], rows[row, 1 : len(text) + 1], rows[row, len(text) + 1] = self.first, text, self.last
            lengths[row] = len(text) + 2
        width = int(lengths.max())
        return rows[:, :width], lengths


def _add(writer: ArrayWriter, documents: Sequence[Sequence[int]], separator: int) -> None:
    filled = [one for one in documents if one]
    if not filled:
        return
    ids = [number for one in filled for number in (separator, *one)]
    writer.add(ids=np.asarray(ids[0 if writer.lengths["ids"] else 1 :]))


def _chunks(documents: Iterable[Sequence[str]]) -> Iterator[list[Sequence[str]]]:
    stream = iter(documents)
    while chunk := list(itertools.islice(stream, CHUNK)):
        yield chunk
