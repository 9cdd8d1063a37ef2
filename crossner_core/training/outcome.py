"""What a run's last stage amounts to: scores on dev and test, confusion, predictions, and words for them."""

from __future__ import annotations

from crossner_core.calibration.model_scores import NO_DEV, calibrate
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
    "not_finite": "Stopped: the loss was not a finite number in epoch {next}, batch {batch}.",
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
        next=progress.epoch + 1,
        batch=progress.batch + 1,
    )
    if outcome == "all_epochs" and progress.best_epoch is not None:
        said += f" Epoch {progress.best_epoch} was best on dev and is kept."
    dev = run.best_scores if usable else None
    measured: tuple[Scores, Confusion, tuple[tuple[Span, ...], ...]] | None = None
    if usable and (data.test or data.dev):
        measured = measure(run.predictor, data.test or data.dev)
    calibration = calibrate(run.predictor, data.dev, data.test) if usable else None
    scaled = () if not usable else (calibration.sentence if calibration is not None else NO_DEV,)
    dev_too = [item.sentence for item in data.dev] if usable and data.test else []
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
        dev_predictions=tuple(run.predictor.predict_spans(dev_too)) if dev_too else (),
        notes=(*scaled, said),
        calibration=calibration,
    )


def measure(
    predictor: Predictor, items: tuple[LabelledSentence, ...]
) -> tuple[Scores, Confusion, tuple[tuple[Span, ...], ...]]:
    """Score a predictor on labelled sentences; return scores, confusion and the predicted spans."""
    answers = [tags for tags, _ in predictor.predict_tags([item.sentence for item in items])]
    gold = [tags_from_spans(item.spans, len(item.sentence.tokens)) for item in items]
    spans = tuple(spans_from_tags(tags, strict=False) for tags in answers)
    scores = score_tags(gold, answers, predictor.types)
    return scores, confusion([item.spans for item in items], spans, predictor.types), spans
