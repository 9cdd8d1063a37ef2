"""PDALN's ablation: every term removed in turn, other students, and the plain CRF with and without target labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from crossner_core.experiments.corpora import DRAWS
from crossner_core.experiments.published import (
    PDALN_CORPORA,
    PDALN_SENTENCES,
    PDALN_WITHOUT,
    PRINTED_WITHOUT,
    ZHANG,
    at_sentences,
    pdaln_f1,
    printed,
    published_f1,
)
from crossner_core.experiments.studies._grid import Row, each_encoder, grid_study, joined
from crossner_core.experiments.studies._stages import stage_table
from crossner_core.experiments.study import SEEDS, StudyConfig
from crossner_core.options.base import option

FIVE_SEEDS = (*SEEDS, 888, 999)
_FULL, _PLAIN = "PDALN", "CRF on the same sentences"
_BARE, _BARE_PLAIN = "PDALN without target labels", "CRF on the source sentences"
# No adaptation is expected to do better than this.
_ALL = "CRF on the same source sentences and all target labels"
_TERMS = {
    "contrastive": "pdaln_use_contrastive",
    "sentence MMD": "pdaln_use_sentence_mmd",
    "word MMD": "pdaln_use_word_mmd",
    "distillation": "pdaln_use_distillation",
    "augmentation": "pdaln_use_augmentation",
}
# Without all terms a CRF on the sentences of PDALN's base stage remains.
NO_TERMS = {**dict.fromkeys(_TERMS.values(), False), "pdaln_rounds": 0}


@dataclass(frozen=True)
class PdalnConfig(StudyConfig):
    """The paper's set-up: five runs, 100 target sentences."""

    seeds: tuple[int, ...] = option(FIVE_SEEDS, "Seeds; each cell is trained once per seed.")
    target_sentences: int = option(
        PDALN_SENTENCES, "Number of labelled target sentences; the rest of train is unlabelled text.", min=1, max=10**7
    )
    order: str = option(
        "entities",
        "Which sentences to take: drawn with the seed from those with entities (so that augmentation makes exactly the "
        "paper's number), drawn from all (random), or the first in the file.",
        choices=DRAWS,
    )


def rows(config: PdalnConfig) -> list[Row]:
    """Return the rows of each encoder."""
    return [row for label, encoder in each_encoder(config) for row in _rows_of(config, label, encoder)]


def _rows_of(config: PdalnConfig, encoder_label: str, encoder: str) -> list[Row]:
    """Return the baselines, PDALN, its variants, the pair without target labels, and the CRF with all labels.

    What PDALN gains on the CRF is the question of `pdaln_grid`.
    """

    def row(
        label: str, setting: str, changes: dict[str, Any], system: str = "", against: tuple[str, ...] = (), **more: Any
    ) -> Row:
        supervision = "unsupervised" if setting == "pdaln_unsupervised" else "semi-supervised"
        figures = pdaln_f1(system, supervision, config.target_sentences)
        whole = {"architecture": "crf", "setting": setting, **changes}
        some = {"size": config.target_sentences, "order": config.order, "encoder": encoder, "published": figures}
        others = tuple(joined(other, encoder_label) for other in against)
        return Row(joined(label, encoder_label), whole, against=others, **{**some, **more})

    students = (("mean teacher", "mean_teacher", "PDALN w/ MT"), ("VAT", "vat", "PDALN w/ VAT"))
    without = [
        row(
            f"PDALN w/o {term}",
            "pdaln",
            {name: False},
            against=(_FULL,),
            published_gains=at_sentences(_dropped(term), config.target_sentences),
        )
        for term, name in _TERMS.items()
    ]
    # Of PDALN the table prints the best of five runs and their mean, of the others one figure: beside the best.
    best = pdaln_f1("PDALN (best run)", "semi-supervised", config.target_sentences)
    taught = [
        row(
            f"PDALN w/ {name}",
            "pdaln",
            {"pdaln_student": id},
            system,
            against=(_FULL,),
            published_gains={
                corpus: f1 - best[corpus]
                for corpus, f1 in published_f1(system, "semi-supervised").items()
                if corpus in best
            },
        )
        for name, id, system in students
    ]
    return [
        row("CRF, joint with the whole source", "joint", {}),
        row(_PLAIN, "pdaln", NO_TERMS, "BERT + CRF"),
        row(_FULL, "pdaln", {}, "PDALN (mean)", against=("CRF, joint with the whole source",)),
        *taught,
        *without,
        row(_BARE_PLAIN, "pdaln_unsupervised", NO_TERMS, "BERT + CRF"),
        row(_BARE, "pdaln_unsupervised", {}, "PDALN (mean)"),
        row(_ALL, "pdaln", NO_TERMS, size=None, against=(_PLAIN,)),
    ]


def _dropped(term: str) -> dict[str, float]:
    return dict(zip(PDALN_CORPORA, PDALN_WITHOUT[term], strict=True))


def _notes(config: PdalnConfig) -> list[str]:
    return [
        f"{config.target_sentences} labelled target sentences ({config.order} order); the published figures of PDALN "
        "are means of five runs; of its variants the paper prints one figure, to compare with the best of the five.",
    ]


grid_study(
    "pdaln_ablation",
    rows,
    PdalnConfig,
    title="PDALN and its terms",
    question="What does each term of progressive domain adaptation add to a CRF with few target labels?",
    reference="Zhang et al. 2021 (PDALN), tables 1 and 2",
    corpora=PDALN_CORPORA,
    notes=_notes,
    more=stage_table,
    published=(*printed(ZHANG), PRINTED_WITHOUT),
)
