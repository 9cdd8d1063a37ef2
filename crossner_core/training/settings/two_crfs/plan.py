"""The settings: one stage on both domains, as in `joint`, whose batches are divided by domain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from crossner_core.encoders.names import BUNDLED, FLAIR, WORDS
from crossner_core.errors import InvalidConfig
from crossner_core.training.settings.joint import joint
from crossner_core.training.settings.registry import register_setting
from crossner_core.training.stage import MakeObjective, Objective, Stage

if TYPE_CHECKING:
    from crossner_core.encoders.base import Encoder
    from crossner_core.models.base import TokenTagger
    from crossner_core.schema import Sentence
    from crossner_core.training.data import TrainingData
    from crossner_core.training.recipe import Recipe

_UNSUPERVISED = "cross_domain_lm_unsupervised"
_PLAIN = ("crf", "bilstm_crf")  # whose loss is that of the path alone


@register_setting(
    "la_dtl",
    "La-DTL: a CRF for each domain, their tokens aligned tag by tag",
    order=8,
    together=True,
    architectures=_PLAIN,
)
def la_dtl(recipe: Recipe, data: TrainingData) -> tuple[Stage, ...]:
    """Plan label-aware double transfer learning; the source's CRF is not kept. Source: Wang et al. 2018."""

    def make(model: TokenTagger, _: Encoder, __: TokenTagger | None, ___: int) -> Objective:
        from crossner_core.training.settings.two_crfs.la_dtl import LaDtlObjective

        shared = frozenset(data.types) & frozenset(data.source_types)
        return LaDtlObjective(recipe, _target_sentences(recipe, data), model, shared)

    return (replace(_both(recipe, data), objective=make),)


@register_setting(
    "datnet",
    "DATNet: a CRF for each domain, and a discriminator that the shared layers mislead",
    order=9,
    together=True,
    architectures=_PLAIN,
)
def datnet(recipe: Recipe, data: TrainingData) -> tuple[Stage, ...]:
    """Plan the dual adversarial transfer network, DATNet-P where the model has a private BiLSTM, else DATNet-F.

    The source's CRF and private BiLSTM and the discriminator are not kept. Source: Zhou et al. 2019.
    """

    def make(model: TokenTagger, _: Encoder, __: TokenTagger | None, ___: int) -> Objective:
        from crossner_core.training.settings.two_crfs.datnet import DatnetObjective

        return DatnetObjective(recipe, _target_sentences(recipe, data), model)

    return (replace(_both(recipe, data), objective=make),)


def _shows_neighbours(recipe: Recipe) -> InvalidConfig:
    """Return why a language model cannot learn from the vectors of a recipe's encoder."""
    return InvalidConfig(
        f"encoder is {recipe.encoder!r}, whose vectors hold the neighbouring words that the language model of the "
        f"setting {recipe.setting!r} is to predict; choose word vectors (words:…){_or_none(recipe)}."
    )


def _or_none(recipe: Recipe) -> str:
    """Return that it would do without a language model, where the setting learns of the target otherwise, too."""
    return "" if recipe.setting == _UNSUPERVISED else ", or set lm_weight to 0"


def _refuse_what_shows_words(recipe: Recipe) -> None:
    """Raise InvalidConfig for what would let a language model see the words that it is to predict."""
    if recipe.lstm_private:
        raise InvalidConfig(f"lstm_private is on; with the setting {recipe.setting!r} each domain has a BiLSTM anyway.")
    if recipe.lm_weight and (recipe.encoder == BUNDLED or recipe.encoder.startswith(f"{FLAIR}:")):
        raise _shows_neighbours(recipe)  # of other names only the encoder itself tells
    if recipe.lm_weight and recipe.lstm_layers > 1:
        raise InvalidConfig(
            f"lstm_layers is {recipe.lstm_layers}; from the second layer on both directions hold the words that the "
            f"language model of the setting {recipe.setting!r} is to predict. Set it to 1{_or_none(recipe)}."
        )


@register_setting(
    "cross_domain_lm",
    "Cross-domain language model: taggers and language models of both domains share what generates their BiLSTMs",
    order=10,
    unlabelled=True,
    together=True,
    architectures=("bilstm_crf",),
    refuse=_refuse_what_shows_words,
)
def cross_domain_lm(recipe: Recipe, data: TrainingData) -> tuple[Stage, ...]:
    """Plan training with generated BiLSTMs; the tagger keeps the weights generated for it. Source: Jia et al. 2019."""
    texts = [item.sentence for item in (*data.train, *data.source_train)]
    objective = _language_models(recipe, _target_sentences(recipe, data), texts, data.unlabelled)
    return (replace(_both(recipe, data), objective=objective),)


def _refuse_without_words(recipe: Recipe) -> None:
    """Raise InvalidConfig where nothing would be learnt of the target, or a language model saw the words to predict."""
    if not recipe.lm_weight:
        raise InvalidConfig(
            f"lm_weight is 0, and the setting {recipe.setting!r} learns of the target from its language model alone; "
            "set lm_weight above 0, or choose source_only."
        )
    _refuse_what_shows_words(recipe)


@register_setting(
    _UNSUPERVISED,
    "Cross-domain LM without target labels: the source's tags, the words of both domains",
    order=11,
    unlabelled=True,
    together=True,
    architectures=("bilstm_crf",),
    refuse=_refuse_without_words,
)
def cross_domain_lm_unsupervised(recipe: Recipe, data: TrainingData) -> tuple[Stage, ...]:
    """Plan the same with the target's sentences as text alone; only dev uses target labels. Source: Jia et al. 2019.

    There is one CRF, the source's, which tags both domains; types that no source has are never predicted.
    """
    (stage,) = joint(recipe, data)
    texts = [item.sentence for item in data.source_train]
    bare, note = data.target_text()
    nowhere = frozenset(data.types) - frozenset(data.source_types)
    stage = replace(
        stage,
        train=data.source_train,
        annotated=tuple(known | nowhere for known in data.source_annotated),
        objective=_language_models(recipe, 0, texts, bare),
        notes=(note,),
    )
    return (stage,)


def _language_models(
    recipe: Recipe, targets: int, texts: Sequence[Sentence], unlabelled: Sequence[Sentence]
) -> MakeObjective:
    """Return the objective of a stage on these texts, of which the first `targets` are the target's."""
    bare = [sentence for sentence in unlabelled if sentence.tokens]

    def make(model: TokenTagger, encoder: Encoder, _: TokenTagger | None, __: int) -> Objective:
        from crossner_core.training.settings.two_crfs.cross_domain_lm import CrossDomainLmObjective

        if recipe.lm_weight and encoder.kind != WORDS:
            raise _shows_neighbours(recipe)
        return CrossDomainLmObjective(recipe, targets, model, encoder, texts, bare)

    return make


def _both(recipe: Recipe, data: TrainingData) -> Stage:
    """Return the stage of `joint` with both domains in every batch.

    Each domain's CRF knows only the types that its own corpus annotates.
    """
    (stage,) = joint(recipe, data)
    count = _target_sentences(recipe, data)
    return replace(stage, annotated=(frozenset(data.types),) * count + data.source_annotated, mixed=count)


def _target_sentences(recipe: Recipe, data: TrainingData) -> int:
    """Return how many of the stage's sentences, the first ones, are the target's."""
    return len(data.train) * recipe.upsample
