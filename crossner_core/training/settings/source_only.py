"""The source alone: what a tagger knows of the target before it has seen one of its sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crossner_core.training.settings.pretrain_finetune import pretrain_finetune
from crossner_core.training.settings.registry import register_setting
from crossner_core.training.stage import Stage

if TYPE_CHECKING:
    from crossner_core.training.data import TrainingData
    from crossner_core.training.recipe import Recipe


@register_setting("source_only", "Source only (zero-shot): the source, and no target sentence", order=7)
def source_only(recipe: Recipe, data: TrainingData) -> tuple[Stage, ...]:
    """Plan the source stage of `pretrain_finetune`, whose checkpoint it shares, and a target stage without a step.

    Types that the source shares by name have its rows; an architecture that reads texts knows the others by theirs, any
    other architecture does not know them. Dev sentences only calibrate.
    The tagger keeps the rows of the sources' other types, for whoever it is applied to next.
    """
    source, _ = pretrain_finetune(recipe, data)
    target = Stage(
        phase="target",
        train=(),
        dev=data.dev,
        types=(*data.types, *(name for name in source.types if name not in data.types)),
        scored=len(data.types),
        learning_rate=0.0,
        head_learning_rate=0.0,
        epochs=0,
        batch_size=1,
        warmup_share=0.0,
        patience=0,
        seed=recipe.seed,
        measure_first=True,
    )
    return source, target
