from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch

from crossner_core.encoders.loading import load_encoder
from crossner_core.errors import (
    BadInput,
    CheckpointError,
    CheckpointMismatch,
    EncoderUnavailable,
    InvalidConfig,
    StorageError,
    UnknownType,
)
from crossner_core.training import loop
from crossner_core.training.checkpoint import read_folder
from crossner_core.training.data import SourceCorpus, TrainingData
from crossner_core.training.events import RunResult, TrainEvent
from crossner_core.training.loop import TAGGER, WarmStart, train
from crossner_core.training.predictor import load_tagger
from crossner_core.training.recipe import Recipe
from tests.support.training_builders import TYPES, labelled, own_sentences, tiny_data, tiny_encoder, tiny_recipe


def run_all(recipe: Recipe, data: TrainingData, folder: Path, **options: object) -> list[TrainEvent]:
    options.setdefault("encoder", tiny_encoder())
    return list(train(recipe, data, checkpoint_dir=folder, **options))  # type: ignore[arg-type]


def result_of(events: list[TrainEvent]) -> RunResult:
    assert events[-1].result is not None
    assert all(event.result is None for event in events[:-1])
    return events[-1].result


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_tagger(folder).model.state_dict()


def assert_same_weights(first: Path, second: Path) -> None:
    one, two = weights(first), weights(second)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.slow
def test_training_overfits_own_sentences(tmp_path: Path) -> None:
    sentences = own_sentences(20)
    data = TrainingData(train=sentences, types=TYPES, dev=sentences, test=sentences)
    result = result_of(run_all(tiny_recipe(max_epochs=30, patience=30), data, tmp_path))
    assert result.test is not None and result.test.f1 == 1.0
    predicted = load_tagger(tmp_path).predict_spans([item.sentence for item in sentences])
    assert predicted == [item.spans for item in sentences]
    assert result.predictions == tuple(predicted)


@pytest.mark.slow
def test_training_overfits_with_the_bundled_encoder(tmp_path: Path) -> None:
    sentences = own_sentences(20)
    data = TrainingData(train=sentences, types=TYPES, dev=sentences)
    events = run_all(Recipe(max_epochs=15), data, tmp_path, encoder=load_encoder("minilm"))
    result = result_of(events)
    assert result.dev is not None and result.dev.f1 == 1.0
    best = max(event.dev_f1 for event in events if event.dev_f1 is not None)
    assert result.dev.f1 == best
    suggestions = load_tagger(tmp_path).predict([item.sentence for item in sentences])
    assert [tuple(s.span for s in found) for found in suggestions] == [item.spans for item in sentences]
    assert all(0.0 < s.score <= 1.0 and s.source.startswith("model:") for found in suggestions for s in found)


def test_training_same_seed_same_numbers(tmp_path: Path) -> None:
    recipe, data = tiny_recipe(), tiny_data()
    first = run_all(recipe, data, tmp_path / "a")
    torch.manual_seed(99)  # the global generator must not matter
    second = run_all(recipe, data, tmp_path / "b")
    assert [event.loss for event in first] == [event.loss for event in second]
    assert_same_weights(tmp_path / "a", tmp_path / "b")
    other = run_all(tiny_recipe(seed=1), data, tmp_path / "c")
    assert [event.loss for event in first] != [event.loss for event in other]


def test_training_leaves_global_random_state_and_encoder_alone(tmp_path: Path) -> None:
    encoder = tiny_encoder()
    before = {name: tensor.clone() for name, tensor in encoder.model.state_dict().items()}
    state = torch.get_rng_state()
    run_all(tiny_recipe(max_epochs=1), tiny_data(), tmp_path, encoder=encoder)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(tensor, before[name]) for name, tensor in encoder.model.state_dict().items())


@pytest.mark.parametrize("setting", ["direct", "pretrain_finetune", "joint"])
@pytest.mark.parametrize("stop_at", [2, 4, 12])
def test_training_resumed_equals_uninterrupted(tmp_path: Path, setting: str, stop_at: int) -> None:
    recipe, data = tiny_recipe(setting=setting), tiny_data(source=setting != "direct")
    whole = result_of(run_all(recipe, data, tmp_path / "whole"))
    asked = count(1)
    stopped = result_of(run_all(recipe, data, tmp_path / "parts", should_stop=lambda: next(asked) == stop_at))
    assert stopped.outcome == "stopped" and stopped.steps >= stop_at and stopped.test is None
    resumed = result_of(run_all(recipe, data, tmp_path / "parts"))
    assert (resumed.history, resumed.steps, resumed.test) == (whole.history, whole.steps, whole.test)
    assert_same_weights(tmp_path / "whole", tmp_path / "parts")


