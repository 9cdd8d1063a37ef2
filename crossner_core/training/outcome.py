"""The outcome of a run's last stage: scores on dev and test, confusion, predictions, and notes."""

from __future__ import annotations

from collections.abc import Sequence

from crossner_core.calibration.model_scores import NO_DEV, TagScores, calibrate
from crossner_core.evaluation.confusion import Confusion, confusion
from crossner_core.evaluation.scores import Scores, score_tags
from crossner_core.schema import LabelledSentence, Span
from crossner_core.tags import spans_from_tags, tags_from_spans
from crossner_core.training.data import TrainingData
from crossner_core.training.engine import TaskRun
from crossner_core.training.events import RunResult, StageScore
from crossner_core.training.predictor import Predictor
from crossner_core.training.tagging import TaggerTask

# Maximum number of sentences named for a bad batch.
NAMED = 16
_WORDS = {
    "early_stop": "Stopped early: dev F1 did not rise for {patience} epochs; epoch {best} is kept.",
    "all_epochs": "All {epochs} epochs done.",
    "stopped": "Stopped on request after {epochs} whole epochs; resume to continue.",
    "not_finite": "{trouble}",
}


def measure_run(
    run: TaskRun[TaggerTask], data: TrainingData, *, outcome: str, usable: bool, trouble: str = ""
) -> RunResult:
    """Return the result of a stage with its best weights in place; no scores unless it is usable.

    A usable tagger's scores are calibrated on dev in place.
    """
    progress, predictor = run.progress, run.task.predictor
    best, epochs = run.task.best_epoch(progress), progress.step // run.task.epoch_steps
    patience = run.task.stage.patience
    words = _WORDS[outcome].format(patience=patience, best=best, epochs=epochs, trouble=trouble)
    if not run.task.stage.epochs:
        words = "No target sentence was trained on."
    elif outcome == "all_epochs" and best is not None:
        words += f" Epoch {best} was best on dev and is kept."
    dev = run.best_scores if usable else None
    # What the last stage read of dev with the weights that are in place now.
    on_dev = run.best_answers if usable and data.dev == run.task.stage.dev else None
    on_dev = on_dev or read(predictor, data.dev if usable else ())
    on_test = read(predictor, data.test if usable else ())
    measured = None
    if usable and (data.test or data.dev):
        measured = measure(predictor, data.test or data.dev, on_test or on_dev)
    dev_too = spans_of(predictor, on_dev) if data.test else ()
    calibration = None
    if usable:
        calibration = calibrate(predictor, data.dev, data.test, dev_scores=on_dev, test_scores=on_test)
    scaled = () if not usable else (calibration.sentence if calibration is not None else NO_DEV,)
    return RunResult(
        outcome=outcome,
        recipe_hash="",
        data_hash="",
        snapshot=data.snapshot,
        best_epoch=best,
        epochs=epochs,
        steps=progress.step,
        seconds=progress.seconds,
        tokens_per_second=progress.tokens_per_second,
        train_sentences=len(data.train) if run.task.stage.train else 0,
        dev=dev,
        test=measured[0] if measured and data.test else None,
        confusion=measured[1] if measured else None,
        predictions=measured[2] if measured else (),
        dev_predictions=dev_too,
        notes=(*scaled, words),
        calibration=calibration,
    )


def stage_score(run: TaskRun[TaggerTask], data: TrainingData) -> StageScore:
    """Measure a finished stage's last epoch and what it leaves; the best weights are in place afterwards."""
    task, progress = run.task, run.progress
    last_dev = progress.history[-1].dev_f1 if progress.history else None
    last_test = _test_f1(task.predictor, data.test)
    run.restore_best()
    if run.best is None or progress.best_step == progress.step:
        return StageScore(task.stage.phase, task.best_epoch(progress), last_dev, last_test, last_dev, last_test)
    test = _test_f1(task.predictor, data.test)
    return StageScore(task.stage.phase, task.best_epoch(progress), progress.best, test, last_dev, last_test)


def _test_f1(predictor: Predictor, items: tuple[LabelledSentence, ...]) -> float | None:
    return measure(predictor, items)[0].f1 if items else None


def read(predictor: Predictor, items: Sequence[LabelledSentence]) -> list[TagScores]:
    """Return a predictor's tags and scores for each sentence."""
    return predictor.tag_scores([item.sentence for item in items]) if items else []


def spans_of(predictor: Predictor, scores: Sequence[TagScores]) -> tuple[tuple[Span, ...], ...]:
    """Return the predicted spans of each sentence."""
    return tuple(spans_from_tags(sentence.tags(predictor.tags), strict=False) for sentence in scores)


def measure(
    predictor: Predictor, items: tuple[LabelledSentence, ...], scored: Sequence[TagScores] = ()
) -> tuple[Scores, Confusion, tuple[tuple[Span, ...], ...]]:
    """Score a predictor, or its earlier `scored` output, on labelled sentences; return scores, confusion and spans."""
    scored = scored or read(predictor, items)
    gold = [tags_from_spans(item.spans, len(item.sentence.tokens)) for item in items]
    spans = spans_of(predictor, scored)
    scores = score_tags(gold, [sentence.tags(predictor.tags) for sentence in scored], predictor.types)
    return scores, confusion([item.spans for item in items], spans, predictor.types), spans


def why_not_finite(run: TaskRun[TaggerTask], loss: float, first_step: int, *, last: bool) -> str:
    """Return where a loss was not finite, on which sentences, and what is kept; the stage started at `first_step`."""
    task, step = run.task, run.progress.step
    best = task.best_epoch(run.progress)
    epoch, batch = divmod(step, task.epoch_steps)
    which = f"epoch {best}" + ("" if last else f" of the {task.stage.phase} stage")
    kept = "nothing was kept"
    if run.best is not None:
        kept = f"the weights of {which} are kept"
    elif run.is_usable:
        kept = f"the weights after step {first_step + step} are kept, which dev did not choose"
    ids = list(
        dict.fromkeys(task.stage.train[task.windows[index].sentence].sentence.id for index in task.indices(step))
    )
    more = f" and {len(ids) - NAMED} more" if len(ids) > NAMED else ""
    return (
        f"Stopped: the loss is {loss} at step {first_step + step + 1} (epoch {epoch + 1}, "
        f"batch {batch + 1}) on sentences {', '.join(ids[:NAMED])}{more}; {kept}. "
        "Lower the learning rate, lengthen the warm-up, or use precision fp32."
    )
