"""A grid: recipes (rows) × corpora × seeds. Most studies are grids and only define their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from statistics import fmean
from typing import Any, TypeVar

from crossner_core.errors import InvalidConfig
from crossner_core.experiments.cells import Cell, CellResult
from crossner_core.experiments.plots import bars, curves
from crossner_core.experiments.study import Inputs, Made, Study, StudyConfig, register
from crossner_core.experiments.tables import Measured, Table, Value, interval_words, summary
from crossner_core.models.registry import decoding
from crossner_core.options.base import matters
from crossner_core.training.recipe import Recipe

UNITS = "Entity F1 in percent as conlleval counts it, on {}: mean ± sample deviation over the seeds"
TEST = "the whole test set"
IN_BRACKETS = "in square brackets the published figure, of another encoder"
CLAIM_SEEDS = 3
"""Seeds from which on a difference stands beside the published one; with fewer it is chance as well."""
ONE_SOURCE = "Where there is a source stage, all seeds start from one checkpoint of it: the interval leaves it out."

_Key = TypeVar("_Key", int, str)


@dataclass(frozen=True)
class Row:
    """One row: its changes to the recipe; `against` names the rows it is compared with.

    `published` gives F1 by corpus, `published_gains` the difference to the first of `against` if a paper prints only
    that. A row of a curve has its `line` and its position `x` on it. `sources` are source corpora with their weights,
    if it names any here: a target is never its own source. `gazetteer` is a compiled one's folder, for students.
    """

    label: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    encoder: str = ""
    size: int | None = None
    order: str = "file"
    published: Mapping[str, float] = field(default_factory=dict)
    published_gains: Mapping[str, float] = field(default_factory=dict)
    against: tuple[str, ...] = ()
    line: str = ""
    x: float | None = None
    sources: Mapping[str, float] = field(default_factory=dict)
    gazetteer: str = ""


def source_text(weights: Mapping[str, float]) -> str:
    """Return source corpora as a recipe names them."""
    return ", ".join(name if weight == 1 else f"{name}*{weight:g}" for name, weight in weights.items())


def each_encoder(config: StudyConfig) -> list[tuple[str, str]]:
    """Return labels and names of the encoders; by default the recipe's own, without a label."""
    return list(config.labelled_encoders.items()) or [("", "")]


def joined(*words: str) -> str:
    """Return a row's label: the non-empty words, joined."""
    return ", ".join(word for word in words if word)


KEPT_NOTHING = "†"
"""Marks a row whose last stage improved on dev in no run, so that its figures are those of the stage before."""
MakeRows = Callable[[Any], Sequence[Row]]


def grid_cells(rows: MakeRows) -> Callable[[StudyConfig], list[Cell]]:
    """Return a study's `cells`: every row on every corpus with every seed, seed by seed."""

    def cells(config: StudyConfig) -> list[Cell]:
        made = rows(config)
        check_labels(config, [row.label for row in made])
        overridden(config, made)
        places = _places(config, asked_for(config, made))
        grid = (cell_of(config, row, corpus, seed) for seed, corpus, row in places)
        return list(dict.fromkeys(grid))

    return cells


def grid_labels(rows: MakeRows) -> Callable[[StudyConfig], list[str]]:
    """Return a study's `labels`: those of its rows, without duplicates."""

    def labels(config: StudyConfig) -> list[str]:
        return list(dict.fromkeys(row.label for row in rows(config)))

    return labels


