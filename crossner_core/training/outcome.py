"""What a run's last stage amounts to: scores on dev and test, confusion, predictions, and words for them."""

from __future__ import annotations

from collections.abc import Sequence

from crossner_core.calibration.model_scores import NO_DEV, TagScores, calibrate
from crossner_core.evaluation.confusion import Confusion, confusion
from crossner_core.evaluation.scores import Scores, score_tags
from crossner_core.schema import LabelledSentence, Span
from crossner_core.tags import spans_from_tags, tags_from_spans
from crossner_core.training.data import TrainingData
from crossner_core.training.events import RunResult
from crossner_core.training.predictor import Predictor
from crossner_core.training.stage import StageRun

_SAID = {
    "early_stop": "Stopped early: dev F1 did not rise for {patience} epochs; epoch {best} is kept.",
    "all_epochs": "All {epochs} epochs done.",
    "stopped": "Stopped on request after {epochs} whole epochs; resume to go on.",
    "not_finite": "{trouble}",
}


def measure_run(run: StageRun, data: TrainingData, *, outcome: str, usable: bool) -> RunResult:
    """Return the result of a stage with its best weights in place; no scores unless it is usable.

    A usable tagger is left with its scores calibrated on dev.
    """
    progress = run.progress
    said = _SAID[outcome].format(
        patience=run.stage.patience,
        best=progress.best_epoch,
        epochs=progress.epoch,
        trouble=run.trouble,
    )
    if outcome == "all_epochs" and progress.best_epoch is not None:
        said += f" Epoch {progress.best_epoch} was best on dev and is kept."
    dev = run.best_scores if usable else None
    on_dev, on_test = (read(run.predictor, items if usable else ()) for items in (data.dev, data.test))
    measured = None
    if usable and (data.test or data.dev):
        measured = measure(run.predictor, data.test or data.dev, on_test or on_dev)
    dev_too = spans_of(run.predictor, on_dev) if data.test else ()
    calibration = None
    if usable:
        calibration = calibrate(run.predictor, data.dev, data.test, dev_scores=on_dev, test_scores=on_test)
    scaled = () if not usable else (calibration.sentence if calibration is not None else NO_DEV,)
    return RunResult(
        outcome=outcome,
        recipe_hash="",
        data_hash="",
        snapshot=data.snapshot,
        best_epoch=progress.best_epoch,
        epochs=progress.epoch,
        steps=progress.step,
        seconds=progress.seconds,
        tokens_per_second=progress.tokens_per_second,
        train_sentences=len(data.train),
        dev=dev,
        test=measured[0] if measured and data.test else None,
        confusion=measured[1] if measured else None,
        predictions=measured[2] if measured else (),
        dev_predictions=dev_too,
        notes=(*scaled, said),
        calibration=calibration,
    )


def read(predictor: Predictor, items: Sequence[LabelledSentence]) -> list[TagScores]:
    """Return what a predictor says of each sentence."""
    return predictor.tag_scores([item.sentence for item in items]) if items else []


def spans_of(predictor: Predictor, said: Sequence[TagScores]) -> tuple[tuple[Span, ...], ...]:
    """Return the predicted spans of each sentence."""
    return tuple(spans_from_tags(one.tags(predictor.model.tags), strict=False) for one in said)


def measure(
    predictor: Predictor, items: tuple[LabelledSentence, ...], said: Sequence[TagScores] = ()
) -> tuple[Scores, Confusion, tuple[tuple[Span, ...], ...]]:
    """Score a predictor on labelled sentences, or what it said of them before; return scores, confusion and spans."""
    said = said or read(predictor, items)
    gold = [tags_from_spans(item.spans, len(item.sentence.tokens)) for item in items]
    spans = spans_of(predictor, said)
    scores = score_tags(gold, [one.tags(predictor.model.tags) for one in said], predictor.types)
    return scores, confusion([item.spans for item in items], spans, predictor.types), spans
