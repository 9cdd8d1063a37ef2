"""Published F1, in percent as printed, to compare with our own, which use another encoder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from crossner_core.experiments.tables import Table

DOMAINS = ("politics", "science", "music", "literature", "ai")
# Sentences in each domain's training set: the position of a whole-set number on a few-shot curve.
TRAIN_SENTENCES = {"politics": 200, "science": 200, "music": 100, "literature": 100, "ai": 100}
HU = "Hu et al. 2022 (LANER), tables 2 and 3; BERT-base, mean of three runs"
HU_ALONE = HU.replace("tables 2 and 3", "table 4")
NER_BERT = "Liu et al. 2021 (NER-BERT), table 2; BERT-base-cased"
ZHANG = "Zhang et al. 2021 (PDALN); BERT-base-cased"
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

    system: str
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
    ("BERT-base + DAPT (token, domain)", "direct", LIU, (67.21, 64.63, 70.56, 62.54, 53.66)),
    ("BERT-base + DAPT (token, entity)", "direct", LIU, (67.59, 65.97, 70.64, 63.77, 53.94)),
    ("BERT-base + DAPT (token, task)", "direct", LIU, (67.30, 65.04, 70.37, 62.10, 53.19)),
    ("BERT-base + DAPT (token, integrated)", "direct", LIU, (68.83, 66.55, 72.42, 63.95, 55.44)),
    ("BERT-base + DAPT (span, entity)", "direct", LIU, (68.58, 66.70, 71.62, 64.67, 55.65)),
    ("BERT-base + DAPT (span, task)", "direct", LIU, (68.37, 65.84, 70.66, 63.85, 54.48)),
    ("BERT-base + DAPT (span, integrated)", "direct", LIU, (70.45, 67.59, 73.39, 64.96, 56.36)),
    ("BERT-base + DAPT (token, domain)", "pretrain_finetune", LIU, (69.37, 66.68, 72.05, 65.15, 61.48)),
    ("BERT-base + DAPT (token, entity)", "pretrain_finetune", LIU, (70.32, 67.03, 71.55, 65.76, 61.52)),
    ("BERT-base + DAPT (token, task)", "pretrain_finetune", LIU, (70.21, 65.99, 71.74, 65.32, 60.29)),
    ("BERT-base + DAPT (token, integrated)", "pretrain_finetune", LIU, (71.44, 67.53, 74.02, 66.57, 61.90)),
    ("BERT-base + DAPT (span, entity)", "pretrain_finetune", LIU, (71.85, 68.04, 73.34, 66.28, 61.66)),
    ("BERT-base + DAPT (span, task)", "pretrain_finetune", LIU, (70.77, 67.41, 73.01, 66.58, 61.68)),
    ("BERT-base + DAPT (span, integrated)", "pretrain_finetune", LIU, (72.05, 68.78, 75.71, 69.04, 62.56)),
    ("BERT-base + DAPT (token, domain)", "joint", LIU, (69.49, 66.37, 71.94, 63.74, 60.53)),
    ("BERT-base + DAPT (token, entity)", "joint", LIU, (70.01, 66.55, 71.51, 63.35, 61.29)),
    ("BERT-base + DAPT (token, task)", "joint", LIU, (70.14, 66.06, 70.70, 62.68, 60.14)),
    ("BERT-base + DAPT (token, integrated)", "joint", LIU, (71.09, 67.58, 72.57, 64.27, 62.55)),
    ("BERT-base + DAPT (span, entity)", "joint", LIU, (71.90, 68.04, 71.98, 64.23, 61.63)),
    ("BERT-base + DAPT (span, task)", "joint", LIU, (71.31, 67.75, 71.17, 63.24, 60.83)),
    ("BERT-base + DAPT (span, integrated)", "joint", LIU, (72.76, 68.28, 74.30, 65.18, 63.07)),
    ("BiLSTM-CRF word", "joint", LIU, (52.52, 44.60, 40.77, 35.69, 38.24)),
    ("BiLSTM-CRF word+char", "joint", LIU, (56.60, 49.97, 44.79, 43.03, 43.56)),
    ("Coach word", "joint", LIU, (54.01, 44.88, 45.58, 36.18, 40.41)),
    ("Coach word+char", "joint", LIU, (61.50, 52.09, 51.66, 48.35, 45.15)),
    ("Jia et al. 2019", "joint", LIU, (68.44, 64.31, 63.56, 59.59, 53.70)),
    ("Multi-cell LSTM", "joint", LIU, (70.56, 66.42, 70.52, 66.96, 58.28)),
    ("Multi-cell LSTM + DAPT (span, integrated)", "joint", LIU, (71.45, 67.68, 74.19, 68.63, 61.64)),
    ("BiLSTM-CRF word+char", "joint", HU, (56.60, 49.97, 44.79, 43.03, 43.56)),
    ("Jia et al. 2019", "joint", HU, (68.44, 64.31, 63.56, 59.59, 53.70)),
    ("Coach word+char", "joint", HU, (61.50, 52.09, 51.66, 48.35, 45.15)),
    ("Multi-cell LSTM", "joint", HU, (70.56, 66.42, 70.52, 66.96, 58.28)),
    ("Multi-cell LSTM + DAPT (span, integrated)", "joint", HU, (71.45, 67.68, 74.19, 68.63, 61.64)),
    # On both corpora; the paper does not say how.
    ("FLAIR", "joint", HU, (69.54, 64.71, 65.60, 61.35, 52.48)),
    ("BARTNER", "joint", HU, (69.90, 65.14, 65.35, 58.93, 53.00)),
    ("LANER", "pretrain_finetune", HU, (71.65, 69.29, 73.07, 67.98, 61.72)),
    # As printed; the average printed beside it, 67.93, is not theirs (68.01).
    ("LANER w/o label context", "pretrain_finetune", HU, (70.94, 71.11, 71.51, 67.24, 59.23)),
    ("LANER w/o label background", "pretrain_finetune", HU, (70.61, 68.43, 70.07, 67.53, 59.41)),
    ("BERT + CRF", "pretrain_finetune", HU, (70.47, 66.77, 70.34, 67.15, 58.03)),
    ("BERT-base", "pretrain_finetune", HU, (68.71, 64.94, 68.30, 63.63, 58.88)),
    ("BERT-base", "direct", HU_ALONE, (66.56, 63.73, 66.59, 59.95, 50.37)),
    ("BERT-base + DAPT (span, integrated)", "direct", HU_ALONE, (70.45, 67.59, 73.39, 64.96, 56.36)),
    ("LANER", "direct", HU_ALONE, (68.13, 66.21, 68.75, 61.37, 53.09)),
    ("LANER + DAPT", "direct", HU_ALONE, (71.83, 69.23, 74.79, 66.35, 58.12)),
    ("LANER + DAPT", "pretrain_finetune", HU, (74.06, 71.83, 78.78, 71.11, 65.79)),
    ("LANER w/o label context + DAPT", "pretrain_finetune", HU, (73.99, 71.55, 78.71, 70.38, 64.78)),
    ("LANER w/o label background + DAPT", "pretrain_finetune", HU, (73.94, 70.81, 77.41, 69.45, 62.82)),
    ("BERT + CRF + DAPT", "pretrain_finetune", HU, (73.07, 68.99, 77.53, 68.82, 62.63)),
    ("BERT-base + DAPT (span, integrated)", "pretrain_finetune", HU, (72.05, 68.78, 75.71, 69.04, 62.56)),
    ("BERT-base", "direct", NER_BERT, (66.56, 63.73, 66.59, 59.95, 50.37)),
    ("BERT-base + DAPT (span, integrated)", "direct", NER_BERT, (70.45, 67.59, 73.39, 64.96, 56.36)),
    ("NER-BERT (4 types)", "direct", NER_BERT, (70.76, 68.31, 71.02, 63.91, 57.03)),
    ("NER-BERT (212 types)", "direct", NER_BERT, (73.81, 71.09, 75.98, 68.13, 58.58)),
    ("NER-BERT", "direct", NER_BERT, (73.69, 71.90, 76.23, 67.85, 60.39)),
    ("BERT-base", "pretrain_finetune", NER_BERT, (68.71, 64.94, 68.30, 63.63, 58.88)),
    ("BERT-base + DAPT (span, integrated)", "pretrain_finetune", NER_BERT, (72.05, 68.78, 75.71, 69.04, 62.56)),
    ("Jia et al. 2019", "joint", NER_BERT, (68.44, 64.31, 63.56, 59.59, 53.70)),
    ("NER-BERT (4 types)", "pretrain_finetune", NER_BERT, (71.98, 69.27, 75.46, 66.37, 59.03)),
    ("NER-BERT (212 types)", "pretrain_finetune", NER_BERT, (75.09, 72.13, 79.49, 71.33, 63.27)),
    ("NER-BERT", "pretrain_finetune", NER_BERT, (76.12, 72.10, 80.20, 71.90, 63.34)),
)

# The same for targets beyond CrossNER.
OTHERS = ("movie", "restaurant")
_OTHER_ROWS: tuple[tuple[str, str, str, tuple[float, ...]], ...] = (
    ("LANER", "pretrain_finetune", HU, (72.41, 80.55)),
    ("LANER w/o label context", "pretrain_finetune", HU, (72.26, 80.35)),
    ("LANER w/o label background", "pretrain_finetune", HU, (70.79, 79.08)),
    ("BERT + CRF", "pretrain_finetune", HU, (69.92, 78.74)),
    ("BERT-base", "pretrain_finetune", HU, (69.80, 78.63)),
    ("BiLSTM-CRF word+char", "joint", HU, (68.31, 78.13)),
    ("Coach word+char", "joint", HU, (67.62, 77.82)),
    ("BARTNER", "joint", HU, (71.55, 79.53)),
    ("Multi-cell LSTM", "joint", HU, (69.41, 78.67)),
)
# NER-BERT's table 2 also has Twitter, Broad Twitter, BioNLP13CG, BioNLP13PC, finance and defence; we have two of these.
NER_BERT_OTHERS = ("bionlp13pc", "sec-filings")
_NER_BERT_ROWS: tuple[tuple[str, str, str, tuple[float, ...]], ...] = (
    ("BERT-base", "direct", NER_BERT, (83.20, 76.23)),
    ("NER-BERT (4 types)", "direct", NER_BERT, (83.91, 77.55)),
    ("NER-BERT (212 types)", "direct", NER_BERT, (85.11, 77.85)),
    ("NER-BERT", "direct", NER_BERT, (85.35, 78.72)),
    ("BERT-base", "pretrain_finetune", NER_BERT, (84.02, 75.97)),
    ("NER-BERT (4 types)", "pretrain_finetune", NER_BERT, (84.29, 77.88)),
    ("NER-BERT (212 types)", "pretrain_finetune", NER_BERT, (84.97, 78.30)),
    ("NER-BERT", "pretrain_finetune", NER_BERT, (85.86, 78.39)),
)
# Beside BioNLP13CG, which we have not.
_CDLM_ROWS: tuple[tuple[str, str, str, tuple[float, ...]], ...] = (("Jia et al. 2019", "joint", NER_BERT, (85.54,)),)
# PDALN's table 1, with CoNLL 2003 as source.
PDALN_SENTENCES = 100  # labelled target sentences of its set-up
_PDALN_FEWER = {"webpage": 10}  # where there are not as many
PDALN_CORPORA = ("scitech", "wnut16", "webpage", "wikigold")
_PDALN_ROWS: tuple[tuple[str, str, str, tuple[float, ...]], ...] = (
    ("BiLSTM-CRF", "unsupervised", f"{ZHANG}, table 1", (67.01, 24.76, 43.34, 42.92)),
    ("BERT + CRF", "unsupervised", f"{ZHANG}, table 1", (74.26, 44.37, 55.94, 47.99)),
    ("Jia et al. 2019", "unsupervised", f"{ZHANG}, table 1", (73.58, 38.16, 46.96, 45.18)),
    ("Multi-cell LSTM", "unsupervised", f"{ZHANG}, table 1", (75.01, 41.07, 48.62, 46.04)),
    ("PDALN (mean)", "unsupervised", f"{ZHANG}, table 1, mean of five runs", (75.56, 45.93, 57.25, 49.55)),
    ("PDALN (best run)", "unsupervised", f"{ZHANG}, table 1, best of five runs", (75.80, 46.12, 56.93, 49.73)),
    ("BiLSTM-CRF", "semi-supervised", f"{ZHANG}, table 1", (67.83, 27.61, 44.46, 44.65)),
    ("BERT + CRF", "semi-supervised", f"{ZHANG}, table 1", (75.29, 45.31, 56.78, 48.45)),
    ("La-DTL", "semi-supervised", f"{ZHANG}, table 1", (73.30, 35.97, 51.39, 47.74)),
    # The table does not print which variant.
    ("DATNet", "semi-supervised", f"{ZHANG}, table 1", (69.22, 32.67, 47.71, 37.92)),
    ("Jia et al. 2019", "semi-supervised", f"{ZHANG}, table 1", (74.65, 39.14, 47.39, 45.77)),
    ("Multi-cell LSTM", "semi-supervised", f"{ZHANG}, table 1", (75.89, 42.19, 49.45, 46.45)),
    ("PDALN w/ MT", "semi-supervised", f"{ZHANG}, table 1", (77.80, 46.45, 57.43, 51.74)),
    ("PDALN w/ VAT", "semi-supervised", f"{ZHANG}, table 1", (77.33, 46.68, 57.14, 51.08)),
    ("PDALN (mean)", "semi-supervised", f"{ZHANG}, table 1, mean of five runs", (77.31, 47.63, 58.25, 52.48)),
    ("PDALN (best run)", "semi-supervised", f"{ZHANG}, table 1, best of five runs", (78.23, 48.22, 58.56, 53.06)),
)

# Of a figure that later papers print again, the first.
PUBLISHED: tuple[Published, ...] = tuple(
    Published(system, setting, domain, f1, source)
    for number, (system, setting, source, values) in enumerate(_ROWS)
    if (system, setting) not in [row[:2] for row in _ROWS[:number]]
    for domain, f1 in zip(DOMAINS, values, strict=True)
)

_ELSEWHERE = (
    (OTHERS, _OTHER_ROWS),
    (NER_BERT_OTHERS, _NER_BERT_ROWS),
    (NER_BERT_OTHERS[:1], _CDLM_ROWS),
    (PDALN_CORPORA, _PDALN_ROWS),
)
PUBLISHED_ELSEWHERE: tuple[Published, ...] = tuple(
    Published(system, setting, domain, f1, source)
    for domains, rows in _ELSEWHERE
    for system, setting, source, values in rows
    for domain, f1 in zip(domains, values, strict=True)
)

# PDALN's table 2: change of F1 when a term is left out, by PDALN_CORPORA.
PDALN_WITHOUT: dict[str, tuple[float, ...]] = {
    "contrastive": (-0.56, -0.72, -0.27, -1.20),
    "sentence MMD": (-1.25, -1.21, -0.80, -1.46),
    "word MMD": (-1.59, -1.39, -0.98, -1.51),
    "distillation": (-1.94, -1.68, -1.38, -1.56),
    "augmentation": (-1.96, -1.79, -2.17, -1.64),
}
# PDALN's table 4: F1 by source sentences for each of the 100 target sentences.
PDALN_RATIOS: dict[str, dict[int, float]] = {
    "scitech": {1: 76.29, 3: 77.38, 5: 78.23, 7: 78.38},
    "wnut16": {1: 46.55, 3: 47.74, 5: 48.22, 7: 48.59},
    "wikigold": {1: 50.16, 3: 51.81, 5: 53.06, 7: 53.71},
}

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
_BY_TYPE_DAPT = {
    "direct": (78.89, 42.63, 83.03, 65.93, 85.70, 83.86, 77.17, 69.43, 10.09, 19.20),
    "pretrain_finetune": (80.82, 58.67, 82.72, 69.28, 84.58, 85.61, 80.54, 75.16, 12.59, 28.67),
}
_PDALN_TYPES = ("person", "location", "organisation", "misc")
_PDALN_BY_TYPE = {
    "scitech": (91.42, 71.36, 68.76, 48.81),
    "wnut16": (86.27, 48.57, 46.81, 27.90),
    "webpage": (80.34, 45.75, 45.60, 42.48),
    "wikigold": (84.95, 43.36, 42.12, 37.53),
}
_LIU_TYPES, _ZHANG_TYPES = LIU.replace("table 2", "table 4"), f"{ZHANG}, table 3"
# system, setting, corpus, source, types, F1; LANER's figure 2 has no printed numbers
_TYPE_ROWS: tuple[tuple[str, str, str, str, tuple[str, ...], tuple[float, ...]], ...] = (
    *(("BERT-base", setting, "music", _LIU_TYPES, _TYPES, values) for setting, values in _BY_TYPE.items()),
    *(
        ("BERT-base + DAPT (span, integrated)", setting, "music", _LIU_TYPES, _TYPES, values)
        for setting, values in _BY_TYPE_DAPT.items()
    ),
    *(("PDALN", "pdaln", corpus, _ZHANG_TYPES, _PDALN_TYPES, values) for corpus, values in _PDALN_BY_TYPE.items()),
)

PUBLISHED_TYPES: tuple[PublishedType, ...] = tuple(
    PublishedType(system, setting, corpus, name, f1, source)
    for system, setting, corpus, source, types, values in _TYPE_ROWS
    for name, f1 in zip(types, values, strict=True)
)

# The few-shot curve is printed as a figure only; this is all that the text states about it.
FEW_SHOT_STATEMENT = (
    "The paper states that on music, with 40 sentences or fewer, pre-train then fine-tune is about 10 points of F1 "
    "ahead of direct (Liu et al. 2021, figure 3)."
)


def has_read_domains(encoder: str) -> bool:
    """Return whether an encoder's name stands for one of each corpus: one for all has not read each one's text."""
    return "{corpus}" in encoder


def dapt_system(label: str, encoder: str) -> str:
    """Return the published system for an encoder's label: of MASKING-LEVEL (span-integrated) BERT with DAPT.

    It is empty where the encoder has not read each domain's text. No label, or `none`, is BERT; others stay.
    """
    masking, _, level = label.partition("-")
    if masking in {"token", "span"} and level in {"domain", "entity", "task", "integrated"}:
        return f"BERT-base + DAPT ({masking}, {level})" if has_read_domains(encoder) else ""
    return "BERT-base" if label in {"", "none"} else label


def published_f1(system: str, setting: str) -> dict[str, float]:
    """Return a system's published F1 by corpus, CrossNER's and others; several papers agree where they overlap."""
    rows = (*PUBLISHED, *PUBLISHED_ELSEWHERE)
    return {row.domain: row.f1 for row in rows if (row.system, row.setting) == (system, setting)}


def pdaln_f1(system: str, supervision: str, sentences: int) -> dict[str, float]:
    """Return what PDALN's paper prints of a system; with labels only where it learns from so many target sentences."""
    figures = published_f1(system, supervision)
    return figures if supervision == "unsupervised" else at_sentences(figures, sentences)


