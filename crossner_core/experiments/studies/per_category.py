"""F1 by entity type: which types gain from a source domain, a label-aware model or adaptation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from crossner_core.evaluation.scores import Score
from crossner_core.experiments.corpora import DRAWS
from crossner_core.experiments.plots import bars
from crossner_core.experiments.published import PRINTED_TYPES, dapt_system, pdaln_sentences, published_types
from crossner_core.experiments.studies._grid import (
    Row,
    decodings,
    each_encoder,
    grid_cells,
    grid_labels,
    joined,
    repeated,
    too_large,
)
from crossner_core.experiments.study import Inputs, Made, Study, StudyConfig, register
from crossner_core.experiments.tables import Measured, Table, Value, summary
from crossner_core.models.registry import architecture_ids
from crossner_core.options.base import option
from crossner_core.training.settings.registry import setting_ids

TITLE = "F1 by entity type"
MICRO, MACRO = "all entities", "mean of the types"
UNITS = (
    "Entity F1 in percent on the whole test set, by entity type: mean ± sample deviation over the seeds; entities are "
    "those of the test set. All entities: counted together; mean of the types: of those that occur."
)

Runs = Mapping[str, Sequence[Mapping[str, Score]]]
"""For each way of training, its runs' scores by entity type, one run per seed."""


@dataclass(frozen=True, slots=True)
class TypeRow:
    """One entity type (or all of them) in each way of training; `support` counts its entities in the test set."""

    type: str
    support: int | None
    f1: Mapping[str, Measured]
    precision: Mapping[str, Measured]
    recall: Mapping[str, Measured]


def type_rows(runs: Runs, published: Mapping[str, Mapping[str, float]] | None = None) -> list[TypeRow]:
    """Return one row per type, in the order of the runs, then the rows MICRO and MACRO.

    A type that neither occurs nor is predicted has no F1 in that run. `published` gives F1 by way and type.
    """
    known = published or {}
    scores = [run for seeds in runs.values() for run in seeds]
    types = tuple(dict.fromkeys(name for run in scores for name in run))
    none = Score(0, 0, 0)
    by_type = {name: {way: [run.get(name, none) for run in seeds] for way, seeds in runs.items()} for name in types}
    rows = [_row(name, scores, known) for name, scores in by_type.items()]
    whole = {way: [_sum(run.values()) for run in seeds] for way, seeds in runs.items()}
    macro = {way: summary([_macro(run) for run in seeds]) for way, seeds in runs.items()}
    return [*rows, _row(MICRO, whole, known), TypeRow(MACRO, None, macro, {}, {})]


def f1_table(title: str, rows: Sequence[TypeRow]) -> Table:
    """Return types × ways of training, with the number of entities."""
    ways = list(rows[0].f1)
    lines: list[tuple[Value, ...]] = [(row.type, *(row.f1[way] for way in ways), row.support) for row in rows]
    return Table(title, ("entity type", *ways, "entities"), tuple(lines), UNITS)


def precision_recall_table(title: str, rows: Sequence[TypeRow]) -> Table:
    """Return types × (precision and recall of each way of training)."""
    ways = list(rows[0].f1)
    columns = [f"{way}: {what}" for way in ways for what in ("precision", "recall")]
    lines: list[tuple[Value, ...]] = [
        (row.type, *(part[way] for way in ways for part in (row.precision, row.recall)))
        for row in rows
        if row.type != MACRO
    ]
    note = "In percent: mean ± sample deviation over the seeds. A run that predicts none of a type has no precision."
    return Table(title, ("entity type", *columns), tuple(lines), note)


def _row(name: str, scores: Mapping[str, Sequence[Score]], known: Mapping[str, Mapping[str, float]]) -> TypeRow:
    support = max((score.support for seeds in scores.values() for score in seeds), default=0)
    f1, precision, recall = {}, {}, {}
    for way, seeds in scores.items():
        f1[way] = summary(
            [100 * score.f1 for score in seeds if score.support or score.predicted],
            published=known.get(way, {}).get(name),
        )
        precision[way] = summary([100 * score.precision for score in seeds if score.predicted])
        recall[way] = summary([100 * score.recall for score in seeds if score.support])
    return TypeRow(name, support, f1, precision, recall)


def _sum(scores: Iterable[Score]) -> Score:
    counts = [(score.support, score.predicted, score.correct) for score in scores]
    return Score(*(sum(part) for part in zip(*counts, strict=True))) if counts else Score(0, 0, 0)


