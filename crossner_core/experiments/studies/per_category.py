"""F1 by entity type: which types gain by a source domain, by a label-aware model or by adaptation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from crossner_core.evaluation.scores import Score
from crossner_core.experiments.analysis.categories import (
    MACRO,
    TypeRow,
    f1_table,
    precision_recall_table,
    published_types,
    type_rows,
)
from crossner_core.experiments.plots import bars
from crossner_core.experiments.published import PDALN_SENTENCES, dapt_system
from crossner_core.experiments.studies._grid import Row, each_encoder, grid_cells, grid_labels, joined, too_large
from crossner_core.experiments.study import Inputs, Made, Study, StudyConfig, register
from crossner_core.experiments.tables import Table
from crossner_core.models.registry import architecture_ids
from crossner_core.options.base import option
from crossner_core.training.settings.registry import setting_ids

TITLE = "F1 by entity type"


@dataclass(frozen=True)
class PerCategoryConfig(StudyConfig):
    """Which ways of training are compared: each architecture in each setting on each encoder."""

    settings: tuple[str, ...] = option(
        ("direct", "pretrain_finetune"), "Transfer settings to compare.", choices=setting_ids()
    )
    architectures: tuple[str, ...] = option(("tagger",), "Architectures to compare.", choices=architecture_ids())
    size: int = option(0, "Training sentences of each corpus; 0 means all. PDALN takes 100.", min=0, max=10**7)
    order: str = option("random", "Which sentences: by the seed, or the file's first.", choices=("random", "file"))


def rows(config: PerCategoryConfig) -> list[Row]:
    """Return architectures × settings × encoders."""
    made = []
    for architecture, setting in product(config.architectures, config.settings):
        for label, encoder in each_encoder(config):
            changes = {"architecture": architecture, "setting": setting}
            made.append(Row(joined(architecture, setting, label), changes, encoder, config.size or None, config.order))
    return made


def build(config: PerCategoryConfig, inputs: Inputs) -> Made:
    """Make two tables a corpus, F1 first, and the bars of all corpora."""
    first, second, by_corpus = list[Table](), list[Table](), dict[str, list[TypeRow]]()
    for corpus in config.corpora:
        runs = _runs(config, inputs, corpus)
        if not any(runs.values()):
            continue
        known = {row.label: _published(row, corpus, config) for row in rows(config)}
        by_corpus[corpus] = type_rows(runs, known)
        first.append(f1_table(f"{TITLE}: {corpus}", by_corpus[corpus]))
        second.append(precision_recall_table(f"Precision and recall by entity type: {corpus}", by_corpus[corpus]))
    return Made((*first, *second), bars(TITLE, _lying(by_corpus), fold=False), too_large(config, inputs, rows(config)))


def _runs(config: PerCategoryConfig, inputs: Inputs, corpus: str) -> dict[str, list[Mapping[str, Score]]]:
    """Return the scores by type of each row's runs on a corpus, those there are."""
    runs = {}
    for row in rows(config):
        own = {label: changes for label, changes in config.rows.items() if label == row.label}
        runs[row.label] = grid_cells(partial(_only, row))(replace(config, corpora=(corpus,), rows=own))
    results = inputs.results
    return {label: [results[cell].test.per_type for cell in cells if cell in results] for label, cells in runs.items()}


def _only(row: Row, config: StudyConfig) -> list[Row]:
    return [row]


def _published(row: Row, corpus: str, config: PerCategoryConfig) -> dict[str, float]:
    """Return what the papers print: CrossNER of a tagger on all sentences, PDALN of a CRF on 100."""
    if row.changes["setting"] == "pdaln":
        fits = row.changes["architecture"] == "crf" and config.size == PDALN_SENTENCES
        return published_types("PDALN", "pdaln", corpus) if fits else {}
    label = next((name for name, path in config.labelled_encoders.items() if path == row.encoder), "")
    fits = row.changes["architecture"] == "tagger" and not config.size
    return published_types(dapt_system(label), row.changes["setting"], corpus) if fits else {}


def _lying(by_corpus: Mapping[str, Sequence[TypeRow]]) -> Table:
    """Return the figure's table: a row a way of training, a column an entity type."""
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
    )
)
