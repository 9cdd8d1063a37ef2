"""Domain-adaptive pre-training: masked-LM training of an encoder on domain text.

Source: Liu et al. 2021 (CrossNER), "Domain-Adaptive Pre-training". The first measurement follows after a new head has
been trained alone: perplexity through an untrained head says nothing about the encoder. An encoder that comes with its
head is measured at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.nn import functional

from crossner_core.adaptation.prepared import Arrays, Blocks, WordIds, corpus_head, prepare_blocks
from crossner_core.adaptation.pretraining import RESULT, Events, ShouldStop, not_stopped
from crossner_core.adaptation.pretraining_job import PretrainJob, PretrainTask
from crossner_core.adaptation.texts import PretrainText
from crossner_core.encoders.base import WEIGHTS, Encoder
from crossner_core.encoders.loading import encoder_spec, load_encoder
from crossner_core.errors import EncoderUnavailable, InvalidConfig
from crossner_core.models.dropout import speed_up_dropout
from crossner_core.options.dapt import DaptOptions
from crossner_core.training.checkpoint import TENSORS
from crossner_core.training.engine import Work

HEAD = "head"
_COUNTED_TOGETHER = 10**6
# The names that masked-language-model checkpoints give the parts of this head.
_KNOWN_HEADS = (
    {  # BERT
        "transform.weight": "cls.predictions.transform.dense.weight",
        "transform.bias": "cls.predictions.transform.dense.bias",
        "norm.weight": "cls.predictions.transform.LayerNorm.weight",
        "norm.bias": "cls.predictions.transform.LayerNorm.bias",
        "bias": "cls.predictions.bias",
    },
    {  # RoBERTa
        "transform.weight": "lm_head.dense.weight",
        "transform.bias": "lm_head.dense.bias",
        "norm.weight": "lm_head.layer_norm.weight",
        "norm.bias": "lm_head.layer_norm.bias",
        "bias": "lm_head.bias",
    },
    {  # DistilBERT
        "transform.weight": "vocab_transform.weight",
        "transform.bias": "vocab_transform.bias",
        "norm.weight": "vocab_layer_norm.weight",
        "norm.bias": "vocab_layer_norm.bias",
        "bias": "vocab_projector.bias",
    },
)
_OUR_HEAD = {name: f"{HEAD}/{name}" for name in _KNOWN_HEADS[0]}


Mask = npt.NDArray[np.bool_]
Ids = npt.NDArray[np.int64]

HIDDEN, REPLACED = 0.8, 0.1  # the rest stays unchanged


class LanguageModelHead(nn.Module):
    """Transform, norm and bias; the decoder itself is the encoder's word embeddings. Source: Devlin et al. 2019."""

    def __init__(self, hidden_size: int, embeddings: Tensor, epsilon: float) -> None:
        super().__init__()
        vocabulary, size = embeddings.shape
        self.transform = nn.Linear(hidden_size, size)
        nn.init.normal_(self.transform.weight, std=0.02)
        nn.init.zeros_(self.transform.bias)
        self.norm = nn.LayerNorm(size, eps=epsilon)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def begin_with(self, ids: npt.NDArray[np.integer[Any]]) -> None:
        """Initialise the bias with a text's subword log-frequencies, which would take thousands of steps to learn."""
        counts = np.ones(len(self.bias))
        for start in range(0, len(ids), _COUNTED_TOGETHER):
            counts += np.bincount(ids[start : start + _COUNTED_TOGETHER], minlength=len(counts))
        self.bias.data.copy_(torch.from_numpy(np.log(counts / counts.sum())))

    def forward(self, hidden: Tensor, embeddings: Tensor) -> Tensor:
        """Return unnormalised scores, (M, H) → (M, V)."""
        hidden = self.norm(functional.gelu(self.transform(hidden)))  # (M, E)
        return functional.linear(hidden, embeddings, self.bias)  # (M, V)