def at_sentences(figures: Mapping[str, float], sentences: int) -> dict[str, float]:
    """Return those of PDALN's figures, by corpus, that are of so many labelled target sentences."""
    return {corpus: figure for corpus, figure in figures.items() if pdaln_sentences(corpus) == sentences}


def pdaln_sentences(corpus: str) -> int:
    """Return how many labelled target sentences of a corpus PDALN learns from in its paper."""
    return _PDALN_FEWER.get(corpus, PDALN_SENTENCES)


def published_types(system: str, setting: str, corpus: str) -> dict[str, float]:
    """Return a system's published F1 by entity type of a corpus; empty if none is published."""
    wanted = (system, setting, corpus)
    return {row.type: row.f1 for row in PUBLISHED_TYPES if (row.system, row.setting, row.domain) == wanted}


def published(*, domain: str | None = None, setting: str | None = None, system: str | None = None) -> list[Published]:
    """Return the published numbers on CrossNER that match the filters."""
    return [
        row
        for row in PUBLISHED
        if domain in (None, row.domain) and setting in (None, row.setting) and system in (None, row.system)
    ]


def printed(*beginnings: str) -> tuple[Table, ...]:
    """Return the published figures whose source begins so, as tables: one for each source and its corpora."""
    tables: dict[tuple[tuple[str, ...], str], list[tuple[str | float, ...]]] = {}
    for corpora, (system, setting, source, values) in _all_rows():
        if source.startswith(beginnings):
            tables.setdefault((corpora, source), []).append((system, setting, *values))
    return tuple(
        Table(source, ("system", "setting", *corpora), tuple(rows)) for (corpora, source), rows in tables.items()
    )


def _all_rows() -> Iterator[tuple[tuple[str, ...], tuple[str, str, str, tuple[float, ...]]]]:
    for corpora, rows in ((DOMAINS, _ROWS), *_ELSEWHERE):
        for row in rows:
            yield corpora, row


PRINTED_TYPES = Table(
    _LIU_TYPES,
    ("entity type of music", *_BY_TYPE),
    tuple((name, *(values[index] for values in _BY_TYPE.values())) for index, name in enumerate(_TYPES)),
)
PRINTED_WITHOUT = Table(
    f"{ZHANG}, table 2: change of F1 without a term",
    ("without", *PDALN_CORPORA),
    tuple((term, *changes) for term, changes in PDALN_WITHOUT.items()),
)
PRINTED_RATIOS = Table(
    f"{ZHANG}, table 4: F1 by source sentences for each target sentence",
    ("corpus", *map(str, next(iter(PDALN_RATIOS.values())))),
    tuple((corpus, *by_ratio.values()) for corpus, by_ratio in PDALN_RATIOS.items()),
)
