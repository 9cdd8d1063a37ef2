"""The interface of every architecture: batch → loss, batch → tags with probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from crossner_core.encoders.base import Encoder, vectors
from crossner_core.encoders.windows import Batch
from crossner_core.models._linear_chain import Chain
from crossner_core.models.dropout import speed_up_dropout
from crossner_core.models.heads import copy_pairs, copy_tag_rows


@dataclass(frozen=True, slots=True)
class Decoded:
    """One window's tags as indices into the model's tags, each with its probability in [0, 1]."""

    tags: list[int]
    probabilities: list[float]


@dataclass(frozen=True, slots=True)
class TypeTexts:
    """The texts of each type: their vectors (V, H), and a batch of all of them for a model that reads them itself.

    The rows of the batch are the texts of the types in the order of `vectors`.
    """

    vectors: Mapping[str, Tensor]
    batch: Batch | None = None


class TokenTagger(nn.Module):
    """Base of all architectures: an encoder and the tags it chooses from; tag 0 is O."""

    def __init__(self, encoder: Encoder, tags: Sequence[str]) -> None:
        super().__init__()
        self.encoder = encoder.model
        speed_up_dropout(self.encoder)
        self.tags = tuple(tags)
        self.use_bf16 = False
        # Divides the scores of `decode_tags` before the softmax; fitted on dev after training.
        self.temperature = 1.0
        # Factors on the head's learning rate, by parameter name; such parameters have no weight decay.
        self.rate_scales: dict[str, float] = {}
        # Parameters of a stage's objective; never part of a saved tagger.
        self.objective_parts: nn.Module = nn.Module()

    def describe(self, texts: TypeTexts) -> None:
        """Take the texts of the types, where the architecture reads them."""

    def refresh(self) -> None:
        """Bring what is saved beside the weights up to date with them; the model must be in evaluation mode."""

    def loss(self, batch: Batch) -> Tensor:
        """Return the mean loss over the batch's tokens with a known tag, a scalar.

        It must be a mean over tokens: parts of a split batch are combined by their token counts.
        """
        raise NotImplementedError

    def decode(self, batch: Batch, allowed: int | None = None) -> list[Decoded]:
        """Return tags for the scored tokens of each window, choosing from the first `allowed` tags only."""
        path, scores = self.decode_tags(batch, allowed)  # (B, W), (B, W, A)
        log_probs = (scores / self.temperature).log_softmax(-1)  # (B, W, A)
        chosen = log_probs.gather(2, path.unsqueeze(2)).squeeze(2).exp()  # (B, W)
        lengths = batch.sizes.lengths.tolist()
        rows = zip(path.tolist(), chosen.tolist(), lengths, strict=True)
        return [Decoded(tags[:n], probabilities[:n]) for tags, probabilities, n in rows]

    def decode_tags(self, batch: Batch, allowed: int | None = None) -> tuple[Tensor, Tensor]:
        """Return the chosen tags (B, W) and the scores (B, W, A) behind them, whose softmax gives probabilities."""
        raise NotImplementedError

    def tag_log_probabilities(self, batch: Batch) -> Tensor:
        """Return the log-probabilities of each token's tags (B, W, K), differentiable."""
        return self.scores(batch).log_softmax(-1)

    def scores(self, batch: Batch) -> Tensor:
        """Return unnormalised tag scores (B, W, K), in single precision."""
        raise NotImplementedError

    def hidden(self, batch: Batch) -> Tensor:
        """Return the encoder's vectors of all subwords, (B, L, H), from the batch's cache if it has one."""
        if batch.hidden is not None:
            return batch.hidden
        device = batch.input_ids.device.type
        # Only encoders and BiLSTMs run in lower precision; heads and losses stay in single precision.
        with torch.autocast(device, dtype=torch.bfloat16, enabled=self.use_bf16):
            hidden = vectors(self.encoder, batch)
        return hidden.float()  # (B, L, H)

    def token_vectors(self, batch: Batch) -> Tensor:
        """Return the encoder's vector of each token's first subword, (B, W, H)."""
        hidden = self.hidden(batch)  # (B, L, H)
        index = batch.positions.unsqueeze(-1).expand(-1, -1, hidden.shape[-1])  # (B, W, H)
        return hidden.gather(1, index)  # (B, W, H)

    def tag_rows(self) -> dict[str, Tensor]:
        """Return by name the tensors with a row per tag; heads with equal names and row shapes can share tags."""
        raise NotImplementedError

    def tag_pairs(self) -> Chain | None:
        """Return the scores of first tags, last tags and transitions, if the model has them."""
        return None

    def copy_alike(self, other: TokenTagger, beginnings: tuple[str, ...]) -> bool:
        """Copy another's weights whose names begin so, if it has the same of the same shapes; return whether."""
        mine, theirs = (
            {name: value for name, value in model.state_dict().items() if name.startswith(beginnings)}
            for model in (self, other)
        )
        if {name: value.shape for name, value in mine.items()} != {name: value.shape for name, value in theirs.items()}:
            return False
        for name, value in mine.items():
            value.copy_(theirs[name])
        return True

    def copy_shared_tags(self, other: TokenTagger, parents: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """Copy another head's rows of equally named tags (else of an ancestor); return the equally named ones."""
        mine, theirs = self.tag_rows(), other.tag_rows()
        if row_shapes(mine) != row_shapes(theirs):
            return ()
        pairs, other_pairs = self.tag_pairs(), other.tag_pairs()
        if pairs is not None and other_pairs is not None:
            copy_pairs(pairs, self.tags, other_pairs, other.tags, parents)
        return copy_tag_rows([(mine[name], theirs[name]) for name in mine], self.tags, other.tags, parents)


def row_shapes(tensors: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    """Return the shape of one row of each tensor, by name."""
    return {name: tensor.shape[1:] for name, tensor in tensors.items()}
