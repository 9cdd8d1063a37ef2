"""Vocabulary overlap: how many of their frequent words two corpora share. Nothing is trained."""

from __future__ import annotations

from dataclasses import dataclass

from crossner_core.errors import InvalidConfig
from crossner_core.experiments.analysis.vocabulary import (
    corpora_overlap,
    corpora_table,
    overlap_figure,
    overlap_table,
)
from crossner_core.experiments.corpora import SPLITS, read_corpus
from crossner_core.experiments.published import DOMAINS
from crossner_core.experiments.study import Inputs, Made, Study, StudyConfig, register
from crossner_core.options.base import option
from crossner_core.vocabulary import TOP

TITLE = "Vocabulary overlap of the corpora"


@dataclass(frozen=True)
class VocabularyConfig(StudyConfig):
    """Which words are compared."""

    top: int = option(TOP, "Most frequent words of each corpus that are compared.", min=1, max=1_000_000)
    splits: tuple[str, ...] = option(SPLITS, "Splits whose words are counted.", choices=SPLITS)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse("encoders", "recipe", "rows", why="words are counted, nothing is trained")


def build(config: VocabularyConfig, inputs: Inputs) -> Made:
    """Make the table of shares, the one of the corpora, and the heat map."""
    corpora = [read_corpus(id, inputs.data) for id in config.corpora]
    if len(corpora) < 2:
        raise InvalidConfig(f"An overlap needs two corpora or more, not {', '.join(config.corpora) or 'none'}.")
    shared = corpora_overlap(corpora, top=config.top, splits=config.splits)
    note = (
        f"Share of common words in percent among the {config.top:,} most frequent of each corpus "
        f"({', '.join(config.splits)} together), without stop words, numbers and case. A corpus of fewer words is "
        "compared with as many of the other's; words says how many it has, and a low share of a small corpus says "
        "little."
    )
    tables = (overlap_table(TITLE, shared, note=note), corpora_table("The corpora", corpora))
    notes = tuple(f"{corpus.id}: {text}." for corpus in corpora for text in corpus.notes)
    return Made(tables, overlap_figure(TITLE, shared), notes)


register(
    Study(
        id="vocabulary",
        title=TITLE,
        question="How alike are source and target domains in their words?",
        reference="Liu et al. 2021 (CrossNER), figure 1",
        config=VocabularyConfig,
        corpora=("conll2003", *DOMAINS, "restaurant", "wikigold", "sec-filings", "bionlp13pc", "wikineural"),
        cells=lambda config: (),
        build=build,
    )
)
