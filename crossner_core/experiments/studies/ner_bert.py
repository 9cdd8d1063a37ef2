"""NER-BERT's table: encoders pre-trained by entity tagging with few, merged and all types."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.experiments.pretrained import TaggingConfig
from crossner_core.experiments.published import DOMAINS, NER_BERT, NER_BERT_OTHERS, printed, published_f1
from crossner_core.experiments.studies._grid import Row, each_encoder, grid_study, joined
from crossner_core.options.base import option

SETTINGS = ("direct", "pretrain_finetune")
# The labels of encoders that stand for a row of the paper.
_SYSTEMS = {
    "": "BERT-base",
    "none": "BERT-base",
    "4-types": "NER-BERT (4 types)",
    "merged": "NER-BERT (212 types)",
    "full": "NER-BERT",
}


@dataclass(frozen=True)
class NerBertConfig(TaggingConfig):
    """With `tagged` the encoders are pre-trained by the study: 4-types, merged and full stand for the paper's rows."""

    settings: tuple[str, ...] = option(SETTINGS, "Transfer settings.", choices=SETTINGS)


def rows(config: NerBertConfig) -> list[Row]:
    """Return settings × encoders, each against the first encoder in the same setting."""
    encoders = each_encoder(config)
    return [
        Row(
            joined(setting, label),
            {"setting": setting},
            encoder,
            published=published_f1(_SYSTEMS.get(label, ""), setting),
            against=(joined(setting, encoders[0][0]),) if label != encoders[0][0] else (),
        )
        for setting in config.settings
        for label, encoder in encoders
    ]


grid_study(
    "ner_bert",
    rows,
    NerBertConfig,
    title="Pre-training by entity tagging",
    question="What does pre-training an encoder by tagging entities add, and how many entity types does it take?",
    reference="Liu et al. 2021 (NER-BERT), table 2",
    corpora=(*DOMAINS, *NER_BERT_OTHERS),
    published=printed(NER_BERT),
)
