"""The loss of a PDALN stage and its terms: tags, MMD at two levels, contrast and, in rounds, soft targets."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from crossner_core.encoders.base import Encoder
from crossner_core.encoders.windows import IGNORED, Batch, sent_ahead
from crossner_core.errors import CheckpointMismatch
from crossner_core.models.base import TokenTagger
from crossner_core.training.checkpoint import prefixed, within
from crossner_core.training.mmd import squared_mmd, tag_mmd
from crossner_core.training.perturbation import input_noise, unit_noise
from crossner_core.training.recipe import Recipe
from crossner_core.training.settings.pdaln.companions import Companions
from crossner_core.training.settings.pdaln.material import Material

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
    own = torch.arange(2 * count, device=scores.device) == (itself + count).unsqueeze(1)  # (N, 2N)
    scores = scores.masked_fill(own, float("-inf"))
    return functional.cross_entropy(scores, itself)


class Projection(nn.Module):
    """z = Wᵀ h, without a bias. Source: PDALN eq. 7; its size is not given, ours is half the encoder's."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(hidden_size, max(2, hidden_size // 2), bias=False)

    def forward(self, vectors: Tensor) -> Tensor:
        return self.linear(vectors)


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
        length = (table[plain.input_ids].norm(dim=-1) * plain.attention_mask).sum() / plain.attention_mask.sum()
        clean = model.tag_log_probabilities(plain)  # (B, W, K)
    shape = (*plain.input_ids.shape, table.shape[-1])  # (B, L, H)
    first = sent_ahead(torch.from_numpy(rng.standard_normal(shape, dtype=np.float32)), table.device)
    probe = (unit_noise(first, plain) * length * _PROBE).requires_grad_()
    with input_noise(model, probe):
        moved = model.tag_log_probabilities(plain)
    (direction,) = torch.autograd.grad(kl_divergence(clean, moved, plain.mask), probe)
    with input_noise(model, unit_noise(direction, plain) * length * size):
        worst = model.tag_log_probabilities(plain)
    return kl_divergence(clean, worst, plain.mask)


def kl_divergence(clean: Tensor, moved: Tensor, mask: Tensor) -> Tensor:
    return (clean.exp() * (clean - moved)).sum(-1).where(mask, 0.0).sum()


# Combined with the seed: random stream for a step's companions and distortions.
_STEP = 3


class PdalnObjective:
    """The loss of one stage; each batch is accompanied by target sentences and distorted copies.

    Source: PDALN eq. 8 (no target labels), 9 (base stage), 10 and 11 (rounds). The teacher of a round is the model at
    the start of the round (progressive) or the student's moving average (mean_teacher); vat has none. Its tag
    probabilities on each token (a CRF's marginals; "outputs" in eq. 11) are the targets of a cross-entropy. Contrast is
    between the step's labelled sentences, like D in eq. 7; unlabelled ones only enter the sentence MMD. Departures: a
    sentence's vector is the encoder's at [CLS], not its pooler's output; the sentences that a step compares are each of
    similar length, so that a part of their MMD is of length; the word MMD counts at most MOST_TOKENS of a tag and
    domain; AdamW with clipping in place of Adam.
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
        self.teacher.eval()  # so that it reads again what it keeps of its types' texts

    def state(self) -> dict[str, Tensor]:
        """Return the teacher and the synonyms: they depend on weights that a resumed run no longer has."""
        saved = {"neighbours": self.companions.neighbours}
        return saved | (prefixed("teacher", self.teacher.state_dict()) if self.teacher is not None else {})

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        if self.companions.distorts and bool(len(state["neighbours"])) != bool(len(self.companions.neighbours)):
            raise CheckpointMismatch(
                "The run's synonyms came from another source than here (WordNet, or the encoder's embeddings): go on "
                "where WordNet is as it was, or start the run afresh."
            )
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
        loss = _mean_loss(model, self._learnt(labelled))
        kernel = {"estimator": recipe.pdaln_estimator, "bandwidths": recipe.pdaln_bandwidths}
        over = [*labelled[1:], *([bare] if bare is not None else [])]
        if recipe.pdaln_use_sentence_mmd and over:
            alpha = recipe.pdaln_alpha if self.material.supervised else recipe.pdaln_alpha_unsupervised
            target = torch.cat([sentence_vectors(part) for part in over])
            loss = loss + alpha * squared_mmd(sentence_vectors(labelled[0]), target, **kernel)
        if recipe.pdaln_use_word_mmd and len(labelled) > 1:
            first, second = labelled[:2]
            weights = [recipe.pdaln_tag_weight] * len(model.tags)
            vectors = [model.token_vectors(part) for part in (first, second)]  # (B, W, H)
            words = tag_mmd(vectors[0], first.tags, vectors[1], second.tags, weights=weights, **kernel)
            loss = loss + recipe.pdaln_beta * words
        return loss

    def _distorted(self, model: TokenTagger, labelled: Sequence[Batch], copies: Sequence[Batch]) -> Tensor:
        """Return the contrastive loss of the sentences and their copies, plus the copies' tag loss if enabled."""
        loss = torch.zeros((), device=copies[0].mask.device)
        if self.recipe.pdaln_use_contrastive:
            first, second = (self.parts(torch.cat(list(map(sentence_vectors, part)))) for part in (labelled, copies))
            contrast = contrastive_loss(first, second, self.recipe.pdaln_temperature)
            loss = loss + self.recipe.pdaln_contrastive_weight * contrast
        return loss + _mean_loss(model, self._learnt(copies)) if self.recipe.pdaln_label_distorted else loss

    def _learnt(self, batches: Sequence[Batch]) -> Sequence[Batch]:
        """Return the batches whose tags are learnt: the step's own, and that of drawn target sentences if enabled."""
        return batches if self.recipe.pdaln_labels == "drawn" else batches[:1]

    def _distilled(self, model: TokenTagger, batches: Sequence[Batch], rng: np.random.Generator) -> Tensor:
        """Return the mean over tokens of the cross-entropy to soft targets, or of the adversarial loss.

        With `pdaln_distil_tokens` entities only their tokens count. Source: PDALN eq. 11, "containing N entities".
        """
        if self.teacher is None:
            return adversarial_loss(model, batches, self.recipe.pdaln_noise, rng)
        total = count = torch.zeros((), device=batches[0].mask.device)
        for batch in batches:
            with torch.no_grad():
                soft = self.teacher.tag_log_probabilities(batch.bare()).exp()  # (B, W, K)
            losses = -(soft * model.tag_log_probabilities(batch)).sum(-1)  # (B, W)
            counted = batch.mask
            if self.recipe.pdaln_distil_tokens == "entities":
                counted = counted & entity_tokens(batch, soft, model.tags.index("O"))
            total, count = total + losses.where(counted, 0.0).sum(), count + counted.sum()
        return total / count.clamp(min=1)


def sentence_vectors(batch: Batch) -> Tensor:
    """Return the encoder's vectors at [CLS], (B, H); the batch must have been encoded."""
    assert batch.hidden is not None
    return batch.hidden[:, 0]


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
