"""Options of PDALN."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from crossner_core.options.base import option

_BOTH: Mapping[str, tuple[str, ...]] = {"setting": ("pdaln", "pdaln_unsupervised")}
_SEMI: Mapping[str, tuple[str, ...]] = {"setting": ("pdaln",)}
_UNSUPERVISED: Mapping[str, tuple[str, ...]] = {"setting": ("pdaln_unsupervised",)}
# Combinations for which a part of the loss, or a round, is absent, so that its options have no effect.
_Off = tuple[Mapping[str, Container[object]], ...]
_NO_ROUNDS: _Off = (
    {"pdaln_rounds": (0,)},
    {"setting": ("pdaln_unsupervised",), "pdaln_distil_on": ("augmented",)},
)
_NO_TEACHER: _Off = (*_NO_ROUNDS, {"pdaln_use_distillation": (False,)})
# Without augmentation the rounds use the same sentences unchanged, as often; with the drawn source alone, that.
_NO_COPIES: _Off = ({"pdaln_rounds": (0,)}, {"pdaln_use_augmentation": (False,), "pdaln_base_source": ("drawn",)})
_NOT_EXCHANGED: _Off = (
    {"pdaln_rounds": (0,)},
    {"pdaln_use_augmentation": (False,)},
    {"pdaln_target_copies": (0,), "pdaln_source_copies": (0,)},
)
# The base stage has the whole source, and there are no rounds.
_NOT_DRAWN: _Off = tuple({**without, "pdaln_base_source": ("all",)} for without in _NO_ROUNDS)
_NO_SENTENCE_MMD: _Off = ({"pdaln_use_sentence_mmd": (False,)},)
_NO_WORD_MMD: _Off = ({"pdaln_use_word_mmd": (False,)},)
_NO_MMD: _Off = (
    {"pdaln_use_sentence_mmd": (False,), "pdaln_use_word_mmd": (False,)},
    {"setting": ("pdaln_unsupervised",), "pdaln_use_sentence_mmd": (False,)},
)
_NO_CONTRAST: _Off = ({"pdaln_use_contrastive": (False,)},)
OWN_BATCHES: Mapping[str, Container[object]] = {**_BOTH, "pdaln_batch_size": range(1, 1025)}
OWN_EPOCHS: Mapping[str, Container[object]] = {**_BOTH, "pdaln_base_epochs": range(1, 10_001)}
OWN_LOOKS: Mapping[str, Container[object]] = {**_BOTH, "pdaln_dev_every": range(1, 10_001)}
"""Values with which PDALN does not read the target's batch_size, max_epochs and dev_every."""
_NONE_DRAWN: _Off = (
    {
        "pdaln_labels": ("once",),
        "pdaln_use_sentence_mmd": (False,),
        "pdaln_use_word_mmd": (False,),
        "pdaln_use_contrastive": (False,),
        "pdaln_distil_on": ("augmented",),
    },
)
_NOT_DISTORTED: _Off = ({"pdaln_use_contrastive": (False,), "pdaln_label_distorted": (False,)},)


def _share(
    default: float,
    help: str,
    only: Mapping[str, tuple[str, ...]],
    high: float = 1.0,
    low: float = 0.0,
    unless: _Off = (),
) -> Any:
    return option(default, help, min=low, max=high, group="source", only=only, unless=unless)


