"""A stage of a run as it is planned, and what it may minimise in place of its model's own loss; needs no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from crossner_core.schema import LabelledSentence

if TYPE_CHECKING:
    from torch import Tensor, nn

    from crossner_core.encoders.base import Encoder
    from crossner_core.encoders.windows import Batch
    from crossner_core.models.base import TokenTagger


class Objective(Protocol):
    """One stage's loss with whatever it needs beside the model: several batches, a teacher, terms that pull together.

    `parts` holds what it learns itself (may be empty): trained with the model, at the head's rate, not kept with the
    tagger. All it draws must follow from the stage's seed and `step`, so that a resumed run draws the same.
    """

    parts: nn.Module

    def loss(self, model: TokenTagger, batch: Batch, sentences: Sequence[int], step: int) -> Tensor:
        """Return the loss, a scalar; `sentences` are the batch's rows as indices into the stage's sentences."""
        ...

    def after_step(self, model: TokenTagger) -> None:
        """Do what follows each step of the optimizer."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Return what changes from step to step apart from `parts`, such as a moving average."""
        ...

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Put back what `state` gave."""
        ...


MakeObjective = Callable[["TokenTagger", "Encoder", "TokenTagger | None"], Objective]
"""From the stage's model (on its device), its encoder, and the model of the stage before: None for the first stage, and
where a saved state will be put back into the objective."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One optimisation from start to finish; `types` are the head's, of which the first `scored` are decoded.

    Of its `epochs`, the `head_first_epochs` come before the schedule: the encoder stays as it is, the head has a
    constant rate of its own.
    """

    phase: str
    train: tuple[LabelledSentence, ...]
    dev: tuple[LabelledSentence, ...]
    types: tuple[str, ...]
    scored: int
    learning_rate: float
    head_learning_rate: float
    epochs: int
    batch_size: int
    warmup_share: float
    patience: int
    seed: int
    cached: bool = False
    head_first_epochs: int = 0
    head_first_learning_rate: float = 0.0
    objective: MakeObjective | None = None
    """What the stage minimises in place of the model's own loss; it is made once the model is there."""
    measure_first: bool = False
    """The model as it comes into the stage counts too: it is kept if no epoch is better on dev."""
    fresh: bool = False
    """Its body starts from the pre-trained encoder again, not from that of the stage before."""
    dev_every: int = 1
    """How many epochs there are from one dev score to the next, counted back from the last."""
    notes: tuple[str, ...] = ()
    """How the stage was planned, for the run's notes."""

    def scores_dev(self, epoch: int) -> bool:
        """Return whether dev is scored after so many epochs: not while the head learns alone, always after the last."""
        return epoch > self.head_first_epochs and (self.epochs - epoch) % self.dev_every == 0
