"""What other corpora are worth to a new domain: by the names of their types and by descriptions, along the labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crossner_core.errors import InvalidConfig
from crossner_core.experiments.corpora import corpus_ids, read_corpus
from crossner_core.experiments.few_shot import ORDERS
from crossner_core.experiments.studies._grid import (
    Row,
    cell_of,
    each_encoder,
    grid_cells,
    grid_labels,
    grid_tables,
    joined,
)
from crossner_core.experiments.study import Inputs, Made, Study, StudyConfig, register
from crossner_core.experiments.tables import Table, Value, summary
from crossner_core.options.base import option
from crossner_core.training.recipe import SOURCE_ONLY, source_weights

TITLE = "Sources by name and by description"
DIRECT, ONE, NAMES, TEXTS, RANDOM, STUDENTS, GAZETTEER = (
    "direct",
    "one source by name",
    "many by name",
    "many by description",
    "many by random description",
    "many by description, self-training",
    "many by description, self-training, gazetteer",
)
_OF_MANY: Mapping[str, Any] = {
    "source_unmarked": "unknown",
    "source_epochs": 3,
    "source_learning_rate": 1e-4,
    "source_head_learning_rate": 1e-3,
}
"""How rows with many sources are trained, where the recipe does not say otherwise."""
_READS = {"architecture": "type_aware"}
_METHODS: Mapping[str, Mapping[str, Any]] = {
    DIRECT: {"setting": "direct"},
    ONE: {"setting": "pretrain_finetune"},
    NAMES: {"setting": "pretrain_finetune"},
    TEXTS: {"setting": "pretrain_finetune", **_READS},
    RANDOM: {"setting": "pretrain_finetune", **_READS, "type_texts": "random"},
    STUDENTS: {"setting": "transfer_self_training", **_READS},
    GAZETTEER: {"setting": "transfer_self_training", "self_training_gazetteer": True, **_READS},
}
_STUDENTS = (STUDENTS, GAZETTEER)
_COMPARED = {NAMES: (ONE,), TEXTS: (ONE, NAMES, RANDOM), STUDENTS: (TEXTS,), GAZETTEER: (STUDENTS,)}
WHOLE = "all sentences"
SEEN, NEAR, UNSEEN, RARE = "seen", "near", "unseen", "rare"
_RARE_BELOW = 10


@dataclass(frozen=True)
class SourcesConfig(StudyConfig):
    """The one source and the many; the map of their types and the temperature are recipe fields.

    Types are seen by the names they have before they are mapped.
    """

    source: str = option("conll2003", "The source of the rows with one.")
    sources: str = option(
        "conll2003*0.15, ai*3, music*3, politics*3, restaurant*0.15, bionlp13pc*0.3",
        "Source corpora of the other rows, separated by commas; NAME*2 counts one twice. A target is none of its own.",
    )
    sizes: tuple[int, ...] = option(
        (0, 5, 10, 25, 50, 100),
        "Numbers of labelled target sentences, beside all of them; 0 is zero-shot.",
        min=0,
        max=10**7,
    )
    methods: tuple[str, ...] = option(tuple(_METHODS), "What is compared.", choices=tuple(_METHODS))
    gazetteer: str = option("", f"Folder of a compiled gazetteer, without which there is no {GAZETTEER!r}.")
    order: str = option(
        "random", "Which sentences to take: drawn with the seed, or the first in the file.", choices=ORDERS
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(source_weights(self.source)) != 1:
            raise InvalidConfig(f"source is {self.source!r}; name one corpus, and the many in sources.")
        if self.source in self.corpora:
            raise InvalidConfig(f"{self.source} is both the source of the rows with one and a target; name another.")
        names = set(source_weights(self.sources))
        if alone := [corpus for corpus in self.corpora if not names - {corpus}]:
            raise InvalidConfig(f"sources is {self.sources!r}; without {alone[0]} itself none is left. Name more.")


def rows(config: SourcesConfig) -> list[Row]:
    """Return methods × sizes, zero-shot first and all sentences last."""
    made = []
    for label, encoder in each_encoder(config):
        for method in config.methods:
            if method == GAZETTEER and not config.gazetteer:
                continue
            for size in (*config.sizes, None):
                if (size == 0 and method in (DIRECT, *_STUDENTS)) or (size is None and method in _STUDENTS):
                    continue  # without a source there is no model; without text left there are no students
                made.append(_row(config, method, size, label, encoder))
    return made


def _row(config: SourcesConfig, method: str, size: int | None, label: str, encoder: str) -> Row:
    usual = {} if method in (DIRECT, ONE) else dict(_OF_MANY)
    if _METHODS[method].get("architecture"):
        usual["head_first_epochs"] = 0
    changes = {name: value for name, value in usual.items() if name not in config.recipe} | dict(_METHODS[method])
    if size == 0:
        changes["setting"] = SOURCE_ONLY
    of = {DIRECT: "", ONE: config.source}.get(method, config.sources)
    return Row(
        _label(method, size, label),
        changes,
        encoder,
        size or None,
        config.order,
        against=tuple(_label(other, size, label) for other in _COMPARED.get(method, ()) if other in config.methods),
        line=joined(method, label),
        x=size,
        sources=source_weights(of) if of else {},
        gazetteer=config.gazetteer if method == GAZETTEER else "",
    )


def _label(method: str, size: int | None, label: str) -> str:
    return joined(method, label, WHOLE if size is None else f"{size}")


def build(config: SourcesConfig, inputs: Inputs) -> Made:
    """Make the grid's tables, and F1 by whether a source has a type, only its parent, or neither."""
    made = grid_tables(rows, title=TITLE, axis="labelled target sentences")(config, inputs)
    kinds = _kinds_table(config, inputs)
    return Made((*made.tables, kinds) if kinds.rows else made.tables, made.figure, made.notes)


