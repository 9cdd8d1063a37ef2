"""Sentences → windows of subwords → padded batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from crossner_core.models.base import IGNORED, Batch
from crossner_core.schema import LabelledSentence, Sentence
from crossner_core.tags import tags_from_spans

# Batches are cut from chunks of this many batches, sorted by length: little padding, much chance.
CHUNK = 16
# Lengths are blurred by this factor before sorting, so that small sets do not meet in the same batches each time.
BLUR = 0.3
SPECIAL = 2  # one before, one after


@dataclass(frozen=True, slots=True)
class Window:
    """Part of a sentence that fits the encoder: tokens `[start, end)` are scored, the rest is context."""

    sentence: int
    start: int
    end: int
    input_ids: tuple[int, ...]
    positions: tuple[int, ...]


def encode(sentences: Sequence[Sentence], tokenizer: Any, max_length: int) -> list[Window]:
    """Split sentences into windows of at most `max_length` subwords; each token is scored in exactly one window.

    A token that the tokenizer drops becomes the unknown subword; one of more subwords than a third of a window keeps
    its first ones. Sentences without tokens give no window.
    """
    filled = [index for index, sentence in enumerate(sentences) if sentence.tokens]
    if not filled:
        return []
    words = [list(sentences[index].words) for index in filled]
    encoded = tokenizer(words, is_split_into_words=True, add_special_tokens=False, truncation=False, verbose=False)
    room = max_length - SPECIAL
    windows: list[Window] = []
    for row, index in enumerate(filled):
        pieces = _pieces(encoded["input_ids"][row], encoded.word_ids(row), len(words[row]), tokenizer.unk_token_id)
        capped = [piece[: max(1, room // 3)] for piece in pieces]
        windows.extend(_windows(index, capped, room, tokenizer.cls_token_id, tokenizer.sep_token_id))
    return windows


def collate(windows: Sequence[Window], pad_id: int, tags: Sequence[Sequence[int]] | None = None) -> Batch:
    """Pad windows to one batch; `tags` holds tag indices for every token of every sentence, by sentence index."""
    rows, length = len(windows), max(len(window.input_ids) for window in windows)
    width = max(len(window.positions) for window in windows)
    input_ids = np.full((rows, length), pad_id, dtype=np.int64)
    attention = np.zeros((rows, length), dtype=np.int64)
    positions = np.zeros((rows, width), dtype=np.int64)
    mask = np.zeros((rows, width), dtype=bool)
    known = np.full((rows, width), IGNORED, dtype=np.int64)
    for row, window in enumerate(windows):
        input_ids[row, : len(window.input_ids)] = window.input_ids
        attention[row, : len(window.input_ids)] = 1
        positions[row, : len(window.positions)] = window.positions
        mask[row, : len(window.positions)] = True
        if tags is not None:
            known[row, : len(window.positions)] = tags[window.sentence][window.start : window.end]
    return Batch(*(torch.from_numpy(array) for array in (input_ids, attention, positions, mask, known)))


@dataclass(frozen=True, slots=True)
class Batcher:
    """Makes windows and batches for one model: what its tokenizer cuts, in at most `max_length` subwords."""

    tokenizer: Any
    max_length: int

    def encode(self, sentences: Sequence[Sentence]) -> list[Window]:
        """Split sentences into windows; see `encode`."""
        return encode(sentences, self.tokenizer, self.max_length)

    def collate(self, windows: Sequence[Window], tags: Sequence[Sequence[int]] | None = None) -> Batch:
        """Pad windows to one batch; see `collate`."""
        return collate(windows, int(self.tokenizer.pad_token_id), tags)


def tag_indices(items: Sequence[LabelledSentence], tags: Sequence[str]) -> list[list[int]]:
    """Return the index of each token's tag, sentence by sentence; `tags` are the model's."""
    index = {tag: number for number, tag in enumerate(tags)}
    return [[index[tag] for tag in tags_from_spans(item.spans, len(item.sentence.tokens))] for item in items]


def shuffled_batches(lengths: Sequence[int], batch_size: int, rng: np.random.Generator) -> list[list[int]]:
    """Return indices in batches of similar length, in random order; sizes differ by one at most within a chunk."""
    order = rng.permutation(len(lengths))
    blurred = np.asarray(lengths) * (1.0 + BLUR * rng.random(len(lengths)))
    batches: list[list[int]] = []
    for start in range(0, len(order), batch_size * CHUNK):
        chunk = order[start : start + batch_size * CHUNK]
        chunk = chunk[np.argsort(blurred[chunk], kind="stable")]
        batches.extend(part.tolist() for part in np.array_split(chunk, -(-len(chunk) // batch_size)))
    return [batches[index] for index in rng.permutation(len(batches))]


def ordered_batches(lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Return indices in batches, longest first: for prediction, where order is free."""
    order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable").tolist()
    return [order[start : start + batch_size] for start in range(0, len(order), batch_size)]


def _pieces(ids: Sequence[int], word_ids: Sequence[int | None], count: int, unknown: int) -> list[list[int]]:
    pieces: list[list[int]] = [[] for _ in range(count)]
    for subword, word in zip(ids, word_ids, strict=True):
        if word is not None:
            pieces[word].append(subword)
    return [piece or [unknown] for piece in pieces]


def _windows(sentence: int, pieces: list[list[int]], room: int, first: int, last: int) -> list[Window]:
    """Cut where a window is full; neighbours overlap by a quarter, of which each scores its half."""
    windows: list[Window] = []
    scored = 0  # tokens before this one are scored already
    begin = 0
    while True:
        end, used = begin, 0
        while end < len(pieces) and used + len(pieces[end]) <= room:
            used += len(pieces[end])
            end += 1
        overlap = _tokens_within(pieces, begin, end, room // 4)
        stop = len(pieces) if end == len(pieces) else max(scored + 1, end - overlap // 2)
        windows.append(_window(sentence, pieces, (begin, end), (scored, stop), first, last))
        if end == len(pieces):
            return windows
        scored, begin = stop, max(begin + 1, min(stop, end - overlap))


def _tokens_within(pieces: list[list[int]], begin: int, end: int, subwords: int) -> int:
    """Count the tokens before `end` that fit into so many subwords."""
    count, used = 0, 0
    while end - count > begin and used + len(pieces[end - count - 1]) <= subwords:
        used += len(pieces[end - count - 1])
        count += 1
    return count


def _window(
    sentence: int, pieces: list[list[int]], seen: tuple[int, int], scored: tuple[int, int], first: int, last: int
) -> Window:
    input_ids, positions = [first], []
    for position in range(*seen):
        if scored[0] <= position < scored[1]:
            positions.append(len(input_ids))
        input_ids.extend(pieces[position])
    return Window(sentence, scored[0], scored[1], (*input_ids, last), tuple(positions))
