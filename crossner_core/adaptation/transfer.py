"""Transfer settings: each plans the stages of a run from its recipe and data. Source: Liu et al. 2021, section 5."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from crossner_core.errors import InvalidConfig
from crossner_core.schema import LabelledSentence

if TYPE_CHECKING:
    from crossner_core.models.base import TokenTagger
    from crossner_core.training.data import TrainingData
    from crossner_core.training.objective import Objective
    from crossner_core.training.predictor import Predictor
    from crossner_core.training.recipe import Recipe


# From the stage's model (on its device) with its tokenizer, and the model of the stage before; None for the first
# stage, and where a saved state will be put back into the objective.
MakeObjective = Callable[["Predictor", "TokenTagger | None"], "Objective"]


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
    """What the run's notes should say of how the stage was planned."""

    def scores_dev(self, epoch: int) -> bool:
        """Say whether dev is scored after so many epochs: never while the head learns alone, always after the last."""
        return epoch > self.head_first_epochs and (self.epochs - epoch) % self.dev_every == 0


Planner = Callable[["Recipe", "TrainingData"], tuple[Stage, ...]]


@dataclass(frozen=True, slots=True)
class Setting:
    """A transfer setting by its id; its title is a short name, a colon, and what it does."""

    id: str
    title: str
    plan: Planner
    unlabelled: bool = False
    source: bool = True


_SETTINGS: dict[str, Setting] = {}


def register_setting(
    id: str, title: str, *, unlabelled: bool = False, source: bool = True
) -> Callable[[Planner], Planner]:
    """Register a function that plans the stages of a run.

    `unlabelled`: it learns from bare target sentences too; `source`: it reads a source corpus.

    Settings with more to them than a plan are packages of this folder, whose `plan.py` registers them and can be
    imported without torch.
    """

    def keep(plan: Planner) -> Planner:
        _SETTINGS[id] = Setting(id, title, plan, unlabelled, source)
        return plan

    return keep


@cache
def _find_packages() -> None:
    """Import the `plan.py` of each package in this folder that has one."""
    folder = Path(__file__).parent
    for module in sorted(pkgutil.iter_modules([str(folder)]), key=lambda module: module.name):
        if module.ispkg and (folder / module.name / "plan.py").is_file():
            importlib.import_module(f"{__package__}.{module.name}.plan")


def setting_ids() -> tuple[str, ...]:
    """Return the ids of all transfer settings: those of this file, then those of the packages beside it."""
    _find_packages()
    return tuple(_SETTINGS)


def setting(id: str) -> Setting:
    """Return one setting; raise InvalidConfig naming the known ones."""
    _find_packages()
    if id not in _SETTINGS:
        raise InvalidConfig(f"Unknown transfer setting {id!r}; choose one of {', '.join(_SETTINGS)}.")
    return _SETTINGS[id]


def needs_source(id: str) -> bool:
    """Say whether a setting reads the source corpus."""
    return setting(id).source


def needs_unlabelled(id: str) -> bool:
    """Say whether a setting learns from target sentences without labels too."""
    return setting(id).unlabelled


@register_setting("direct", "Direct: the target only", source=False)
def direct(recipe: Recipe, data: TrainingData) -> tuple[Stage, ...]:
    """Plan one stage on the target."""
    return (target_stage(recipe, data),)


@register_setting("pretrain_finetune", "Pre-train, then fine-tune: the source first, then the target")
def pretrain_finetune(recipe: Recipe, data: TrainingData) -> tuple[Stage, ...]:
    """Plan a source stage at its own, lower rate and then the target stage.

    The head keeps its rows for types that both domains name alike. Departure from the released code: the source
    stage has a head of the source's own types, so that one source checkpoint serves every target; the new head
    learns alone at first, so that its random rows do not spoil what the encoder has learned (Kumar et al. 2022).
    """
    require_source(recipe, data)
    types = data.source_types
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
    )
    target = replace(
        target_stage(recipe, data),
        epochs=recipe.head_first_epochs + recipe.max_epochs,
        head_first_epochs=recipe.head_first_epochs,
        head_first_learning_rate=recipe.head_first_learning_rate,
    )
    return (source, target)


@register_setting("joint", "Joint: source and upsampled target together")
def joint(recipe: Recipe, data: TrainingData) -> tuple[Stage, ...]:
    """Plan one stage on the source and the target's sentences `upsample` times, at the source's rate.

    Types that only the source has get tags of their own, after the target's; they are never decoded.
    """
    require_source(recipe, data)
    extra = tuple(name for name in data.source_types if name not in data.types)
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
    )
    return (stage,)


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


def require_source(recipe: Recipe, data: TrainingData) -> None:
    """Raise InvalidConfig where there are no source sentences."""
    if not data.source_train:
        raise InvalidConfig(
            f"Setting {recipe.setting!r} needs sentences of the source corpus {recipe.source!r}, and there are none; "
            "import them first, or choose the setting direct."
        )