def _kinds_table(config: SourcesConfig, inputs: Inputs) -> Table:
    """Return the mean F1 of the types of each kind, by row; types that do not occur in a test set do not count."""
    kinds = {corpus: _kinds(config, inputs, corpus) for corpus in config.corpora}
    lines: list[tuple[Value, ...]] = []
    for row in rows(config):
        by_kind: dict[str, list[float]] = {SEEN: [], NEAR: [], UNSEEN: [], RARE: []}
        for seed in config.seeds:
            of_seed: dict[str, list[float]] = {kind: [] for kind in by_kind}
            results = {corpus: inputs.results.get(cell_of(config, row, corpus, seed)) for corpus in kinds}
            measured = {corpus: result for corpus, result in results.items() if result is not None}
            if len(measured) < len(kinds):
                continue  # a mean over other corpora than with another seed
            for corpus, result in measured.items():
                rare = _rare(inputs, corpus, row, seed)
                for name, score in result.test.per_type.items():
                    if score.support:
                        of_seed[kinds[corpus][name]].append(100 * score.f1)
                        of_seed[RARE] += [100 * score.f1] if name in rare else []
            for kind, values in of_seed.items():
                by_kind[kind] += [sum(values) / len(values)] if values else []
        if any(by_kind.values()):
            lines.append((row.label, *(summary(values) for values in by_kind.values())))
    note = (
        "Mean F1 in percent of the types of a kind on the test sets, then mean ± sample deviation over the seeds. "
        "Seen: one of the many sources marks a type of that name; near: one marks its parent; unseen: neither. "
        f"Rare: fewer than {_RARE_BELOW} mentions in the labelled target sentences of that row."
    )
    return Table("F1 by kind of type", ("", SEEN, NEAR, UNSEEN, RARE), tuple(lines), note)


def _rare(inputs: Inputs, corpus: str, row: Row, seed: int) -> set[str]:
    """Return the types that the target sentences of a row mention rarely, if at all."""
    target = read_corpus(corpus, inputs.data)
    if row.x == 0:
        return set(target.types)
    train = target.data(size=row.size, seed=0 if row.order == "file" else seed, order=row.order).train
    mentions = Counter(span.type for item in train for span in item.spans)
    return {name for name in target.types if mentions[name] < _RARE_BELOW}


def _kinds(config: SourcesConfig, inputs: Inputs, corpus: str) -> dict[str, str]:
    """Return whether each of a corpus's types is seen, near or unseen, by name."""
    target = read_corpus(corpus, inputs.data)
    there = corpus_ids(inputs.data)
    others = [name for name in source_weights(config.sources) if name != corpus and name in there]
    marked = {span.type for name in others for item in read_corpus(name, inputs.data).train for span in item.spans}
    return {
        name: SEEN if name in marked else NEAR if target.parents.get(name) in marked else UNSEEN
        for name in target.types
    }


register(
    Study(
        id="sources",
        title=TITLE,
        question="How far do other corpora lead in a new domain before, and after, its first labels?",
        reference="No paper's table; Liu et al. 2021 (CrossNER) have one source by name",
        config=SourcesConfig,
        corpora=("music", "ai", "politics"),
        cells=grid_cells(rows),
        labels=grid_labels(rows),
        build=build,
    )
)
