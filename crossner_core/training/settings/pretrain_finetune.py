"""The source first, then the target. Source: Liu et al. 2021, experimental set-up."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from crossner_core.training.settings.direct import target_stage
from crossner_core.training.settings.registry import register_setting
from crossner_core.training.stage import Stage

if TYPE_CHECKING:
    from crossner_core.training.data import TrainingData
    from crossner_core.training.recipe import Recipe


@register_setting("pretrain_finetune", "Pre-train, then fine-tune: the source first, then the target", order=1)
def pretrain_finetune(recipe: Recipe, data: TrainingData) -> tuple[Stage, ...]:
    """Plan a source stage at its own, lower rate and then the target stage.

    The head keeps its rows for types that both domains share by name. Departure from the released code unless
    `source_head` is target: the source stage has a head of the source's own types, so that one source checkpoint serves
    every target. Another, unless `head_first_epochs` is 0: the new head is trained alone at first, so that its random
    rows do not distort the encoder (Kumar et al. 2022). A third, unless `inherit` is off: types that the source lacks
    begin as their parents.
    """
    types = data.source_types
    if recipe.source_head == "target":
        types = (*data.types, *(name for name in types if name not in data.types))
    source = Stage(
        phase="source",
        train=data.source_train,
        dev=data.source_dev,
        types=types,
        scored=len(types),
        learning_rate=recipe.source_learning_rate,
        head_learning_rate=recipe.source_head_learning_rate,
        epochs=recipe.source_epochs,
        batch_size=recipe.source_batch_size,
        warmup_share=recipe.source_warmup_share,
        patience=recipe.source_epochs,
        seed=recipe.source_seed,
        cached=True,
        annotated=data.source_annotated if recipe.source_unmarked == "unknown" else None,
    )
    target = replace(
        target_stage(recipe, data),
        epochs=recipe.head_first_epochs + recipe.max_epochs,
        head_first_epochs=recipe.head_first_epochs,
        head_first_learning_rate=recipe.head_first_learning_rate,
    )
    return (source, target)