@dataclass(frozen=True)
class PdalnOptions:
    """Weights, sizes and switches of progressive domain adaptation. Source: Zhang et al. 2021 (PDALN).

    The paper sums a sentence's CRF loss and leaves α, α′, β and γ to a search on dev; here losses are means over
    tokens, so weights are smaller.
    """

    pdaln_use_augmentation: bool = option(
        True,
        "Train the rounds on sentences with entities exchanged between the domains.",
        group="source",
        only=_SEMI,
        unless=({"pdaln_rounds": (0,)},),
    )
    pdaln_use_sentence_mmd: bool = option(
        True, "Align the sentence vectors of the domains (sentence MMD).", group="source", only=_BOTH
    )
    pdaln_use_word_mmd: bool = option(
        True, "Align the token vectors of the domains, tag by tag (word MMD).", group="source", only=_SEMI
    )
    pdaln_use_contrastive: bool = option(
        True,
        "Contrastive loss: pull a sentence towards its distorted copy and away from the others.",
        group="source",
        only=_BOTH,
    )
    pdaln_use_distillation: bool = option(
        True,
        "In the rounds, also learn from a teacher's tag probabilities (distillation).",
        group="source",
        only=_BOTH,
        unless=_NO_ROUNDS,
    )
    pdaln_batch_size: int = option(
        32,
        "Sentences per step in base stage and rounds; 0: batch_size.",
        min=0,
        max=1024,
        group="source",
        only=_BOTH,
        before=0,
    )
    pdaln_base_source: str = option(
        "all",
        "Source sentences of the base stage: all, or only those drawn for the exchange of entities.",
        choices=("all", "drawn"),
        group="source",
        only=_BOTH,
        before="drawn",
    )
    pdaln_base_epochs: int = option(
        2,
        "Epochs of the base stage over its source sentences; 0: max_epochs.",
        min=0,
        max=10_000,
        group="source",
        only=_BOTH,
        before=0,
    )
    pdaln_dev_every: int = option(
        1,
        "Epochs between evaluations on dev, in base stage and rounds; 0: dev_every.",
        min=0,
        max=10_000,
        group="source",
        only=_BOTH,
        before=0,
    )
    pdaln_keep: str = option(
        "dev",
        "What a round leaves: dev (its best epoch, or what it began with if that was better on dev), or last (its last "
        "epoch, as in the paper).",
        choices=("dev", "last"),
        group="source",
        only=_BOTH,
        unless=_NO_ROUNDS,
        later=True,
    )
    pdaln_bare_text: str = option(
        "rest",
        "Unlabelled target sentences: rest (those of train beyond the labelled ones), or test (the test sentences "
        "without their labels: transductive, as in the paper).",
        choices=("rest", "test"),
        group="source",
        only=_BOTH,
        later=True,
    )
    pdaln_source_sentences: int = option(
        500,
        "Number of source sentences drawn with the seed, for the exchange of entities; 0: all.",
        min=0,
        max=10_000_000,
        group="source",
        only=_BOTH,
        unless=_NOT_DRAWN,
    )
    pdaln_with_entities: bool = option(
        True,
        "Draw only source sentences with an entity that can be exchanged.",
        group="source",
        only=_SEMI,
        unless=(*_NOT_DRAWN, {"pdaln_source_sentences": (0,)}),
        before=False,
    )
    pdaln_labels: str = option(
        "drawn",
        "Labelled target sentences in the tag loss: drawn (some in each step, so that few weigh like the source), or "
        "once (in each epoch of the base stage, and in the rounds as augmented ones alone: as in the paper).",
        choices=("drawn", "once"),
        group="source",
        only=_SEMI,
        later=True,
    )
    pdaln_target_share: float = _share(
        0.5,
        "Labelled target sentences drawn per step, as a share of a batch; as many unlabelled ones are added.",
        _BOTH,
        4.0,
        0.05,
        _NONE_DRAWN,
    )
    pdaln_target_copies: int = option(
        4,
        "Augmented sentences per target sentence.",
        min=0,
        max=1000,
        group="source",
        only=_SEMI,
        unless=_NO_COPIES,
    )
    pdaln_source_copies: int = option(
        2,
        "Augmented sentences per source sentence.",
        min=0,
        max=1000,
        group="source",
        only=_SEMI,
        unless=_NO_COPIES,
    )
    pdaln_replace: str = option(
        "one",
        "Entities exchanged in an augmented sentence: one (as in the paper) or all.",
        choices=("one", "all"),
        group="source",
        only=_SEMI,
        unless=_NOT_EXCHANGED,
    )
    pdaln_rounds: int = option(
        2,
        "Rounds of teacher and student after the base stage; without target labels, only if the teacher labels "
        "unlabelled sentences.",
        min=0,
        max=100,
        group="source",
        only=_BOTH,
        unless=_NO_ROUNDS[1:],
    )
    pdaln_round_epochs: int = option(
        3,
        "Epochs over the augmented sentences in each round.",
        min=1,
        max=10_000,
        group="source",
        only=_BOTH,
        unless=_NO_ROUNDS,
    )
    pdaln_round_rate: float = _share(
        0.5, "Peak learning rates in a round, relative to those of the base stage.", _BOTH, 10.0, 1e-3, _NO_ROUNDS
    )
    pdaln_student: str = option(
        "progressive",
        "How the student is taught: by the previous round's model, by its own moving average, or with adversarial "
        "noise.",
        choices=("progressive", "mean_teacher", "vat"),
        group="source",
        only=_BOTH,
        unless=_NO_TEACHER,
    )
    pdaln_distil_on: str = option(
        "augmented",
        "Sentences that the teacher labels: augmented ones (as in the paper), or unlabelled target sentences too; "
        "without target labels, rounds need the latter.",
        choices=("augmented", "augmented+unlabelled"),
        group="source",
        only=_BOTH,
    )
    pdaln_distil_tokens: str = option(
        "all",
        "Tokens that the student learns from the teacher: all, or those of entities (of labelled ones, else of those "
        "that the teacher predicts).",
        choices=("all", "entities"),
        group="source",
        only=_BOTH,
        unless=(*_NO_TEACHER, {"pdaln_student": ("vat",)}),
        later=True,
    )
    pdaln_alpha: float = _share(1.0, "Weight of the sentence MMD.", _SEMI, 1000.0, unless=_NO_SENTENCE_MMD)
    pdaln_alpha_unsupervised: float = _share(
        1.0, "Weight of the sentence MMD without labels.", _UNSUPERVISED, 1000.0, unless=_NO_SENTENCE_MMD
    )
    pdaln_beta: float = _share(0.3, "Weight of the word MMD.", _SEMI, 1000.0, unless=_NO_WORD_MMD)
    pdaln_gamma: float = _share(
        0.5, "Weight of the teacher's loss; the other terms share the rest.", _BOTH, unless=_NO_TEACHER
    )
    pdaln_contrastive_weight: float = _share(
        0.05, "Weight of the contrastive loss.", _BOTH, 1000.0, unless=_NO_CONTRAST
    )
    pdaln_tag_weight: float = _share(
        0.25, "Weight of each tag within the word MMD.", _SEMI, 1000.0, unless=_NO_WORD_MMD
    )
    pdaln_temperature: float = _share(
        0.05, "Temperature of the contrastive loss.", _BOTH, 100.0, 1e-3, unless=_NO_CONTRAST
    )
    pdaln_bandwidths: str = option(
        "fixed",
        "Kernel bandwidths of the MMD: 19 from 1e-6 to 1e6, or five around the median distance.",
        choices=("fixed", "median"),
        group="source",
        only=_BOTH,
        unless=_NO_MMD,
    )
    pdaln_estimator: str = option(
        "unbiased",
        "Estimator of the squared MMD: unbiased, or biased (the paper's eq. 4, which also pulls equal domains "
        "together, the more so the smaller the batch).",
        choices=("biased", "unbiased"),
        group="source",
        only=_BOTH,
        unless=_NO_MMD,
    )
    pdaln_synonyms: str = option(
        "auto",
        "Source of synonyms for distorted sentences: WordNet (of NLTK, or Debian's wordnet-base), the encoder's "
        "embeddings, or auto: WordNet if installed.",
        choices=("auto", "wordnet", "encoder"),
        group="source",
        only=_BOTH,
        unless=_NOT_DISTORTED,
    )
    pdaln_label_distorted: bool = option(
        False, "Also learn the tags of distorted sentences (not specified in the paper).", group="source", only=_BOTH
    )
    pdaln_mean_decay: float = option(
        0.99,
        "Decay of the moving average per step.",
        min=0.0,
        max=1.0,
        group="source",
        only={**_BOTH, "pdaln_student": ("mean_teacher",)},
        unless=_NO_TEACHER,
    )
    pdaln_noise: float = option(
        1.0,
        "Norm of the adversarial noise on a sentence's embeddings, relative to theirs per token.",
        min=1e-6,
        max=1000.0,
        group="source",
        only={**_BOTH, "pdaln_student": ("vat",)},
        unless=_NO_TEACHER,
    )
