"""LANER's ablation: its parts removed in turn, then the CRF and the plain tagger.

The paper removes background and context; the rows on learnt embeddings and the BiLSTM are ours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from crossner_core.experiments.published import DOMAINS, has_read_domains, printed, published_f1
from crossner_core.experiments.studies._grid import Row, each_encoder, grid_study, joined
from crossner_core.experiments.study import StudyConfig
from crossner_core.options.base import option

# label, recipe, published system without and with DAPT
_VARIANTS: tuple[tuple[str, dict[str, Any], str, str], ...] = (
    ("tagger", {"architecture": "tagger"}, "BERT-base", "BERT-base + DAPT (span, integrated)"),
    ("crf", {"architecture": "crf"}, "BERT + CRF", "BERT + CRF + DAPT"),
    ("w/o label embeddings", {"architecture": "label_aware", "label_embeddings": False}, "", ""),
    ("w/o label BiLSTM", {"architecture": "label_aware", "label_bilstm": False}, "", ""),
    (
        "w/o label background",
        {"architecture": "label_aware", "label_background": False},
        "LANER w/o label background",
        "LANER w/o label background + DAPT",
    ),
    (
        "w/o label context",
        {"architecture": "label_aware", "label_context": False},
        "LANER w/o label context",
        "LANER w/o label context + DAPT",
    ),
    ("label_aware", {"architecture": "label_aware"}, "LANER", "LANER + DAPT"),
)


@dataclass(frozen=True)
class LanerConfig(StudyConfig):
    """The ablation in one transfer setting."""

    setting: str = option("pretrain_finetune", "Transfer setting of all rows.", choices=("direct", "pretrain_finetune"))


def rows(config: LanerConfig) -> list[Row]:
    """Return the architectures from plain to full, each against the tagger on the same encoder."""
    made = []
    for label, encoder in each_encoder(config):
        for name, changes, plain, dapt in _VARIANTS:
            # LANER's DAPT is CrossNER's best one.
            with_text = dapt if has_read_domains(encoder) else ""
            system = {"": plain, "none": plain, "dapt": with_text, "span-integrated": with_text}.get(label, "")
            row = Row(joined(name, label), {"setting": config.setting, **changes}, encoder)
            against = (joined("tagger", label),) if name != "tagger" else ()
            made.append(replace(row, published=published_f1(system, config.setting), against=against))
    return made


grid_study(
    "laner_ablation",
    rows,
    LanerConfig,
    title="Label-aware architecture and its parts",
    question="What do label background and label context add to a tagger, and what does a CRF?",
    reference="Hu et al. 2022 (LANER), table 3",
    corpora=DOMAINS,
    published=printed("Hu et al."),
)
