"""The multi-cell compositional LSTM: a cell for each entity type, whose states attention composes; a CRF on top."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from crossner_core.encoders.base import Encoder
from crossner_core.encoders.windows import IGNORED, Batch
from crossner_core.models._recurrent import reversal, taken
from crossner_core.models.base import TokenTagger
from crossner_core.models.crf import Crf
from crossner_core.models.heads import copy_tag_rows, first_tags, token_loss
from crossner_core.models.registry import register
from crossner_core.options.crf import CrfOptions
from crossner_core.options.multi_cell import MultiCellOptions


class Composed(NamedTuple):
    """What the cells make of a batch; T counts the types and O, which comes first."""

    states: Tensor  # (B, W, 2H), both directions
    cells: Tensor  # (B, W, T, 2H)
    attention: Tensor  # (B, W, T), the mean of both directions


class CellWeights(NamedTuple):
    """What both directions multiply by; G holds the gates of each type, then the common ones."""

    inputs: Tensor  # (2, D, G), of vectors
    bias: Tensor  # (2, G)
    recurrent: Tensor  # (2, H, G), of states
    query: Tensor  # (2, H, 2H)
    key: Tensor  # (2, H, 2H)


class TypedCells(nn.Module):
    """Two directions of a recurrent layer with a cell for O and for each type, and one that composes them.

    At each token t, of the previous state h and the previous composed cell c, with k = O or a type:
    [i_k, z_k] = [σ, tanh](W_k x_t + U_k h + b_k) and c_k = i_k ⊙ z_k + (1 − i_k) ⊙ c;
    [i, o, z] = [σ, σ, tanh](W x_t + U h + b), α_k ∝ exp(v · tanh(P z + Q c_k)),
    c ← i ⊙ Σ_k α_k c_k + (1 − i) ⊙ c, h ← o ⊙ tanh(c).
    """

    def __init__(self, size: int, hidden: int, types: int) -> None:
        super().__init__()
        self.hidden = hidden

        def drawn(*shape: int, of: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape).uniform_(-(of**-0.5), of**-0.5))

        # Of each type first, so that rows can be copied; then both directions.
        self.type_input = drawn(types, 2, 2 * hidden, size, of=size)
        self.type_state = drawn(types, 2, 2 * hidden, hidden, of=hidden)
        self.type_bias = drawn(types, 2, 2 * hidden, of=hidden)
        self.input = drawn(2, 3 * hidden, size, of=size)
        self.state = drawn(2, 3 * hidden, hidden, of=hidden)
        self.bias = drawn(2, 3 * hidden, of=hidden)
        self.query = drawn(2, 2 * hidden, hidden, of=hidden)  # P
        self.key = drawn(2, 2 * hidden, hidden, of=hidden)  # Q
        self.value = drawn(2, 2 * hidden, 1, of=2 * hidden)  # v

    def rows(self) -> list[Tensor]:
        """Return the parameters that have a row for each type, (T, …)."""
        return [self.type_input, self.type_state, self.type_bias]

    def common(self) -> list[Tensor]:
        """Return the parameters that belong to no type."""
        return [self.input, self.state, self.bias, self.query, self.key, self.value]

    def forward(self, vectors: Tensor, mask: Tensor) -> Composed:
        """Return states, cells and attention for vectors (B, W, D) of the tokens that `mask` (B, W) keeps."""
        back = reversal(mask)  # (B, W)
        both = torch.stack((vectors, taken(vectors, back)))  # (2, B, W, D)
        weights = self.weights()
        # One product for all types and tokens.
        gates = torch.baddbmm(weights.bias.unsqueeze(1), both.flatten(1, 2), weights.inputs)  # (2, B · W, G)
        gates = gates.unflatten(1, mask.shape).permute(2, 0, 1, 3).contiguous()  # (W, 2, B, G)
        state = cell = vectors.new_zeros(2, len(mask), self.hidden)
        steps: list[tuple[Tensor, Tensor, Tensor]] = []
        for given in gates.unbind(0):
            state, cell, cells, attention = self.step(given, weights, state, cell)
            steps.append((state, cells, attention))
        by_direction = (torch.stack(part, 2) for part in zip(*steps, strict=True))  # (2, B, W, …) each
        all_states, all_cells, each = ((part[0], taken(part[1], back)) for part in by_direction)
        return Composed(torch.cat(all_states, -1), torch.cat(all_cells, -1), (each[0] + each[1]) / 2)

    def weights(self) -> CellWeights:
        """Return the weights as the products need them; the second direction reads each row from its own end."""
        inputs = torch.cat((_by_direction(self.type_input), self.input), 1)
        recurrent = torch.cat((_by_direction(self.type_state), self.state), 1)
        bias = torch.cat((_by_direction(self.type_bias), self.bias), 1)
        return CellWeights(
            inputs.transpose(1, 2), bias, *(part.transpose(1, 2) for part in (recurrent, self.query, self.key))
        )

    def step(
        self, given: Tensor, weights: CellWeights, state: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Read one token of both directions: the new state and cell (2, B, H), the types' cells and the attention."""
        now = torch.baddbmm(given, state, weights.recurrent)  # (2, B, G)
        typed, whole = now.split((now.shape[-1] - 3 * self.hidden, 3 * self.hidden), -1)
        opened, drawn = typed.unflatten(-1, (-1, 2, self.hidden)).unbind(3)  # (2, B, T, H) each
        cells = torch.lerp(cell.unsqueeze(2), drawn.tanh(), opened.sigmoid())
        opened, output, asked = whole.chunk(3, -1)  # (2, B, H) each
        keys = torch.bmm(cells.flatten(1, 2), weights.key).unflatten(1, cells.shape[1:3])  # (2, B, T, 2H)
        scores = torch.tanh(keys + torch.bmm(asked.tanh(), weights.query).unsqueeze(2))
        shares = torch.bmm(scores.flatten(1, 2), self.value).unflatten(1, cells.shape[1:3]).softmax(2)
        cell = torch.lerp(cell, (shares * cells).sum(2), opened.sigmoid())
        return output.sigmoid() * cell.tanh(), cell, cells, shares.squeeze(-1)


