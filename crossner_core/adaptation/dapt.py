"""Domain-adaptive pre-training: masked-LM training of an encoder on domain text.

Source: Liu et al. 2021 (CrossNER), "Domain-Adaptive Pre-training". The first measurement follows after a new head has
been trained alone: perplexity through an untrained head says nothing about the encoder. An encoder that comes with its
head is measured at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from crossner_core.adaptation.language_model import (
    MaskedLanguageModel,
    fits,
    hide,
    span_masks,
    token_masks,
    trained_head,
)
from crossner_core.adaptation.prepared import Arrays, Blocks, WordIds, corpus_head, prepare_blocks
from crossner_core.adaptation.pretraining import Events, ShouldStop, not_stopped
from crossner_core.adaptation.pretraining_job import PretrainJob, PretrainTask
from crossner_core.adaptation.texts import PretrainText
from crossner_core.encoders.base import Encoder
from crossner_core.encoders.loading import load_encoder
from crossner_core.errors import EncoderUnavailable, InvalidConfig
from crossner_core.options.dapt import DaptOptions
from crossner_core.training.engine import Work

KIND = "dapt"
_ORDER, _MASKS, _HELD_OUT = 0, 1, 2  # random streams
_MASKED_TOGETHER = 16  # held-out blocks; masks must not depend on the batch size


def run_dapt(
    options: DaptOptions,
    text: PretrainText[Sequence[str]],
    *,
    out: Path,
    work: Path,
    resume: bool = True,
    should_stop: ShouldStop = not_stopped,
    encoder: Encoder | None = None,
) -> Events:
    """Yield events until the run ends; the last one has an `outcome`, and the `result` if that is "done".

    The text is streamed once into `work`; a resume reads only its first documents again. `out` becomes an encoder
    folder for `load_encoder` and recipes. The text's provenance is copied into the result; together with options and
    encoder it decides whether a run is resumed. Passing `encoder` avoids loading it; it is not modified. Raises
    BadInput, EncoderUnavailable, CheckpointError, StorageError, InvalidConfig.
    """
    job = PretrainJob(KIND, options, out, work, text.provenance)
    encoder = encoder or load_encoder(options.encoder)
    if encoder.require_subwords("pre-training").mask_token_id is None:
        raise EncoderUnavailable(f"Encoder {options.encoder!r}: its tokenizer has no mask; choose a BERT-like encoder.")
    words = WordIds(encoder.tokenizer, options.unknown_word)

    def write(folder: Path, meta: dict[str, Any]) -> Iterator[int]:
        return prepare_blocks(folder, text, words, share=options.held_out_share, seed=options.seed, meta=meta)

    begins = [corpus_head(part()) for part in (text.items, text.held_out) if part is not None]
    yield from job.run(encoder, {"begins": begins}, write, partial(DaptTask, options), should_stop, resume=resume)


@dataclass(frozen=True, slots=True)
class Part:
    """Some blocks of a step: B of length L, with M masked positions among them; `total` counts the whole step's."""

    ids: Tensor  # (B, L) as the encoder sees them
    attention: Tensor | None  # (B, L), None where nothing is padded
    places: Tensor  # (M,) index into B × L
    wanted: Tensor  # (M,) the subwords to predict
    total: int


