"""CrossNER's main table: three transfer settings, each with encoders further pre-trained in different ways."""

from __future__ import annotations

from crossner_core.experiments.published import DOMAINS, dapt_system, published_f1
from crossner_core.experiments.studies._grid import Row, each_encoder, grid_cells, grid_labels, grid_tables, joined
from crossner_core.experiments.study import Study, StudyConfig, register

SETTINGS = ("direct", "pretrain_finetune", "joint")
TITLE = "Transfer settings and encoders"


def rows(config: StudyConfig) -> list[Row]:
    """Return settings × encoders: each against direct on the same encoder, then against the first encoder."""
    encoders = each_encoder(config)
    made = []
    for setting in SETTINGS:
        for label, encoder in encoders:
            same_encoder = (joined("direct", label),) if setting != "direct" else ()
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
        config=StudyConfig,
        corpora=DOMAINS,
        cells=grid_cells(rows),
        labels=grid_labels(rows),
        build=grid_tables(rows, title=TITLE),
    )
)
