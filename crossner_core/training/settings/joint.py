"""Source and target in one stage. Source: Liu et al. 2021, experimental set-up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crossner_core.training.settings.registry import register_setting
from crossner_core.training.stage import Stage

if TYPE_CHECKING:
    from crossner_core.training.data import TrainingData
    from crossner_core.training.recipe import Recipe


@register_setting("joint", "Joint: source and upsampled target together", order=2, together=True)
def joint(recipe: Recipe, data: TrainingData) -> tuple[Stage, ...]:
    """Plan one stage on the source and the target's sentences `upsample` times, at the source's rate.

    Source-only types get their own tags, after the target's; they are never decoded.
    """
    extra = tuple(name for name in data.source_types if name not in data.types)
    own = (frozenset(data.types),) if recipe.source_unmarked == "unknown" else ()
    stage = Stage(
        phase="target",
        train=data.train * recipe.upsample + data.source_train,
        dev=data.dev,
        types=data.types + extra,
        scored=len(data.types),
        learning_rate=recipe.source_learning_rate,
        head_learning_rate=recipe.source_head_learning_rate,
        epochs=recipe.source_epochs,
        batch_size=recipe.source_batch_size,
        warmup_share=recipe.source_warmup_share,
        patience=recipe.patience,
        seed=recipe.seed,
        annotated=own * len(data.train) * recipe.upsample + data.source_annotated if own else None,
    )
    return (stage,)
