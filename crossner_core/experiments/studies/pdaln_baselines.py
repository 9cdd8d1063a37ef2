"""Two baselines of PDALN's table 1 with a CRF for each domain, La-DTL and DATNet, beside plain joint training."""

from __future__ import annotations

from typing import Any

from crossner_core.encoders.names import WORDS
from crossner_core.experiments.published import PDALN_CORPORA, ZHANG, printed, published_f1
from crossner_core.experiments.studies._grid import Row, each_encoder, grid_study, joined
from crossner_core.experiments.studies.baselines import WORD_RATES
from crossner_core.experiments.studies.pdaln_ablation import PdalnConfig, as_in_the_paper

# Released sizes and dropout; new layers need more epochs than an encoder alone.
_LSTM: dict[str, Any] = {"lstm_layers": 1, "lstm_size": 100, "dropout": 0.5, "source_epochs": 10}
_CRF, _BILSTM = "CRF, joint with the whole source", "BiLSTM-CRF, joint with the whole source"
# label, architecture, setting, other changes, system in the paper, what it is compared with
_ROWS: tuple[tuple[str, str, str, dict[str, Any], str, str], ...] = (
    (_CRF, "crf", "joint", {}, "", ""),
    ("La-DTL", "crf", "la_dtl", {}, "La-DTL", _CRF),
    ("DATNet-F", "crf", "datnet", {}, "DATNet", _CRF),
    (_BILSTM, "bilstm_crf", "joint", {}, "", ""),
    ("La-DTL, BiLSTM", "bilstm_crf", "la_dtl", {}, "La-DTL", _BILSTM),
    ("DATNet-F, BiLSTM", "bilstm_crf", "datnet", {"lstm_size": 200}, "DATNet", _BILSTM),
    ("DATNet-P, BiLSTM", "bilstm_crf", "datnet", {"lstm_private": True}, "DATNet", _BILSTM),
)


def rows(config: PdalnConfig) -> list[Row]:
    """Return the rows of each encoder, with the paper's figures where the number of target sentences is the paper's."""
    comparable = as_in_the_paper(config)
    return [
        Row(
            joined(label, encoder_label),
            {"architecture": architecture, "setting": setting, **_usual(config, encoder, architecture), **changes},
            encoder=encoder,
            size=config.target_sentences,
            order=config.order,
            published=published_f1(system, "semi-supervised") if comparable else {},
            against=(joined(other, encoder_label),) if other else (),
        )
        for encoder_label, encoder in each_encoder(config)
        for label, architecture, setting, changes, system, other in _ROWS
    ]


def _usual(config: PdalnConfig, encoder: str, architecture: str) -> dict[str, Any]:
    """Return the options of rows with new layers, and on word vectors, where the recipe does not say otherwise."""
    kind = (encoder or config.recipe_of().encoder).partition(":")[0]
    usual = {**(_LSTM if architecture == "bilstm_crf" else {}), **(WORD_RATES if kind == WORDS else {})}
    return {name: value for name, value in usual.items() if name not in config.recipe}


def _notes(config: PdalnConfig) -> list[str]:
    return [
        f"{config.target_sentences} labelled target sentences ({config.order} order). The paper prints one DATNet, and "
        "not whether it is DATNet-F or DATNet-P; its La-DTL and DATNet read word vectors by a BiLSTM.",
        "Rows with a BiLSTM have one layer, of 100, DATNet-F's of 200, and ten epochs, or the recipe's.",
    ]


grid_study(
    "pdaln_baselines",
    rows,
    PdalnConfig,
    title="Baselines of PDALN: La-DTL and DATNet",
    question="With few target labels, does a CRF for each domain on one body do better than joint training?",
    reference="Zhang et al. 2021 (PDALN), table 1; Wang et al. 2018 (La-DTL); Zhou et al. 2019 (DATNet)",
    corpora=PDALN_CORPORA,
    notes=_notes,
    published=printed(ZHANG),
)
