"""Published F1 on CrossNER, in percent as printed: to draw beside our own, which use another encoder."""

from __future__ import annotations

from dataclasses import dataclass

DOMAINS = ("politics", "science", "music", "literature", "ai")
# Sentences in each domain's training set: where a whole-set number stands on a few-shot curve.
TRAIN_SENTENCES = {"politics": 200, "science": 200, "music": 100, "literature": 100, "ai": 100}
LIU = "Liu et al. 2021 (CrossNER), table 2; BERT-base, mean of three runs"


@dataclass(frozen=True, slots=True)
class Published:
    """One published F1, in percent, over the whole training set of a domain."""

    system: str
    setting: str
    domain: str
    f1: float
    source: str


@dataclass(frozen=True, slots=True)
class PublishedType:
    """One published F1 of an entity type in a domain, in percent."""

    setting: str
    domain: str
    type: str
    f1: float
    source: str


# system, setting, source, then F1 by DOMAINS
_ROWS: tuple[tuple[str, str, str, tuple[float, ...]], ...] = (
    ("BERT-base", "direct", LIU, (66.56, 63.73, 66.59, 59.95, 50.37)),
    ("BERT-base", "pretrain_finetune", LIU, (68.71, 64.94, 68.30, 63.63, 58.88)),
    ("BERT-base", "joint", LIU, (68.85, 65.03, 67.59, 62.57, 58.57)),
    ("BERT-base + DAPT (span, integrated)", "direct", LIU, (70.45, 67.59, 73.39, 64.96, 56.36)),
    ("BERT-base + DAPT (span, integrated)", "pretrain_finetune", LIU, (72.05, 68.78, 75.71, 69.04, 62.56)),
    ("BERT-base + DAPT (span, integrated)", "joint", LIU, (72.76, 68.28, 74.30, 65.18, 63.07)),
    ("BiLSTM-CRF word+char", "joint", LIU, (56.60, 49.97, 44.79, 43.03, 43.56)),
    ("Coach word+char", "joint", LIU, (61.50, 52.09, 51.66, 48.35, 45.15)),
    ("Jia et al. 2019", "joint", LIU, (68.44, 64.31, 63.56, 59.59, 53.70)),
    ("Multi-cell LSTM", "joint", LIU, (70.56, 66.42, 70.52, 66.96, 58.28)),
    ("LANER", "pretrain_finetune", "Hu et al. 2022 (LANER)", (71.65, 69.29, 73.07, 67.98, 61.72)),
    ("LANER + DAPT", "pretrain_finetune", "Hu et al. 2022 (LANER)", (74.06, 71.83, 78.78, 71.11, 65.79)),
    ("NER-BERT", "pretrain_finetune", "Liu et al. 2021 (NER-BERT)", (76.12, 72.10, 80.20, 71.90, 63.34)),
)

PUBLISHED: tuple[Published, ...] = tuple(
    Published(system, setting, domain, f1, source)
    for system, setting, source, values in _ROWS
    for domain, f1 in zip(DOMAINS, values, strict=True)
)

_TYPES = (
    "musicgenre",
    "song",
    "band",
    "album",
    "musicalartist",
    "country",
    "location",
    "organisation",
    "person",
    "misc",
)
_BY_TYPE = {
    "direct": (77.35, 26.57, 71.65, 60.61, 80.71, 84.93, 67.82, 59.36, 7.97, 17.20),
    "pretrain_finetune": (79.12, 42.04, 68.45, 61.79, 76.75, 88.85, 78.47, 69.70, 10.15, 29.80),
}

PUBLISHED_TYPES: tuple[PublishedType, ...] = tuple(
    PublishedType(setting, "music", name, f1, LIU.replace("table 2", "table 4"))
    for setting, values in _BY_TYPE.items()
    for name, f1 in zip(_TYPES, values, strict=True)
)

# The few-shot curve is printed as a picture only; this is all that the text states of it.
FEW_SHOT_STATEMENT = (
    "Music, 40 sentences or fewer: pre-train then fine-tune is about 10 points of F1 ahead of direct "
    "(Liu et al. 2021, figure 3)."
)


def published(*, domain: str | None = None, setting: str | None = None, system: str | None = None) -> list[Published]:
    """Return the published numbers that match what is given."""
    return [
        row
        for row in PUBLISHED
        if domain in (None, row.domain) and setting in (None, row.setting) and system in (None, row.system)
    ]
