"""LANER's label-embedding size."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.experiments.studies._grid import Row, each_encoder, grid_study, joined
from crossner_core.experiments.study import StudyConfig
from crossner_core.options.base import option


@dataclass(frozen=True)
class LabelSizeConfig(StudyConfig):
    """Sizes within the paper's range."""

    sizes: tuple[int, ...] = option((10, 50, 100, 150, 300, 1000), "Sizes of the label embeddings.", min=1, max=4096)


def rows(config: LabelSizeConfig) -> list[Row]:
    """Return the label-aware architecture with each size, against the first."""
    return [
        Row(
            joined(f"{size}", label),
            {"architecture": "label_aware", "setting": "pretrain_finetune", "label_size": size},
            encoder,
            against=(joined(f"{config.sizes[0]}", label),) if size != config.sizes[0] else (),
            line=joined("label_aware", label),
            x=size,
        )
        for label, encoder in each_encoder(config)
        for size in config.sizes
    ]


grid_study(
    "label_size",
    rows,
    LabelSizeConfig,
    title="Size of the label embeddings",
    question="How large should the label embeddings be?",
    reference="Hu et al. 2022 (LANER), figure 3",
    corpora=("ai",),
    axis="size of a label's embedding",
)