def _macro(run: Mapping[str, Score]) -> float:
    supported = [100 * score.f1 for score in run.values() if score.support]
    return sum(supported) / len(supported) if supported else 0.0


@dataclass(frozen=True)
class PerCategoryConfig(StudyConfig):
    """Which ways of training are compared: each architecture in each setting on each encoder."""

    settings: tuple[str, ...] = option(
        ("direct", "pretrain_finetune"), "Transfer settings to compare.", choices=setting_ids()
    )
    architectures: tuple[str, ...] = option(("tagger",), "Architectures to compare.", choices=architecture_ids())
    size: int = option(0, "Number of training sentences of each corpus; 0: all. PDALN uses 100.", min=0, max=10**7)
    order: str = option(
        "random",
        "Which sentences to take: drawn with the seed from all, from those with entities, or the first in the file.",
        choices=DRAWS,
    )


def rows(config: PerCategoryConfig) -> list[Row]:
    """Return architectures × settings × encoders."""
    made = []
    for architecture, setting in product(config.architectures, config.settings):
        for label, encoder in each_encoder(config):
            changes = {"architecture": architecture, "setting": setting}
            made.append(Row(joined(architecture, setting, label), changes, encoder, config.size or None, config.order))
    return made


def build(config: PerCategoryConfig, inputs: Inputs) -> Made:
    """Make two tables per corpus, F1 first, and the bars of all corpora."""
    first, second, by_corpus = list[Table](), list[Table](), dict[str, list[TypeRow]]()
    for corpus in config.corpora:
        runs = _runs(config, inputs, corpus)
        if not any(runs.values()):
            continue
        known = {row.label: _published(row, corpus, config) for row in rows(config)}
        by_corpus[corpus] = type_rows(runs, known)
        first.append(f1_table(f"{TITLE}: {corpus}", by_corpus[corpus]))
        second.append(precision_recall_table(f"Precision and recall by entity type: {corpus}", by_corpus[corpus]))
    made = rows(config)
    notes = (decodings(config, made), *repeated(config, made), *too_large(config, inputs, made))
    return Made((*first, *second), bars(TITLE, _lying(by_corpus), fold=False), notes)


def _runs(config: PerCategoryConfig, inputs: Inputs, corpus: str) -> dict[str, list[Mapping[str, Score]]]:
    """Return the scores by type of each row's available runs on a corpus."""
    runs = {}
    for row in rows(config):
        own = {label: changes for label, changes in config.rows.items() if label == row.label}
        runs[row.label] = grid_cells(partial(_only, row))(replace(config, corpora=(corpus,), rows=own))
    results = inputs.results
    return {label: [results[cell].test.per_type for cell in cells if cell in results] for label, cells in runs.items()}


def _only(row: Row, config: StudyConfig) -> list[Row]:
    return [row]


def _published(row: Row, corpus: str, config: PerCategoryConfig) -> dict[str, float]:
    """Return published F1: CrossNER's for a tagger on all sentences, PDALN's for a CRF on 100."""
    if row.changes["setting"] == "pdaln":
        fits = row.changes["architecture"] == "crf" and config.size == pdaln_sentences(corpus)
        return published_types("PDALN", "pdaln", corpus) if fits else {}
    label = next((name for name, path in config.labelled_encoders.items() if path == row.encoder), "")
    fits = row.changes["architecture"] == "tagger" and not config.size
    return published_types(dapt_system(label, row.encoder), row.changes["setting"], corpus) if fits else {}


def _lying(by_corpus: Mapping[str, Sequence[TypeRow]]) -> Table:
    """Return the figure's table: one row per way of training, one column per entity type."""
    types = [(corpus, row) for corpus, lines in by_corpus.items() for row in lines if row.type != MACRO]
    columns = tuple(f"{corpus}: {row.type}" if len(by_corpus) > 1 else row.type for corpus, row in types)
    ways = list(types[0][1].f1)
    return Table(TITLE, ("", *columns), tuple((way, *(row.f1[way] for _, row in types)) for way in ways))


register(
    Study(
        id="per_category",
        title=TITLE,
        question="Which entity types gain, and which lose, by labels of the source domain?",
        reference="Liu et al. 2021 (CrossNER), table 4; Hu et al. 2022 (LANER), figure 2; "
        "Zhang et al. 2021 (PDALN), table 3",
        config=PerCategoryConfig,
        corpora=("music", "ai"),
        cells=grid_cells(rows),
        labels=grid_labels(rows),
        build=build,
        published=(PRINTED_TYPES,),
    )
)
