"""Self-training: a student learns from its teacher's word on bare sentences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from crossner_core.adaptation.transfer import needs_source, needs_unlabelled, setting
from crossner_core.training.data import TrainingData
from crossner_core.training.events import RunResult
from crossner_core.training.loop import train
from crossner_core.training.source_cache import source_options
from tests.training_builders import own_sentences, tiny_data, tiny_encoder, tiny_recipe


def data(bare: int = 12, *, source: bool = False) -> TrainingData:
    return replace(tiny_data(8, source=source), unlabelled=tuple(i.sentence for i in own_sentences(bare, offset=60)))


def result(folder: Path, what: TrainingData, *, stop_after: int | None = None, **changes: object) -> RunResult:
    recipe = tiny_recipe(
        setting="self_training", max_epochs=12, self_training_epochs=12, self_training_batch=4, **changes
    )
    for part in (stop_after, None) if stop_after else (None,):
        calls = iter(range(10**9))
        stop = (lambda: next(calls) >= part) if part else (lambda: False)  # noqa: B023 - used up at once
        *_, last = train(recipe, what, checkpoint_dir=folder, encoder=tiny_encoder(), should_stop=stop)
        if part:
            assert last.result is not None and last.result.outcome == "stopped"
    assert last.result is not None
    return last.result


def test_self_training_needs_bare_text_and_no_source_unless_it_transfers() -> None:
    assert needs_unlabelled("self_training") and not needs_source("self_training")
    assert needs_unlabelled("transfer_self_training") and needs_source("transfer_self_training")


def test_self_training_plans_students_after_the_teacher() -> None:
    recipe = tiny_recipe(setting="self_training", self_training_rounds=2)
    stages = setting("self_training").plan(recipe, data())
    assert [stage.phase for stage in stages] == ["target", "student 1", "student 2"]
    assert [stage.fresh for stage in stages] == [False, True, True]
    recipe = tiny_recipe(setting="transfer_self_training")
    stages = setting("transfer_self_training").plan(recipe, data(source=True))
    assert [stage.phase for stage in stages] == ["source", "target", "student 1"]
    assert not stages[-1].fresh and stages[-1].measure_first


def test_self_training_learns_and_says_from_how_many_sentences(tmp_path: Path) -> None:
    made = result(tmp_path, data(), self_training_sentences=5)
    assert made.dev is not None and made.dev.f1 > 0.5
    assert any("5 of 12 bare sentences" in note for note in made.notes)
    assert {record.phase for record in made.history} == {"target", "student 1"}


def test_self_training_resumed_in_the_student_equals_uninterrupted(tmp_path: Path) -> None:
    whole = result(tmp_path / "whole", data())
    resumed = result(tmp_path / "parts", data(), stop_after=40)
    assert [(r.phase, r.epoch, r.loss, r.dev_f1) for r in resumed.history] == [
        (r.phase, r.epoch, r.loss, r.dev_f1) for r in whole.history
    ]


@pytest.mark.parametrize("changes", [{"self_training_weight": 0.0}, {"self_training_threshold": 1.0}])
def test_self_training_without_the_teachers_word_is_the_labels_alone(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    made, plain = result(tmp_path / "a", data(), **changes), result(tmp_path / "b", data())
    losses = [[record.loss for record in one.history if record.phase == "student 1"] for one in (made, plain)]
    assert losses[0][-1] < losses[1][-1]


def test_self_training_without_bare_text_is_the_teacher_alone(tmp_path: Path) -> None:
    made = result(tmp_path, data(0))
    assert {record.phase for record in made.history} == {"target"}
    assert any("no bare target sentences" in note for note in made.notes)


def test_self_training_shares_the_source_checkpoint_of_pretrain_finetune() -> None:
    one = source_options(tiny_recipe(setting="transfer_self_training", self_training_weight=0.3))
    assert one == source_options(tiny_recipe(setting="pretrain_finetune"))
