"""The loss of a stage with a CRF for each domain: batches divided by domain, and the source's own CRF."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from crossner_core.encoders.windows import Batch, sent_ahead
from crossner_core.errors import InvalidConfig
from crossner_core.models._linear_chain import Chain
from crossner_core.models.base import TokenTagger
from crossner_core.models.crf import Crf, path_loss
from crossner_core.training.recipe import Recipe


class SourceCrf(nn.Module):
    """The source's CRF over what a tagger's own CRF reads, from the same initial weights."""

    def __init__(self, model: Crf) -> None:
        super().__init__()
        self.head = copy.deepcopy(model.head)
        self.start, self.moves, self.end = (nn.Parameter(part.detach().clone()) for part in model.tag_pairs())

    @property
    def chain(self) -> Chain:
        """Scores of first tags, transitions and last tags."""
        return Chain(self.start, self.moves, self.end)


@dataclass(frozen=True, slots=True)
class Domain:
    """A batch's windows of one domain, and what a CRF reads of their tokens, (B, W, R)."""

    batch: Batch
    read: Tensor


class TwoCrfObjective:
    """Base of the objectives: L_s + L_t + `terms`, over the mean number of tokens of the batch's sentences.

    The model's CRF is the target's; the source's is in `parts`. The papers' losses are means over sentences; dividing
    their sum by the sentences' length keeps it near that of other settings, and the weights in proportion. Every batch
    has its share of both domains, where the papers draw a batch of each; a domain that is too small for that adds
    nothing where it is missing. `targets` of the stage's sentences, the first ones, are the target's; where there are
    none, the model's CRF learns from the source's, and `crf` is None.
    """

    def __init__(self, recipe: Recipe, targets: int, model: TokenTagger) -> None:
        if not isinstance(model, Crf):
            raise InvalidConfig(f"Setting {recipe.setting!r} needs a CRF; {type(model).__name__} has none.")
        self.recipe, self.targets = recipe, targets
        self.crf = SourceCrf(model) if targets else None
        self.parts: nn.Module = nn.ModuleDict({"crf": self.crf} if self.crf else {})
        if self.crf:
            scales = {f"objective_parts.crf.{name}": scale for name, scale in model.rate_scales.items()}
            model.rate_scales = model.rate_scales | scales

    def loss(self, model: TokenTagger, batch: Batch, sentences: Sequence[int], step: int) -> Tensor:
        """Return the loss of a batch, a scalar."""
        assert isinstance(model, Crf)
        # One pass of the encoder for both domains.
        batch = replace(batch, hidden=model.hidden(batch)).with_host(batch.sizes)
        ours = torch.tensor([sentence < self.targets for sentence in sentences])  # (B,), on the CPU
        source, target = self._domain(model, batch, ~ours, is_source=True), self._domain(model, batch, ours)
        total = torch.zeros((), device=batch.mask.device)
        own = (model.head, model.tag_pairs())
        for domain, (head, chain) in ((source, (self.crf.head, self.crf.chain) if self.crf else own), (target, own)):
            if domain is not None:
                scores = head(model.dropout(domain.read)).float()  # (B, W, K)
                total = total + _per_sentence(path_loss(scores, domain.batch, chain), domain.batch)
        return (total + self.terms(model, source, target)) * len(sentences) / batch.mask.sum()

    def read(self, model: Crf, batch: Batch, *, is_source: bool) -> Tensor:
        """Return what the CRF of a domain reads, (B, W, R)."""
        return model.read(batch)

    def terms(self, model: Crf, source: Domain | None, target: Domain | None) -> Tensor:
        """Return the terms besides the CRFs' losses, a scalar."""
        raise NotImplementedError

    def after_step(self, model: TokenTagger) -> None:
        """Do nothing."""

    def state(self) -> dict[str, Tensor]:
        """Return nothing: all that changes is in `parts`."""
        return {}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Do nothing."""

    def _domain(self, model: Crf, batch: Batch, rows: Tensor, *, is_source: bool = False) -> Domain | None:
        """Return the windows of a domain, rows (B,) of the batch, on the CPU; None if it has none."""
        if not rows.any():
            return None
        part = rows_of(batch, rows)
        return Domain(part, self.read(model, part, is_source=is_source))


def rows_of(batch: Batch, rows: Tensor) -> Batch:
    """Return the windows of a batch at these rows (B,), True where they stay, with the vectors it has of them.

    They are as wide as their longest; the vectors keep their padding. Rows are on the CPU: no GPU is waited for.
    """
    sizes = batch.sizes.at(rows, batch.attention_mask.shape[1])
    width = int(sizes.lengths.max())
    places = sent_ahead(rows.nonzero().squeeze(1), batch.mask.device)  # (B',)
    return replace(
        batch,
        input_ids=batch.input_ids[places],
        attention_mask=batch.attention_mask[places],
        positions=batch.positions[places, :width],
        mask=batch.mask[places, :width],
        tags=batch.tags[places, :width],
        foreign=None if batch.foreign is None else batch.foreign[places],
        hidden=None if batch.hidden is None else batch.hidden[places],
    ).with_host(sizes)


def _per_sentence(loss: Tensor, batch: Batch) -> Tensor:
    """Return a mean over a batch's tokens as one over its sentences."""
    return loss * batch.mask.sum() / len(batch.mask)
