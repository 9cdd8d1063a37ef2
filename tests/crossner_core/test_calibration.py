"""Calibration: bins and errors, maps of span scores chosen on dev, the temperature, and what a run keeps of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from crossner_core.calibration.model_scores import (
    NO_DEV,
    Calibration,
    CalibrationReport,
    TagScores,
    calibrate,
    fit_temperature,
)
from crossner_core.calibration.reliability import Reliability, binned, expected_error, reliability
from crossner_core.calibration.span_maps import LEAST_SPANS, METHODS, SpanMap, choose, fit
from crossner_core.errors import CheckpointError
from crossner_core.folders import write_json
from crossner_core.training.checkpoint import read_json
from crossner_core.training.data import TrainingData
from crossner_core.training.events import RunResult
from crossner_core.training.loop import train
from crossner_core.training.predictor import Predictor, load_tagger
from tests.support.training_builders import TYPES, own_sentences, tiny_data, tiny_encoder, tiny_recipe


def too_sure(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Return scores whose log odds are twice what they should be, right or not, and a sentence for each."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(0.5, 1.5, count)
    right = rng.random(count) < 1 / (1 + np.exp(-odds))
    return 1 / (1 + np.exp(-2.5 * odds)), right, [at // 4 for at in range(count)]


def test_reliability_of_scores_that_say_the_truth_has_no_error() -> None:
    scores = [0.25] * 8 + [0.75] * 8
    right = [True] * 2 + [False] * 6 + [True] * 6 + [False] * 2
    found = reliability(scores, right, bins=2)
    assert (found.error, found.error_equal_width, found.spans) == (0.0, 0.0, 16)
    assert [(one.count, one.score, one.right) for one in found.bins] == [(8, 0.25, 0.25), (8, 0.75, 0.75)]
    assert Reliability.from_dict(found.to_dict()) == found


def test_reliability_counts_each_bin_by_its_spans() -> None:
    scores, right = np.array([0.1, 0.2, 0.9, 0.95]), np.array([False, False, False, True])
    assert expected_error(binned(scores, right, "equal width", 10)) == pytest.approx((0.1 + 0.2 + 2 * 0.425) / 4)
    mass = binned(scores, right, "equal mass", 2)
    assert [one.count for one in mass] == [2, 2] and expected_error(mass) == pytest.approx((0.15 + 0.425) / 2)
    assert reliability([], []).error == 0.0


@pytest.mark.parametrize("method", METHODS[1:])
def test_span_map_mends_scores_that_are_too_sure(method: str) -> None:
    scores, right, _ = too_sure(2000)
    fresh, truth, _ = too_sure(2000, seed=1)
    learnt = fit(method, scores, right)
    assert reliability(fresh, truth).error > 0.08
    assert reliability(learnt(fresh), truth).error < 0.045
    assert np.all(np.diff(learnt(np.linspace(0, 1, 50))) >= -1e-12), "a surer span stays the surer one"
    assert SpanMap.from_dict(learnt.to_dict()) == learnt


def test_choose_takes_the_map_that_is_best_on_unseen_folds() -> None:
    scores, right, sentences = too_sure(1200)
    choice = choose(scores, right, sentences)
    assert choice.chosen.method != "identity" and set(choice.losses) == set(METHODS)
    assert choice.losses[choice.chosen.method] == min(choice.losses.values())
    assert reliability(choice.held_out, right).error < reliability(scores, right).error


@pytest.mark.parametrize(
    ("count", "wrong"),
    [(LEAST_SPANS - 1, 5), (200, 0), (200, 200), (0, 0)],
    ids=["few", "all right", "none", "no span"],
)
def test_choose_leaves_scores_that_nothing_can_be_learnt_of(count: int, wrong: int) -> None:
    right = np.arange(count) >= wrong
    choice = choose(np.full(count, 0.7), right, list(range(count)))
    assert choice.chosen == SpanMap() and f"{count} spans were predicted on dev" in choice.note


def test_span_map_of_another_version_is_refused() -> None:
    with pytest.raises(CheckpointError, match="by 'spline'; supported are identity, platt"):
        SpanMap.from_dict({"method": "spline", "numbers": []})


def test_temperature_is_the_one_the_scores_were_made_with() -> None:
    rng = np.random.default_rng(2)
    true = rng.normal(size=(4000, 5)) * 1.5
    gold = np.array([rng.choice(5, p=np.exp(row) / np.exp(row).sum()) for row in true])
    scores = [TagScores(gold, true * 3.0)]
    assert fit_temperature(scores, [gold]) == pytest.approx(3.0, rel=0.1)


def run(data: TrainingData, folder: Path, **changes: object) -> RunResult:
    for event in train(tiny_recipe(**changes), data, checkpoint_dir=folder, encoder=tiny_encoder()):
        result = event.result
    assert result is not None
    return result


@pytest.mark.parametrize("architecture", ["tagger", "crf", "label_aware"])
def test_run_keeps_its_calibration_with_the_tagger(tmp_path: Path, architecture: str) -> None:
    result = run(tiny_data(24), tmp_path, architecture=architecture, max_epochs=4)
    report = result.calibration
    assert report is not None and report.measured_on == "test" and report.sentence in result.notes
    assert RunResult.from_dict(result.to_dict()).calibration == report
    predictor = load_tagger(tmp_path, device="cpu")
    assert predictor.calibration == report.calibration and predictor.model.temperature == report.calibration.temperature
    sentences = [item.sentence for item in own_sentences(6, offset=40)]
    spans = predictor.predict_spans(sentences)
    tags = predictor.predict_tags(sentences)
    for found, same, (_, shares) in zip(predictor.predict(sentences), spans, tags, strict=True):
        assert tuple(one.span for one in found) == same
        expected = predictor.calibration.spans([min(shares[one.start : one.end]) for one in found])
        assert [one.score for one in found] == pytest.approx(list(expected))


def test_temperature_changes_scores_and_no_tag(tmp_path: Path) -> None:
    run(tiny_data(24), tmp_path, max_epochs=6)
    predictor = load_tagger(tmp_path, device="cpu")
    sentences = [item.sentence for item in own_sentences(8, offset=40)]
    predictor.calibrate(Calibration())
    plain = predictor.predict_tags(sentences)
    predictor.calibrate(Calibration(temperature=4.0))
    cooler = predictor.predict_tags(sentences)
    assert [tags for tags, _ in plain] == [tags for tags, _ in cooler]
    assert np.mean([p for _, ps in cooler for p in ps]) < np.mean([p for _, ps in plain for p in ps])


def test_run_without_dev_says_that_its_scores_are_its_own(tmp_path: Path) -> None:
    result = run(replace(tiny_data(12), dev=()), tmp_path, max_epochs=2)
    assert result.calibration is None and NO_DEV in result.notes
    assert load_tagger(tmp_path, device="cpu").calibration == Calibration()


def test_run_without_test_is_measured_on_held_out_folds_of_dev(tmp_path: Path) -> None:
    result = run(replace(tiny_data(12), test=()), tmp_path, max_epochs=2)
    assert result.calibration is not None and result.calibration.measured_on == "dev, on held-out folds"


def test_run_on_one_entity_type_is_calibrated(tmp_path: Path) -> None:
    def only_people(data: TrainingData) -> TrainingData:
        parts = {
            name: tuple(
                replace(item, spans=tuple(span for span in item.spans if span.type == "person"))
                for item in getattr(data, name)
            )
            for name in ("train", "dev", "test")
        }
        return replace(data, types=("person",), **parts)

    result = run(only_people(tiny_data(24)), tmp_path, max_epochs=4)
    assert result.calibration is not None and result.calibration.calibration.temperature > 0


def test_tagger_of_an_older_version_has_no_calibration_and_still_predicts(tmp_path: Path) -> None:
    run(tiny_data(12), tmp_path, max_epochs=2)
    meta = read_json(tmp_path / "tagger" / "meta.json")
    meta.pop("calibration")
    write_json(tmp_path / "tagger" / "meta.json", meta)
    predictor = load_tagger(tmp_path, device="cpu")
    assert predictor.calibration == Calibration() and predictor.types == TYPES
    old = run(tiny_data(12), tmp_path, max_epochs=2).to_dict()
    old.pop("calibration")
    assert RunResult.from_dict(old).calibration is None


def test_calibrate_on_dev_without_words_does_nothing(tmp_path: Path) -> None:
    run(replace(tiny_data(12), dev=()), tmp_path, max_epochs=1)
    predictor: Predictor = load_tagger(tmp_path, device="cpu")
    assert calibrate(predictor, []) is None and predictor.calibration == Calibration()
    report = calibrate(predictor, own_sentences(6, offset=30))
    assert isinstance(report, CalibrationReport) and CalibrationReport.from_dict(report.to_dict()) == report