def grid_tables(
    rows: MakeRows,
    *,
    title: str,
    axis: str = "",
    notes: Callable[[Any], Sequence[str]] = lambda _: (),
    more: Callable[[Any, Inputs, Sequence[Row]], Table | None] = lambda *_: None,
) -> Callable[[StudyConfig, Inputs], Made]:
    """Return a study's `build`: the table of F1, the one of differences, and bars, or curves along `axis`.

    `more` makes a last table from the rows, if there is something to show.
    """

    def build(config: StudyConfig, inputs: Inputs) -> Made:
        every = rows(config)
        made = asked_for(config, every)
        scores = scores_of(config, inputs, made)
        once = list({row.label: row for row in made}.values())  # a point may begin several curves
        table = f1_table(title, config, once, scores)
        gains = gain_table(title, config, once, scores)
        drawn = [row for row in made if not _is_too_large(config, inputs, row)]
        draw = curves(title, axis, _points(config, drawn, scores)) if axis else bars(title, table)
        kept = kept_by_row(config, inputs, once)
        unmeasured = {label for label, runs in kept.items() if all(runs)}
        remarks = (
            *overridden(config, every),
            *notes(config),
            *too_large(config, inputs, once),
            *repeated(config, once),
            *refused(kept),
            *ran_apart(paired_results(config, inputs, compared(once))),
            *((f"{KEPT_NOTHING} marks rows in which that was so in each training.",) if unmeasured else ()),
        )
        last = more(config, inputs, once)
        table, gains = (_marked(part, unmeasured) for part in (table, gains))
        return Made((table, *([gains] if gains.rows else []), *([last] if last else [])), draw, remarks)

    return build


def grid_study(
    id: str,
    rows: MakeRows,
    config: type[StudyConfig],
    *,
    title: str,
    question: str,
    reference: str,
    corpora: tuple[str, ...],
    axis: str = "",
    notes: Callable[[Any], Sequence[str]] = lambda _: (),
    more: Callable[[Any, Inputs, Sequence[Row]], Table | None] = lambda *_: None,
    published: tuple[Table, ...] = (),
) -> Study:
    """Register a study that is a grid; see `grid_cells` and `grid_tables`."""
    build = grid_tables(rows, title=title, axis=axis, notes=notes, more=more)
    cells, labels = grid_cells(rows), grid_labels(rows)
    study = Study(id, title, question, reference, config, corpora, cells, build, labels=labels, published=published)
    return register(replace(study, in_part=True))


def asked_for(config: StudyConfig, rows: Sequence[Row]) -> list[Row]:
    """Return the rows that a config asks for; without a choice all."""
    return [row for row in rows if not config.only or row.label in config.only]


def check_labels(config: StudyConfig, labels: Sequence[str]) -> None:
    """Raise InvalidConfig if the config changes or asks for a row that is not in `labels`."""
    known = "; ".join(dict.fromkeys(labels))
    for option, named in {"rows": config.rows, "only": config.only}.items():
        if unknown := sorted(set(named) - set(labels)):
            raise InvalidConfig(f"{option} names {', '.join(unknown)}, but the rows are: {known}.")


def overridden(config: StudyConfig, rows: Sequence[Row]) -> tuple[str, ...]:
    """Return a remark for each requested recipe field that some rows override with their own value.

    Raises InvalidConfig for a field that every row overrides. Rows in which it has no effect do not count.
    """
    specs, remarks = {spec.name: spec for spec in fields(Recipe)}, list[str]()
    changed = [(row.label, own_changes(row)) for row in rows]
    made = [(label, changes, config.recipe_of(**changes).to_dict()) for label, changes in changed]
    for name, value in config.recipe.items():
        affected = [(label, changes) for label, changes, whole in made if matters(specs[name], whole)]
        own = [label for label, changes in affected if changes.get(name, value) != value]
        if own and all(name in changes for _, changes in affected):
            raise InvalidConfig(
                f"recipe sets {name}, but each row of this study in which it matters has its own; leave it out, or "
                "change single rows by rows."
            )
        if own and name != "encoder":  # encoders are listed anyway
            remarks.append(f"{name} is not as asked for, but the study's own, in: {'; '.join(dict.fromkeys(own))}.")
    return tuple(remarks)


def own_changes(row: Row) -> dict[str, Any]:
    """Return what a row changes in the recipe, its encoder as it is named."""
    own: dict[str, Any] = {"encoder": row.encoder} if row.encoder else {}
    return {**row.changes, **own, **({"source": source_text(row.sources)} if row.sources else {})}


# row label → corpus → seed → F1 in percent
Scores = Mapping[str, Mapping[str, Mapping[int, float]]]


def _places(config: StudyConfig, rows: Sequence[Row]) -> Iterator[tuple[int, str, Row]]:
    return ((seed, corpus, row) for seed in config.seeds for corpus in config.corpora for row in rows)


