"""CrossNER's main table: three transfer settings, each with encoders further pre-trained in different ways."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crossner_core.experiments.pretrained import DaptConfig
from crossner_core.experiments.published import DOMAINS, LIU, dapt_system, printed, published_f1
from crossner_core.experiments.studies._grid import Row, each_encoder, grid_study, joined


@dataclass(frozen=True)
class TransferConfig(DaptConfig):
    """With `dapt_corpus` the paper's whole table: the original encoder, and seven ways to pre-train it."""

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
            known = published_f1(dapt_system(label, encoder), setting)
            against = (*same_encoder, *first_encoder)
            made.append(Row(joined(setting, label), {"setting": setting}, encoder, published=known, against=against))
    return made


grid_study(
    "transfer",
    rows,
    TransferConfig,
    title="Transfer settings and encoders",
    question="How much do labels of a source domain and further pre-training of the encoder help a target domain?",
    reference="Liu et al. 2021 (CrossNER), table 2",
    corpora=DOMAINS,
    published=printed(LIU),
)
