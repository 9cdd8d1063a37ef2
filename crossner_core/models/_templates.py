"""Template regularisation: a sentence is near its template, and far from templates with other types."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from crossner_core.models._recurrent import run_lstm

WRONG = 2
"""Wrong templates of each sentence."""


class Templates(nn.Module):
    """Reads templates: sentences in which the vector of a type stands in place of each span.

    Source: Liu et al. 2020 (Coach), section 2.3: a BiLSTM of its own reads templates; attention over states makes one
    vector of a template, and one of the sentence.
    """

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(size, hidden, batch_first=True, bidirectional=True)
        self.of_sentence = nn.Linear(2 * hidden, 1)
        self.of_template = nn.Linear(2 * hidden, 1)

    def forward(self, vectors: Tensor, states: Tensor, steps: Tensor, mask: Tensor, types: Tensor) -> Tensor:
        """Return MSE(u, r) − mean over wrong templates MSE(u, w) of each sentence (B,); 0 for one without a span.

        `vectors` (B, W, D) and `states` (B, W, 2H) are those of the tokens that `mask` (B, W) keeps; in `steps` (B, W)
        1 begins a span and 2 continues it. `types` (1 + WRONG, N, D) has a vector for each span: the right one first.
        """
        kept = mask & (steps != 2)  # of a span, its first token
        sizes = kept.sum(1)
        order = (~kept).long().argsort(dim=1, stable=True)[:, : int(sizes.max())]  # (B, V)
        filled = vectors.unsqueeze(0).repeat(len(types), 1, 1, 1)  # (1 + WRONG, B, W, D)
        filled[:, steps == 1] = types.to(filled.dtype)
        templates = filled.gather(2, order.expand(len(types), -1, -1).unsqueeze(3).expand(-1, -1, -1, vectors.shape[2]))
        read = run_lstm(self.lstm, templates.flatten(0, 1), sizes.repeat(len(types)))
        inside = torch.arange(order.shape[1], device=sizes.device) < sizes.unsqueeze(1)  # (B, V)
        of_templates = _pooled(self.of_template, read, inside.repeat(len(types), 1)).unflatten(0, (len(types), -1))
        distances = (of_templates - _pooled(self.of_sentence, states, mask)).square().mean(-1)  # (1 + WRONG, B)
        return (distances[0] - distances[1:].mean(0)) * (steps == 1).any(1)


def wrong_types(types: Tensor, count: int) -> Tensor:
    """Return the types (N,), then WRONG others of each drawn from `count`: (1 + WRONG, N)."""
    others = torch.randint(1, max(count, 2), (WRONG, len(types)), device=types.device)
    return torch.cat((types.unsqueeze(0), (types + others) % count))


def _pooled(attention: nn.Linear, states: Tensor, mask: Tensor) -> Tensor:
    """Return the mean (B, D) of states (B, W, D), weighted by attention over the tokens that the mask keeps."""
    scores = attention(states).squeeze(-1).masked_fill(~mask, float("-inf"))
    return (scores.softmax(-1).unsqueeze(-1) * states).sum(1)