class MaskedLanguageModel(nn.Module):
    """An encoder with its language-model head."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder.model
        speed_up_dropout(self.encoder)
        self.use_bf16 = False
        epsilon = float(getattr(encoder.model.config, "layer_norm_eps", 1e-12))
        self.head = LanguageModelHead(encoder.hidden_size, self.embeddings, epsilon)

    @property
    def embeddings(self) -> Tensor:
        """The word embeddings, (V, E)."""
        return self.encoder.get_input_embeddings().weight

    def loss_sum(self, ids: Tensor, attention: Tensor | None, places: Tensor, wanted: Tensor) -> Tensor:
        """Return the summed cross entropy, a scalar; `ids` (B, L), `places` (M,) index B × L, `wanted` (M,) subwords.

        The decoder runs in the encoder's precision, the loss itself in single precision.
        """
        with torch.autocast(ids.device.type, dtype=torch.bfloat16, enabled=self.use_bf16):
            hidden = self.encoder(input_ids=ids, attention_mask=attention).last_hidden_state  # (B, L, H)
            scores = self.head(hidden.flatten(0, 1)[places], self.embeddings)  # (M, V)
        return functional.cross_entropy(scores.float(), wanted, reduction="sum")


def trained_head(name: str, folder: Path | None = None) -> dict[str, Tensor] | None:
    """Return the weights of a language-model head that comes with an encoder, None if it has none.

    `folder` is the encoder's own; without it the weights are located by name, which does not work for a library's name.
    Heads of earlier runs of this package and of BERT, RoBERTa and DistilBERT checkpoints are recognised.
    """
    for path in _weight_files(name, folder):
        try:
            with safe_open(path, "pt") as file:
                keys = set(file.keys())
                for names in (_OUR_HEAD, *_KNOWN_HEADS):
                    if keys.issuperset(names.values()):
                        return {ours: file.get_tensor(theirs).float() for ours, theirs in names.items()}
        except (OSError, SafetensorError) as error:
            raise EncoderUnavailable(f"Encoder {name!r}: {path.name} is damaged: {error}. Copy it again.") from error
    return None


def fits(head: LanguageModelHead, weights: Mapping[str, Tensor]) -> bool:
    """Return whether weights have the names and shapes of a head."""
    shapes = {name: tensor.shape for name, tensor in head.state_dict().items()}
    return shapes == {name: tensor.shape for name, tensor in weights.items()}


def _weight_files(name: str, folder: Path | None) -> Iterator[Path]:
    folder = folder or encoder_spec(name).path
    if folder is not None:
        # The tensors next to an encoder pre-trained here are its head; in other folders that file may be anything.
        ours = (folder / RESULT).exists()
        yield from sorted(path for path in folder.glob("*.safetensors") if ours or path.name != TENSORS)
        return
    from huggingface_hub import try_to_load_from_cache

    if isinstance(cached := try_to_load_from_cache(name, WEIGHTS), str):
        yield Path(cached)


def token_masks(allowed: Mask, share: float, rng: np.random.Generator) -> Mask:
    """Choose each allowed position with probability `share`, (B, L)."""
    return (rng.random(allowed.shape) < share) & allowed


def span_masks(masked: Mask, allowed: Mask | None = None) -> Mask:
    """Move lone masks next to the following one, all rows at once, (B, L) → (B, L); the count per row stays.

    Of two masked positions that are neither adjacent nor moved yet, the first moves to the position before the second;
    adjacent ones are left alone. Source: CrossNER, "Span-level Pre-training", and its released code. A position that is
    not `allowed` (special, padding) takes no mask: the first one then does not move.
    """
    counts = masked.sum(1)
    rows, steps = np.arange(len(masked)), int(counts.max(initial=0))
    # (B, steps) the masked positions of each row in order; entries past a row's count are ignored
    places = np.argsort(~masked, axis=1, kind="stable")[:, :steps]
    spans = masked.copy()
    waiting = np.full(len(masked), -1)  # (B,) a lone mask that may still move; -1: none
    for step in range(steps):
        here, real = places[:, step], step < counts
        before = places[:, step - 1] if step else np.full(len(masked), -2)
        none, follows = waiting < 0, here - before == 1
        adjacent = ~none & (waiting == here - 1)
        movable = real & ~none & ~adjacent
        if allowed is not None:
            blocked = movable & ~allowed[rows, np.maximum(here - 1, 0)]
            movable &= ~blocked
        else:
            blocked = np.zeros_like(movable)
        spans[rows[movable], waiting[movable]] = False
        spans[rows[movable], here[movable] - 1] = True
        starts = real & ((none & ~follows) | blocked)
        waiting = np.where(starts, here, np.where(real, -1, waiting))
    return spans


def hide(ids: Ids, masked: Mask, mask_id: int, ordinary: Ids, rng: np.random.Generator) -> Ids:
    """Return the ids as the encoder sees them, (B, L); `ordinary` are the ids that a random subword may be."""
    drawn = rng.random(ids.shape)
    shown = np.where(masked & (drawn < HIDDEN), mask_id, ids)
    random = ordinary[rng.integers(0, len(ordinary), ids.shape)]
    return np.where(masked & (drawn >= HIDDEN) & (drawn < HIDDEN + REPLACED), random, shown)


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
