"""PDALN's augmentation ratio: so many source sentences for each labelled target sentence."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.experiments.published import PDALN_CORPORA, PDALN_RATIOS
from crossner_core.experiments.studies._grid import Row, grid_cells, grid_labels, grid_tables
from crossner_core.experiments.studies.pdaln_ablation import PdalnConfig
from crossner_core.experiments.study import Study, register
from crossner_core.options.base import option

TITLE = "Augmentation ratio"


@dataclass(frozen=True)
class AugmentationConfig(PdalnConfig):
    """The paper's ratios for its 100 target sentences."""

    ratios: tuple[int, ...] = option((1, 3, 5, 7), "Source sentences for each target sentence.", min=1, max=10_000)


def rows(config: AugmentationConfig) -> list[Row]:
    """Return the curve of PDALN along the ratio, each point against the first."""
    first = f"1:{config.ratios[0]}"
    return [
        Row(
            f"1:{ratio}",
            {
                "architecture": "crf",
                "setting": "pdaln",
                "pdaln_source_sentences": ratio * config.target_sentences,
            },
            size=config.target_sentences,
            order=config.order,
            published={corpus: known[ratio] for corpus, known in PDALN_RATIOS.items() if ratio in known},
            against=(first,) if ratio != config.ratios[0] else (),
            line="PDALN",
            x=ratio,
        )
        for ratio in config.ratios
    ]


register(
    Study(
        id="augmentation",
        title=TITLE,
        question="How many augmented source sentences does PDALN need for each target sentence?",
        reference="Zhang et al. 2021 (PDALN), table 4",
        config=AugmentationConfig,
        corpora=PDALN_CORPORA,
        cells=grid_cells(rows),
        labels=grid_labels(rows),
        build=grid_tables(rows, title=TITLE, axis="source sentences for each target sentence"),
    )
)