def test_training_killed_between_saves_resumes_to_the_same_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, data = tiny_recipe(), tiny_data()
    whole = result_of(run_all(recipe, data, tmp_path / "whole"))
    monkeypatch.setattr(loop, "SECONDS_BETWEEN_SAVES", 0.0)
    killed = train(recipe, data, checkpoint_dir=tmp_path / "killed", encoder=tiny_encoder())
    for event in killed:
        if event.epoch == 3 and event.dev_f1 is not None:
            break
    del killed  # the process is gone; only the files remain
    assert (tmp_path / "killed" / "state").is_dir()
    resumed = result_of(run_all(recipe, data, tmp_path / "killed"))
    assert (resumed.history, resumed.test, resumed.best_epoch) == (whole.history, whole.test, whole.best_epoch)
    assert_same_weights(tmp_path / "whole", tmp_path / "killed")
    assert not (tmp_path / "killed" / "state").exists()


def test_training_finished_run_gives_its_result_again(tmp_path: Path) -> None:
    recipe, data = tiny_recipe(max_epochs=2), tiny_data()
    first = result_of(run_all(recipe, data, tmp_path))
    again = run_all(recipe, data, tmp_path)
    assert len(again) == 1 and again[0].result == first


def test_training_refuses_folder_of_another_run(tmp_path: Path) -> None:
    run_all(tiny_recipe(max_epochs=1), tiny_data(), tmp_path)
    with pytest.raises(CheckpointError, match="another recipe"):
        run_all(tiny_recipe(max_epochs=2), tiny_data(), tmp_path)
    with pytest.raises(CheckpointError, match="with other data"):
        run_all(tiny_recipe(max_epochs=1), tiny_data(8), tmp_path)
    assert result_of(run_all(tiny_recipe(max_epochs=2), tiny_data(), tmp_path, resume=False)).epochs == 2


def test_training_refuses_what_another_encoder_of_the_same_name_began(tmp_path: Path) -> None:
    recipe, other = tiny_recipe(max_epochs=2), replace(tiny_encoder(), fingerprint="0" * 64)
    first = result_of(run_all(recipe, tiny_data(), tmp_path / "done"))
    assert first.encoder_hash == tiny_encoder().fingerprint
    asked = iter(range(100))
    run_all(recipe, tiny_data(), tmp_path / "stopped", should_stop=lambda: next(asked) == 2)
    for folder in ("done", "stopped"):
        with pytest.raises(CheckpointError, match="another encoder"):
            run_all(recipe, tiny_data(), tmp_path / folder, encoder=other)
    # A result is there without its encoder; afresh, what is there stays until the encoder is.
    gone = replace(recipe, encoder=str(tmp_path / "gone"))
    result = result_of(run_all(gone, tiny_data(), tmp_path / "gone-run"))
    assert result_of(run_all(gone, tiny_data(), tmp_path / "gone-run", encoder=None)) == result
    with pytest.raises(EncoderUnavailable):
        run_all(gone, tiny_data(), tmp_path / "gone-run", encoder=None, resume=False)
    assert result_of(run_all(gone, tiny_data(), tmp_path / "gone-run")) == result


def test_training_says_at_once_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    events = train(tiny_recipe(), tiny_data(), checkpoint_dir=tmp_path / "file" / "run", encoder=tiny_encoder())
    with pytest.raises(StorageError, match=r"cannot be written to: Not a directory. Give a folder that can be"):
        next(events)


def test_training_without_dev_keeps_the_last_epoch_and_says_so(tmp_path: Path) -> None:
    events = run_all(tiny_recipe(max_epochs=3), tiny_data(dev=False), tmp_path)
    result = result_of(events)
    assert result.outcome == "all_epochs" and result.epochs == 3 and result.dev is None and result.test is not None
    assert any("No dev data" in note for note in result.notes)
    assert [event.epoch for event in events if event.dev_f1 is not None] == []
    assert not any("has an entity" in note for note in result.notes)


def test_training_says_that_nothing_it_learns_from_has_an_entity(tmp_path: Path) -> None:
    data = tiny_data()
    bare = replace(data, train=tuple(replace(item, spans=()) for item in data.train))
    notes = result_of(run_all(tiny_recipe(max_epochs=1), bare, tmp_path)).notes
    assert "No sentence that is trained on has an entity, so that none will be found." in notes


