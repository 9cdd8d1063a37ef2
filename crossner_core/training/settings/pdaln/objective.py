"""The loss of a PDALN stage and its terms: tags, MMD at two levels, contrast and, in rounds, soft targets."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from crossner_core.encoders.base import Encoder
from crossner_core.encoders.windows import IGNORED, Batch
from crossner_core.models.base import TokenTagger
from crossner_core.training.checkpoint import prefixed, within
from crossner_core.training.recipe import Recipe
from crossner_core.training.settings.pdaln.companions import Companions
from crossner_core.training.settings.pdaln.material import Material

# σ of exp(−d² / 2σ). Source: the 19 widths of La-DTL's code.
FIXED = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 100.0, 1e3, 1e4, 1e5, 1e6)
# Widths of exp(−d² / w) as multiples of the median squared distance.
MEDIANS = (0.25, 0.5, 1.0, 2.0, 4.0)
# Noise of the single power iteration, as a fraction of the embeddings' length.
_PROBE = 0.1


def contrastive_loss(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """Return the mean loss of identifying each sentence's copy; 0 without sentences.

    `first` (N, Z) are the sentences' vectors, `second` (N, Z) their distorted copies'. Departures from eq. 7: its
    numerator exp(z · z̄)/τ is read as exp(z · z̄ / τ), like its denominator; z are normalised (cosine), since at τ =
    0.05 the exponent is unbounded otherwise.
    """
    if not len(first):
        return first.new_zeros(())
    count = len(first)
    one = functional.normalize(first, dim=-1)
    all_of_them = torch.cat([functional.normalize(second, dim=-1), one])  # (2N, Z): copies, then the sentences
    scores = one @ all_of_them.T / temperature  # (N, 2N)
    itself = torch.arange(count, device=scores.device)
    scores = scores.masked_fill(functional.one_hot(itself + count, 2 * count).bool(), float("-inf"))
    return functional.cross_entropy(scores, itself)


class Projection(nn.Module):
    """z = Wᵀ h, without a bias. Source: PDALN eq. 7; its size is not given, ours is half the encoder's."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(hidden_size, max(2, hidden_size // 2), bias=False)

    def forward(self, vectors: Tensor) -> Tensor:
        return self.linear(vectors)


def squared_mmd(first: Tensor, second: Tensor, *, estimator: str = "biased", bandwidths: str = "fixed") -> Tensor:
    """Return the squared MMD of two sets of vectors (N, H) and (M, H), a scalar; 0 for sets that are too small.

    The kernel is the mean over the bandwidths (La-DTL sums them: its weights are ours over 19), in single precision.
    Biased needs one vector in each set and never falls below 0; unbiased excludes pairs of a vector with itself, needs
    two, and may fall below 0. With `median`, no gradient flows through the widths.
    Source: PDALN eq. 4 (biased); Gretton et al. 2012, eq. 3 (unbiased).
    """
    n, m = len(first), len(second)
    if min(n, m) < (2 if estimator == "unbiased" else 1):
        return first.new_zeros((), dtype=torch.float32)
    together = torch.cat([first, second]).float()  # (N + M, H)
    # Differences rather than products: the distance between equal vectors is exactly 0, with a gradient of 0.
    distances = torch.cdist(together, together, compute_mode="donot_use_mm_for_euclid_dist").square()
    kernel = _kernel(distances, _widths(distances, bandwidths))  # (N + M, N + M)
    across = kernel[:n, n:].mean()
    if estimator == "unbiased":
        return _mean_of_others(kernel[:n, :n]) + _mean_of_others(kernel[n:, n:]) - 2.0 * across
    return kernel[:n, :n].mean() + kernel[n:, n:].mean() - 2.0 * across


def _widths(distances: Tensor, bandwidths: str) -> Tensor:
    if bandwidths == "fixed":
        return 2.0 * distances.new_tensor(FIXED)
    size = len(distances)
    apart = ~torch.eye(size, dtype=torch.bool, device=distances.device)
    median = distances.detach()[apart].median().clamp(min=1e-12)
    return median * distances.new_tensor(MEDIANS)