class DaptTask(PretrainTask):
    """Masked language modelling over prepared text."""

    kind = KIND
    options: DaptOptions
    model: MaskedLanguageModel

    def __init__(self, options: DaptOptions, encoder: Encoder, train: Arrays, held_out: Arrays) -> None:
        super().__init__(options, MaskedLanguageModel(encoder), keep_best=options.keep_best)
        self.tokenizer = encoder.tokenizer
        known = trained_head(encoder.name, encoder.folder)
        self.head_is_new = known is None or not fits(self.model.head, known)
        if known is not None and not self.head_is_new:
            self.model.head.load_state_dict(known)
        else:
            self.model.head.begin_with(train["ids"])
        size = min(options.block_size, encoder.max_length)
        self.blocks, self.held_out = Blocks(train, self.tokenizer, size), Blocks(held_out, self.tokenizer, size)
        self.special = np.zeros(len(self.model.embeddings), bool)  # (V,)
        self.special[self.tokenizer.all_special_ids] = True
        self.ordinary = np.flatnonzero(~self.special[: len(self.tokenizer)])
        self._order: tuple[tuple[int, int], np.ndarray] | None = None

    @property
    def epoch_steps(self) -> int:
        return -(-len(self.blocks) // self.options.batch_size)

    def indices(self, phase: int, epoch: int, number: int) -> np.ndarray:
        """Return the blocks of a batch; a pass contains each block once."""
        if self._order is None or self._order[0] != (phase, epoch):
            rng = np.random.default_rng([self.options.seed, _ORDER, phase, epoch])
            self._order = (phase, epoch), rng.permutation(len(self.blocks))
        size = self.options.batch_size
        return self._order[1][number * size : (number + 1) * size]

    def batch(self, phase: int, epoch: int, number: int, parts: int) -> Work:
        ids, lengths = self.blocks.rows(self.indices(phase, epoch, number))
        rng = np.random.default_rng([self.options.seed, _MASKS, phase, epoch, number])
        return Work(self._parts(ids, lengths, rng, min(parts, len(ids))), int(lengths.sum()))

    def loss(self, part: Part) -> Tensor:
        total = self.model.loss_sum(part.ids, part.attention, part.places, part.wanted)
        return total / max(part.total, 1)

    def measure(self) -> float:
        """Return the perplexity of masked held-out subwords; blocks and masks are the same for any seed and batch size.

        They are masked as in training: masked spans give a higher perplexity than single subwords.
        """
        count = min(len(self.held_out), self.options.held_out_blocks)
        rng = np.random.default_rng([_HELD_OUT])
        loss, masked = 0.0, 0
        for start in range(0, count, _MASKED_TOGETHER):
            ids, lengths = self.held_out.rows(range(start, min(start + _MASKED_TOGETHER, count)))
            parts = self._parts(ids, lengths, rng, -(-len(ids) * self.options.accumulate // self.options.batch_size))
            masked += parts[0].total
            loss += sum(float(self.model.loss_sum(p.ids, p.attention, p.places, p.wanted)) for p in parts)
        if not masked:
            raise InvalidConfig(
                f"Of {len(self.held_out.ids):,} held-out subwords none is masked with a mask_share of "
                f"{self.options.mask_share:g}, so nothing can be measured: hold out more text, or mask more."
            )
        return math.exp(min(loss / masked, 700.0))  # a larger exponent overflows a float

    def about(self) -> dict[str, Any]:
        return {
            "block_size": self.blocks.size,
            "corpus_subwords": len(self.blocks.ids),
            "held_out_subwords": len(self.held_out.ids),
            "head_is_new": self.head_is_new,
        }

    def _parts(self, ids: np.ndarray, lengths: np.ndarray, rng: np.random.Generator, count: int) -> list[Part]:
        """Mask a step's blocks and cut them into parts."""
        inside = np.arange(ids.shape[1]) < lengths[:, None]  # (B, L)
        allowed = ~self.special[ids] & inside
        masked = token_masks(allowed, self.options.mask_share, rng)
        if self.options.masking == "span":
            masked = span_masks(masked, allowed)
        shown = hide(ids, masked, self.tokenizer.mask_token_id, self.ordinary, rng)
        device, total, parts = self.model.embeddings.device, int(masked.sum()), []
        for rows in np.array_split(np.arange(len(ids)), count):
            places = np.flatnonzero(masked[rows])
            padded = not inside[rows].all()
            parts.append(
                Part(
                    ids=torch.from_numpy(shown[rows]).to(device),
                    attention=torch.from_numpy(inside[rows].astype(np.int64)).to(device) if padded else None,
                    places=torch.from_numpy(places).to(device),
                    wanted=torch.from_numpy(ids[rows].reshape(-1)[places]).to(device),
                    total=total,
                )
            )
        return parts
