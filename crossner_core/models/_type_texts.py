"""What models share that compare tokens with texts about the types: the vectors of the texts, and scores by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from crossner_core.encoders.base import vectors
from crossner_core.encoders.pooling import mean_vectors
from crossner_core.encoders.windows import Batch
from crossner_core.errors import InvalidConfig
from crossner_core.models.base import TokenTagger, TypeTexts
from crossner_core.models.heads import tag_types
from crossner_core.options.type_aware import TypeAwareOptions

_DRAWN = {"drawn": 0.5, "hard": 0.2}
"""Share of the types without a mention in a batch that take part in its loss."""
_NEIGHBOURS = 4
_SHARPNESS = 10.0
"""What the cosine of a token's query and a text is multiplied by before the softmax over the types."""

BY_NO_TYPE = (
    "token_side.weight", "token_side.bias", "scale", "bias", "query.weight", "query.bias", "uptake.weight",
    "uptake.bias",
)  # fmt: skip
"""Parameters of `ComparesTypes` that belong to no type: a new head starts from all of them."""


class ComparesTypes(nn.Module):
    """Scores tags by a vector of each token and the texts of the types; named before a module with a linear `head`.

    s(B-k) = a_B cos(W_B v + b_B, e_k) + c_B + r_{B-k} · v, and so for I-; O has a row r alone. W starts as the identity
    of the first H dimensions of v, since those are of the encoder that reads the texts e; rows of types start at zero.

    With `type_interaction` v is first v + C Σ_k α_k e_k + c, where α is the softmax over k of 10 cos(Q v + q, e_k). Q
    starts as W does, C and c at zero. Source: the attention of Vaswani et al. 2017, from tokens to types.
    """

    head: nn.Linear

    def _compare_types(self, hidden: int, options: TypeAwareOptions) -> None:
        self.options = options
        self.token_side = nn.Linear(self.head.in_features, 2 * hidden)
        with torch.no_grad():
            self.head.weight[1:] = 0.0
            self.token_side.weight.copy_(torch.eye(hidden, self.head.in_features).repeat(2, 1))
            self.token_side.bias.zero_()
        if options.type_interaction:
            self.query = nn.Linear(self.head.in_features, hidden)
            self.uptake = nn.Linear(hidden, self.head.in_features)
            with torch.no_grad():
                self.query.weight.copy_(torch.eye(hidden, self.head.in_features))
                for start in (self.query.bias, self.uptake.weight, self.uptake.bias):
                    start.zero_()
        self.scale = nn.Parameter(torch.full((2,), options.type_scale))
        self.bias = nn.Parameter(torch.zeros(2))

    def type_scores(self, features: Tensor, texts: Tensor) -> Tensor:
        """Return tag scores (B, V, K), in single precision, of vectors (B, V, D), given those of the texts (T, H)."""
        if self.options.type_interaction:
            features = features + self._uptake(features, texts)
        sides = self.token_side(features).unflatten(-1, (2, -1))  # (B, V, 2, H)
        products = nn.functional.normalize(sides, dim=-1) @ texts.T  # (B, V, 2, T)
        products = products * self.scale.unsqueeze(1) + self.bias.unsqueeze(1)
        rows = self.head(features)  # (B, V, K)
        own = rows[..., 1:]
        if self.training and self.options.type_rows:
            products = products * _kept(self.options.type_texts_dropout, texts)
            own = own * _kept(self.options.type_rows_dropout, texts).repeat_interleave(2)
        by_tag = products.transpose(-1, -2).flatten(-2)  # (B, V, 2T): B- and I- of each type in turn
        by_tag = by_tag + own if self.options.type_rows else by_tag
        return torch.cat([rows[..., :1], by_tag], dim=-1).float()

    def _uptake(self, features: Tensor, texts: Tensor) -> Tensor:
        """Return what to add to vectors (B, V, D): of the texts (T, H), those of zeros, not read now, aside."""
        cosines = nn.functional.normalize(self.query(features), dim=-1) @ texts.T  # (B, V, T)
        unread = ~texts.any(-1)
        shares = (_SHARPNESS * cosines).masked_fill(unread, torch.finfo(cosines.dtype).min).softmax(-1)
        return self.uptake(shares @ texts)


class ReadsTypes(TokenTagger):
    """The texts of a model's types; named before an architecture, whose constructor ends with `_know_types`."""

    options: TypeAwareOptions
    texts: Tensor
    known: Tensor
    places: Tensor
    to_read: Batch | None
    outdated: bool

    def _know_types(self, hidden: int) -> None:
        """Make room for a text vector (H,) of each type, not yet known."""
        self.places = torch.zeros(0, 1, dtype=torch.long)
        self.to_read = None
        self.outdated = False
        types = len(tag_types(self.tags))
        self.register_buffer("texts", torch.zeros(types, 1, hidden))
        self.register_buffer("known", torch.ones(types, 1))
        self.register_load_state_dict_pre_hook(_make_room)

    def describe(self, texts: TypeTexts) -> None:
        """Take each type's texts; raise InvalidConfig for a type without."""
        types, given = tag_types(self.tags), texts.vectors
        if missing := [name for name in types if name not in given or not len(given[name])]:
            raise InvalidConfig(f"The tagger has no description of {', '.join(missing)}.")
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

    def refresh(self) -> None:
        """Read the types' texts anew, if the encoder reads them itself."""
        self.outdated = True
        self._chosen_texts()

    def train(self, mode: bool = True) -> Self:
        """Switch between training and prediction; texts are read anew after training."""
        self.outdated = True
        return super().train(mode)

    def _compared(self, batch: Batch) -> tuple[Batch, Tensor | None]:
        """Return a batch without the tags that its loss leaves out, and the types (T,) it keeps; None for all."""
        kept = self._taking_part(batch)
        if kept is None:
            return batch, None
        left_out = torch.cat([kept.new_zeros(1), (~kept).repeat_interleave(2)])  # (K,)
        foreign = left_out.expand(len(batch.tags), -1)
        foreign = foreign if batch.foreign is None else batch.foreign | foreign
        return replace(batch, foreign=foreign).with_host(batch.host), kept

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

    def _chosen_texts(self, kept: Tensor | None = None) -> Tensor:
        """Return a vector (T, H) of each type: of one of its texts, drawn anew, in training, else their mean.

        Where the texts are read now, those of types that are not `kept` are not, and have zeros.
        """
        if self.to_read is not None and not self.training and self.outdated:
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


def _kept(share: float, texts: Tensor) -> Tensor:
    """Return 1 for each type (T,), or 0 for a share of them."""
    return (torch.rand(len(texts), device=texts.device) >= share).to(texts.dtype)


def _make_room(module: ReadsTypes, state: Mapping[str, Any], prefix: str, *_: Any) -> None:
    """Give the buffers the size of those that are loaded: types may have any number of texts."""
    for name in ("texts", "known"):
        if (tensor := state.get(f"{prefix}{name}")) is not None:
            setattr(module, name, torch.empty_like(tensor, device=module.texts.device))
