"""LANER: a tagger that reads the tags preceding each token, and attends from them to the sentence and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from crossner_core.encoders.base import Encoder
from crossner_core.encoders.windows import IGNORED, Batch
from crossner_core.models._label_predictor import LabelPredictor, Vectors
from crossner_core.models.base import TokenTagger, row_shapes
from crossner_core.models.heads import token_loss
from crossner_core.models.registry import register
from crossner_core.models.viterbi import first_scores, iob2_transitions, viterbi
from crossner_core.options.label_aware import LabelAwareOptions

# The predictor's parameters with a row per tag.
_BY_TAG = ("labels.weight", "head.weight", "head.bias")


@register("label_aware")
class LabelAware(TokenTagger):
    """Predicts tags one by one, each from its token and the preceding tags. Source: LANER (Findings of NAACL 2022).

    With both label parts off it is the tagger. The history restarts in each window of a long sentence; from the
    preceding window, decoding only uses what IOB2 allows after its last tag.
    """

    predictor_type = LabelPredictor

    def __init__(self, encoder: Encoder, tags: Sequence[str], options: LabelAwareOptions) -> None:
        super().__init__(encoder, tags)
        self.options = options
        self.predictor = self.predictor_type(
            encoder.hidden_size,
            len(self.tags),
            options.label_size,
            background=options.label_background,
            context=options.label_context,
            bilstm=options.label_bilstm,
            learn_labels=options.label_embeddings,
            scale_background=options.label_background_scaled,
            scale_context=options.label_context_scaled,
            dropout=options.dropout,
        )

    def scores(self, batch: Batch) -> Tensor:
        """Return tag scores (B, W, K) given the batch's tags; unknown ones are replaced by the model's own."""
        vectors = self._vectors(batch)
        return self.predictor(vectors, self._history(batch, vectors))

    def loss(self, batch: Batch) -> Tensor:
        scores = self.scores(batch)  # (B, W, K)
        return token_loss(scores, batch, self.options.label_smoothing)

    def decode_tags(self, batch: Batch, allowed: int | None = None) -> tuple[Tensor, Tensor]:
        """Return greedily chosen tags, and the tag scores at each token given the preceding tags."""
        return self._greedy(self._vectors(batch), allowed, batch.before)

    def label_reader(self) -> LabelPredictor | None:
        """Return the part that reads the tags before a token; None if its label parts are off."""
        return self.predictor if self.predictor.background or self.predictor.context else None

    def tag_rows(self) -> dict[str, Tensor]:
        """Label embeddings and head, under their names here: a plain tagger's head does not match."""
        state = self.predictor.state_dict()
        return {f"predictor.{name}": state[name] for name in _BY_TAG if name in state}

    def copy_shared_tags(self, other: TokenTagger, parents: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """Copy label embeddings and head rows by tag, BiLSTM and attention whole, from a model of the same shape."""
        if not isinstance(other, LabelAware):
            return ()
        mine, theirs = self.predictor.state_dict(), other.predictor.state_dict()
        if row_shapes(mine) != row_shapes(theirs):
            return ()
        for name in mine.keys() - set(_BY_TAG):
            mine[name].copy_(theirs[name])
        return super().copy_shared_tags(other, parents)

    def _vectors(self, batch: Batch) -> Vectors:
        batch = replace(batch, hidden=self.hidden(batch)).with_host(batch.host)
        tokens = self.token_vectors(batch)  # (B, W, H)
        if self.options.label_background_over == "tokens" or batch.hidden is None:
            return Vectors(tokens, batch.mask, tokens, batch.mask, batch.sizes.lengths)
        return Vectors(tokens, batch.mask, batch.hidden, batch.attention_mask.bool(), batch.sizes.lengths)

    def _greedy(self, vectors: Vectors, allowed: int | None, before: Tensor | None = None) -> tuple[Tensor, Tensor]:
        device = vectors.tokens.device
        start, transitions = (part.to(device) for part in iob2_transitions(self.tags[:allowed]))
        if not self.options.constrained:
            start, transitions = torch.zeros_like(start), torch.zeros_like(transitions)
        start = first_scores(start, transitions, before)
        if self.options.label_background or self.options.label_context:
            return self.predictor.greedy(vectors, start, transitions)
        # No tag depends on another: decode the best path, as the tagger does.
        history = torch.zeros_like(vectors.mask, dtype=torch.long)
        scores = self.predictor(vectors, history)[..., :allowed]  # (B, W, A)
        return viterbi(scores, vectors.mask, start, transitions), scores

    def _history(self, batch: Batch, vectors: Vectors) -> Tensor:
        """Return the tag history (B, W), which in training may differ from gold as the recipe sets."""
        gold, options = batch.tags, self.options
        if not (options.label_background or options.label_context):
            return gold.clamp(min=0)
        unknown = batch.mask & (gold == IGNORED)  # (B, W)
        history = gold.clamp(min=0)
        if not batch.sizes.complete:
            history = torch.where(unknown, self._own(vectors, None), history)
        if not self.training:
            return history
        if options.label_history == "mixed":
            history = torch.where(_drawn(gold, options.label_own_share), self._own(vectors, history), history)
        if options.label_noise > 0:
            others = torch.randint(len(self.tags), gold.shape, device=gold.device)  # (B, W)
            history = torch.where(_drawn(gold, options.label_noise), others, history)
        if options.label_embedding_dropout > 0:
            left_out = torch.full_like(history, len(self.tags))
            history = torch.where(_drawn(gold, options.label_embedding_dropout), left_out, history)
        return history

    @torch.no_grad()
    def _own(self, vectors: Vectors, history: Tensor | None) -> Tensor:
        """Return the model's own tags (B, W): given a history, or else decoded greedily."""
        if history is None:
            return self._greedy(vectors, None)[0]
        return self.predictor(vectors, history).argmax(-1)


def _drawn(like: Tensor, share: float) -> Tensor:
    """Draw True for a share of the elements, from the run's random state."""
    return torch.rand(like.shape, device=like.device) < share
