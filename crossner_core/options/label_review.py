"""Options of a label review."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.options.base import Checked, option

JUDGES = ("probe", "tagger")
_TAGGER = {"judge": ("tagger",)}


@dataclass(frozen=True)
class LabelReviewOptions(Checked):
    """The model that checks the gold, the fraction of gold to doubt, and the similarity of near-duplicates."""

    judge: str = option(
        "probe",
        "Model that checks the gold: probe, a linear classifier on the frozen encoder (fast); tagger, a full tagger "
        "trained on each fold.",
        choices=JUDGES,
        title="checking model",
        names={"probe": "linear classifier (seconds)", "tagger": "tagger trained anew (minutes)"},
    )
    encoder: str = option(
        "minilm", "Encoder of the checking models: minilm (bundled), one pre-trained here, a folder, or a hub name."
    )
    folds: int = option(5, "Cross-validation folds: each is checked by a model trained on the others.", min=2, max=50)
    repeats: int = option(
        2,
        "Repetitions of the cross-validation with new folds; the checking models' scores are averaged.",
        min=1,
        max=10,
        title="reshuffles",
    )
    share: float = option(
        0.15,
        "Fraction of all entities, annotated and missing, to list as likely label errors.",
        min=0.01,
        max=1.0,
        title="fraction to list",
    )
    epochs: int = option(12, "Epochs over the other folds.", min=1, max=1000, only=_TAGGER)
    learning_rate: float = option(2e-4, "Peak learning rate of the encoder.", min=1e-7, max=1e-2, only=_TAGGER)
    alike: float = option(
        0.8,
        "Two sentences are near-duplicates if they share at least this fraction of their word trigrams.",
        min=0.3,
        max=1.0,
        title="similarity threshold",
    )
    seed: int = option(555, "Seed of the folds and of the checking models.", min=0, max=2**31 - 1, group="machine")
    device: str = option("auto", "Device to compute on.", choices=("auto", "cpu", "cuda"), group="machine")
