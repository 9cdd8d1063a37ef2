"""Pieces of words → windows of a sentence → padded batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

IGNORED = -100
PINNED = False
"""Whether batches go to a GPU from page-locked memory, without the host waiting for each copy."""


@dataclass(frozen=True, slots=True)
class Window:
    """Part of a sentence that fits the encoder: tokens `[start, end)` are scored, the rest is context."""

    sentence: int
    start: int
    end: int
    input_ids: tuple[Any, ...]  # what the encoder reads; for subwords, one number each
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the host knows of a batch without waiting for a GPU; tensors are on the CPU."""

    lengths: Tensor  # (B,) scored tokens of each window
    known: Tensor  # (B,) those of them with a known tag
    subwords: Tensor  # (B,) subwords of each window
    padded: bool  # whether a window is shorter than the longest

    @property
    def complete(self) -> bool:
        """Whether all tags are known."""
        return torch.equal(self.lengths, self.known)

    def at(self, rows: Tensor, length: int) -> Sizes:
        """Return those of the windows that a mask (B,) on the CPU keeps, padded to `length` subwords."""
        subwords = self.subwords[rows]
        return Sizes(self.lengths[rows], self.known[rows], subwords, bool((subwords < length).any()))


@dataclass(slots=True)
class Batch:
    """Windows of sentences, padded: B windows, L subwords (or other positions), W scored tokens."""

    input_ids: Tensor  # (B, L) subword ids; (B, L, …) for encoders with several values per position
    attention_mask: Tensor  # (B, L) 1 where there is a subword
    positions: Tensor  # (B, W) index into L of each token's first subword; 0 where padded
    mask: Tensor  # (B, W) True where there is a token
    tags: Tensor  # (B, W) index into the model's tags; IGNORED where unknown or padded
    # (B, K) True for tags of types that a window's corpus does not annotate: its loss says nothing about them.
    foreign: Tensor | None = None
    # (B, L, H) what `TokenTagger.hidden` returned for this batch, if several losses share one pass of the encoder.
    hidden: Tensor | None = None
    # For decoding only. None: each window is a sentence.
    before: Tensor | None = None  # (B,) index of the tag chosen for the token before each window
    goes_on: Tensor | None = None  # (B,) True where the sentence continues after the window
    # As collated; None for a batch made otherwise. `dataclasses.replace` drops it: the sizes may be others then.
    host: Sizes | None = field(default=None, init=False)

    @property
    def sizes(self) -> Sizes:
        """The batch's sizes; the host waits for the device once if the batch was not collated."""
        if self.host is None:
            counts = torch.stack((self.mask.sum(1), (self.tags != IGNORED).sum(1), self.attention_mask.sum(1))).cpu()
            padded = bool((counts[2] < self.attention_mask.shape[1]).any())
            self.host = Sizes(counts[0], counts[1], counts[2], padded)
        return self.host

    def bare(self) -> Batch:
        """Return the batch without cached `hidden` and without what concerns its loss or decoding alone."""
        return Batch(self.input_ids, self.attention_mask, self.positions, self.mask, self.tags).with_host(self.host)

    def with_host(self, host: Sizes | None) -> Batch:
        """Return this batch, of these sizes."""
        self.host = host
        return self

    def to(self, device: torch.device) -> Batch:
        """Return the batch on another device, without cached `hidden`."""
        before = None if self.before is None else self.before.to(device)
        goes_on = None if self.goes_on is None else self.goes_on.to(device)
        foreign = None if self.foreign is None else sent(self.foreign, device)
        return Batch(
            sent(self.input_ids, device),
            sent(self.attention_mask, device),
            sent(self.positions, device),
            sent(self.mask, device),
            sent(self.tags, device),
            foreign=foreign,
            before=before,
            goes_on=goes_on,
        ).with_host(self.host)


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor on a device; see PINNED."""
    return sent_ahead(tensor, device) if PINNED else tensor.to(device)


def sent_ahead(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor on a device; from the CPU to a GPU without the host waiting, by way of page-locked memory."""
    if torch.device(device).type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def collate(windows: Sequence[Window], pad_id: int, tags: Sequence[Sequence[int]] | None = None) -> Batch:
    """Pad windows into one batch; `tags` holds tag indices for every token of every sentence, by sentence index."""
    rows, length = len(windows), max(len(window.input_ids) for window in windows)
    width = max(len(window.positions) for window in windows)
    input_ids = np.full((rows, length, *np.shape(windows[0].input_ids[0])), pad_id, dtype=np.int64)
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
    lengths, tagged, subwords = (torch.from_numpy(counted.sum(1)) for counted in (mask, known != IGNORED, attention))
    sizes = Sizes(lengths, tagged, subwords, not bool(attention.all()))
    tensors = (torch.from_numpy(array) for array in (input_ids, attention, positions, mask, known))
    return Batch(*tensors).with_host(sizes)


def cut(
    sentence: int, pieces: Sequence[Sequence[Any]], max_length: int, ends: tuple[tuple[Any, ...], tuple[Any, ...]]
) -> list[Window]:
    """Split a sentence, given as pieces per word, into windows of at most `max_length` positions, `ends` included.

    A word keeps at most a third of a window. Adjacent windows overlap by a quarter, and each scores its half of that.
    """
    room = max_length - len(ends[0]) - len(ends[1])
    pieces = [piece[: max(1, room // 3)] for piece in pieces]
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
        windows.append(_window(sentence, pieces, (begin, end), (scored, stop), ends))
        if end == len(pieces):
            return windows
        scored, begin = stop, max(begin + 1, min(stop, end - overlap))


def _tokens_within(pieces: Sequence[Sequence[Any]], begin: int, end: int, most: int) -> int:
    """Count the tokens before `end` whose pieces fit into `most`."""
    count, used = 0, 0
    while end - count > begin and used + len(pieces[end - count - 1]) <= most:
        used += len(pieces[end - count - 1])
        count += 1
    return count


def _window(
    sentence: int,
    pieces: Sequence[Sequence[Any]],
    seen: tuple[int, int],
    scored: tuple[int, int],
    ends: tuple[tuple[Any, ...], tuple[Any, ...]],
) -> Window:
    input_ids, positions = [*ends[0]], []
    for position in range(*seen):
        if scored[0] <= position < scored[1]:
            positions.append(len(input_ids))
        input_ids.extend(pieces[position])
    return Window(sentence, scored[0], scored[1], (*input_ids, *ends[1]), tuple(positions))