def _kernel(distances: Tensor, widths: Tensor) -> Tensor:
    total = torch.zeros_like(distances)
    for width in widths:
        total = total + torch.exp(-distances / width)
    return total / len(widths)


def _mean_of_others(kernel: Tensor) -> Tensor:
    size = len(kernel)
    return (kernel.sum() - kernel.diagonal().sum()) / (size * (size - 1))


def adversarial_loss(model: TokenTagger, batches: Sequence[Batch], size: float, rng: np.random.Generator) -> Tensor:
    """Return the mean over tokens of KL(tags without noise ‖ tags with it), a scalar.

    Noise of `size` × the mean length of a token's embedding is added to a sentence's embeddings as a whole. Dropout is
    off, as its noise would interfere; the passes are in single precision. Source: Miyato et al. 2017, "Adversarial
    Training Methods for Semi-Supervised Text Classification", eq. 7 to 9, with KL summed over a sentence's tokens.
    """
    training, low = model.training, model.use_bf16
    model.eval()
    model.use_bf16 = False
    try:
        total, count = torch.zeros((), device=batches[0].mask.device), 0
        for batch in batches:
            total, count = total + _divergence(model, batch, size, rng), count + int(batch.sizes.lengths.sum())
        return total / max(count, 1)
    finally:
        model.train(training)
        model.use_bf16 = low


def _divergence(model: TokenTagger, batch: Batch, size: float, rng: np.random.Generator) -> Tensor:
    plain = batch.bare()
    with torch.no_grad():
        table = model.encoder.get_input_embeddings().weight
        length = table[plain.input_ids].norm(dim=-1)[plain.attention_mask.bool()].mean()
        clean = model.tag_log_probabilities(plain)  # (B, W, K)
    shape = (*plain.input_ids.shape, table.shape[-1])  # (B, L, H)
    first = torch.from_numpy(rng.standard_normal(shape, dtype=np.float32)).to(table.device)
    probe = (unit_noise(first, plain) * length * _PROBE).requires_grad_()
    with embedding_noise(model, probe):
        moved = model.tag_log_probabilities(plain)
    (direction,) = torch.autograd.grad(kl_divergence(clean, moved, plain.mask), probe)
    with embedding_noise(model, unit_noise(direction, plain) * length * size):
        worst = model.tag_log_probabilities(plain)
    return kl_divergence(clean, worst, plain.mask)


def kl_divergence(clean: Tensor, moved: Tensor, mask: Tensor) -> Tensor:
    return (clean.exp() * (clean - moved)).sum(-1)[mask].sum()


def unit_noise(noise: Tensor, batch: Batch) -> Tensor:
    """Return the noise with padding zeroed and each sentence's scaled to length 1."""
    noise = noise * batch.attention_mask.unsqueeze(-1)
    return noise / noise.flatten(1).norm(dim=1).clamp(min=1e-12)[:, None, None]


@contextmanager
def embedding_noise(model: TokenTagger, noise: Tensor) -> Iterator[None]:
    """Add noise (B, L, H) to the encoder's subword embeddings."""

    def add(_: Any, __: Any, found: Tensor) -> Tensor:
        return found + noise

    hook = model.encoder.get_input_embeddings().register_forward_hook(add)
    try:
        yield
    finally:
        hook.remove()


# Maximum token vectors per tag and domain in the word MMD: O has hundreds per batch, and cost is quadratic.
MOST_TOKENS = 128
# Combined with the seed: random stream for a step's companions and distortions.
_STEP = 3