def cell_of(config: StudyConfig, row: Row, corpus: str, seed: int) -> Cell:
    changes = own_changes(row)
    if row.encoder:
        changes["encoder"] = row.encoder.replace("{corpus}", corpus)
    if row.sources:
        changes["source"] = source_text({name: weight for name, weight in row.sources.items() if name != corpus})
    recipe = replace(config.recipe_of(row.label, **changes), seed=seed)
    if config.own_source:
        recipe = replace(recipe, source_seed=seed)
    return Cell(corpus, recipe, row.size, row.order, gazetteer=row.gazetteer)


def scores_of(
    config: StudyConfig,
    inputs: Inputs,
    rows: Sequence[Row],
    f1: Callable[[CellResult], float | None] = lambda result: result.f1,
) -> Scores:
    """Return F1 in percent by row, corpus and seed; missing results are absent."""
    scores: dict[str, dict[str, dict[int, float]]] = {
        row.label: {corpus: {} for corpus in config.corpora} for row in rows
    }
    for seed, corpus, row in _places(config, rows):
        result = inputs.results.get(cell_of(config, row, corpus, seed))
        if result is not None and (value := f1(result)) is not None:
            scores[row.label][corpus][seed] = value
    return scores


def kept_by_row(config: StudyConfig, inputs: Inputs, rows: Sequence[Row]) -> dict[str, list[bool]]:
    """Return by row whether each run with epochs kept what its last stage began with, as no epoch was better on dev.

    A row of which all runs are so does not measure that stage.
    """
    kept: dict[str, list[bool]] = {}
    for seed, corpus, row in _places(config, rows):
        result = inputs.results.get(cell_of(config, row, corpus, seed))
        if result is not None and result.epochs:
            kept.setdefault(row.label, []).append(result.best_epoch == 0)
    return kept


def refused(kept: Mapping[str, Sequence[bool]]) -> tuple[str, ...]:
    """Return a remark on rows some of whose runs kept what the last stage began with; see `kept_by_row`."""
    what = "In these trainings no epoch of the last stage was better on dev than what it began with, which was kept:"
    listed = ", ".join(f"{label} ({sum(runs)} of {len(runs)})" for label, runs in kept.items() if any(runs))
    return (f"{what} {listed}.",) if listed else ()


