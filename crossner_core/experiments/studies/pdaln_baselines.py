"""The baselines of PDALN's table 1: La-DTL and DATNet, which have a CRF for each domain, the cross-domain language
model of Jia et al. 2019 and the multi-cell LSTM, beside plain joint training; and what the source alone teaches.
"""

from __future__ import annotations

from typing import Any

from crossner_core.encoders.names import WORDS
from crossner_core.experiments.published import PDALN_CORPORA, ZHANG, pdaln_f1, printed
from crossner_core.experiments.studies._grid import Row, each_encoder, grid_study, joined
from crossner_core.experiments.studies.baselines import JIA, WORD_RATES
from crossner_core.experiments.studies.pdaln_ablation import PdalnConfig

# Released sizes and dropout; new layers need more epochs than an encoder alone.
_NEW: dict[str, Any] = {"dropout": 0.5, "source_epochs": 10}
_USUAL: dict[str, dict[str, Any]] = {"bilstm_crf": {**_NEW, "lstm_layers": 1, "lstm_size": 100}, "multi_cell": _NEW}
_BESIDE_TEXT = {"lm_weight": 0.5}  # as released
_CRF, _BILSTM = "CRF, joint with the whole source", "BiLSTM-CRF, joint with the whole source"
_ALONE, _BILSTM_ALONE = "source_only", "BiLSTM-CRF, source only"
_JIA_BARE = f"{JIA}, without target labels"
_SEMI, _BARE = "semi-supervised", "unsupervised"
# label, architecture, setting, other changes, system and supervision in the paper, what it is compared with
_ROWS: tuple[tuple[str, str, str, dict[str, Any], str, str, str], ...] = (
    (_CRF, "crf", "joint", {}, "", _SEMI, ""),
    ("La-DTL", "crf", "la_dtl", {}, "La-DTL", _SEMI, _CRF),
    ("DATNet-F", "crf", "datnet", {}, "DATNet", _SEMI, _CRF),
    ("Multi-cell LSTM", "multi_cell", "joint", {}, "Multi-cell LSTM", _SEMI, _CRF),
    (_BILSTM, "bilstm_crf", "joint", {}, "BiLSTM-CRF", _SEMI, ""),
    ("La-DTL, BiLSTM", "bilstm_crf", "la_dtl", {}, "La-DTL", _SEMI, _BILSTM),
    ("DATNet-F, BiLSTM", "bilstm_crf", "datnet", {"lstm_size": 200}, "DATNet", _SEMI, _BILSTM),
    ("DATNet-P, BiLSTM", "bilstm_crf", "datnet", {"lstm_private": True}, "DATNet", _SEMI, _BILSTM),
    (JIA, "bilstm_crf", "cross_domain_lm", _BESIDE_TEXT, JIA, _SEMI, _BILSTM),
    (_BILSTM_ALONE, "bilstm_crf", _ALONE, {}, "BiLSTM-CRF", _BARE, ""),
    ("Multi-cell LSTM, source only", "multi_cell", _ALONE, {}, "Multi-cell LSTM", _BARE, ""),
    (_JIA_BARE, "bilstm_crf", "cross_domain_lm_unsupervised", _BESIDE_TEXT, JIA, _BARE, _BILSTM_ALONE),
)


def rows(config: PdalnConfig) -> list[Row]:
    """Return the rows of each encoder; on word vectors with the paper's figures, if target sentences are as many."""
    return [
        Row(
            joined(label, encoder_label),
            {"architecture": architecture, "setting": setting, **_usual(config, encoder, architecture), **changes},
            encoder=encoder,
            size=None if supervision == _BARE else config.target_sentences,
            order=config.order,
            published=pdaln_f1(system, supervision, config.target_sentences) if _reads_words(config, encoder) else {},
            against=(joined(other, encoder_label),) if other else (),
        )
        for encoder_label, encoder in each_encoder(config)
        for label, architecture, setting, changes, system, supervision, other in _ROWS
        if system != JIA or _reads_words(config, encoder)
    ]


def _usual(config: PdalnConfig, encoder: str, architecture: str) -> dict[str, Any]:
    """Return the options of rows with new layers, and on word vectors, where the recipe does not say otherwise."""
    usual = {**_USUAL.get(architecture, {}), **(WORD_RATES if _reads_words(config, encoder) else {})}
    return {name: value for name, value in usual.items() if name not in config.recipe}


def _reads_words(config: PdalnConfig, encoder: str) -> bool:
    return (encoder or config.recipe_of().encoder).partition(":")[0] == WORDS


def _notes(config: PdalnConfig) -> list[str]:
    return [
        f"{config.target_sentences} labelled target sentences ({config.order} order). The paper prints one DATNet, and "
        "not whether it is DATNet-F or DATNet-P, nor what that and La-DTL read.",
        "A BiLSTM has one layer of 100 each way, DATNet-F's 200. They and the multi-cell LSTM learn for ten epochs, or "
        "the recipe's. Jia et al. 2019 stands on word vectors alone: its language models predict the words before and "
        "after, which an encoder has already read. Their text is the sentences of the source and of the target's "
        "train.",
    ]


grid_study(
    "pdaln_baselines",
    rows,
    PdalnConfig,
    title="Baselines of PDALN",
    question="With few target labels, do the baselines that PDALN is measured against do better than joint training?",
    reference="Zhang et al. 2021 (PDALN), table 1; Wang et al. 2018 (La-DTL); Zhou et al. 2019 (DATNet)",
    corpora=PDALN_CORPORA,
    notes=_notes,
    published=printed(ZHANG),
)
