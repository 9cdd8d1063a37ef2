"""The two settings of self-training: a teacher trained on the target alone, or on the source first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from crossner_core.errors import InvalidConfig
from crossner_core.training.settings.direct import direct
from crossner_core.training.settings.pretrain_finetune import pretrain_finetune
from crossner_core.training.settings.registry import register_setting
from crossner_core.training.stage import MakeObjective, Objective, Stage

if TYPE_CHECKING:
    from crossner_core.encoders.base import Encoder
    from crossner_core.models.base import TokenTagger
    from crossner_core.schema import Sentence
    from crossner_core.training.data import TrainingData
    from crossner_core.training.recipe import Recipe

# Settings that train a teacher, and their variants with students.
_ADDS = {"direct": "self_training", "pretrain_finetune": "transfer_self_training"}
# Distance between the seeds of students, so that each has its own order and dropout.
_SEEDS_APART = 100_019
# Combined with the seed: random stream for drawing unlabelled sentences.
_DRAW = 5


def with_students(recipe: Recipe, *, gazetteer: bool = False) -> Recipe:
    """Return the recipe with students after its teacher; raise InvalidConfig for a setting without such a variant.

    With `gazetteer` their soft targets are also weighted by the proposals of gazetteer and links.
    """
    changed = replace(recipe, self_training_gazetteer=recipe.self_training_gazetteer or gazetteer)
    if recipe.setting in _ADDS.values():
        return changed
    if recipe.setting not in _ADDS:
        raise InvalidConfig(
            f"Self-training goes with the settings {' and '.join(_ADDS)}, not with {recipe.setting!r}; choose one of "
            "them, or leave self-training out."
        )
    return replace(changed, setting=_ADDS[recipe.setting])


@register_setting(
    "self_training",
    "Self-training: the target, then its unlabelled text too",
    order=5,
    unlabelled=True,
    source=False,
)
def self_training(recipe: Recipe, data: TrainingData) -> tuple[Stage, ...]:
    """Plan a teacher on the target, then students that also use its soft targets on unlabelled sentences.

    Source: Xie et al. 2020 (noisy student; dropout is the noise), with soft tags on every token.
    """
    return _with_students(direct(recipe, data), recipe, data, fresh=recipe.self_training_fresh)


@register_setting(
    "transfer_self_training",
    "Self-training after the source: pre-train, fine-tune, then unlabelled target text too",
    order=6,
    unlabelled=True,
)
def transfer_self_training(recipe: Recipe, data: TrainingData) -> tuple[Stage, ...]:
    """Plan as `pretrain_finetune` does, then students as `self_training` does, each starting from its teacher."""
    return _with_students(pretrain_finetune(recipe, data), recipe, data, fresh=False)


def _with_students(stages: tuple[Stage, ...], recipe: Recipe, data: TrainingData, *, fresh: bool) -> tuple[Stage, ...]:
    """Add the students; without unlabelled sentences there is only the teacher, with a note."""
    teacher = stages[-1]
    if not data.unlabelled:
        note = "There are no unlabelled target sentences: no student is trained."
        return (*stages[:-1], replace(teacher, notes=(*teacher.notes, note)))
    bare = _drawn(recipe, data)
    count, proposals = f"{len(bare)} of {len(data.unlabelled)}", _proposals(recipe, data, bare)
    note = f"Students learn from {count} unlabelled sentences too{proposals}."
    rounds = range(1, recipe.self_training_rounds + 1)
    first, *later = (
        _student(teacher, recipe, number, _objective(recipe, data, bare, first=number == 1), fresh=fresh)
        for number in rounds
    )
    return (*stages, replace(first, notes=(note,)), *later)


def _drawn(recipe: Recipe, data: TrainingData) -> tuple[Sentence, ...]:
    """Return the unlabelled sentences of a run, sampled with its seed if there are more than needed."""
    import numpy as np

    filled = [sentence for sentence in data.unlabelled if sentence.tokens]
    if len(filled) <= recipe.self_training_sentences:
        return tuple(filled)
    drawn = np.random.default_rng([recipe.seed, _DRAW]).permutation(len(filled))[: recipe.self_training_sentences]
    return tuple(filled[index] for index in sorted(drawn.tolist()))


def _proposals(recipe: Recipe, data: TrainingData, bare: tuple[Sentence, ...]) -> str:
    """Return a note on how many proposals of gazetteer and links are used."""
    if not recipe.self_training_gazetteer:
        return ""
    if not any(item.sentence.content_hash in data.proposed for item in data.train if item.sentence.tokens):
        return "; gazetteer and links are not used, as no gold sentence has their proposals"
    known = [spans for sentence in bare if (spans := data.proposed.get(sentence.content_hash)) is not None]
    where = "which" if len(known) == len(bare) else f"{len(known)} of which"
    return f", in {where} gazetteer and links propose {sum(map(len, known))} spans"


def _student(teacher: Stage, recipe: Recipe, number: int, objective: MakeObjective, *, fresh: bool) -> Stage:
    return replace(
        teacher,
        phase=f"student {number}",
        epochs=recipe.self_training_epochs,
        head_first_epochs=0,
        seed=recipe.seed + _SEEDS_APART * number,
        objective=objective,
        fresh=fresh,
        measure_first=not fresh,
        is_student=True,
        notes=(),
    )


def _objective(recipe: Recipe, data: TrainingData, bare: tuple[Sentence, ...], *, first: bool) -> MakeObjective:
    """Return a student's objective factory; only the first uses proposals, as later teachers learnt from them."""

    def make(model: TokenTagger, encoder: Encoder, former: TokenTagger | None, steps: int) -> Objective:
        from crossner_core.training.settings.self_training.objective import SelfTrainingObjective
        from crossner_core.training.settings.self_training.proposals import ProposalModel

        proposals = None
        if first and recipe.self_training_gazetteer:
            proposals = ProposalModel.fit(data.train, data.proposed, model.tags)
        return SelfTrainingObjective(recipe, bare, model, encoder, former, steps, proposals)

    return make
