"""What a finished run said of each dev and test sentence is kept with its result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from crossner_core.evaluation.scores import score_spans
from crossner_core.training.events import RunResult
from crossner_core.training.loop import train
from tests.support.training_builders import tiny_data, tiny_encoder, tiny_recipe


@pytest.mark.parametrize("crf", [False, True])
def test_train_keeps_what_was_said_of_dev_and_test(tmp_path: Path, crf: bool) -> None:
    data = tiny_data()
    recipe = tiny_recipe(architecture="crf" if crf else "tagger")
    result = list(train(recipe, data, checkpoint_dir=tmp_path, encoder=tiny_encoder()))[-1].result
    assert result is not None and result.dev is not None and result.test is not None
    for items, said, scores in (
        (data.dev, result.dev_predictions, result.dev),
        (data.test, result.predictions, result.test),
    ):
        assert score_spans([item.spans for item in items], said).overall == scores.overall
    assert RunResult.from_dict(result.to_dict()) == result


def test_train_without_test_keeps_dev_once_and_without_both_nothing(tmp_path: Path) -> None:
    for dev in (True, False):
        data = replace(tiny_data(dev=dev), test=())
        found = list(train(tiny_recipe(), data, checkpoint_dir=tmp_path / str(dev), encoder=tiny_encoder()))[-1]
        assert found.result is not None
        assert (len(found.result.predictions), found.result.dev_predictions) == (len(data.dev), ())


def test_result_of_an_older_version_is_read_without_dev_predictions(tmp_path: Path) -> None:
    found = list(train(tiny_recipe(), tiny_data(), checkpoint_dir=tmp_path, encoder=tiny_encoder()))[-1].result
    assert found is not None and found.dev_predictions
    older = {name: value for name, value in found.to_dict().items() if name != "dev_predictions"}
    assert RunResult.from_dict(older) == replace(found, dev_predictions=())