def compared(rows: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Return each row with those it is compared with."""
    by_label = {row.label: row for row in rows}
    return [(row, by_label[name]) for row in rows for name in row.against if name in by_label]


def paired_results(
    config: StudyConfig, inputs: Inputs, pairs: Iterable[tuple[Row, Row]]
) -> Iterator[tuple[str, CellResult | None, CellResult | None]]:
    """Yield the results of each pair of rows by corpus and seed, with the label of their difference."""
    for row, other in pairs:
        for corpus, seed in product(config.corpora, config.seeds):
            ours, theirs = (inputs.results.get(cell_of(config, side, corpus, seed)) for side in (row, other))
            yield f"{row.label} − {other.label}", ours, theirs


def ran_apart(pairs: Iterable[tuple[str, CellResult | None, CellResult | None]]) -> tuple[str, ...]:
    """Return a remark on differences whose sides ran on different machines, or in another way on one.

    What older results do not say of their machine does not count, nor where a source checkpoint was trained.
    """
    apart = dict[str, list[bool]]()
    for label, ours, theirs in pairs:
        if ours is not None and theirs is not None:
            known = ours.machine.keys() & theirs.machine.keys()
            apart.setdefault(label, []).append(any(ours.machine[name] != theirs.machine[name] for name in known))
    listed = "; ".join(f"{label} ({sum(runs)} of {len(runs)} pairs)" for label, runs in apart.items() if any(runs))
    what = (
        "In these differences the sides ran on different machines, or with other threads or precision, which alone can "
        "change F1"
    )
    return (f"{what}: {listed}.",) if listed else ()


def _marked(table: Table, labels: set[str]) -> Table:
    """Return a table of rows, or of their differences, in which the rows of these labels are marked."""
    lines = []
    for label, *values in table.rows:
        first, *others = str(label).split(" − ", 1)
        marked = f"{first} {KEPT_NOTHING}" if first in labels else first
        lines.append((" − ".join((marked, *others)), *values))
    return replace(table, rows=tuple(lines))


def too_large(config: StudyConfig, inputs: Inputs, rows: Sequence[Row]) -> tuple[str, ...]:
    """Return a remark for each corpus on rows that request more sentences than it has: they use all it has."""
    smaller: dict[str, tuple[int, list[str]]] = {}
    for seed, corpus, row in _places(config, [row for row in rows if row.size is not None]):
        count = _sentences(config, inputs, row, corpus, seed)
        if count is not None and count < (row.size or 0):
            smaller.setdefault(corpus, (count, []))[1].append(row.label)
    return tuple(
        f"{corpus} has only {count:,} training sentences, and so have these rows: {'; '.join(dict.fromkeys(labels))}."
        for corpus, (count, labels) in smaller.items()
    )


def _is_too_large(config: StudyConfig, inputs: Inputs, row: Row) -> bool:
    """Return whether a corpus has fewer sentences than the row requests: the row is then no point of a curve."""
    return bool(too_large(config, inputs, [row]))


def _sentences(config: StudyConfig, inputs: Inputs, row: Row, corpus: str, seed: int) -> int | None:
    """Return the number of labelled target sentences a row's cell was trained on; None before training."""
    result = inputs.results.get(cell_of(config, row, corpus, seed))
    return result.train_sentences if result is not None else None


def average(by_corpus: Mapping[str, Mapping[int, float]]) -> dict[int, float]:
    """Return the mean over corpora for each seed that was measured on all of them."""
    seeds = set.intersection(*(set(values) for values in by_corpus.values()))
    return {seed: sum(values[seed] for values in by_corpus.values()) / len(by_corpus) for seed in sorted(seeds)}


def best_row(config: StudyConfig, rows: Sequence[Row], scores: Scores) -> Row | None:
    """Return the row of the highest mean over corpora and seeds, the first of equals; None if any is missing."""
    means = [list(average(scores[row.label]).values()) for row in rows]
    if any(len(values) < len(config.seeds) for values in means):
        return None
    return max(zip(rows, means, strict=True), key=lambda pair: sum(pair[1]))[0]


def decodings(config: StudyConfig, rows: Sequence[Row]) -> str:
    """Say how the rows are decoded: the way of most, then the others by name."""
    by_way = dict[str, list[str]]()
    for row in rows:
        recipe = _recipe(config, row)
        by_way.setdefault(decoding(recipe.architecture, constrained=recipe.constrained), []).append(row.label)
    usual, *others = sorted(by_way, key=lambda way: -len(by_way[way]))
    apart = [f"{way} in {', '.join(by_way[way])}" for way in others]
    return f"Decoding: {'; '.join([usual, *apart])}."


def f1_table(title: str, config: StudyConfig, rows: Sequence[Row], scores: Scores, *, on: str = TEST) -> Table:
    """Return F1 by row and corpus, mean and deviation over the seeds, next to published figures."""
    lines: list[tuple[Value, ...]] = []
    for row in rows:
        values = scores[row.label]
        line: list[Value] = [summary(list(values[c].values()), published=row.published.get(c)) for c in config.corpora]
        if len(config.corpora) > 1:
            line.append(summary(list(average(values).values()), published=mean_over(row.published, config.corpora)))
        runs = {len(by_seed) for by_seed in values.values()}
        lines.append((row.label, *line, str(max(runs)) if len(runs) == 1 else f"{min(runs)}–{max(runs)}"))
    known = f"; {IN_BRACKETS}" if any(set(row.published) & set(config.corpora) for row in rows) else ""
    note = f"{UNITS.format(on)} (n of them){known}. {decodings(config, rows)}"
    return Table(title, ("", *_columns(config), "n"), tuple(lines), note)


def gain_table(title: str, config: StudyConfig, rows: Sequence[Row], scores: Scores, *, of: str = "test") -> Table:
    """Return the differences between each row and those it is compared with, seed by seed.

    From two seeds on the 95 % interval of the mean follows: of the average, if there are several corpora.
    """
    lines, whole = list[tuple[Value, ...]](), list[Measured]()
    for row, other in compared(rows):
        gains = {c: difference(scores[row.label][c], scores[other.label][c]) for c in config.corpora}
        is_claim = min(map(len, gains.values())) >= CLAIM_SEEDS
        known = _published_gains(row, other) if is_claim else {}
        line = [summary(list(gains[c].values()), published=known.get(c), signed=True) for c in config.corpora]
        if len(config.corpora) > 1:
            every = average(gains)
            means = [fmean(of[seed] for seed in every) for of in gains.values()] if every else []
            line.append(summary(list(every.values()), published=mean_over(known, config.corpora), signed=True))
            line.append(summary(means, signed=True))
        whole.append(line[len(_columns(config)) - 1])
        lines.append((f"{row.label} − {other.label}", *line))
    over = ("over corpora",) if len(config.corpora) > 1 else ()
    note = f"Differences of {of} F1, seed by seed: mean ± sample deviation over the seeds"
    if over:
        note += "; over corpora: that of the corpora's mean differences, of the seeds that have all corpora"
    if any(gain.n > 1 for gain in whole):
        over = (*over, "95 % interval")
        lines = [(*line, interval_words(gain)) for line, gain in zip(lines, whole, strict=True)]
        note += f"; the interval{' of the average' if len(config.corpora) > 1 else ''} by Student's t over the seeds"
    note += "."
    if "95 % interval" in over and not config.own_source and any(_is_used("source_seed", config, row) for row in rows):
        note += f" {ONE_SOURCE}"
    return Table(f"{title}: differences", ("", *_columns(config), *over), tuple(lines), note)


def repeated(config: StudyConfig, rows: Sequence[Row]) -> tuple[str, ...]:
    """Return a remark on rows that learn source and target together, with how often a target sentence is repeated."""
    by_times = dict[int, list[str]]()
    for row in rows:
        if _is_used("upsample", config, row):
            by_times.setdefault(_recipe(config, row).upsample, []).append(row.label)
    return tuple(
        f"Beside the source, each labelled target sentence is read {f'{times} times' if times > 1 else 'once'} an "
        f"epoch (upsample) in: {'; '.join(labels)}."
        for times, labels in by_times.items()
    )


def _recipe(config: StudyConfig, row: Row) -> Recipe:
    return config.recipe_of(row.label, **own_changes(row))


def _is_used(option: str, config: StudyConfig, row: Row) -> bool:
    """Return whether a field of the recipe has an effect in a row."""
    spec = next(spec for spec in fields(Recipe) if spec.name == option)
    return matters(spec, _recipe(config, row).to_dict())


def difference(scores: Mapping[_Key, float], others: Mapping[_Key, float]) -> dict[_Key, float]:
    """Return score minus the other score, by the seeds or corpora of both."""
    return {key: value - others[key] for key, value in scores.items() if key in others}


def _published_gains(row: Row, other: Row) -> dict[str, float]:
    # Two ways of ours to measure one published row have no published difference.
    gains = {} if row.published == other.published else difference(row.published, other.published)
    return gains | (dict(row.published_gains) if row.against[0] == other.label else {})


def mean_over(values: Mapping[str, float], corpora: Sequence[str]) -> float | None:
    """Return the mean of values over corpora; None if one of these has no value."""
    return sum(values[c] for c in corpora) / len(corpora) if all(c in values for c in corpora) else None


def _columns(config: StudyConfig) -> tuple[str, ...]:
    return (*config.corpora, "average") if len(config.corpora) > 1 else config.corpora


def _points(config: StudyConfig, rows: Sequence[Row], scores: Scores) -> dict[str, list[tuple[float, Measured]]]:
    """Return the curves by name: the average over corpora along x."""
    lines: dict[str, list[tuple[float, Measured]]] = {}
    for row in rows:
        if row.x is not None:
            values = list(average(scores[row.label]).values())
            lines.setdefault(row.line, []).append(
                (row.x, summary(values, published=mean_over(row.published, config.corpora)))
            )
    return lines
