"""La-DTL's terms: tokens of the two domains aligned tag by tag, and the two CRFs held together."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from crossner_core.encoders.windows import sent_ahead
from crossner_core.models.base import TokenTagger
from crossner_core.models.crf import Crf
from crossner_core.training.mmd import FIXED, tag_mmd
from crossner_core.training.recipe import Recipe
from crossner_core.training.settings.two_crfs.objective import Domain, SourceCrf, TwoCrfObjective


class LaDtlObjective(TwoCrfObjective):
    """L = L_s + L_t + α Σ_y μ_y MMD²_y + β ‖θ_s − θ_t‖².

    AdamW's weight decay, of matrices alone, takes the place of γ ‖θ‖². MMD²_y compares what the CRFs read of source and
    target tokens with the tag y (a BiLSTM's states, or the encoder's vectors); θ are weights, biases and transitions of
    the CRFs. Both terms have only the tags of types that the domains share, and O. Departures from the released code:
    the MMD is unbiased (there it also pulls equal domains together); both CRFs start from the same weights; L_s and L_t
    count alike (there 0.2 and 0.8).
    That code: vectors of 100, a BiLSTM of 100 each way, Adagrad at 0.03, 15 sentences of each domain a step, dropout
    0.5 on the vectors, L2 0.001, 200 epochs. The study `pdaln_baselines`: a BiLSTM of the same size, on word vectors
    AdamW at 1e-3, 32 sentences a step, ten epochs, dropout 0.5.
    Source: Wang et al. 2018, "Label-aware Double Transfer Learning for Cross-Specialty Medical Named Entity
    Recognition", NAACL, section 3.
    """

    def __init__(self, recipe: Recipe, targets: int, model: TokenTagger, shared: Collection[str]) -> None:
        super().__init__(recipe, targets, model)
        self.shared = [index for index, tag in enumerate(model.tags) if tag == "O" or tag[2:] in shared]
        self.weights = [recipe.la_dtl_outside, *[1.0] * (len(model.tags) - 1)]

    def terms(self, model: Crf, source: Domain | None, target: Domain | None) -> Tensor:
        recipe = self.recipe
        assert self.crf is not None
        total = recipe.la_dtl_beta * squared_distance(self.crf, model, self.shared)
        if recipe.la_dtl_alpha and source is not None and target is not None:
            aligned = tag_mmd(
                source.read,
                source.batch.tags,
                target.read,
                target.batch.tags,
                weights=self.weights,
                estimator="unbiased",
                bandwidths="fixed",
            )
            total = total + recipe.la_dtl_alpha * len(FIXED) * aligned  # our kernel is the mean of the 19
        return total


def squared_distance(source: SourceCrf, target: Crf, tags: Collection[int]) -> Tensor:
    """Return ‖θ_s − θ_t‖² over the parameters of these tags, as indices: rows of the head, and scores of the chain."""
    index = sent_ahead(torch.tensor(list(tags)), target.head.weight.device)
    ours, theirs = target.tag_pairs(), source.chain
    pairs = [
        (source.head.weight[index], target.head.weight[index]),
        (source.head.bias[index], target.head.bias[index]),
        (theirs.start[index], ours.start[index]),
        (theirs.end[index], ours.end[index]),
        (theirs.transitions[index][:, index], ours.transitions[index][:, index]),
    ]
    return torch.stack([(one - other).square().sum() for one, other in pairs]).sum()
