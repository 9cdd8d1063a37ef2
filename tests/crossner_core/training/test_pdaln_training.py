"""PDALN from start to finish: it learns, resumes to the same end, and leaves a plain tagger."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from crossner_core.domains import load_domain
from crossner_core.schema import LabelledSentence
from crossner_core.training.checkpoint import read_folder
from crossner_core.training.data import SourceCorpus, TrainingData
from crossner_core.training.events import RunResult, TrainEvent
from crossner_core.training.loop import train
from crossner_core.training.predictor import load_tagger
from crossner_core.training.recipe import Recipe
from db.engine import Store
from tests.support.training_builders import TYPES, own_sentences, tiny_encoder, tiny_recipe
from tests.support.training_store import own_dataset, person, recipe_here
from workbench.campaigns import campaigns
from workbench.campaigns import sentences as campaign_sentences
from workbench.data import snapshots
from workbench.jobs.kinds.run import RunLog
from workbench.runs import adaptation, training_data


def small(**changes: Any) -> Recipe:
    """Return a recipe of a base stage and two rounds, 16 steps in all with `small_data`."""
    return tiny_recipe(
        **{"setting": "pdaln", "max_epochs": 2, "pdaln_target_copies": 1, "pdaln_source_copies": 1}
        | {"pdaln_round_epochs": 1}
        | changes
    )


def small_data() -> TrainingData:
    return TrainingData(
        train=own_sentences(8),
        types=TYPES,
        dev=own_sentences(4, offset=30),
        test=own_sentences(4, offset=40),
        sources=(SourceCorpus(own_sentences(12, offset=100)),),
        unlabelled=tuple(item.sentence for item in own_sentences(8, offset=60)),
    )


def run_all(recipe: Recipe, folder: Path, data: TrainingData | None = None, **options: Any) -> list[TrainEvent]:
    options.setdefault("encoder", tiny_encoder())
    return list(train(recipe, data or small_data(), checkpoint_dir=folder, **options))


def result_of(events: list[TrainEvent]) -> RunResult:
    assert events[-1].result is not None
    return events[-1].result


def assert_same(one: Path, other: Path) -> None:
    first, second = load_tagger(one).model.state_dict(), load_tagger(other).model.state_dict()
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(
    ("student", "architecture", "stops"),
    # Each stop counts the steps since the one before, with the stage it falls into.
    [("progressive", "crf", [(3, 0), (10, 2)]), ("mean_teacher", "tagger", [(8, 1)])],
)
def test_pdaln_resumed_equals_uninterrupted(
    tmp_path: Path, student: str, architecture: str, stops: list[tuple[int, int]]
) -> None:
    recipe = small(architecture=architecture, pdaln_student=student)
    whole = result_of(run_all(recipe, tmp_path / "whole"))
    for after, stage in stops:
        asked = iter(range(1, after))
        stopped = result_of(
            run_all(recipe, tmp_path / "parts", should_stop=lambda left=asked: next(left, None) is None)
        )
        assert stopped.outcome == "stopped"
        meta, tensors = read_folder(tmp_path / "parts" / "state")
        assert meta["stage"] == stage
        assert any(name.startswith("objective/teacher/") for name in tensors) == (stage > 0)
    resumed = result_of(run_all(recipe, tmp_path / "parts"))
    assert (resumed.history, resumed.steps, resumed.test) == (whole.history, whole.steps, whole.test)
    assert resumed.stages == whole.stages and [stage.phase for stage in whole.stages] == ["base", "round 1", "round 2"]
    assert resumed.notes[:2] == whole.notes[:2] and "Adaptive data" in resumed.notes[1] and len(whole.history) == 4
    assert_same(tmp_path / "whole", tmp_path / "parts")


def test_pdaln_same_seed_same_numbers(tmp_path: Path) -> None:
    recipe = small(pdaln_rounds=1)
    first = run_all(recipe, tmp_path / "a")
    torch.manual_seed(99)  # the global generator must not matter
    assert [event.loss for event in first] == [event.loss for event in run_all(recipe, tmp_path / "b")]
    assert_same(tmp_path / "a", tmp_path / "b")


@pytest.mark.parametrize("setting", ["pdaln", "pdaln_unsupervised"])
def test_pdaln_overfits_and_keeps_a_plain_tagger(tmp_path: Path, setting: str) -> None:
    sentences = own_sentences(20)
    data = TrainingData(train=sentences, types=TYPES, dev=sentences, test=sentences, sources=(SourceCorpus(sentences),))
    recipe = small(setting=setting, architecture="crf", max_epochs=10, batch_size=8, pdaln_rounds=1)
    result = result_of(run_all(recipe, tmp_path, data))
    assert result.test is not None and result.test.f1 == 1.0
    predictor = load_tagger(tmp_path)
    assert predictor.predict_spans([item.sentence for item in sentences]) == [item.spans for item in sentences]
    _, tensors = read_folder(tmp_path / "tagger")
    assert not [name for name in tensors if name.startswith("objective")]
    assert not list(predictor.model.objective_parts.parameters())


def test_pdaln_round_that_is_no_better_on_dev_keeps_what_came_in(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"pdaln_use_distillation": False, "pdaln_use_contrastive": False, "max_epochs": 8}
    base = result_of(run_all(small(**changes, pdaln_rounds=0, clip_norm=1000.0), tmp_path / "base"))
    torn = small(**changes, pdaln_rounds=1, clip_norm=1000.0, pdaln_round_rate=10.0)
    after = result_of(run_all(torn, tmp_path / "after"))
    assert base.dev is not None and after.dev is not None and after.history[-1].dev_f1 is not None
    assert after.history[-1].dev_f1 < base.dev.f1 == after.dev.f1
    assert_same(tmp_path / "base", tmp_path / "after")


def test_pdaln_reports_every_stage_and_the_last_round_stands_if_asked(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"architecture": "crf", "max_epochs": 8, "pdaln_round_epochs": 2, "clip_norm": 1000.0}
    changes |= {"pdaln_use_contrastive": False, "pdaln_round_rate": 10.0, "pdaln_use_distillation": False}
    kept, last = (result_of(run_all(small(**changes, pdaln_keep=how), tmp_path / how)) for how in ("dev", "last"))
    assert kept.dev is not None and last.dev is not None and kept.test is not None and last.test is not None
    base, *rounds = kept.stages
    assert (base == last.stages[0] and base.dev == kept.history[base.epoch or 0].dev_f1) or base.epoch
    # A rate of ten times the base stage's tears the model apart: no round is better on dev than the base stage.
    assert [stage.epoch for stage in rounds] == [0, 0] and [stage.test for stage in rounds] == [base.test] * 2
    assert kept.test.f1 == base.test and all((stage.last_dev or 0.0) < base.dev for stage in rounds)
    assert [(stage.epoch, stage.dev, stage.test) for stage in last.stages[1:]] == [
        (2, stage.last_dev, stage.last_test) for stage in last.stages[1:]
    ]
    assert (last.stages[-1].dev, last.stages[-1].test, last.best_epoch) == (last.dev.f1, last.test.f1, 2)
    assert last.dev.f1 == last.history[-1].dev_f1 and last.dev.f1 < base.dev
    assert RunResult.from_dict(json.loads(json.dumps(kept.to_dict()))).stages == kept.stages
    assert any(note.startswith("round 1: what it began with is kept") for note in kept.notes)
    assert any(note.startswith("round 2: epoch 2 is kept, F1") for note in last.notes)


def test_pdaln_log_of_a_run_goes_forward_through_all_phases(tmp_path: Path) -> None:
    events = run_all(small(pdaln_use_contrastive=False), tmp_path)
    log = RunLog(None, 1, [("base", 2), ("round 1", 1), ("round 2", 1)])  # type: ignore[arg-type]
    shares = [log.progress(event) for event in events]
    assert shares == sorted(shares) and shares[0] == 0.0 and 0.6 < shares[-1] <= 1.0
    assert {event.phase for event in events} == {"base", "round 1", "round 2"}


def test_pdaln_run_of_a_campaign_reads_its_pool_outside_the_snapshot(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    recipe = replace(recipe_here(tmp_path), setting="pdaln", source="press")
    own_dataset(store, admin, name="press")
    campaign_id = campaigns.create_campaign(store, admin, name="M", domain=load_domain("music"), suggestions_on=False)
    gold = [LabelledSentence(item.sentence, ()) for item in own_sentences(6)]
    campaign_sentences.add_sentences(store, admin, campaign_id, gold)
    campaign_sentences.add_sentences(store, admin, campaign_id, [item.sentence for item in own_sentences(6, offset=12)])
    for split, offset in (("dev", 23), ("test", 33)):
        bare = [item.sentence for item in own_sentences(3, offset=offset)]
        campaign_sentences.add_sentences(store, admin, campaign_id, bare, split=split)
    frozen = snapshots.freeze(store, admin, campaign_id).id
    whole = adaptation.start_run(store, admin, snapshot_id=frozen, recipe=recipe)
    part = adaptation.start_run(store, admin, snapshot_id=frozen, recipe=recipe, size=2)
    direct = adaptation.start_run(store, admin, snapshot_id=frozen, recipe=replace(recipe, setting="direct"))
    with store.read() as session:
        found = {id: training_data.for_run(session, id)[1] for id in (whole, part, direct)}
    pool = {item.sentence.text for item in own_sentences(6, offset=12)}
    assert {sentence.text for sentence in found[whole].unlabelled} == pool
    kept = {item.sentence.text for item in found[part].train}
    rest = {item.sentence.text for item in gold} - kept
    assert len(kept) == 2 and {sentence.text for sentence in found[part].unlabelled} == pool | rest
    assert found[direct].unlabelled == ()
