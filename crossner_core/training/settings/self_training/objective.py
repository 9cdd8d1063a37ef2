"""A student's loss: that of the labels, and cross-entropy to a teacher's soft targets on unlabelled sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from crossner_core.encoders.base import Encoder
from crossner_core.encoders.pooling import sentences_at_once
from crossner_core.encoders.windows import Batch, Window, sent_ahead
from crossner_core.errors import CheckpointError, CheckpointMismatch
from crossner_core.models.base import TokenTagger
from crossner_core.schema import Sentence
from crossner_core.training.batches import drawn_alike, ordered_batches
from crossner_core.training.recipe import Recipe
from crossner_core.training.settings.self_training.proposals import ProposalModel

_STEP = 7


class SelfTrainingObjective:
    """Loss of the labels + weight × cross-entropy to the teacher's tag probabilities on unlabelled tokens.

    The teacher's soft targets `targets` (T, K), with T tokens in all windows, are computed once before the student
    starts, without dropout, where one of its steps will read them; they are saved with a run's state, as a resumed run
    no longer has the teacher.
    """

    def __init__(
        self,
        recipe: Recipe,
        bare: Sequence[Sentence],
        model: TokenTagger,
        encoder: Encoder,
        former: TokenTagger | None,
        steps: int,
        proposals: ProposalModel | None = None,
    ) -> None:
        self.recipe, self.encoder = recipe, encoder
        self.parts: nn.Module = nn.Module()
        self.windows: list[Window] = encoder.windows(bare)
        sizes = [len(window.positions) for window in self.windows]
        self.starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.targets = torch.zeros(int(self.starts[-1]), len(model.tags), dtype=torch.float16)
        self.has_targets = former is not None
        if former is not None:
            if former.tags != model.tags:
                raise CheckpointMismatch(
                    f"The teacher has the tags {', '.join(former.tags)}, not {', '.join(model.tags)}, in this order; "
                    "train it for the same types, or start without it."
                )
            drawn = {index for step in range(steps if self.windows else 0) for index in self._drawn(step)}
            self._compute_targets(former, sorted(drawn))
            if proposals is not None:
                self._weigh(proposals, bare)

    def loss(self, model: TokenTagger, batch: Batch, sentences: Sequence[int], step: int) -> Tensor:
        """Return the loss of a batch of labelled sentences and of unlabelled ones drawn by seed and step, a scalar."""
        if not self.has_targets:
            raise CheckpointError("The teacher's soft targets are not in the run's state; start the run afresh.")
        labelled, weight = model.loss(batch), self.recipe.self_training_weight
        if not self.windows or weight == 0:
            return labelled
        chosen = self._drawn(step)
        device = batch.mask.device
        drawn = self.encoder.collate([self.windows[index] for index in chosen]).to(device)
        soft = sent_ahead(self._targets(chosen, drawn.mask.shape[1]), device)  # (B, W, K)
        sure = (soft.max(-1).values >= self.recipe.self_training_threshold) & drawn.mask  # (B, W)
        sharp = soft**self.recipe.self_training_sharpen
        sharp = sharp / sharp.sum(-1, keepdim=True).clamp(min=1e-9)
        losses = -(sharp * model.tag_log_probabilities(drawn)).sum(-1)  # (B, W)
        return labelled + weight * (losses * sure).sum() / drawn.mask.sum().clamp(min=1)

    def after_step(self, model: TokenTagger) -> None:
        """Do nothing: the teacher does not change."""

    def state(self) -> dict[str, Tensor]:
        """Return the soft targets."""
        return {"targets": self.targets}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        self.targets, self.has_targets = state["targets"], True

    @torch.no_grad()
    def _compute_targets(self, teacher: TokenTagger, read: Sequence[int]) -> None:
        training = teacher.training
        teacher.eval()
        device = next(teacher.parameters()).device
        lengths = [len(self.windows[index].input_ids) for index in read]
        for rows in ordered_batches(lengths, sentences_at_once(device)):
            chosen = [read[row] for row in rows]
            batch = self.encoder.collate([self.windows[index] for index in chosen]).to(device)
            soft = teacher.tag_log_probabilities(batch).exp().to("cpu", torch.float16)  # (B, W, K)
            for row, index in enumerate(chosen):
                self.targets[self.starts[index] : self.starts[index + 1]] = soft[
                    row, : len(self.windows[index].positions)
                ]
        teacher.train(training)

    def _weigh(self, proposals: ProposalModel, bare: Sequence[Sentence]) -> None:
        """Multiply the teacher's probabilities by the likelihood of what gazetteer and links propose."""
        for index, window in enumerate(self.windows):
            if (likelihood := proposals.likelihoods(bare[window.sentence])) is not None:
                part = slice(int(self.starts[index]), int(self.starts[index + 1]))
                joint = self.targets[part].double() * torch.from_numpy(likelihood[window.start : window.end])
                self.targets[part] = (joint / joint.sum(-1, keepdim=True).clamp(min=1e-12)).to(torch.float16)

    def _drawn(self, step: int) -> list[int]:
        """Draw a step's windows, of similar length; each is equally likely."""
        rng = np.random.default_rng([self.recipe.seed, _STEP, step])
        return drawn_alike(self.windows, self.recipe.self_training_batch, rng)

    def _targets(self, chosen: Sequence[int], width: int) -> Tensor:
        """Return the soft targets of some windows, (B, W, K); 0 where padded."""
        soft = torch.zeros(len(chosen), width, self.targets.shape[1])
        for row, index in enumerate(chosen):
            soft[row, : len(self.windows[index].positions)] = self.targets[
                self.starts[index] : self.starts[index + 1]
            ].float()
        return soft