def test_training_early_stop_restores_the_best_epoch(tmp_path: Path) -> None:
    events = run_all(tiny_recipe(max_epochs=60, patience=3), tiny_data(), tmp_path)
    result = result_of(events)
    assert result.outcome == "early_stop" and result.best_epoch == result.epochs - 3
    scored = [(event.epoch, event.dev_f1, event.is_best) for event in events if event.dev_f1 is not None]
    best = max(f1 for _, f1, _ in scored if f1 is not None)
    assert result.dev is not None and result.dev.f1 == best
    assert next(epoch for epoch, f1, _ in scored if f1 == best) == result.best_epoch
    data = tiny_data()
    from crossner_core.training.outcome import measure

    assert measure(load_tagger(tmp_path), data.dev)[0] == result.dev


def _break_loss_after(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a tagger's loss no number from the step after so many."""
    from crossner_core.models.tagger import Tagger

    right, calls = Tagger.loss, count(1)
    monkeypatch.setattr(
        Tagger, "loss", lambda self, batch: right(self, batch) * (float("nan") if next(calls) > steps else 1)
    )


def test_training_not_finite_loss_stops_and_keeps_what_was_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _break_loss_after(7, monkeypatch)
    events = run_all(tiny_recipe(max_epochs=9), tiny_data(), tmp_path)
    result = result_of(events)
    assert result.outcome == "not_finite" and result.test is not None
    assert any("step 8 (epoch 3, batch 2)" in event.message for event in events)
    assert torch.isfinite(weights(tmp_path)["head.weight"]).all()


def test_training_not_finite_without_dev_keeps_the_weights_before_the_bad_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _break_loss_after(7, monkeypatch)
    result = result_of(run_all(tiny_recipe(max_epochs=9), replace(tiny_data(), dev=()), tmp_path))
    assert result.outcome == "not_finite" and result.test is not None
    assert "the weights after step 7 are kept, which dev did not choose" in result.notes[-1]
    assert result.checkpoint == str(tmp_path / "tagger")
    assert torch.isfinite(weights(tmp_path)["head.weight"]).all()


def test_training_not_finite_weights_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    from crossner_core.training.engine import TaskRun

    right = TaskRun.learn

    def spoils(self: TaskRun[Any], step: int, seed: int) -> float:
        loss = right(self, step, seed)
        with torch.no_grad():
            next(self.model.parameters()).fill_(float("nan"))
        return loss

    monkeypatch.setattr(TaskRun, "learn", spoils)
    result = result_of(run_all(tiny_recipe(max_epochs=9), replace(tiny_data(), dev=()), tmp_path))
    assert result.outcome == "not_finite" and "nothing was kept" in result.notes[-1]
    assert result.checkpoint is None and not (tmp_path / "tagger").exists()


def test_training_source_checkpoint_of_another_version_is_trained_again(tmp_path: Path) -> None:
    data = replace(tiny_data(), sources=(SourceCorpus(tiny_data().train, tiny_data().dev),))
    recipe = tiny_recipe(setting="pretrain_finetune", source_epochs=1, max_epochs=1)
    cache = tmp_path / "source"
    run_all(recipe, data, tmp_path / "a", source_cache=cache)
    (meta,) = cache.glob("**/meta.json")
    values = json.loads(meta.read_text())
    values["recipe"]["gone_field"] = 1
    meta.write_text(json.dumps(values))
    with pytest.raises(CheckpointError, match=r"made by another version of the workbench.*gone_field.*train again"):
        load_tagger(meta.parent)
    events = run_all(replace(recipe, seed=99), data, tmp_path / "b", source_cache=cache)
    assert any("The source stage is trained again." in event.message for event in events)
    assert result_of(events).outcome not in ("not_finite", "stopped")


def test_training_not_finite_before_the_last_stage_keeps_what_that_stage_came_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _break_loss_after(7, monkeypatch)
    data = replace(tiny_data(), sources=(SourceCorpus(tiny_data().train, tiny_data().dev),))
    recipe = tiny_recipe(setting="pretrain_finetune", source_epochs=9)
    result = result_of(run_all(recipe, data, tmp_path))
    assert result.outcome == "not_finite" and not (tmp_path / "tagger").exists()
    assert "at step 8 (epoch 3, batch 2)" in result.notes[-1]
    assert "of the source stage are kept" in result.notes[-1]
    assert result.checkpoint == str(tmp_path / "stage-tagger")
    assert torch.isfinite(load_tagger(tmp_path / "stage-tagger").model.head.weight).all()
    monkeypatch.undo()
    assert result_of(run_all(recipe, data, tmp_path)).outcome != "not_finite"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["result.json", "tagger"]


def test_training_not_finite_from_the_start_leaves_no_tagger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from crossner_core.models.tagger import Tagger

    monkeypatch.setattr(Tagger, "loss", lambda self, batch: self.head.weight.sum() * float("inf"))
    result = result_of(run_all(tiny_recipe(), tiny_data(), tmp_path))
    assert result.outcome == "not_finite" and result.checkpoint is None and result.test is None
    with pytest.raises(CheckpointError):
        load_tagger(tmp_path)


def test_training_batch_of_one_and_sentence_of_one_token(tmp_path: Path) -> None:
    train_set = (labelled(["Marble"], [(0, 1, "band")]), labelled(["Hello"], []))
    data = TrainingData(train=train_set, types=TYPES, dev=train_set, test=(labelled([], []), *train_set))
    result = result_of(run_all(tiny_recipe(batch_size=1, max_epochs=2), data, tmp_path))
    assert len(result.predictions) == 3 and result.predictions[0] == ()


def test_training_seventeen_types_some_absent(tmp_path: Path) -> None:
    types = (*TYPES, *(f"type{number}" for number in range(14)))
    data = replace(tiny_data(), types=types)
    result = result_of(run_all(tiny_recipe(max_epochs=3), data, tmp_path))
    assert result.test is not None and tuple(result.test.per_type) == types
    assert result.test.per_type["type3"].support == 0 and result.test.per_type["type3"].f1 == 0.0
    assert len(load_tagger(tmp_path).model.tags) == 1 + 2 * 17


def test_training_data_refuses_empty_and_unknown() -> None:
    with pytest.raises(BadInput, match="no training sentences"):
        TrainingData(train=(), types=TYPES)
    with pytest.raises(UnknownType, match=r"drummer.*person, band, location"):
        TrainingData(train=(labelled(["Ines"], [(0, 1, "drummer")]),), types=TYPES)


def test_training_transfer_needs_a_source(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="needs sentences of the source corpus"):
        run_all(tiny_recipe(setting="joint"), tiny_data(), tmp_path)


def test_training_source_checkpoint_is_cached_and_reused(tmp_path: Path) -> None:
    recipe, data, cache = tiny_recipe(setting="pretrain_finetune"), tiny_data(source=True), tmp_path / "cache"
    fresh = result_of(run_all(recipe, data, tmp_path / "a"))
    first = run_all(recipe, data, tmp_path / "b", source_cache=cache)
    assert len(list(cache.iterdir())) == 1
    second = run_all(recipe, data, tmp_path / "c", source_cache=cache)
    assert any(event.phase == "source" and event.step for event in first)
    assert not any(event.phase == "source" and event.step for event in second)
    assert any("reused" in note for note in result_of(second).notes)
    assert fresh.test == result_of(first).test == result_of(second).test
    assert_same_weights(tmp_path / "a", tmp_path / "c")
    run_all(tiny_recipe(setting="pretrain_finetune", source_epochs=1), data, tmp_path / "d", source_cache=cache)
    assert len(list(cache.iterdir())) == 2


def test_training_damaged_source_checkpoint_is_trained_again(tmp_path: Path) -> None:
    recipe, data, cache = tiny_recipe(setting="pretrain_finetune"), tiny_data(source=True), tmp_path / "cache"
    first = result_of(run_all(recipe, data, tmp_path / "a", source_cache=cache))
    tensors = next(cache.iterdir()) / "tensors.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:100])
    events = run_all(recipe, data, tmp_path / "b", source_cache=cache)
    assert any("trained again" in event.message for event in events)
    assert result_of(events).test == first.test


def test_training_source_rows_move_by_type_name(tmp_path: Path) -> None:
    from crossner_core.models.heads import head_tags
    from crossner_core.training.predictor import build_model

    source = build_model(tiny_recipe(), tiny_encoder(), ("location", "misc", "person"))
    target = build_model(tiny_recipe(), tiny_encoder(), TYPES)
    former = target.head.weight.clone()
    shared = target.copy_shared_tags(source)
    assert shared == ("O", "B-person", "I-person", "B-location", "I-location")
    for at, tag in enumerate(head_tags(TYPES)):
        expected = source.head.weight[source.tags.index(tag)] if tag in shared else former[at]
        assert torch.equal(target.head.weight[at], expected)


def test_training_joint_never_predicts_types_of_the_source_alone(tmp_path: Path) -> None:
    data = tiny_data(source=True)
    misc = tuple(labelled([f"thing{n}"], [(0, 1, "misc")]) for n in range(30))
    data = replace(data, sources=(SourceCorpus(data.source_train + misc),))
    result = result_of(run_all(tiny_recipe(setting="joint", upsample=2), data, tmp_path))
    tagger = load_tagger(tmp_path)
    assert "B-misc" in tagger.model.tags and tagger.types == TYPES
    found = tagger.predict_spans([item.sentence for item in misc])
    assert all(span.type in TYPES for spans in found for span in spans)
    assert result.test is not None and "misc" not in result.test.per_type


def test_training_type_unknown_to_the_source_inherits_from_its_ancestor() -> None:
    from crossner_core.training.predictor import build_model

    source = build_model(tiny_recipe(), tiny_encoder(), ("person",))
    target = build_model(tiny_recipe(), tiny_encoder(), ("singer", "person", "band"))
    former = target.head.weight.clone()
    parents = {"singer": "artist", "artist": "person", "band": "group", "group": "band"}
    assert target.copy_shared_tags(source, parents) == ("O", "B-person", "I-person")
    singer, band = target.tags.index("I-singer"), target.tags.index("B-band")
    person = source.head.weight[source.tags.index("I-person")]
    assert torch.equal(target.head.weight[singer], former[singer] + person)
    assert torch.equal(target.head.weight[band], former[band])


def test_training_head_learns_alone_at_first(tmp_path: Path) -> None:
    recipe = tiny_recipe(setting="pretrain_finetune", head_first_epochs=2, max_epochs=1)
    data, cache = tiny_data(source=True), tmp_path / "cache"
    asked, seen = count(1), []
    for stop_at in (8 + 3 * 2, 8 + 3 * 2 + 1):
        asked = count(1)
        folder = tmp_path / str(stop_at)
        run_all(recipe, data, folder, source_cache=None, should_stop=lambda a=asked, s=stop_at: next(a) >= s - 1)
        tensors = read_folder(folder / "state")[1]
        seen.append({name: tensor for name, tensor in tensors.items() if name.startswith("model/")})
    run_all(recipe, data, tmp_path / "done", source_cache=cache)
    source = read_folder(next(cache.iterdir()))[1]
    before, after = seen
    body = [name for name in before if name.startswith("model/encoder.")]
    assert all(torch.equal(before[name], source[name.removeprefix("model/")]) for name in body)
    assert not torch.equal(before["model/head.weight"], after["model/head.weight"])
    assert any(not torch.equal(before[name], after[name]) for name in body)


@pytest.mark.parametrize(("every", "epochs"), [(1, [1, 2, 3, 4, 5]), (3, [2, 5]), (9, [5])])
def test_training_scores_dev_every_so_many_epochs_and_after_the_last(
    tmp_path: Path, every: int, epochs: list[int]
) -> None:
    result = result_of(run_all(tiny_recipe(dev_every=every), tiny_data(), tmp_path))
    assert [record.epoch for record in result.history if record.dev_f1 is not None] == epochs
    assert len(result.history) == 5 and result.best_epoch in epochs


def test_training_patience_counts_epochs_and_not_dev_scores(tmp_path: Path) -> None:
    result = result_of(run_all(tiny_recipe(max_epochs=60, dev_every=4, patience=4), tiny_data(), tmp_path))
    assert result.outcome == "early_stop" and result.best_epoch is not None
    assert result.epochs - result.best_epoch == 4


@pytest.mark.parametrize("setting", ["direct", "pretrain_finetune"])
def test_training_goes_on_from_an_earlier_tagger(tmp_path: Path, setting: str) -> None:
    data = tiny_data(source=setting != "direct")
    run_all(tiny_recipe(setting=setting, max_epochs=6), data, tmp_path / "first")
    warm = WarmStart(tmp_path / "first" / TAGGER, 1)
    events = run_all(tiny_recipe(setting=setting, max_epochs=6), data, tmp_path / "warm", warm_start=warm)
    result = result_of(events)
    assert result.epochs == 1 and {event.phase for event in events} == {"target"}
    first = [event.loss for event in run_all(tiny_recipe(setting=setting), data, tmp_path / "cold") if event.loss]
    assert next(event.loss for event in events if event.loss) < first[0]
    with pytest.raises(CheckpointMismatch, match=r"with another recipe .* from another tagger, 1 epochs"):
        run_all(tiny_recipe(setting=setting, max_epochs=6), data, tmp_path / "first", warm_start=warm)
    other = tiny_encoder(seed=4)
    with pytest.raises(CheckpointError, match="started from another encoder"):
        run_all(tiny_recipe(), data, tmp_path / "other", warm_start=warm, encoder=other)
    turned, bare = replace(data, types=data.types[::-1]), own_sentences(4, offset=60)
    turned = replace(turned, unlabelled=tuple(item.sentence for item in bare))
    with pytest.raises(CheckpointMismatch, match="The teacher has the tags O, B-"):
        run_all(tiny_recipe(setting="self_training"), turned, tmp_path / "turned", warm_start=warm)
