"""What a student minimises: the labels' loss, and the teacher's word on bare sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from crossner_core.errors import CheckpointError
from crossner_core.models.base import Batch, TokenTagger
from crossner_core.schema import Sentence
from crossner_core.training.batches import Window, collate, encode, ordered_batches

if TYPE_CHECKING:
    from crossner_core.adaptation.self_training.names import NamesSay
    from crossner_core.training.predictor import Predictor
    from crossner_core.training.recipe import Recipe

_STEP = 7
# So many times the sentences wanted are drawn and sorted by length, to take a stretch: padding costs most.
_POOLS = 4
_BATCH = 64


class SelfTrainingObjective:
    """Loss of the labels + weight × cross-entropy to the teacher's tag probabilities on bare tokens.

    The teacher speaks once, before the student begins, without dropout; `targets` are kept with a run's state, as the
    teacher is gone when a run is resumed.
    """

    def __init__(
        self,
        recipe: Recipe,
        bare: Sequence[Sentence],
        predictor: Predictor,
        former: TokenTagger | None,
        names: NamesSay | None = None,
    ) -> None:
        self.recipe = recipe
        self.parts: nn.Module = nn.Module()
        self.pad = int(predictor.tokenizer.pad_token_id)
        self.windows: list[Window] = encode(bare, predictor.tokenizer, predictor.max_length)
        sizes = [len(window.positions) for window in self.windows]
        self.starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.targets = torch.zeros(int(self.starts[-1]), len(predictor.model.tags), dtype=torch.float16)
        self.heard = former is not None
        if former is not None:
            self._hear(former)
            if names is not None:
                self._hear_names(names, bare)

    def loss(self, model: TokenTagger, batch: Batch, sentences: Sequence[int], step: int) -> Tensor:
        """Return the loss of a batch of labelled sentences and of bare ones drawn by seed and step, a scalar."""
        if not self.heard:
            raise CheckpointError("The teacher's word is not in the run's state; start the run afresh.")
        labelled, weight = model.loss(batch), self.recipe.self_training_weight
        if not self.windows or weight == 0:
            return labelled
        chosen = self._draw(np.random.default_rng([self.recipe.seed, _STEP, step]))
        device = batch.mask.device
        there = collate([self.windows[at] for at in chosen], self.pad).to(device)
        said = self._said(chosen, there.mask.shape[1]).to(device)  # (B, W, K)
        sure = (said.max(-1).values >= self.recipe.self_training_threshold) & there.mask  # (B, W)
        sharp = said**self.recipe.self_training_sharpen
        sharp = sharp / sharp.sum(-1, keepdim=True).clamp(min=1e-9)
        words = -(sharp * model.tag_log_probabilities(there)).sum(-1)  # (B, W)
        return labelled + weight * (words * sure).sum() / there.mask.sum().clamp(min=1)

    def after_step(self, model: TokenTagger) -> None:
        """Do nothing: the teacher stays as it was."""

    def state(self) -> dict[str, Tensor]:
        """Return the teacher's word."""
        return {"targets": self.targets}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Put back what `state` gave."""
        self.targets, self.heard = state["targets"], True

    @torch.no_grad()
    def _hear(self, teacher: TokenTagger) -> None:
        training = teacher.training
        teacher.eval()
        device = next(teacher.parameters()).device
        for rows in ordered_batches([len(window.input_ids) for window in self.windows], _BATCH):
            batch = collate([self.windows[at] for at in rows], self.pad).to(device)
            shares = teacher.tag_log_probabilities(batch).exp().to("cpu", torch.float16)  # (B, W, K)
            for row, at in enumerate(rows):
                self.targets[self.starts[at] : self.starts[at + 1]] = shares[row, : len(self.windows[at].positions)]
        teacher.train(training)

    def _hear_names(self, names: NamesSay, bare: Sequence[Sentence]) -> None:
        """Multiply the teacher's probabilities by the likelihood of what gazetteer and links propose."""
        for at, window in enumerate(self.windows):
            if (said := names.about(bare[window.sentence])) is not None:
                part = slice(int(self.starts[at]), int(self.starts[at + 1]))
                heard = self.targets[part].double() * torch.from_numpy(said[window.start : window.end])
                self.targets[part] = (heard / heard.sum(-1, keepdim=True).clamp(min=1e-12)).to(torch.float16)

    def _draw(self, rng: np.random.Generator) -> list[int]:
        """Draw windows of similar length, each as likely as any other."""
        count = min(self.recipe.self_training_batch, len(self.windows))
        pools = max(1, min(_POOLS, len(self.windows) // count))
        drawn = rng.choice(len(self.windows), pools * count, replace=False).tolist()
        drawn.sort(key=lambda at: len(self.windows[at].input_ids))
        start = int(rng.integers(pools)) * count
        return drawn[start : start + count]

    def _said(self, chosen: Sequence[int], width: int) -> Tensor:
        said = torch.zeros(len(chosen), width, self.targets.shape[1])
        for row, at in enumerate(chosen):
            said[row, : len(self.windows[at].positions)] = self.targets[self.starts[at] : self.starts[at + 1]].float()
        return said
