"""Predictions of finished runs on dev and test, with the gold they were scored against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from crossner_core.errors import BadInput
from crossner_core.evaluation.scores import Scores, score_spans
from crossner_core.schema import LabelledSentence, Span
from db.engine import Session
from db.training_tables import Run
from workbench.data.datasets import dataset_parts
from workbench.data.snapshots import content_of

SPLITS = ("test", "dev")


@dataclass(frozen=True, slots=True)
class Answers:
    """A run's predictions on a split, in sentence order; `types` in the order of the run's domain."""

    run_id: int
    split: str
    types: tuple[str, ...]
    items: tuple[LabelledSentence, ...]
    predicted: tuple[tuple[Span, ...], ...]


def answers_of(session: Session, run: Run, split: str) -> Answers:
    """Return the predictions of a finished run; raise BadInput with a reason if they are not available.

    They count only if they reproduce the scores stored with the run: then they are of these sentences.
    """
    if split not in SPLITS:
        raise BadInput(f"split is {split!r}; choose one of {', '.join(SPLITS)}.")
    if run.state != "done" or run.result is None:
        raise BadInput(f"Run {run.id} is {run.state}; only finished runs have predictions.")
    if not run.result.get(split):
        raise BadInput(f"Run {run.id} was not measured on {split}: its snapshot or data set has no {split} gold.")
    stored = _stored(run.result, split)
    if stored is None:
        raise BadInput(
            f"Run {run.id} was trained by an older version of the workbench, which kept its scores on {split} but not "
            "its predictions. Train the same recipe again to see them."
        )
    types, items = _gold(session, run, split)
    predicted = tuple(tuple(Span(*span) for span in spans) for spans in stored)
    scores = Scores.from_dict(run.result[split])
    if len(items) != len(predicted) or score_spans([item.spans for item in items], predicted).overall != scores.overall:
        raise BadInput(
            f"The stored predictions of run {run.id} do not fit the {split} sentences of its snapshot or data set: "
            "rescored, they give a different score. The store was changed from outside; train the same recipe again."
        )
    return Answers(run.id, split, types, items, predicted)


def measured_on(run: Run) -> tuple[str, ...]:
    """Return the splits on which a finished run was measured, test first."""
    return tuple(split for split in SPLITS if getattr(run, f"{split}_f1") is not None)


def _stored(result: dict[str, Any], split: str) -> list[Any] | None:
    """Return the stored spans; without test gold the predictions are those of dev."""
    name = "predictions" if split == "test" or not result.get("test") else "dev_predictions"
    return result.get(name) or None


def _gold(session: Session, run: Run, split: str) -> tuple[tuple[str, ...], tuple[LabelledSentence, ...]]:
    if run.snapshot_id is not None:
        snapshot, parts = content_of(session, run.snapshot_id)
        return tuple(snapshot.types), parts[split]
    assert run.dataset is not None, "a run has a snapshot or a data set"
    return tuple(run.dataset.types), dataset_parts(session, run.dataset)[split]
