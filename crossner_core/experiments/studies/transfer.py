"""CrossNER's main table: three transfer settings, each with encoders further pre-trained in different ways."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crossner_core.experiments.dapt_encoders import DaptConfig
from crossner_core.experiments.published import DOMAINS, dapt_system, published_f1
from crossner_core.experiments.studies._grid import Row, each_encoder, grid_cells, grid_labels, grid_tables, joined
from crossner_core.experiments.study import Study, register

TITLE = "Transfer settings and encoders"


@dataclass(frozen=True)
class TransferConfig(DaptConfig):
    """With `dapt_corpus` the whole of the paper's table: the encoder as it comes, and seven ways to pre-train it."""

    usual_ways: ClassVar[tuple[str, ...]] = (
        "token-domain",
        "token-entity",
        "token-task",
        "token-integrated",
        "span-entity",
        "span-task",
        "span-integrated",
    )
    usual_ways_of_text: ClassVar[tuple[str, ...]] = ("token", "span")


def rows(config: TransferConfig) -> list[Row]:
    """Return settings × encoders: each against the first setting with its encoder, then against the first encoder."""
    encoders = each_encoder(config)
    made, least = [], config.settings[0]
    for setting in config.settings:
        for label, encoder in encoders:
            same_encoder = (joined(least, label),) if setting != least else ()
            first_encoder = (joined(setting, encoders[0][0]),) if label != encoders[0][0] else ()
            known = published_f1(dapt_system(label), setting)
            against = (*same_encoder, *first_encoder)
            made.append(Row(joined(setting, label), {"setting": setting}, encoder, published=known, against=against))
    return made


register(
    Study(
        id="transfer",
        title=TITLE,
        question="How much do labels of a source domain and further pre-training of the encoder help a target domain?",
        reference="Liu et al. 2021 (CrossNER), table 2",
        config=TransferConfig,
        corpora=DOMAINS,
        cells=grid_cells(rows),
        labels=grid_labels(rows),
        build=grid_tables(rows, title=TITLE),
    )
)
