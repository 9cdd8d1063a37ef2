"""The main tables of the four papers, row by row: what we measured beside each row, or what it would take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from crossner_core.experiments.published import printed
from crossner_core.experiments.stored import StoredStudy
from crossner_core.experiments.tables import Measured, Table, Value

PAPERS = (
    ("CrossNER, table 2", "Liu et al. 2021 (CrossNER)"),
    ("LANER, tables 2 to 4", "Hu et al. 2022"),
    ("NER-BERT, table 2", "Liu et al. 2021 (NER-BERT)"),
    ("PDALN, table 1", "Zhang et al. 2021"),
)
"""A heading here, and how the name of the paper's source begins."""
_NOT_RUN = "nothing but time: it has not been run yet"
_NEEDS = (
    ("DAPT", "text of the domain in millions of words, and a GPU"),
    ("NER-BERT (4 types)", _NOT_RUN),
    ("NER-BERT", "the paper's corpus of mentions (315 types, 16 million sentences), and a GPU"),
    ("FLAIR", "character models, which a GPU trains in hours, and the study `baselines` with them"),
    ("BARTNER", "weights of BART, and the study `baselines` with them; without them its decoder is new"),
    ("Jia et al. 2019", "the study `baselines`, which has not run with it yet"),
)
"""What a row takes, where its system's name holds these words."""
_CLOSE = 0.005
_SEEDS = 3  # on fewer, an order is a matter of luck
_COLUMNS = ("system", "setting", "published", "ours", "over", "seeds", "measured in, or what it takes")


@dataclass(frozen=True)
class _Row:
    """A published row beside ours, as mean F1 over the corpora that ours was measured on; or without ours."""

    system: str
    setting: str
    published: float
    ours: float | None
    corpora: tuple[str, ...]
    seeds: Value
    where: str

    def values(self) -> tuple[Value, ...]:
        ours = None if self.ours is None else Measured(self.ours)
        over = ", ".join(self.corpora)
        return (self.system, self.setting, Measured(self.published), ours, over, self.seeds, self.where)


def side_by_side(studies: Sequence[StoredStudy]) -> str:
    """Return the papers' main tables as Markdown, ours beside each row, and how often ours has the published order."""
    parts = []
    for heading, source in PAPERS:
        rows = [row for table in printed(source) for row in _rows(table, studies)]
        table = Table(heading, _COLUMNS, tuple(row.values() for row in rows))
        parts += [f"## {heading}", table.to_markdown(), _orders(rows)]
    return "\n\n".join(parts)


def _rows(table: Table, studies: Sequence[StoredStudy]) -> Iterator[_Row]:
    corpora = table.columns[2:]
    for system, setting, *values in table.rows:
        published = {corpus: float(value) for corpus, value in zip(corpora, values, strict=True)}  # type: ignore[arg-type]
        matched = max(_measured(published, studies), key=lambda row: len(row[0]), default=None)
        if matched is None:
            needs = next((words for part, words in _NEEDS if part in str(system)), _NOT_RUN)
            yield _Row(str(system), str(setting), fmean(published.values()), None, corpora, None, needs)
            continue
        ours, seeds, where = matched
        mean = fmean(published[corpus] for corpus in ours)
        yield _Row(str(system), str(setting), mean, fmean(ours.values()), tuple(ours), seeds, where)


def _measured(
    published: dict[str, float], studies: Sequence[StoredStudy]
) -> Iterator[tuple[dict[str, float], Value, str]]:
    """Yield what studies measured beside just these published figures: by corpus, its seeds, and the study.

    A row of a study carries the published figures it stands for, by which it is found.
    """
    for study in sorted(studies, key=lambda study: bool(study.section)):
        for table in study.tables:
            places = [place for place, name in enumerate(table.columns) if name in published]
            for row in table.rows:
                cells = {table.columns[place]: row[place] for place in places}
                known = {name: cell for name, cell in cells.items() if isinstance(cell, Measured)}
                if known and all(
                    cell.mean is not None
                    and cell.published is not None
                    and abs(cell.published - published[name]) < _CLOSE
                    for name, cell in known.items()
                ):
                    seeds = row[table.columns.index("n")] if "n" in table.columns else None
                    label = f"{study.id} {study.section}".strip()
                    yield {name: float(cell.mean or 0) for name, cell in known.items()}, seeds, f"{label}: {row[0]}"


def _orders(rows: Sequence[_Row]) -> str:
    """Say how many pairs of rows over the same corpora stand in the published order here, and which do not."""
    measured = [row for row in rows if row.ours is not None and int(str(row.seeds or 0)) >= _SEEDS]
    pairs = [(a, b) for a, b in combinations(measured, 2) if a.corpora == b.corpora and a.published != b.published]
    if not pairs:
        return f"No two rows are measured over the same corpora on {_SEEDS} seeds."
    other = []
    for a, b in pairs:
        better, worse = (a, b) if a.published > b.published else (b, a)
        assert better.ours is not None and worse.ours is not None
        if better.ours <= worse.ours:
            there, here = better.published - worse.published, better.ours - worse.ours
            names = [f"{row.system}, {row.setting}" for row in (better, worse)]
            other.append(f"- {names[0]} − {names[1]}: {here:+.2f} here, {there:+.2f} there")
    counted = f"Pairs of rows over the same corpora, each on at least {_SEEDS} seeds: {len(pairs)}; "
    counted += f"in the published order here: {len(pairs) - len(other)}."
    return counted if not other else f"{counted} The others:\n\n" + "\n".join(other)