class PdalnObjective:
    """The loss of one stage; each batch is accompanied by target sentences and distorted copies.

    Source: PDALN eq. 8 (no target labels), 9 (base stage), 10 and 11 (rounds). The teacher of a round is the model at
    the start of the round (progressive) or the student's moving average (mean_teacher); vat has none. Its tag
    probabilities on each token (a CRF's marginals; "outputs" in eq. 11) are the targets of a cross-entropy. Contrast is
    between the step's labelled sentences, like D in eq. 7; unlabelled ones only enter the sentence MMD.
    """

    def __init__(
        self, recipe: Recipe, material: Material, model: TokenTagger, encoder: Encoder, former: TokenTagger | None
    ) -> None:
        self.recipe, self.material = recipe, material
        self.companions = Companions(recipe, material, model, encoder)
        self.parts: nn.Module = nn.Module()
        if recipe.pdaln_use_contrastive:
            self.parts = Projection(encoder.hidden_size)
        if former is not None and material.round:
            _take_over(model, self.parts, former)
        self.teaches = bool(material.round) and recipe.pdaln_use_distillation
        self.teacher: TokenTagger | None = None
        if self.teaches and recipe.pdaln_student != "vat":
            self.teacher = copy.deepcopy(model).requires_grad_(False).eval()

    def loss(self, model: TokenTagger, batch: Batch, sentences: Sequence[int], step: int) -> Tensor:
        """Return (1 − γ) × adaptation + γ × cross-entropy to soft targets, a scalar; without a teacher γ is 0."""
        rng = np.random.default_rng([self.recipe.seed, _STEP, self.material.round, step])
        own = self.encoded(model, batch)
        target, bare = self.companions.draw(rng, len(sentences))
        labelled = [own, *([self.encoded(model, target.batch)] if target is not None else [])]
        without = self.encoded(model, bare) if bare is not None else None
        adaptation, gamma = self._adaptation(model, labelled, without), self.recipe.pdaln_gamma
        if self.companions.distorts:
            items = [self.companions.items(sentences), *([target.items] if target is not None else [])]
            copies = [self.encoded(model, self.companions.distort(part, rng)) for part in items]
            adaptation = adaptation + self._distorted(model, labelled, copies)
        if not self.teaches or gamma == 0:
            return adaptation
        distilled = [own, *([without] if without is not None and self.recipe.pdaln_distil_on != "augmented" else [])]
        return (1 - gamma) * adaptation + gamma * self._distilled(model, distilled, rng)

    def after_step(self, model: TokenTagger) -> None:
        """Update the mean teacher's moving average."""
        if self.teacher is None or self.recipe.pdaln_student != "mean_teacher":
            return
        student = dict(model.named_parameters())
        with torch.no_grad():
            for name, value in self.teacher.named_parameters():
                value.lerp_(student[name], 1 - self.recipe.pdaln_mean_decay)

    def state(self) -> dict[str, Tensor]:
        """Return the teacher and the synonyms: they depend on weights that a resumed run no longer has."""
        saved = {"neighbours": self.companions.neighbours}
        return saved | (prefixed("teacher", self.teacher.state_dict()) if self.teacher is not None else {})

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        self.companions.neighbours = state["neighbours"]
        if self.teacher is not None:
            self.teacher.load_state_dict(within("teacher", dict(state)))

    def encoded(self, model: TokenTagger, batch: Batch) -> Batch:
        """Return the batch with its vectors, on the model's device: all losses share one encoder pass."""
        moved = batch.to(next(model.parameters()).device)
        moved.hidden = model.hidden(moved)
        return moved

    def _adaptation(self, model: TokenTagger, labelled: Sequence[Batch], bare: Batch | None) -> Tensor:
        """Return the tag loss, sentence MMD and word MMD over a batch and labelled and unlabelled target sentences."""
        recipe = self.recipe
        loss = _mean_loss(model, labelled)
        kernel = {"estimator": recipe.pdaln_estimator, "bandwidths": recipe.pdaln_bandwidths}
        over = [*labelled[1:], *([bare] if bare is not None else [])]
        if recipe.pdaln_use_sentence_mmd and over:
            alpha = recipe.pdaln_alpha if self.material.supervised else recipe.pdaln_alpha_unsupervised
            target = torch.cat([sentence_vectors(part) for part in over])
            loss = loss + alpha * squared_mmd(sentence_vectors(labelled[0]), target, **kernel)
        if recipe.pdaln_use_word_mmd and len(labelled) > 1:
            words = word_mmd(model, labelled[0], labelled[1], recipe.pdaln_tag_weight, **kernel)
            loss = loss + recipe.pdaln_beta * words
        return loss

    def _distorted(self, model: TokenTagger, labelled: Sequence[Batch], copies: Sequence[Batch]) -> Tensor:
        """Return the contrastive loss of the sentences and their copies, plus the copies' tag loss if enabled."""
        loss = torch.zeros((), device=copies[0].mask.device)
        if self.recipe.pdaln_use_contrastive:
            first, second = (self.parts(torch.cat(list(map(sentence_vectors, part)))) for part in (labelled, copies))
            contrast = contrastive_loss(first, second, self.recipe.pdaln_temperature)
            loss = loss + self.recipe.pdaln_contrastive_weight * contrast
        return loss + _mean_loss(model, copies) if self.recipe.pdaln_label_distorted else loss

    def _distilled(self, model: TokenTagger, batches: Sequence[Batch], rng: np.random.Generator) -> Tensor:
        """Return the mean over tokens of the cross-entropy to soft targets, or of the adversarial loss.

        With `pdaln_distil_tokens` entities only their tokens count. Source: PDALN eq. 11, "containing N entities".
        """
        if self.teacher is None:
            return adversarial_loss(model, batches, self.recipe.pdaln_noise, rng)
        total, count = torch.zeros((), device=batches[0].mask.device), 0
        for batch in batches:
            with torch.no_grad():
                soft = self.teacher.tag_log_probabilities(batch.bare()).exp()  # (B, W, K)
            losses = -(soft * model.tag_log_probabilities(batch)).sum(-1)  # (B, W)
            counted = batch.mask
            if self.recipe.pdaln_distil_tokens == "entities":
                counted = counted & entity_tokens(batch, soft, model.tags.index("O"))
            total, count = total + losses[counted].sum(), count + int(counted.sum())
        return total / max(count, 1)


