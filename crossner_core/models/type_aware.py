"""A tagger that reads what types mean: a token is compared with the descriptions of the types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from crossner_core.encoders.base import Encoder, vectors
from crossner_core.encoders.pooling import mean_vectors
from crossner_core.encoders.windows import Batch
from crossner_core.errors import InvalidConfig
from crossner_core.models.base import TokenTagger, TypeTexts
from crossner_core.models.heads import tag_types, token_loss
from crossner_core.models.registry import register
from crossner_core.models.tagger import Tagger
from crossner_core.options.type_aware import TypeAwareOptions

_WHOLE = ("token_side.weight", "token_side.bias", "scale", "bias")
"""Parameters that belong to no type: a new head starts from all of them."""
_DRAWN = {"drawn": 0.5, "hard": 0.2}
"""Share of the types without a mention in a batch that take part in its loss."""
_NEIGHBOURS = 4


@register("type_aware")
class TypeAware(Tagger):
    """Scores B- and I- of a type by the cosine of the token's vector and the type's text vector.

    s(B-k) = a_B cos(W_B h + b_B, e_k) + c_B + r_{B-k} · h, and so for I-; O has a row alone. The text vectors e are the
    pre-trained encoder's, computed once, or those of the tagger's own encoder, which then learns to read texts, too: in
    training it reads one text of each type at each step. W starts as the identity, since the token vectors are of the
    same encoder. What was learnt with few types holds for others. r are the rows of a plain tagger, which start at
    zero. A type that was in no source has a score before its first gold sentence. Source: the bi-encoders of Zaratiana
    et al. 2024 (GLiNER) and Aly et al. 2021, over tags; both draw the types that a batch is taught not to find.
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
        self.places = torch.zeros(0, 1, dtype=torch.long)
        self.to_read: Batch | None = None
        self.outdated = False
        types = len(tag_types(self.tags))
        self.register_buffer("texts", torch.zeros(types, 1, hidden))
        self.register_buffer("known", torch.ones(types, 1))
        self.register_load_state_dict_pre_hook(_make_room)
        self.rate_scales = dict.fromkeys(_WHOLE, options.type_rate_scale)

    def describe(self, texts: TypeTexts) -> None:
        """Take each type's texts; raise InvalidConfig for a type without."""
        types, given = tag_types(self.tags), texts.vectors
        if missing := [name for name in types if name not in given or not len(given[name])]:
            raise InvalidConfig(f"The type-aware tagger has no description of {', '.join(missing)}.")
        most = max(len(given[name]) for name in types)
        device = self.texts.device
        self.texts = torch.zeros(len(types), most, self.texts.shape[-1], device=device)
        self.known = torch.zeros(len(types), most, device=device)
        self.places = torch.zeros(len(types), most, dtype=torch.long, device=device)
        firsts, first = dict[str, int](), 0
        for name, own in given.items():
            firsts[name] = first
            first += len(own)
        for row, name in enumerate(types):
            own = given[name].to(device)
            self.texts[row, : len(own)] = own
            self.known[row, : len(own)] = 1.0
            self.places[row, : len(own)] = torch.arange(firsts[name], firsts[name] + len(own))
        self.to_read = None if texts.batch is None else texts.batch.to(device)
        self.outdated = True

    def train(self, mode: bool = True) -> TypeAware:
        """Switch between training and prediction; texts are read anew after training."""
        self.outdated = True
        return super().train(mode)

    def scores(self, batch: Batch) -> Tensor:
        """Return unnormalised tag scores (B, W, K), in single precision."""
        return self._scores(batch)

    def loss(self, batch: Batch) -> Tensor:
        kept = self._taking_part(batch)
        scores = self._scores(batch, kept)
        if kept is not None:
            left_out = torch.cat([kept.new_zeros(1), (~kept).repeat_interleave(2)])  # (K,)
            foreign = left_out.expand(len(batch.tags), -1)
            batch = replace(batch, foreign=foreign if batch.foreign is None else batch.foreign | foreign)
        return token_loss(scores, batch, self.options.label_smoothing)

    def _taking_part(self, batch: Batch) -> Tensor | None:
        """Return which types (T,) the loss of a batch compares: those it mentions and some others; None for all."""
        if self.options.type_negatives == "all":
            return None
        mentioned = torch.zeros(len(self.texts), dtype=torch.bool, device=batch.tags.device)
        mentioned[(batch.tags[batch.tags > 0] - 1) // 2] = True
        drawn = torch.rand(len(mentioned), device=mentioned.device) < _DRAWN[self.options.type_negatives]
        kept = mentioned | drawn
        if self.options.type_negatives == "hard":
            means = self._means()
            near = (means @ means.T).fill_diagonal_(-1.0).topk(min(_NEIGHBOURS, len(means) - 1), dim=-1).indices
            kept[near[mentioned].flatten()] = True
        return kept

    def _scores(self, batch: Batch, kept: Tensor | None = None) -> Tensor:
        hidden = self.dropout(self.token_vectors(batch))  # (B, W, H)
        sides = self.token_side(hidden).unflatten(-1, (2, -1))  # (B, W, 2, H)
        texts = self._chosen_texts(kept)  # (T, H)
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

    def _chosen_texts(self, kept: Tensor | None = None) -> Tensor:
        """Return a vector (T, H) of each type: of one of its texts, drawn anew, in training, else their mean.

        Where the texts are read now, those of types that are not `kept` are not, and have zeros.
        """
        if self.to_read is not None and not self.training and (self.outdated or torch.is_grad_enabled()):
            with torch.no_grad():
                self.texts[self.known.bool()] = self._read(self.to_read, self.places[self.known.bool()])
            self.outdated = False
        if not self.training:
            return self._means()
        drawn = torch.multinomial(self.known, 1)  # (T, 1)
        if self.to_read is None:
            return self.texts.gather(1, drawn.unsqueeze(-1).expand(-1, -1, self.texts.shape[-1])).squeeze(1)
        chosen = self.places.gather(1, drawn).squeeze(1)  # (T,)
        if kept is None:
            return self._read(self.to_read, chosen)
        none = torch.zeros_like(self.texts[:, 0])
        if not kept.any():
            return none
        return none.index_copy(0, kept.nonzero().squeeze(1), self._read(self.to_read, chosen[kept]))

    def _means(self) -> Tensor:
        mean = self.texts.sum(1) / self.known.sum(1, keepdim=True).clamp(min=1)
        return nn.functional.normalize(mean, dim=-1)

    def _read(self, batch: Batch, rows: Tensor) -> Tensor:
        """Return the vectors (N, H) of some rows of a batch of texts, by the encoder as it is now."""
        mask = batch.attention_mask[rows]
        longest = int(mask.sum(1).max())
        texts = replace(batch, input_ids=batch.input_ids[rows, :longest], attention_mask=mask[:, :longest])
        with torch.autocast(rows.device.type, dtype=torch.bfloat16, enabled=self.use_bf16):
            hidden = vectors(self.encoder, texts)
        return mean_vectors(hidden.float(), texts.attention_mask)

    def _kept(self, share: float, like: Tensor) -> Tensor:
        """Return 1 for each type (T,), or 0 for a share of them."""
        return (torch.rand(len(self.texts), device=like.device) >= share).to(like.dtype)


def _make_room(module: TypeAware, state: Mapping[str, Any], prefix: str, *_: Any) -> None:
    """Give the buffers the size of those that are loaded: types may have any number of texts."""
    for name in ("texts", "known"):
        if (tensor := state.get(f"{prefix}{name}")) is not None:
            setattr(module, name, torch.empty_like(tensor, device=module.texts.device))
