"""Options of self-training."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.options.base import option

_ONLY = {"setting": ("self_training", "transfer_self_training")}


@dataclass(frozen=True)
class SelfTrainingOptions:
    """How a student learns from its teacher's soft targets on unlabelled target sentences."""

    self_training_rounds: int = option(
        1, "Students one after the other, each the next one's teacher.", min=1, max=20, only=_ONLY
    )
    self_training_sentences: int = option(
        2000, "Bare sentences a run learns from at most, drawn with the seed.", min=1, max=10_000_000, only=_ONLY
    )
    self_training_batch: int = option(
        16, "Bare target sentences a step, beside the labelled ones.", min=1, max=1024, only=_ONLY
    )
    self_training_weight: float = option(
        1.0, "Weight of the teacher's soft targets against the labels, token for token.", min=0.0, max=100.0, only=_ONLY
    )
    self_training_threshold: float = option(
        0.0, "Tokens whose likeliest tag the teacher gives less than this are left out.", min=0.0, max=1.0, only=_ONLY
    )
    self_training_sharpen: float = option(
        1.0, "The teacher's tag probabilities are raised to this power: 1 as they are.", min=0.1, max=100.0, only=_ONLY
    )
    self_training_fresh: bool = option(
        True,
        "A student starts from the pre-trained encoder, not from its teacher.",
        only={"setting": ("self_training",)},
    )
    self_training_gazetteer: bool = option(
        False,
        "The teacher's soft targets are weighed against what gazetteer and links propose, "
        "as far as gold bears them out.",
        only=_ONLY,
        later=True,
    )
    self_training_epochs: int = option(
        16, "Passes over the labelled sentences in a student's stage.", min=1, max=10_000, only=_ONLY
    )
