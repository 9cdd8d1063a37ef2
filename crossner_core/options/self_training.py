"""Options of self-training."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.options.base import option

_ONLY = {"setting": ("self_training", "transfer_self_training")}


@dataclass(frozen=True)
class SelfTrainingOptions:
    """How a student learns from its teacher's soft targets on unlabelled target sentences."""

    self_training_rounds: int = option(
        1, "Number of students trained in sequence, each the teacher of the next.", min=1, max=20, only=_ONLY
    )
    self_training_sentences: int = option(
        2000, "Maximum number of unlabelled sentences, drawn with the seed.", min=1, max=10_000_000, only=_ONLY
    )
    self_training_batch: int = option(
        16, "Unlabelled target sentences per step, in addition to the labelled ones.", min=1, max=1024, only=_ONLY
    )
    self_training_weight: float = option(
        1.0, "Weight of the teacher's soft targets relative to the labels, per token.", min=0.0, max=100.0, only=_ONLY
    )
    self_training_threshold: float = option(
        0.0,
        "Minimum probability of the teacher's most likely tag; other tokens are ignored.",
        min=0.0,
        max=1.0,
        only=_ONLY,
    )
    self_training_sharpen: float = option(
        1.0, "Exponent that sharpens the teacher's tag probabilities; 1: unchanged.", min=0.1, max=100.0, only=_ONLY
    )
    self_training_fresh: bool = option(
        True,
        "Start each student from the pre-trained encoder instead of its teacher.",
        only={"setting": ("self_training",)},
    )
    self_training_gazetteer: bool = option(
        False,
        "Combine the teacher's soft targets with what gazetteer and links propose, weighted by how often gold agrees "
        "with them.",
        only=_ONLY,
        later=True,
    )
    self_training_epochs: int = option(
        16, "Epochs over the labelled sentences for each student.", min=1, max=10_000, only=_ONLY
    )