@register("multi_cell")
class MultiCell(Crf):
    """A multi-cell compositional LSTM with a CRF: L = L_tags + λ₁ L_type + λ₂ L_attention, each a mean over tokens.

    Source: Jia and Zhang 2020, section 3, in the form of their released code: cells with coupled gates, which all
    continue the composed cell; additive attention; L_type = −log p(k | c_1 … c_T) of a softmax over w_k · c_k + b_k,
    a scalar of each type's own cell (both directions); L_attention = −log α_k of the mean of both directions, where k
    is the token's type or O; 100 in each direction, dropout 0.5, both weights 1. Ours: AdamW in place of SGD at 0.015;
    one head for all corpora in place of one each, so that types of one name share cell and tags; initial values of the
    cells drawn apart; no second softmax over α. Batches of different corpora alternate there; here settings decide.
    P, Q and v are one for all corpora, there one for each. `words` and a transformer are read alike, and both learn:
    x_t is the encoder's vector of a token, and the layer starts anew in each window. The released code reads a frozen
    BERT beside word vectors and characters.
    """

    options: MultiCellOptions

    def __init__(self, encoder: Encoder, tags: Sequence[str], options: MultiCellOptions) -> None:
        super().__init__(encoder, tags, options)
        types = len(first_tags(self.tags))
        self.layer = TypedCells(encoder.hidden_size, options.cell_size, types)
        self.type_weight = nn.Parameter(torch.empty(types, 2 * options.cell_size).normal_(std=0.02))
        self.type_bias = nn.Parameter(torch.zeros(types))

    @staticmethod
    def read_size(encoder: Encoder, options: CrfOptions) -> int:
        assert isinstance(options, MultiCellOptions)
        return 2 * options.cell_size

    def compose(self, batch: Batch) -> Composed:
        """Return what the cells make of a batch."""
        return self.layer(self.dropout(self.token_vectors(batch)), batch.mask)

    def read(self, batch: Batch) -> Tensor:
        """Return the composed states (B, W, 2 · cell_size)."""
        return self.compose(batch).states

    def loss(self, batch: Batch) -> Tensor:
        """Return the weighted sum of the three losses; types that are foreign to a corpus have no part in any."""
        composed, typed = self.compose(batch), _typed(batch)
        loss = self.path_loss(self.head(self.dropout(composed.states)).float(), batch)
        of_types = (self.dropout(composed.cells) * self.type_weight).sum(-1) + self.type_bias  # (B, W, T)
        loss = loss + self.options.cell_type_weight * token_loss(of_types.float(), typed)
        attention = composed.attention.clamp(min=torch.finfo(torch.float32).tiny).log()
        return loss + self.options.cell_attention_weight * token_loss(attention.float(), typed)

    def copy_shared_tags(self, other: TokenTagger, parents: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """Copy what belongs to no type, cells of equally named types (else of an ancestor), and rows of tags."""
        if not isinstance(other, MultiCell) or self.layer.input.shape != other.layer.input.shape:
            return ()
        with torch.no_grad():
            for mine, theirs in zip(self.layer.common(), other.layer.common(), strict=True):
                mine.copy_(theirs)
        pairs = list(zip(self._type_rows(), other._type_rows(), strict=True))
        # Initial values of cells are as large as what they learn: little of them keeps an ancestor's cell what it is.
        copy_tag_rows(pairs, first_tags(self.tags), first_tags(other.tags), parents, spread=0.1)
        return super().copy_shared_tags(other, parents)

    def _type_rows(self) -> list[Tensor]:
        return [*self.layer.rows(), self.type_weight, self.type_bias]


def _typed(batch: Batch) -> Batch:
    """Return the batch with types in place of tags, 0 for O."""
    types = torch.where(batch.tags == IGNORED, IGNORED, (batch.tags + 1) // 2)
    foreign = None if batch.foreign is None else torch.cat((batch.foreign[:, :1], batch.foreign[:, 1::2]), 1)
    return replace(batch, tags=types, foreign=foreign)


def _by_direction(rows: Tensor) -> Tensor:
    """Return parameters (T, 2, G, …) as (2, T · G, …)."""
    return rows.transpose(0, 1).flatten(1, 2)
