"""Pre-training and the signals of acquisition on a claimed GPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crossner_core.acquisition import signals
from crossner_core.acquisition.scoring import embedding_parts, model_parts
from crossner_core.adaptation.character_models import run_character_models
from crossner_core.adaptation.dapt import run_dapt
from crossner_core.adaptation.entity_tagging import run_entity_tagging
from crossner_core.adaptation.pretraining import PretrainEvent
from crossner_core.adaptation.texts import PretrainText
from crossner_core.models.registry import architecture_ids
from crossner_core.options.character_models import CharacterModelOptions
from crossner_core.options.dapt import DaptOptions
from crossner_core.options.entity_tagging import TaggingPretrainOptions
from crossner_core.training.engine import TaskRun
from crossner_core.training.predictor import Predictor, build_model
from tests.crossner_core.devices.claimed_device import claimed_gpu
from tests.support.encoders import QUICK
from tests.support.training_builders import BODIES, TYPES, encoder_for, own_sentences, tiny_encoder, tiny_recipe

ON_GPU = {**QUICK, "device": "cuda", "epochs": 1, "head_first_steps": 2}
ITEMS = own_sentences(12)
SIGNALS = (signals.ENTROPY, signals.MARGIN, signals.EXPECTED, signals.BALD, signals.GRADIENT, signals.TAGS)


def dapt(folder: Path, should_stop: Callable[[], bool], **changes: object) -> list[PretrainEvent]:
    documents = [item.sentence.words for item in own_sentences(40)]
    text = PretrainText(lambda: iter(documents), lambda: iter(documents[:8]))
    options = DaptOptions.from_dict({**ON_GPU, "block_size": 24, "masking": "span", **changes})
    made = run_dapt(
        options, text, out=folder / "out", work=folder / "work", encoder=tiny_encoder(), should_stop=should_stop
    )
    return list(made)


def entity_tagging(folder: Path, should_stop: Callable[[], bool], **changes: object) -> list[PretrainEvent]:
    text = PretrainText(lambda: iter(own_sentences(40)), lambda: iter(own_sentences(8, offset=60)), TYPES)
    options = TaggingPretrainOptions.from_dict({**ON_GPU, **changes})
    made = run_entity_tagging(
        options, text, out=folder / "out", work=folder / "work", encoder=tiny_encoder(), should_stop=should_stop
    )
    return list(made)


def character_models(folder: Path, should_stop: Callable[[], bool], **changes: object) -> list[PretrainEvent]:
    documents = [item.sentence.words for item in own_sentences(40)]
    text = PretrainText(lambda: iter(documents), lambda: iter(documents[:8]))
    small = {"device": "cuda", "hidden_size": 8, "row_length": 80, "batch_size": 2}
    options = CharacterModelOptions.from_dict({**small, **changes})
    return list(run_character_models(options, text, out=folder / "out", work=folder / "work", should_stop=should_stop))


every_pre_training = pytest.mark.parametrize("pretrain", [dapt, entity_tagging, character_models])


@every_pre_training
def test_pre_training_resumed_on_a_gpu_equals_uninterrupted(tmp_path: Path, pretrain: Callable[..., object]) -> None:
    with claimed_gpu():
        (*_, whole) = pretrain(tmp_path / "whole", lambda: False)
        calls = count(1)
        (*_, stopped) = pretrain(tmp_path / "parts", lambda: next(calls) == 5)
        torch.cuda.manual_seed(99)
        (*_, resumed) = pretrain(tmp_path / "parts", lambda: False)
    assert stopped.outcome == "stopped" and whole.result is not None and resumed.result is not None
    assert resumed.result.history == whole.result.history
    assert resumed.result.provenance["fingerprint"] == whole.result.provenance["fingerprint"]


@every_pre_training
def test_pre_training_is_deterministic_where_that_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pretrain: Callable[..., object]
) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")  # put back at the end, whatever the run sets
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    seen: list[bool] = []
    right = TaskRun._learn

    def learn(run: TaskRun[Any], step: int, seed: int) -> float:
        seen.append(torch.are_deterministic_algorithms_enabled())
        return right(run, step, seed)

    monkeypatch.setattr(TaskRun, "_learn", learn)
    for wanted in (False, True):
        seen.clear()
        (*_, last) = pretrain(tmp_path / f"{wanted}", lambda: False, device="cpu", deterministic=wanted)
        assert last.result is not None and set(seen) == {wanted}
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert DaptOptions(deterministic=True).hash != DaptOptions().hash


@pytest.mark.parametrize(
    ("architecture", "body"),
    [
        *((architecture, "minilm") for architecture in architecture_ids()),
        ("bilstm_crf", "words:own,chars=lstm"),
        ("bilstm_crf", "flair:own"),
        ("coach", "words:own,chars=cnn"),
        ("multi_cell", "words:own"),
        ("bartner", "bart"),
    ],
)
def test_signals_of_a_model_on_a_gpu_are_those_on_the_cpu(architecture: str, body: str) -> None:
    sentences = [item.sentence for item in ITEMS]
    recipe = tiny_recipe(architecture=architecture, encoder=body, label_size=8, lstm_size=8)
    encoder = encoder_for(recipe)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = build_model(recipe, encoder, TYPES).eval()
    predictor = Predictor(model, encoder, TYPES, max_length=64, meta={})
    (here,) = model_parts(predictor, sentences, SIGNALS)
    with claimed_gpu():
        model.to("cuda")
        (away,) = model_parts(predictor, sentences, SIGNALS)
    assert here.signals.keys() == away.signals.keys()
    for name in here.signals.keys() - {signals.BALD, signals.TAGS}:  # dropout draws other numbers there
        # LANER's LSTM is PyTorch's own on a GPU and ours on a CPU: they differ in the last digits.
        assert np.allclose(here.signals[name], away.signals[name], rtol=1e-4, atol=1e-5), name
    assert (away.signals[signals.BALD] > 0).all()
    tags = zip(here.signals[signals.TAGS], away.signals[signals.TAGS], strict=True)
    assert all(np.array_equal(mine, other) for mine, other in tags)


@pytest.mark.parametrize("body", ["minilm", *BODIES])
def test_embeddings_of_a_gpu_are_those_of_the_cpu(body: str) -> None:
    sentences, encoder = [item.sentence for item in ITEMS], encoder_for(tiny_recipe(encoder=body))
    (here,) = embedding_parts(encoder, sentences)
    with claimed_gpu():
        encoder.model.to("cuda")
        (away,) = embedding_parts(encoder, sentences)
    assert np.array_equal(here.signals[signals.EMBEDDING], away.signals[signals.EMBEDDING])
