"""The BERT tagger: a linear head on each token's first subword."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from crossner_core.encoders.base import Encoder
from crossner_core.encoders.windows import Batch
from crossner_core.models.base import TokenTagger
from crossner_core.models.dropout import Dropout
from crossner_core.models.heads import token_loss
from crossner_core.models.registry import register
from crossner_core.models.viterbi import first_scores, iob2_transitions, viterbi
from crossner_core.options.tagger import TaggerOptions


@register("tagger")
class Tagger(TokenTagger):
    """Linear head over first-subword vectors. Source: Devlin et al. 2019, section 5.3."""

    def __init__(self, encoder: Encoder, tags: Sequence[str], options: TaggerOptions) -> None:
        super().__init__(encoder, tags)
        self.options = options
        self.dropout = Dropout(options.dropout)
        self.head = nn.Linear(encoder.hidden_size, len(self.tags))
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)

    def scores(self, batch: Batch) -> Tensor:
        """Return unnormalised tag scores (B, W, K), in single precision."""
        return self.head(self.dropout(self.token_vectors(batch))).float()

    def loss(self, batch: Batch) -> Tensor:
        scores = self.scores(batch)  # (B, W, K)
        return token_loss(scores, batch, self.options.label_smoothing)

    def decode_tags(self, batch: Batch, allowed: int | None = None) -> tuple[Tensor, Tensor]:
        scores = self.scores(batch)[..., :allowed].log_softmax(-1)  # (B, W, A)
        return self._path(scores, batch), scores

    def _path(self, scores: Tensor, batch: Batch) -> Tensor:
        if not self.options.constrained:
            return scores.argmax(-1)
        start, transitions = (part.to(scores.device) for part in iob2_transitions(self.tags[: scores.shape[-1]]))
        return viterbi(scores, batch.mask, first_scores(start, transitions, batch.before), transitions)

    def tag_rows(self) -> dict[str, Tensor]:
        return {"head.weight": self.head.weight, "head.bias": self.head.bias}
