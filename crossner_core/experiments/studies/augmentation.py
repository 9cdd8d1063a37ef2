"""PDALN's augmentation ratio: the number of source sentences per labelled target sentence."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.experiments.published import PDALN_CORPORA, PDALN_RATIOS, PRINTED_RATIOS, at_sentences
from crossner_core.experiments.studies._grid import Row, each_encoder, grid_study, joined
from crossner_core.experiments.studies.pdaln_ablation import PdalnConfig
from crossner_core.options.base import option


@dataclass(frozen=True)
class AugmentationConfig(PdalnConfig):
    """The paper's ratios for its 100 target sentences."""

    ratios: tuple[int, ...] = option(
        (1, 3, 5, 7), "Augmented source sentences for each target sentence.", min=1, max=10_000
    )


def rows(config: AugmentationConfig) -> list[Row]:
    """Return the curve of PDALN along the ratio with each encoder, each point against the first."""
    first = f"1:{config.ratios[0]}"
    return [
        Row(
            joined(f"1:{ratio}", label),
            {
                "architecture": "crf",
                "setting": "pdaln",
                "pdaln_source_sentences": ratio * config.target_sentences,
            },
            encoder,
            config.target_sentences,
            config.order,
            published=at_sentences(
                {corpus: known[ratio] for corpus, known in PDALN_RATIOS.items() if ratio in known},
                config.target_sentences,
            ),
            against=(joined(first, label),) if ratio != config.ratios[0] else (),
            line=joined("PDALN", label),
            x=ratio,
        )
        for label, encoder in each_encoder(config)
        for ratio in config.ratios
    ]


grid_study(
    "augmentation",
    rows,
    AugmentationConfig,
    title="Augmentation ratio",
    question="How many augmented source sentences does PDALN need for each target sentence?",
    reference="Zhang et al. 2021 (PDALN), table 4",
    corpora=PDALN_CORPORA,
    axis="source sentences for each target sentence",
    published=(PRINTED_RATIOS,),
)
