"""What a stage minimises where it is not the model's own loss: several batches, a teacher, terms that pull together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from torch import Tensor, nn

from crossner_core.models.base import Batch, TokenTagger


class Objective(Protocol):
    """One stage's loss with whatever it needs beside the model.

    `parts` holds what it learns itself (may be empty): trained with the model, at the head's rate, not kept with the
    tagger. All it draws must follow from the stage's seed and `step`, so that a resumed run draws the same.
    """

    parts: nn.Module

    def loss(self, model: TokenTagger, batch: Batch, sentences: Sequence[int], step: int) -> Tensor:
        """Return the loss, a scalar; `sentences` are the batch's rows as indices into the stage's sentences."""
        ...

    def after_step(self, model: TokenTagger) -> None:
        """Be told that the optimizer has made a step."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Return what changes from step to step apart from `parts`, such as a moving average."""
        ...

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Put back what `state` gave."""
        ...
