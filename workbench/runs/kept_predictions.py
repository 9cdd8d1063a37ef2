"""What finished runs said of dev and test sentences, beside the gold they were scored against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from crossner_core.errors import BadInput
from crossner_core.evaluation.scores import Scores, score_spans
from crossner_core.schema import LabelledSentence, Span
from db.engine import Session
from db.training_tables import Run
from workbench.data.snapshots import content_of
from workbench.runs.training_data import dataset_parts

SPLITS = ("test", "dev")


@dataclass(frozen=True, slots=True)
class Answers:
    """A run's answers to the sentences of a split, in order; `types` as the run's domain lists them."""

    run_id: int
    split: str
    types: tuple[str, ...]
    items: tuple[LabelledSentence, ...]
    predicted: tuple[tuple[Span, ...], ...]


def answers_of(session: Session, run: Run, split: str) -> Answers:
    """Return what a finished run answered; raise BadInput with a reason where that is not known.

    Answers count only if they give the scores that the run was stored with: then they are of these sentences.
    """
    if split not in SPLITS:
        raise BadInput(f"split is {split!r}; choose one of {', '.join(SPLITS)}.")
    if run.state != "done" or run.result is None:
        raise BadInput(f"Run {run.id} is {run.state}; only finished runs have answers.")
    if not run.result.get(split):
        raise BadInput(
            f"Run {run.id} was not measured on {split}: there was no {split} gold in what it was trained on."
        )
    stored = _stored(run.result, split)
    if stored is None:
        raise BadInput(
            f"Run {run.id} was trained by an older version of the workbench, which kept its scores on {split} but not "
            "its answers. Train the same recipe again to see them."
        )
    types, items = _gold(session, run, split)
    predicted = tuple(tuple(Span(*span) for span in spans) for spans in stored)
    scores = Scores.from_dict(run.result[split])
    if len(items) != len(predicted) or score_spans([item.spans for item in items], predicted).overall != scores.overall:
        raise BadInput(
            f"The answers kept of run {run.id} do not fit the {split} sentences of what it was trained on: counted "
            "again they give another score. The store was changed by other hands; train the same recipe again."
        )
    return Answers(run.id, split, types, items, predicted)


def measured_on(run: Run) -> tuple[str, ...]:
    """Return the splits on which a finished run was measured, test first."""
    return tuple(split for split in SPLITS if getattr(run, f"{split}_f1") is not None)


def _stored(result: dict[str, Any], split: str) -> list[Any] | None:
    """Return the kept spans; without test gold the predictions are those of dev."""
    name = "predictions" if split == "test" or not result.get("test") else "dev_predictions"
    return result.get(name) or None


def _gold(session: Session, run: Run, split: str) -> tuple[tuple[str, ...], tuple[LabelledSentence, ...]]:
    if run.snapshot_id is not None:
        snapshot, parts = content_of(session, run.snapshot_id)
        return tuple(snapshot.types), parts[split]
    assert run.dataset is not None, "a run has a snapshot or a data set"
    return tuple(run.dataset.types), dataset_parts(session, run.dataset)[split]
