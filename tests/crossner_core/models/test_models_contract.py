"""What training must do with every architecture of the registry."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
import torch

from crossner_core.models.registry import architecture_ids
from crossner_core.training.data import SourceCorpus, TrainingData
from crossner_core.training.events import RunResult
from crossner_core.training.loop import train
from crossner_core.training.predictor import load_tagger
from crossner_core.training.settings.registry import setting
from crossner_core.training.tagging import Part, begin_stage
from tests.support.training_builders import (
    TYPES,
    encoder_for,
    labelled,
    own_sentences,
    tiny_data,
    tiny_recipe,
)

# Recipe fields by which an architecture trains otherwise, or on another body, each a case of its own.
VARIANTS: dict[str, dict[str, object]] = {
    "label_aware-mixed": {
        "architecture": "label_aware",
        "label_history": "mixed",
        "label_noise": 0.1,
        "label_embedding_dropout": 0.1,
    },
    "label_aware-scaled": {
        "architecture": "label_aware",
        "label_background_scaled": True,
        "label_context_scaled": True,
    },
    "type_aware-interaction": {"architecture": "type_aware", "type_interaction": True, "type_negatives": "hard"},
    "type_label_aware-own": {"architecture": "type_label_aware", "type_encoder": "own", "type_negatives": "drawn"},
    "coach-templates": {"architecture": "coach", "template_weight": 0.5},
    "label_aware-identities": {"architecture": "label_aware", "label_embeddings": False, "label_bilstm": False},
    "bilstm_crf-flair": {"architecture": "bilstm_crf", "encoder": "flair:own", "lstm_size": 16},
    # The bodies that studies have these on; both readers of characters, and none.
    "bilstm_crf-words": {"architecture": "bilstm_crf", "encoder": "words:own,chars=lstm", "lstm_size": 16},
    "coach-words": {
        "architecture": "coach",
        "encoder": "words:own,chars=cnn",
        "lstm_size": 16,
        "span_size": 16,
        "type_rows": False,
        "type_texts": "titles",
    },
    "multi_cell-words": {"architecture": "multi_cell", "encoder": "words:own", "cell_size": 16},
    "bartner-bart": {"architecture": "bartner", "encoder": "bart"},
}
CASES = {id: {"architecture": id} for id in architecture_ids()} | VARIANTS

pytestmark = pytest.mark.parametrize("changes", list(CASES.values()), ids=list(CASES))


def run(changes: dict[str, object], data: TrainingData, folder: Path, **options: object) -> RunResult:
    recipe = tiny_recipe(label_size=8, max_length=48, **changes)  # shorter than what the encoders can read
    *_, last = train(recipe, data, checkpoint_dir=folder, encoder=encoder_for(recipe), **options)  # type: ignore[arg-type]
    assert last.result is not None
    return last.result


def assert_same_weights(first: Path, second: Path) -> None:
    one, two = (load_tagger(folder).model.state_dict() for folder in (first, second))
    assert one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def test_architecture_overfits_twenty_sentences(tmp_path: Path, changes: dict[str, object]) -> None:
    sentences = own_sentences(20)
    data = TrainingData(train=sentences, types=TYPES, dev=sentences, test=sentences)
    result = run({"max_epochs": 30, "patience": 5, **changes}, data, tmp_path)
    assert result.test is not None and result.test.f1 == 1.0
    assert load_tagger(tmp_path).predict_spans([item.sentence for item in sentences]) == [s.spans for s in sentences]


@pytest.mark.slow
def test_architecture_resumed_equals_uninterrupted(tmp_path: Path, changes: dict[str, object]) -> None:
    data = tiny_data(source=True)
    changes = {"setting": "pretrain_finetune", "max_epochs": 2, "head_first_epochs": 1, **changes}
    whole = run(changes, data, tmp_path / "whole")
    for stop_at in (3, 11):  # within the source stage, within the target stage
        asked, folder = count(1), tmp_path / f"parts{stop_at}"
        stopped = run(changes, data, folder, should_stop=lambda a=asked, s=stop_at: next(a) == s)
        assert stopped.outcome == "stopped"
        resumed = run(changes, data, folder)
        assert (resumed.history, resumed.steps, resumed.test) == (whole.history, whole.steps, whole.test)
        assert_same_weights(tmp_path / "whole", folder)


def test_architecture_same_seed_same_numbers(tmp_path: Path, changes: dict[str, object]) -> None:
    changes = {"max_epochs": 2, **changes}
    first = run(changes, tiny_data(), tmp_path / "a")
    torch.manual_seed(99)  # the global generator must not matter
    second = run(changes, tiny_data(), tmp_path / "b")
    assert first.history == second.history
    assert_same_weights(tmp_path / "a", tmp_path / "b")
    assert run({**changes, "seed": 1}, tiny_data(), tmp_path / "c").history != first.history


def test_architecture_learns_nothing_about_types_that_a_corpus_does_not_annotate(changes: dict[str, object]) -> None:
    own, other = own_sentences(4), tuple(replace(item, spans=()) for item in own_sentences(4, offset=50))
    recipe = tiny_recipe(label_size=8, setting="pretrain_finetune", source_unmarked="unknown", **changes)
    data = replace(tiny_data(), sources=(SourceCorpus(own), SourceCorpus(other)))
    (source, _) = setting("pretrain_finetune").plan(recipe, data)
    run = begin_stage(recipe, source, encoder_for(recipe))
    run.model.eval()
    marked, bare = (
        [number for number, window in enumerate(run.task.windows) if (window.sentence < len(own)) == wanted]
        for wanted in (True, False)
    )
    for windows, moves in ((marked, True), (bare, False)):
        run.model.zero_grad()
        loss = run.task.loss(Part(windows, 1.0, 0))
        loss.backward()
        (rows,) = (rows for name, rows in run.model.tag_rows().items() if name.endswith("head.weight"))
        by_name = dict(run.model.named_parameters())
        (gradient,) = (p.grad for p in by_name.values() if p.data_ptr() == rows.data_ptr())
        assert bool(torch.isfinite(loss)) and gradient is not None
        assert (gradient[1:].abs().sum() > 0) == moves


def test_architecture_takes_a_batch_of_one_and_a_sentence_of_one_token(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    train_set = (labelled(["Marble"], [(0, 1, "band")]), labelled(["Hello"], []), *own_sentences(1))
    data = TrainingData(train=train_set, types=TYPES, dev=train_set, test=(labelled([], []), *train_set))
    result = run({"batch_size": 1, "max_epochs": 2, **changes}, data, tmp_path)
    assert len(result.predictions) == 4 and result.predictions[0] == ()


def test_architecture_takes_seventeen_types_of_which_some_never_occur(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    types = (*TYPES, *(f"type{number}" for number in range(14)))
    data = replace(tiny_data(), types=types)
    result = run({"max_epochs": 2, **changes}, data, tmp_path)
    assert result.test is not None and tuple(result.test.per_type) == types
    assert len(load_tagger(tmp_path).model.tags) == 1 + 2 * 17


@pytest.mark.parametrize("setting", ["pretrain_finetune", "joint"])
def test_architecture_takes_types_of_the_source_alone_and_of_the_target_alone(
    tmp_path: Path, changes: dict[str, object], setting: str
) -> None:
    data = tiny_data(source=True)
    misc = tuple(labelled([f"thing{n}", "sang"], [(0, 1, "misc")]) for n in range(4))
    bare = tuple(
        replace(item, spans=tuple(span for span in item.spans if span.type != "band")) for item in data.source_train
    )
    data = replace(data, sources=(SourceCorpus(bare + misc),))
    result = run({"setting": setting, "max_epochs": 1, "head_first_epochs": 1, **changes}, data, tmp_path)
    assert result.test is not None and tuple(result.test.per_type) == TYPES
    found = load_tagger(tmp_path).predict_spans([item.sentence for item in (*misc, *data.test)])
    assert {span.type for spans in found for span in spans} <= set(TYPES)
