"""LANER over descriptions: a tagger that reads what types mean, and the tags preceding each token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from crossner_core.encoders.base import Encoder
from crossner_core.encoders.windows import Batch
from crossner_core.models._label_predictor import LabelPredictor, Vectors
from crossner_core.models._type_texts import BY_NO_TYPE, ComparesTypes, ReadsTypes
from crossner_core.models.heads import token_loss
from crossner_core.models.label_aware import LabelAware
from crossner_core.models.registry import register
from crossner_core.options.type_label_aware import TypeLabelAwareOptions


class _TypePredictor(ComparesTypes, LabelPredictor):
    """LANER's predictor whose tags are known by the texts of their types, in the history and in the scores.

    The vector of B-k in the history is V_B e_k + u_{B-k}, and so for I-: a projection of the type's text and an
    embedding of its own, which starts at zero. Scores compare the texts with the token and what was attended to.
    """

    def know_types(self, hidden: int, options: TypeLabelAwareOptions) -> None:
        """Take the texts into account from now on; until they are set, their vectors are zero."""
        self._compare_types(hidden, replace(options, type_interaction=False))  # of the type-aware tagger alone
        self.text_side = nn.Linear(hidden, 2 * self.size)
        if self.background or self.context:
            with torch.no_grad():
                self.labels.weight[1:] = 0.0
        self.texts = torch.zeros(self.head.out_features // 2, hidden)

    def label_vectors(self) -> Tensor:
        by_text = self.text_side(self.texts).view(-1, self.size)  # (2T, d2): B- and I- of each type in turn
        own = super().label_vectors()  # (K + 1, d2)
        return own + nn.functional.pad(by_text, (0, 0, 1, 1))

    def weights(self) -> dict[str, Tensor]:
        known = {**super().weights(), "labels.weight": self.label_vectors()[:-1], "texts": self.texts}
        if not self.options.type_rows:
            for name in ("head.weight", "head.bias"):
                known[name] = torch.cat([known[name][:1], torch.zeros_like(known[name][1:])])
        return known

    def _scores(self, parts: list[Tensor]) -> Tensor:
        return self.type_scores(self.dropout(torch.cat(parts, -1)), self.texts)


@register("type_label_aware")
class TypeLabelAware(ReadsTypes, LabelAware):
    """Compares tokens with the types' texts, and reads the preceding tags as LANER does, by the same texts.

    A type that was in no source is known by its words on both sides. With both label parts off it is the type-aware
    tagger. Sources: those of TypeAware and LabelAware; their combination is ours.
    """

    options: TypeLabelAwareOptions
    predictor: _TypePredictor
    predictor_type = _TypePredictor

    def __init__(self, encoder: Encoder, tags: Sequence[str], options: TypeLabelAwareOptions) -> None:
        super().__init__(encoder, tags, options)
        self.predictor.know_types(encoder.hidden_size, options)
        self._know_types(encoder.hidden_size)
        self.rate_scales = {f"predictor.{name}": options.type_rate_scale for name in BY_NO_TYPE}

    def loss(self, batch: Batch) -> Tensor:
        batch, kept = self._compared(batch)
        vectors = self._vectors(batch, kept)
        scores = self.predictor(vectors, self._history(batch, vectors))  # (B, W, K)
        return token_loss(scores, batch, self.options.label_smoothing)

    def label_reader(self) -> LabelPredictor | None:
        self.predictor.texts = self._chosen_texts()
        return super().label_reader()

    def _vectors(self, batch: Batch, kept: Tensor | None = None) -> Vectors:
        self.predictor.texts = self._chosen_texts(kept)
        return super()._vectors(batch)
