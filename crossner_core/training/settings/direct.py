"""The target alone; its stage is the last one of most settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crossner_core.training.settings.registry import register_setting
from crossner_core.training.stage import Stage

if TYPE_CHECKING:
    from crossner_core.training.data import TrainingData
    from crossner_core.training.recipe import Recipe


@register_setting("direct", "Direct: the target only", order=0, source=False)
def direct(recipe: Recipe, data: TrainingData) -> tuple[Stage, ...]:
    """Plan one stage on the target."""
    return (target_stage(recipe, data),)


def target_stage(recipe: Recipe, data: TrainingData) -> Stage:
    """Plan a stage on the target's own sentences at the target's rates."""
    return Stage(
        phase="target",
        train=data.train,
        dev=data.dev,
        types=data.types,
        scored=len(data.types),
        learning_rate=recipe.learning_rate,
        head_learning_rate=recipe.head_learning_rate,
        epochs=recipe.max_epochs,
        batch_size=recipe.batch_size,
        warmup_share=recipe.warmup_share,
        patience=recipe.patience,
        seed=recipe.seed,
        dev_every=recipe.dev_every,
    )
