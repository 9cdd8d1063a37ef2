"""A tagger that reads what types mean: a token is compared with the descriptions of the types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from crossner_core.encoders.base import Encoder
from crossner_core.encoders.windows import Batch
from crossner_core.models._type_texts import BY_NO_TYPE, ComparesTypes, ReadsTypes
from crossner_core.models.base import TokenTagger
from crossner_core.models.heads import token_loss
from crossner_core.models.registry import register
from crossner_core.models.tagger import Tagger
from crossner_core.options.type_aware import TypeAwareOptions


@register("type_aware")
class TypeAware(ReadsTypes, ComparesTypes, Tagger):
    """Scores B- and I- of a type by the cosine of the token's vector and the type's text vector.

    The text vectors are the pre-trained encoder's, computed once, or those of the tagger's own encoder, which then
    learns to read texts, too: in training it reads one text of each type at each step. What was learnt with few types
    holds for others. Besides, each type has rows as in a plain tagger, which start at zero. A type that was in no
    source has a score before its first gold sentence. Source: the bi-encoders of Zaratiana et al. 2024 (GLiNER) and
    Aly et al. 2021, over tags; both draw the types that a batch is taught not to find.
    """

    options: TypeAwareOptions

    def __init__(self, encoder: Encoder, tags: Sequence[str], options: TypeAwareOptions) -> None:
        super().__init__(encoder, tags, options)
        self._compare_types(encoder.hidden_size, options)
        self._know_types(encoder.hidden_size)
        self.rate_scales = dict.fromkeys(BY_NO_TYPE, options.type_rate_scale)

    def scores(self, batch: Batch) -> Tensor:
        return self._scores(batch)

    def loss(self, batch: Batch) -> Tensor:
        batch, kept = self._compared(batch)
        return token_loss(self._scores(batch, kept), batch, self.options.label_smoothing)

    def _scores(self, batch: Batch, kept: Tensor | None = None) -> Tensor:
        hidden = self.dropout(self.token_vectors(batch))  # (B, W, H)
        return self.type_scores(hidden, self._chosen_texts(kept))

    def copy_shared_tags(self, other: TokenTagger, parents: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """Copy all that belongs to no type, then the rows of equally named types."""
        if isinstance(other, TypeAware):
            self.copy_alike(other, BY_NO_TYPE)
        return super().copy_shared_tags(other, parents)
