"""DATNet's terms: a discriminator of domains behind reversed gradients, and the loss on perturbed inputs."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from crossner_core.encoders.windows import Batch, sent_ahead
from crossner_core.models.base import TokenTagger
from crossner_core.models.bilstm_crf import BilstmCrf
from crossner_core.models.crf import Crf
from crossner_core.training.perturbation import input_noise, inputs_kept, unit_noise
from crossner_core.training.recipe import Recipe
from crossner_core.training.settings.two_crfs.objective import Domain, TwoCrfObjective


class Reversed(torch.autograd.Function):
    """y = x, and ∂/∂x = −λ ∂/∂y. Source: Ganin and Lempitsky 2015, section 3."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, factor: float) -> Tensor:
        """Return the vectors as they are."""
        ctx.factor = factor
        return vectors.view_as(vectors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Return the gradient times −λ."""
        return -ctx.factor * gradients[0], None


class Discriminator(nn.Module):
    """r = σ(w · Σ_t a_t h_t + b), a = softmax_t(v · tanh(W h_t)): the probability that a sentence is of the source.

    Source: Zhou et al. 2019, section 3.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.attend = nn.Linear(size, size, bias=False)
        self.score = nn.Linear(size, 1, bias=False)
        self.domain = nn.Linear(size, 1)

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """Return the logits of r (B,) for sentences of token vectors (B, W, S), True in `mask` (B, W)."""
        scores = self.score(self.attend(vectors).tanh()).squeeze(-1)  # (B, W)
        weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        return self.domain((weights.unsqueeze(-1) * vectors).sum(1)).squeeze(-1)


def resource_loss(logits: Tensor, is_source: Tensor, alpha: float, gamma: float) -> Tensor:
    """Return the mean of −α (1 − r)^γ log r over source and −(1 − α) r^γ log(1 − r) over target sentences, a scalar.

    `logits` (B,) are those of r; `is_source` (B,) says which sentences are of the source. Source: Zhou et al. 2019,
    section 3 (GRAD); its focal factor is that of Lin et al. 2017, "Focal Loss for Dense Object Detection".
    """
    of_source = alpha * (-logits).sigmoid() ** gamma * functional.logsigmoid(logits)
    of_target = (1 - alpha) * logits.sigmoid() ** gamma * functional.logsigmoid(-logits)
    return -torch.where(is_source, of_source, of_target).mean()


class DatnetObjective(TwoCrfObjective):
    """ℓ(x) + ℓ(x + ε g / ‖g‖), with ℓ = L_s + L_t + the discriminator's loss and g = ∇_x (L_s + L_t − λ the latter).

    The discriminator reads what both domains share: with a private BiLSTM for each domain (DATNet-P) the other BiLSTM's
    states, else all that the CRFs read (DATNet-F). x are a sentence's inputs: subword embeddings, or word vectors with
    what is read of their characters. Departures: inputs are not normalised; instead ε counts in their standard
    deviations, over the batch, which is the same noise. g passes the reversal of gradients on its way to x, so that it
    has the discriminator's part with the sign turned, times λ; the paper has ∇_x ℓ(x). Both domains are in each batch;
    the released code alternates, takes g from the tags' loss alone, for words and characters apart, and counts the
    discriminator in ℓ(x) only. That code: word vectors of 300 and a CNN over characters, BiLSTMs of 100 (DATNet-P) or
    200 (DATNet-F), lazy Adam at 1e-3, batches of 32, 50 epochs, dropout 0.2 on the inputs and 0.5 on the BiLSTMs. The
    study `pdaln_baselines`: the same sizes of the BiLSTMs and batches, on word vectors AdamW at 1e-3, ten epochs,
    dropout 0.5.
    Source: Zhou et al. 2019, "Dual Adversarial Neural Transfer for Low-Resource Named Entity Recognition", ACL,
    section 3.
    """

    def __init__(self, recipe: Recipe, targets: int, model: TokenTagger) -> None:
        super().__init__(recipe, targets, model)
        assert isinstance(model, Crf) and isinstance(self.parts, nn.ModuleDict)
        self.shared_size = model.head.in_features
        self.private: nn.LSTM | None = None
        if isinstance(model, BilstmCrf) and model.private is not None:
            self.shared_size //= 2
            self.private = copy.deepcopy(model.private)
            self.private.reset_parameters()
            self.parts["private"] = self.private
        self.discriminator = Discriminator(self.shared_size) if recipe.datnet_reversal else None
        if self.discriminator is not None:
            self.parts["discriminator"] = self.discriminator

    def loss(self, model: TokenTagger, batch: Batch, sentences: Sequence[int], step: int) -> Tensor:
        """Return ℓ(x), plus ℓ(x + noise) unless ε is 0, a scalar."""
        if not self.recipe.datnet_epsilon:
            return super().loss(model, batch, sentences, step)
        with inputs_kept(model) as inputs:
            plain = super().loss(model, batch, sentences, step)
        (gradient,) = torch.autograd.grad(plain, inputs[0], retain_graph=True)  # (B, L, H)
        noise = self.recipe.datnet_epsilon * spread(inputs[0], batch.attention_mask) * unit_noise(gradient, batch)
        with input_noise(model, noise):
            return plain + super().loss(model, replace(batch, hidden=None).with_host(batch.host), sentences, step)

    def read(self, model: Crf, batch: Batch, *, is_source: bool) -> Tensor:
        """Return what the CRF of a domain reads, (B, W, R), the shared part first."""
        if is_source and isinstance(model, BilstmCrf):
            return model.read(batch, self.private)
        return model.read(batch)

    def terms(self, model: Crf, source: Domain | None, target: Domain | None) -> Tensor:
        """Return the discriminator's loss, whose gradient is reversed on its way to the shared layers."""
        domains = [domain for domain in (source, target) if domain is not None]
        if self.discriminator is None:
            return torch.zeros((), device=domains[0].read.device)
        width = max(domain.read.shape[1] for domain in domains)
        shared = torch.cat([_as_wide(domain.read[..., : self.shared_size], width) for domain in domains])  # (B, W, S)
        mask = torch.cat([_as_wide(domain.batch.mask.unsqueeze(-1), width).squeeze(-1) for domain in domains])
        logits = self.discriminator(Reversed.apply(shared, self.recipe.datnet_reversal), mask)
        rows = [domain is source for domain in domains for _ in range(len(domain.read))]
        is_source = sent_ahead(torch.tensor(rows), mask.device)  # (B,)
        return resource_loss(logits, is_source, self.recipe.datnet_alpha, self.recipe.datnet_gamma)


def spread(inputs: Tensor, mask: Tensor) -> Tensor:
    """Return the standard deviation of inputs (B, L, H) where the mask (B, L) is 1, a scalar without gradient."""
    shown, values = mask.unsqueeze(-1), inputs.detach()
    count = mask.sum() * inputs.shape[-1]
    mean = (values * shown).sum() / count
    return (((values - mean).square() * shown).sum() / (count - 1)).sqrt()


def _as_wide(values: Tensor, width: int) -> Tensor:
    """Return values (B, W', …) with zeros behind them, (B, width, …)."""
    return functional.pad(values, (0, 0, 0, width - values.shape[1]))
