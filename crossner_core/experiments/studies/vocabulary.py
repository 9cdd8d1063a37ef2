"""Vocabulary overlap: how many of their frequent words two corpora share. Nothing is trained."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from crossner_core.errors import InvalidConfig
from crossner_core.experiments.corpora import SPLITS, Corpus, read_corpus
from crossner_core.experiments.published import DOMAINS
from crossner_core.experiments.study import Inputs, Made, Study, StudyConfig, register
from crossner_core.experiments.tables import Table, Value
from crossner_core.options.base import option
from crossner_core.schema import LabelledSentence
from crossner_core.vocabulary import TOP, Overlap, overlap, sentence_words, vocabulary

TITLE = "Vocabulary overlap of the corpora"


def corpora_overlap(corpora: Iterable[Corpus], *, top: int = TOP, splits: Sequence[str] = SPLITS) -> Overlap:
    """Compare the `top` most frequent words of each corpus's splits; stop words, case and numbers don't count.

    Source: Liu et al. 2021 (CrossNER), figure 1. Departs from it if a corpus has fewer words: then equally many of the
    other's are compared. Raises InvalidConfig if spaCy, whose stop words are used, is not installed.
    """
    if importlib.util.find_spec("spacy") is None:
        raise InvalidConfig("The overlap of vocabularies needs spaCy's list of stop words: pip install spacy.")
    words = ((corpus.id, sentence_words(_sentences(corpus, splits))) for corpus in corpora)
    return overlap(vocabulary(id, counted, top=top) for id, counted in words)


def overlap_table(title: str, shared: Overlap, *, note: str = "") -> Table:
    """Return corpora × corpora in percent, and how many words of each were compared."""
    lines = zip(shared.names, shared.matrix, shared.sizes, strict=True)
    rows: list[tuple[Value, ...]] = [(name, *row, size) for name, row, size in lines]
    return Table(title, ("%", *shared.names, "words"), tuple(rows), note)


def overlap_figure(title: str, shared: Overlap) -> dict[str, Any]:
    """Draw the heat map in plotly's JSON."""
    names = list(shared.names)
    # The diagonal is always 100; the colour scale covers the rest.
    most = max(share for index, row in enumerate(shared.matrix) for other, share in enumerate(row) if index != other)
    heat = {
        "type": "heatmap",
        "z": [list(row) for row in shared.matrix],
        "x": names,
        "y": names,
        "texttemplate": "%{z:.0f}",
        "hovertemplate": "%{y} and %{x}: %{z:.1f} %<extra></extra>",
        "colorscale": [[0, "#f7fbff"], [0.5, "#6baed6"], [1, "#08306b"]],
        "zmin": 0,
        "zmax": max(most, 1),
        "showscale": False,
    }
    layout = {
        "title": {"text": title},
        "xaxis": {"tickangle": -40, "automargin": True},
        "yaxis": {"autorange": "reversed", "automargin": True},
        "height": 200 + 40 * len(names),
    }
    return {"data": [heat], "layout": layout}


def corpora_table(title: str, corpora: Iterable[Corpus]) -> Table:
    """Return the size of each corpus: sentences and entities by split, types, and entity density in test."""
    columns = ("corpus", *(f"{split}: {what}" for split in SPLITS for what in ("sentences", "entities")))
    rows = []
    for corpus in corpora:
        counts: list[Value] = []
        for split in SPLITS:
            items = _sentences(corpus, (split,))
            counts += [len(items), sum(len(item.spans) for item in items)]
        inside = sum(span.end - span.start for item in corpus.test for span in item.spans)
        tokens = sum(len(item.sentence.tokens) for item in corpus.test)
        shared = " / ".join(str(corpus.duplicates[pair]) for pair in ("train→test", "dev→test"))
        rows.append((corpus.id, *counts, len(corpus.types), 100 * inside / tokens, shared))
    note = (
        "Inside: share of the test set's tokens that are inside an entity, in percent. Duplicates: test sentences that "
        "occur word for word in train / in dev."
    )
    return Table(title, (*columns, "types", "inside", "duplicates"), tuple(rows), note)


def _sentences(corpus: Corpus, splits: Sequence[str]) -> list[LabelledSentence]:
    return [item for split in splits for item in getattr(corpus, split)]


@dataclass(frozen=True)
class VocabularyConfig(StudyConfig):
    """Which words are compared."""

    top: int = option(TOP, "Number of most frequent words to compare per corpus.", min=1, max=1_000_000)
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
