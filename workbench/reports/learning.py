"""What few-shot curves cost and how they grow: their runs as rounds, with tokens, entities and people's seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from crossner_core.errors import BadInput
from crossner_core.evaluation.confusion import Confusion, summed
from crossner_core.evaluation.learning_curves import RoundPoint
from crossner_core.evaluation.scores import Score
from crossner_core.schema import LabelledSentence
from db import layer_rows, run_rows
from db.engine import Session, Store
from db.training_tables import Run
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, fresh, require
from workbench.accounts.roles import OVERSEERS
from workbench.data.datasets import dataset_parts
from workbench.data.snapshots import content_of
from workbench.reports.curves import MEASURES, Series
from workbench.runs.training_data import subset


@dataclass(frozen=True, slots=True)
class _Corpus:
    """The training sentences of a snapshot or data set, and people's seconds by sentence, where they were counted."""

    train: tuple[LabelledSentence, ...]
    seconds: Mapping[str, float]


def rounds(
    store: Store, actor: Actor, series: Sequence[Series], *, measure: str = "test"
) -> dict[str, tuple[RoundPoint, ...]]:
    """Return the points of curves as rounds by the curve's title, which is also their strategy.

    Tokens and entities are those of each run's own sentences. Seconds are the active time of all who worked on them;
    they are None where some sentence is nobody's work, as imported gold is.
    """
    require(actor, *OVERSEERS)
    if measure not in MEASURES:
        raise BadInput(f"measure is {measure!r}; choose one of {', '.join(MEASURES)}.")
    ids = [run_id for line in series for point in line.points for run_id in point.runs]
    with store.read() as session:
        runs = {run.id: run for run in run_rows.some(session, ids)}
        _enter_all(session, actor, runs.values())
        types = run_rows.result_parts(session, ids, measure, "per_type")
        corpora: dict[tuple[int | None, int | None], _Corpus] = {}
        for run in runs.values():
            if (source := (run.snapshot_id, run.dataset_id)) not in corpora:
                corpora[source] = _corpus(session, run)
    by_title = {}
    for line in series:
        placed = [
            (number, point, run_id)
            for number, point in enumerate(line.points)
            for run_id in point.runs
            if run_id in runs
        ]
        by_title[line.title] = tuple(
            _point(line.title, number, point.size, runs[run_id], measure, types[run_id] or {}, corpora)
            for number, point, run_id in placed
        )
    return by_title


def confusions(store: Store, actor: Actor, line: Series) -> dict[int, Confusion]:
    """Return the type confusions of a curve's runs by number of sentences, summed over the seeds."""
    require(actor, *OVERSEERS)
    ids = [run_id for point in line.points for run_id in point.runs]
    with store.read() as session:
        _enter_all(session, actor, run_rows.some(session, ids))
        parts = run_rows.result_parts(session, ids, "confusion")
    made = {}
    for point in line.points:
        by_run = [Confusion.from_dict(parts[run_id]) for run_id in point.runs if parts.get(run_id)]
        if by_run:
            made[point.size] = summed(by_run)
    return made


def _enter_all(session: Session, actor: Actor, runs: Iterable[Run]) -> None:
    fresh(session, actor, *OVERSEERS)
    for campaign_id in {run.campaign_id for run in runs if run.campaign_id is not None}:
        enter(session, actor, campaign_id, *OVERSEERS)


def _corpus(session: Session, run: Run) -> _Corpus:
    if run.snapshot is not None:
        _, parts = content_of(session, run.snapshot.id)
        return _Corpus(parts["pool"], layer_rows.active_seconds(session, run.snapshot.campaign_id))
    assert run.dataset is not None, "a run has a snapshot or a data set"
    return _Corpus(dataset_parts(session, run.dataset)["train"], {})


def _point(
    title: str,
    number: int,
    size: int,
    run: Run,
    measure: str,
    types: Mapping[str, Mapping[str, int]],
    corpora: Mapping[tuple[int | None, int | None], _Corpus],
) -> RoundPoint:
    corpus = corpora[run.snapshot_id, run.dataset_id]
    items = corpus.train if run.size is None else subset(corpus.train, run.size, run.order_seed or 0)
    spent = [corpus.seconds.get(item.sentence.content_hash) for item in items]
    known = [value for value in spent if value is not None]
    return RoundPoint(
        strategy=title,
        seed=run.seed,
        round=number,
        sentences=size,
        f1=float(getattr(run, f"{measure}_f1")),
        tokens=sum(len(item.sentence.tokens) for item in items),
        entities=sum(len(item.spans) for item in items),
        seconds=sum(known) if len(known) == len(spent) and sum(known) > 0 else None,
        per_type={name: Score(**counts).f1 for name, counts in types.items()},
    )
