"""A masked language model: the encoder, a head that is computed at the masked positions only, and the masks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.nn import functional

from crossner_core.adaptation.pretraining import RESULT
from crossner_core.encoders.base import WEIGHTS, Encoder
from crossner_core.encoders.loading import encoder_spec
from crossner_core.errors import EncoderUnavailable
from crossner_core.models.dropout import speed_up_dropout
from crossner_core.training.checkpoint import TENSORS

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
