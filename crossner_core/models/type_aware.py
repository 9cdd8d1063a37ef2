"""A tagger that reads what types mean: a token is compared with the descriptions of the types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from crossner_core.encoders.base import Encoder
from crossner_core.encoders.windows import Batch
from crossner_core.errors import InvalidConfig
from crossner_core.models.base import TokenTagger
from crossner_core.models.heads import tag_types
from crossner_core.models.registry import register
from crossner_core.models.tagger import Tagger
from crossner_core.options.type_aware import TypeAwareOptions

_WHOLE = ("token_side.weight", "token_side.bias", "scale", "bias")
"""Parameters that belong to no type: a new head starts from all of them."""


@register("type_aware")
class TypeAware(Tagger):
    """Scores B- and I- of a type by the cosine of the token's vector and the type's text vector.

    s(B-k) = a_B cos(W_B h + b_B, e_k) + c_B + r_{B-k} · h, and so for I-; O has a row alone. The text vectors e are the
    pre-trained encoder's and stay fixed, so they are computed once; W starts as the identity, since the token vectors
    are of the same encoder. Nothing is learnt of the texts themselves: what was learnt with few types holds for others.
    r are the rows of a plain tagger, which start at zero. A type that was in no source has a score before its first
    gold sentence. Source: the bi-encoders of Zaratiana et al. 2024 (GLiNER) and Aly et al. 2021, over tags.
    """

    def __init__(self, encoder: Encoder, tags: Sequence[str], options: TypeAwareOptions) -> None:
        super().__init__(encoder, tags, options)
        self.options: TypeAwareOptions = options
        hidden = encoder.hidden_size
        self.token_side = nn.Linear(hidden, 2 * hidden)
        with torch.no_grad():
            self.head.weight[1:] = 0.0
            self.token_side.weight.copy_(torch.eye(hidden).repeat(2, 1))
            self.token_side.bias.zero_()
        self.scale = nn.Parameter(torch.full((2,), options.type_scale))
        self.bias = nn.Parameter(torch.zeros(2))
        self.texts: Tensor
        self.known: Tensor
        types = len(tag_types(self.tags))
        self.register_buffer("texts", torch.zeros(types, 1, hidden))
        self.register_buffer("known", torch.ones(types, 1))
        self.register_load_state_dict_pre_hook(_make_room)
        self.rate_scales = dict.fromkeys(_WHOLE, options.type_rate_scale)

    def describe(self, vectors: Mapping[str, Tensor]) -> None:
        """Take the vectors of each type's texts, (V, H); raise InvalidConfig for a type without."""
        types = tag_types(self.tags)
        if missing := [name for name in types if name not in vectors or not len(vectors[name])]:
            raise InvalidConfig(f"The type-aware tagger has no description of {', '.join(missing)}.")
        most = max(len(vectors[name]) for name in types)
        device = self.texts.device
        self.texts = torch.zeros(len(types), most, self.texts.shape[-1], device=device)
        self.known = torch.zeros(len(types), most, device=device)
        for row, name in enumerate(types):
            own = vectors[name].to(device)
            self.texts[row, : len(own)] = own
            self.known[row, : len(own)] = 1.0

    def scores(self, batch: Batch) -> Tensor:
        """Return unnormalised tag scores (B, W, K), in single precision."""
        hidden = self.dropout(self.token_vectors(batch))  # (B, W, H)
        sides = self.token_side(hidden).unflatten(-1, (2, -1))  # (B, W, 2, H)
        texts = self._chosen_texts()  # (T, H)
        products = nn.functional.normalize(sides, dim=-1) @ texts.T  # (B, W, 2, T)
        products = products * self.scale.unsqueeze(1) + self.bias.unsqueeze(1)
        rows = self.head(hidden)  # (B, W, K)
        own = rows[..., 1:]
        if self.training and self.options.type_rows:
            products = products * self._kept(self.options.type_texts_dropout, hidden)
            own = own * self._kept(self.options.type_rows_dropout, hidden).repeat_interleave(2)
        by_tag = products.transpose(-1, -2).flatten(-2)  # (B, W, 2T): B- and I- of each type in turn
        by_tag = by_tag + own if self.options.type_rows else by_tag
        return torch.cat([rows[..., :1], by_tag], dim=-1).float()

    def copy_shared_tags(self, other: TokenTagger, parents: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """Copy all that belongs to no type, then the rows of equally named types."""
        if isinstance(other, TypeAware) and self.token_side.weight.shape == other.token_side.weight.shape:
            mine, theirs = self.state_dict(), other.state_dict()
            for name in _WHOLE:
                mine[name].copy_(theirs[name])
        return super().copy_shared_tags(other, parents)

    def _chosen_texts(self) -> Tensor:
        """Return a vector (T, H) of each type: of one of its texts, drawn anew, in training, else their mean."""
        if self.training:
            drawn = torch.multinomial(self.known, 1)  # (T, 1)
            return self.texts.gather(1, drawn.unsqueeze(-1).expand(-1, -1, self.texts.shape[-1])).squeeze(1)
        mean = self.texts.sum(1) / self.known.sum(1, keepdim=True).clamp(min=1)
        return nn.functional.normalize(mean, dim=-1)

    def _kept(self, share: float, like: Tensor) -> Tensor:
        """Return 1 for each type (T,), or 0 for a share of them."""
        return (torch.rand(len(self.texts), device=like.device) >= share).to(like.dtype)


def _make_room(module: TypeAware, state: Mapping[str, Any], prefix: str, *_: Any) -> None:
    """Give the buffers the size of those that are loaded: types may have any number of texts."""
    for name in ("texts", "known"):
        if (tensor := state.get(f"{prefix}{name}")) is not None:
            setattr(module, name, torch.empty_like(tensor, device=module.texts.device))
