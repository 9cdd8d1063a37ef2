"""A planned stage of a run, and the objective it may minimise instead of its model's own loss; needs no torch."""

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
    """One stage's loss with what it needs besides the model: several batches, a teacher, additional terms.

    `parts` holds its own parameters (may be empty): trained with the model, at the head's rate, not saved with the
    tagger. Random draws must depend only on the stage's seed and `step`, so that a resumed run repeats them.
    """

    parts: nn.Module

    def loss(self, model: TokenTagger, batch: Batch, sentences: Sequence[int], step: int) -> Tensor:
        """Return the loss, a scalar; `sentences` are the batch's rows as indices into the stage's sentences."""
        ...

    def after_step(self, model: TokenTagger) -> None:
        """Run after each step of the optimizer."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Return the state that changes from step to step besides `parts`, such as a moving average."""
        ...

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        ...


MakeObjective = Callable[["TokenTagger", "Encoder", "TokenTagger | None", int], Objective]
"""From the stage's model (on its device), its encoder, the previous stage's model, and the number of steps at most.
There is no previous model in the first stage, or if a saved state will be loaded into the objective."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One optimisation from start to finish; `types` are the head's, of which the first `scored` are decoded.

    Of its `epochs`, the `head_first_epochs` come before the schedule: the encoder is frozen, the head has its own
    constant rate.
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
    """What the stage minimises instead of the model's own loss; created once the model exists."""
    annotated: tuple[frozenset[str], ...] | None = None
    """The types that each training sentence's corpus annotates, where these differ: of others it says nothing."""
    mixed: int = 0
    """So many sentences, the first ones, and the others each have their share of every batch; 0: as chance has it."""
    measure_first: bool = False
    """The stage's initial model counts too: it is kept if no epoch is better on dev."""
    keep_last: bool = False
    """Its last epoch is kept, whatever dev says."""
    reported: bool = False
    """Its scores are part of the result: those of what it leaves, and of its last epoch."""
    fresh: bool = False
    """Its body starts from the pre-trained encoder, not from the previous stage's."""
    dev_every: int = 1
    """Epochs between dev scores, counted back from the last."""
    is_student: bool = False
    """It learns from the model before it, whichever that is: an earlier run's too."""
    notes: tuple[str, ...] = ()
    """How the stage was planned, for the run's notes."""

    def scores_dev(self, epoch: int) -> bool:
        """Return whether dev is scored after this epoch: not during head-only epochs, always after the last."""
        return epoch > self.head_first_epochs and (self.epochs - epoch) % self.dev_every == 0
