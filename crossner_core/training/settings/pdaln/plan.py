"""PDALN's two settings: a base stage over both domains, then rounds of teacher and student on adaptive data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from crossner_core.errors import InvalidConfig
from crossner_core.schema import LabelledSentence, Sentence
from crossner_core.training.settings.direct import target_stage
from crossner_core.training.settings.pdaln.material import (
    Material,
    adaptive_data,
    distorts,
    source_sample,
    unchanged_data,
    whole_source,
)
from crossner_core.training.settings.pdaln.wordnet import pick_wordnet
from crossner_core.training.settings.registry import register_setting
from crossner_core.training.stage import MakeObjective, Objective, Stage

if TYPE_CHECKING:
    from crossner_core.encoders.base import Encoder
    from crossner_core.models.base import TokenTagger
    from crossner_core.training.data import TrainingData
    from crossner_core.training.recipe import Recipe

# Distance between the seeds of rounds, so that each has its own order and dropout.
_SEEDS_APART = 100_003


@register_setting(
    "pdaln",
    "PDALN: adapt with a few target labels and unlabelled target text",
    order=3,
    unlabelled=True,
    subwords=True,
)
def pdaln(recipe: Recipe, data: TrainingData) -> tuple[Stage, ...]:
    """Plan the base stage on source and labelled target (eq. 9), then rounds on adaptive data (eq. 10 and 11).

    Departure unless `pdaln_labels` is once: each step has labelled target sentences in its tag loss, besides source or
    augmented ones (eq. 10 encodes them for the word MMD in any case), so that in the base stage they weigh nearly as
    much as the whole source. Without adaptive data (the ablation, or no shared entity types) the rounds use the same
    sentences unchanged, as often. Source-only types get tags that are never decoded.
    """
    drawn, target = source_sample(recipe, data), tuple(item for item in data.train if item.sentence.tokens)
    source, notes = _base_source(recipe, data, drawn)
    bare, remark = _bare_text(recipe, data, (data.unlabelled, ""))
    if recipe.pdaln_labels == "once":
        source += target  # eq. 9: each counts once
    items = source
    if recipe.pdaln_rounds:
        made, note = adaptive_data(recipe, drawn, target) if recipe.pdaln_use_augmentation else ((), "")
        if not made and recipe.pdaln_base_source == "all":
            made, unchanged = unchanged_data(recipe, drawn, target)
            note = f"{note} {unchanged}".strip()
        items, notes = made or source, [*notes, *([note] if note else [])]
    if not bare:
        remark = "There are no unlabelled target sentences: sentence MMD compares with the labelled ones alone."
    return _stages(recipe, data, Material(source, target, bare), items, [*notes, *([remark] if remark else [])])


@register_setting(
    "pdaln_unsupervised",
    "PDALN without target labels: adapt with unlabelled target text",
    order=4,
    unlabelled=True,
    subwords=True,
)
def pdaln_unsupervised(recipe: Recipe, data: TrainingData) -> tuple[Stage, ...]:
    """Plan the base stage on source and unlabelled target sentences (eq. 8); only dev uses target labels.

    Unless it is the test sentences, the training sentences count as unlabelled text. The paper has no rounds here;
    `pdaln_distil_on` augmented+unlabelled adds them, on source sentences, with soft targets for the unlabelled target
    sentences too.
    """
    drawn = source_sample(recipe, data)
    source, notes = _base_source(recipe, data, drawn)
    bare, note = _bare_text(recipe, data, data.target_text())
    notes.append(note)
    if recipe.pdaln_rounds and not _has_rounds(recipe):
        notes.append(
            "No rounds of teacher and student: without target labels nothing is augmented; for rounds on unlabelled "
            "sentences set pdaln_distil_on to augmented+unlabelled."
        )
    return _stages(recipe, data, Material(source, (), bare), drawn, notes)


def _base_source(
    recipe: Recipe, data: TrainingData, drawn: tuple[LabelledSentence, ...]
) -> tuple[tuple[LabelledSentence, ...], list[str]]:
    """Return the source sentences of the base stage (D_s), with notes on them."""
    count = len(data.source_train)
    if recipe.pdaln_base_source == "drawn":
        return drawn, [f"Source: {len(drawn)} of {count} sentences."]
    whole = whole_source(data)
    more = f", and {len(drawn)} of them after the base stage" if recipe.pdaln_rounds and _has_rounds(recipe) else ""
    return whole, [f"Source: {len(whole)} of {count} sentences{more}."]


def _bare_text(
    recipe: Recipe, data: TrainingData, rest: tuple[tuple[Sentence, ...], str]
) -> tuple[tuple[Sentence, ...], str]:
    """Return the unlabelled target sentences and a note: the rest, or the test sentences if the recipe has these."""
    if recipe.pdaln_bare_text == "rest":
        return rest
    if not data.test:
        raise InvalidConfig(
            "pdaln_bare_text is 'test', and there are no test sentences; add some, or choose rest for the training "
            "sentences without labels."
        )
    return tuple(item.sentence for item in data.test), (
        f"Transductive: the unlabelled text is the {len(data.test)} test sentences, without their labels; the score on "
        "test is not of unseen text."
    )


def _stages(
    recipe: Recipe, data: TrainingData, material: Material, items: tuple[LabelledSentence, ...], notes: Sequence[str]
) -> tuple[Stage, ...]:
    if not material.train:
        raise InvalidConfig(f"Setting {recipe.setting!r}: the source corpus {recipe.source!r} has no words.")
    extra = tuple(name for name in data.source_types if name not in data.types)
    usual = target_stage(recipe, data)
    base = replace(
        usual,
        phase="base",
        train=material.train,
        types=data.types + extra,
        epochs=recipe.pdaln_base_epochs or usual.epochs,
        batch_size=recipe.pdaln_batch_size or usual.batch_size,
        dev_every=recipe.pdaln_dev_every or usual.dev_every,
        reported=True,
        objective=_objective(recipe, material),
        notes=(*notes, *_synonyms(recipe)),
    )
    count = recipe.pdaln_rounds if _has_rounds(recipe) else 0
    return (base, *(_round(recipe, base, replace(material, train=items, round=number + 1)) for number in range(count)))


def _synonyms(recipe: Recipe) -> list[str]:
    """Return a note on where synonyms come from: with `auto` that depends on the machine."""
    if not distorts(recipe):
        return []
    where = "the encoder's embeddings" if pick_wordnet(recipe.pdaln_synonyms) is None else "WordNet"
    return [f"Synonyms of distorted sentences: {where}."]


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
        measure_first=recipe.pdaln_keep == "dev",
        keep_last=recipe.pdaln_keep == "last",
        notes=(),
    )


def _objective(recipe: Recipe, material: Material) -> MakeObjective:
    def make(model: TokenTagger, encoder: Encoder, former: TokenTagger | None, _: int) -> Objective:
        from crossner_core.training.settings.pdaln.objective import PdalnObjective

        return PdalnObjective(recipe, material, model, encoder, former)

    return make
