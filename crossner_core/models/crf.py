"""BERT with a conditional random field: a linear head on first subwords, and learned transitions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from crossner_core.encoders.base import Encoder
from crossner_core.encoders.windows import IGNORED, Batch
from crossner_core.models._linear_chain import Chain, log_partition, marginals, path_score
from crossner_core.models.base import TokenTagger
from crossner_core.models.dropout import Dropout
from crossner_core.models.heads import without_foreign
from crossner_core.models.registry import register
from crossner_core.models.viterbi import FORBIDDEN, first_scores, iob2_transitions, viterbi
from crossner_core.options.crf import CrfOptions


@register("crf")
class Crf(TokenTagger):
    """Linear-chain CRF over first-subword vectors. Source: Lafferty et al. 2001; LANER table 3, "BERT-CRF"."""

    def __init__(self, encoder: Encoder, tags: Sequence[str], options: CrfOptions) -> None:
        super().__init__(encoder, tags)
        self.options = options
        self.dropout = Dropout(options.dropout)
        self.head = nn.Linear(self.read_size(encoder, options), len(self.tags))
        nn.init.normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)
        self.start = nn.Parameter(torch.zeros(len(self.tags)))
        # Transitions; checkpoints have them under this name.
        self.moves = nn.Parameter(torch.zeros(len(self.tags), len(self.tags)))  # [from, to]
        self.end = nn.Parameter(torch.zeros(len(self.tags)))
        self.rate_scales = dict.fromkeys(("start", "moves", "end"), options.transition_rate_scale)

    @staticmethod
    def read_size(encoder: Encoder, options: CrfOptions) -> int:
        """Return the size of what the head reads of a token."""
        return encoder.hidden_size

    def read(self, batch: Batch) -> Tensor:
        """Return what the head reads of each token, (B, W, R)."""
        return self.token_vectors(batch)

    def scores(self, batch: Batch) -> Tensor:
        """Return each token's tag scores (B, W, K), without transitions, in single precision."""
        return self.head(self.dropout(self.read(batch))).float()

    def loss(self, batch: Batch) -> Tensor:
        """Return the paths' negative log-likelihood over the number of tokens with a known tag.

        A mean over tokens, like the tagger's loss: the same learning rates and clipping suit both, and a token weighs
        the same in a short sentence as in a long one.
        """
        return self.path_loss(self.scores(batch), batch)

    def path_loss(self, scores: Tensor, batch: Batch) -> Tensor:
        """Return the loss of token scores (B, W, K), a scalar."""
        return path_loss(scores, batch, self.tag_pairs())

    def tag_log_probabilities(self, batch: Batch) -> Tensor:
        """Return the tags' marginal log-probabilities over all paths (B, W, K)."""
        return marginals(self.scores(batch), batch.mask, self.tag_pairs())

    def decode_tags(self, batch: Batch, allowed: int | None = None) -> tuple[Tensor, Tensor]:
        """Return each window's best path, and the tags' marginal log-probabilities over paths of allowed tags.

        Where a sentence continues across windows, the transition from the preceding tag replaces the scores of first
        and last tags.
        """
        return self.best_path(self.scores(batch), batch, allowed)

    def best_path(self, scores: Tensor, batch: Batch, allowed: int | None = None) -> tuple[Tensor, Tensor]:
        """Return what `decode_tags` does, of token scores (B, W, K)."""
        scores, chain = scores[..., :allowed], self.tag_pairs().first(allowed)  # (B, W, A)
        if self.options.constrained:
            start, valid = (part.to(scores.device) for part in iob2_transitions(self.tags[:allowed]))
            chain = Chain(chain.start + start, chain.transitions + valid, chain.end)
        chain = chain._replace(start=first_scores(chain.start, chain.transitions, batch.before))
        if batch.goes_on is not None:
            chain = chain._replace(end=torch.where(batch.goes_on.unsqueeze(1), 0.0, chain.end))  # (B, A)
        return viterbi(scores, batch.mask, *chain), marginals(scores, batch.mask, chain)

    def tag_rows(self) -> dict[str, Tensor]:
        return {"head.weight": self.head.weight, "head.bias": self.head.bias}

    def tag_pairs(self) -> Chain:
        return Chain(self.start, self.moves, self.end)


def path_loss(scores: Tensor, batch: Batch, chain: Chain) -> Tensor:
    """Return the negative log-likelihood of the batch's tags over the number of tokens with a known tag, a scalar.

    `scores` (B, W, K) are the tokens'; tags that are foreign to a window's corpus have no part in it.
    """
    scores = without_foreign(scores, batch)
    known = batch.tags != IGNORED  # (B, W)
    if batch.sizes.complete:
        gold = path_score(scores, batch.mask, chain, batch.tags.clamp(min=0))  # (B,)
    else:  # sum over all tags where the tag is unknown
        others = torch.ones_like(scores, dtype=torch.bool).scatter(2, batch.tags.clamp(min=0).unsqueeze(2), False)
        gold = log_partition(scores.masked_fill(others & known.unsqueeze(2), FORBIDDEN), batch.mask, chain)
    return (log_partition(scores, batch.mask, chain) - gold).sum() / known.sum().clamp(min=1)