def sentence_vectors(batch: Batch) -> Tensor:
    """Return the encoder's vectors at [CLS], (B, H); the batch must have been encoded."""
    assert batch.hidden is not None
    return batch.hidden[:, 0]


def word_mmd(
    model: TokenTagger, first: Batch, second: Batch, weight: float, *, estimator: str, bandwidths: str
) -> Tensor:
    """Return the sum over tags of weight × squared MMD between the two batches' tokens of that tag.

    Tags without tokens in either batch add nothing; of a tag's tokens the first MOST_TOKENS count.
    Source: PDALN eq. 6.
    """
    total = first.input_ids.new_zeros((), dtype=torch.float32)
    ours, theirs = model.token_vectors(first), model.token_vectors(second)  # (B, W, H)
    common = set(first.tags.unique().tolist()) & set(second.tags.unique().tolist()) - {IGNORED}
    for tag in sorted(common):
        left, right = ours[first.tags == tag][:MOST_TOKENS], theirs[second.tags == tag][:MOST_TOKENS]
        total = total + weight * squared_mmd(left, right, estimator=estimator, bandwidths=bandwidths)
    return total


def entity_tokens(batch: Batch, soft: Tensor, outside: int) -> Tensor:
    """Return which tokens (B, W) are of entities: by their tags, where these are known, else by `soft` (B, W, K)."""
    return torch.where(batch.tags == IGNORED, soft.argmax(-1), batch.tags) != outside


def _mean_loss(model: TokenTagger, batches: Sequence[Batch]) -> Tensor:
    """Return the model's own loss, averaged over the known-tag tokens of all batches."""
    counts = [int(batch.sizes.known.sum()) for batch in batches]
    losses = [model.loss(batch) * count for batch, count in zip(batches, counts, strict=True)]
    return torch.stack(losses).sum() / max(sum(counts), 1)


def _take_over(model: TokenTagger, parts: nn.Module, former: TokenTagger) -> None:
    """Start from the previous stage: all of its weights, including the head's and the projection's."""
    head = {name: value for name, value in former.state_dict().items() if not name.startswith("objective_parts.")}
    model.load_state_dict(head)
    if isinstance(former.objective_parts, Projection):
        parts.load_state_dict(former.objective_parts.state_dict())
