"""Few-shot curves: F1 along the number of labelled target sentences."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.experiments.few_shot import ORDERS, PAPER_SIZES
from crossner_core.experiments.published import FEW_SHOT_STATEMENT, TRAIN_SENTENCES, dapt_system, published_f1
from crossner_core.experiments.studies._grid import Row, each_encoder, grid_study, joined
from crossner_core.experiments.study import StudyConfig
from crossner_core.options.base import option


@dataclass(frozen=True)
class FewShotConfig(StudyConfig):
    """Sizes and methods."""

    sizes: tuple[int, ...] = option(PAPER_SIZES, "Numbers of labelled target sentences.", min=1, max=10**7)
    settings: tuple[str, ...] = option(("direct", "pretrain_finetune", "joint"), "Transfer settings.")
    architectures: tuple[str, ...] = option(("tagger",), "Architectures.")
    order: str = option(
        "file",
        "Which sentences to take: the first in the file (as in the paper), or drawn with the seed.",
        choices=ORDERS,
    )


def rows(config: FewShotConfig) -> list[Row]:
    """Return settings × architectures × encoders × sizes, each against the first method at its size."""
    many = len(config.architectures) > 1
    methods = [
        (joined(setting, architecture if many else "", label), setting, architecture, label, encoder)
        for label, encoder in each_encoder(config)
        for architecture in config.architectures
        for setting in config.settings
    ]
    first, made = methods[0][0], []
    for name, setting, architecture, label, encoder in methods:
        known = published_f1(dapt_system(label, encoder), setting) if architecture == "tagger" else {}
        for size in config.sizes:
            row = Row(
                joined(name, f"{size}"),
                {"setting": setting, "architecture": architecture},
                encoder,
                size,
                config.order,
                published={corpus: f1 for corpus, f1 in known.items() if size == TRAIN_SENTENCES.get(corpus)},
                against=(joined(first, f"{size}"),) if name != first else (),
                line=name,
                x=size,
            )
            made.append(row)
    return made


grid_study(
    "few_shot",
    rows,
    FewShotConfig,
    title="Few-shot curves",
    question="How do the methods compare when few target sentences are labelled?",
    reference="Liu et al. 2021 (CrossNER), figure 3; Hu et al. 2022 (LANER), figure 4",
    corpora=("music",),
    axis="labelled target sentences",
    notes=lambda config: [FEW_SHOT_STATEMENT],
)
