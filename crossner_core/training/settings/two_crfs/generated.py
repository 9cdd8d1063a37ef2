"""The weights of an LSTM, generated from a vector of the domain and one of the task."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor, nn


class Generator(nn.Module):
    """θ = W ⊗ I_domain ⊗ I_task: θ_p = Σ_d Σ_t W[p, d, t] I_domain[d] I_task[t] for each of P weights of an LSTM.

    W is initialised as the LSTM's own weights are, the vectors so that θ then has the same variance. By `rate_scale`
    times a rate for W, θ moves in a step of Adam as an LSTM's own weights would at that rate.
    Source: Jia et al. 2019, section 3.3.
    """

    def __init__(self, lstm: nn.LSTM, domains: int, tasks: int, domain_size: int, task_size: int) -> None:
        super().__init__()
        self.shapes = [weights.shape for weights in lstm.parameters()]
        bound = lstm.hidden_size**-0.5
        self.meta = nn.Parameter(torch.empty(sum(map(prod, self.shapes)), domain_size * task_size))  # (P, D · T)
        self.domains = nn.Parameter(torch.empty(domains, domain_size))
        self.tasks = nn.Parameter(torch.empty(tasks, task_size))
        nn.init.uniform_(self.meta, -bound, bound)
        # 1 / 𝔼 Σ_d,t |I_domain[d] I_task[t]| of the values below: θ moves so much farther than W in a step of Adam.
        self.rate_scale = 1 / (0.75 * (domain_size * task_size) ** 0.5)
        for vectors in (self.domains, self.tasks):
            spread = (3 / vectors.shape[1]) ** 0.5
            nn.init.uniform_(vectors, -spread, spread)

    def forward(self) -> Tensor:
        """Return the weights for all domains and tasks, (domains, tasks, P)."""
        pairs = torch.einsum("nd,mt->nmdt", self.domains, self.tasks).flatten(2)  # (domains, tasks, D · T)
        return pairs @ self.meta.T

    def shaped(self, flat: Tensor) -> Sequence[Tensor]:
        """Return the weights (P,) of a domain and task as those of the LSTM, in its order."""
        pieces = flat.split([prod(shape) for shape in self.shapes])
        return [piece.view(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]
