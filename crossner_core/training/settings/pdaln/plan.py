"""PDALN's two settings: a base stage over both domains, then rounds of teacher and student on adaptive data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from crossner_core.errors import InvalidConfig
from crossner_core.schema import LabelledSentence
from crossner_core.training.settings.direct import target_stage
from crossner_core.training.settings.pdaln.material import Material, adaptive_data, source_sample
from crossner_core.training.settings.registry import register_setting
from crossner_core.training.stage import MakeObjective, Objective, Stage

if TYPE_CHECKING:
    from crossner_core.encoders.base import Encoder
    from crossner_core.models.base import TokenTagger
    from crossner_core.training.data import TrainingData
    from crossner_core.training.recipe import Recipe

# Distance between the seeds of rounds, so that each has its own order and dropout.
_SEEDS_APART = 100_003


@register_setting("pdaln", "PDALN: adapt with a few target labels and unlabelled target text", order=3, unlabelled=True)
def pdaln(recipe: Recipe, data: TrainingData) -> tuple[Stage, ...]:
    """Plan the base stage on source and labelled target (eq. 9), then rounds on adaptive data (eq. 10 and 11).

    Departures: each step uses labelled target sentences besides source or augmented ones (eq. 10 encodes them for the
    word MMD in any case). Without adaptive data (the ablation, or no shared entity types) the rounds reuse the source
    sentences. Source-only types get tags that are never decoded.
    """
    source = source_sample(recipe, data)
    target = tuple(item for item in data.train if item.sentence.tokens)
    material = Material(source, target, data.unlabelled)
    items, notes = source, [f"Source: {len(source)} of {len(data.source_train)} sentences."]
    if recipe.pdaln_use_augmentation and recipe.pdaln_rounds:
        made, note = adaptive_data(recipe, source, target)
        items, notes = made or source, [*notes, note]
    if not data.unlabelled:
        notes.append("There are no unlabelled target sentences: sentence MMD compares with the labelled ones alone.")
    return _stages(recipe, data, material, items, notes)


@register_setting(
    "pdaln_unsupervised", "PDALN without target labels: adapt with unlabelled target text", order=4, unlabelled=True
)
def pdaln_unsupervised(recipe: Recipe, data: TrainingData) -> tuple[Stage, ...]:
    """Plan the base stage on source and unlabelled target sentences (eq. 8); only dev uses target labels.

    The training sentences count as unlabelled text. The paper has no rounds here; `pdaln_distil_on`
    augmented+unlabelled adds them, on source sentences, with soft targets for the unlabelled target sentences too.
    """
    source = source_sample(recipe, data)
    bare = tuple(item.sentence for item in data.train) + data.unlabelled
    notes = [
        f"Source: {len(source)} of {len(data.source_train)} sentences.",
        f"The {len(data.train)} target training sentences are used without their labels.",
    ]
    if recipe.pdaln_rounds and not _has_rounds(recipe):
        notes.append(
            "No rounds of teacher and student: without target labels nothing is augmented; for rounds on unlabelled "
            "sentences set pdaln_distil_on to augmented+unlabelled."
        )
    return _stages(recipe, data, Material(source, (), bare), source, notes)


def _stages(
    recipe: Recipe, data: TrainingData, material: Material, items: tuple[LabelledSentence, ...], notes: Sequence[str]
) -> tuple[Stage, ...]:
    if not material.train:
        raise InvalidConfig(f"Setting {recipe.setting!r}: the source corpus {recipe.source!r} has no words.")
    extra = tuple(name for name in data.source_types if name not in data.types)
    base = replace(
        target_stage(recipe, data),
        phase="base",
        train=material.train,
        types=data.types + extra,
        objective=_objective(recipe, material),
        notes=tuple(notes),
    )
    count = recipe.pdaln_rounds if _has_rounds(recipe) else 0
    return (base, *(_round(recipe, base, replace(material, train=items, round=number + 1)) for number in range(count)))


def _has_rounds(recipe: Recipe) -> bool:
    """Return whether there are sentences for a teacher to label: augmented ones need target labels."""
    return recipe.setting == "pdaln" or recipe.pdaln_distil_on != "augmented"


def _round(recipe: Recipe, base: Stage, material: Material) -> Stage:
    return replace(
        base,
        phase=f"round {material.round}",
        train=material.train,
        learning_rate=base.learning_rate * recipe.pdaln_round_rate,
        head_learning_rate=base.head_learning_rate * recipe.pdaln_round_rate,
        epochs=recipe.pdaln_round_epochs,
        seed=recipe.seed + _SEEDS_APART * material.round,
        objective=_objective(recipe, material),
        measure_first=True,
        notes=(),
    )


def _objective(recipe: Recipe, material: Material) -> MakeObjective:
    def make(model: TokenTagger, encoder: Encoder, former: TokenTagger | None) -> Objective:
        from crossner_core.training.settings.pdaln.objective import PdalnObjective

        return PdalnObjective(recipe, material, model, encoder, former)

    return make
