"""Noise on a tagger's inputs and the inputs themselves, whatever body makes them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from crossner_core.encoders.windows import Batch
from crossner_core.models.bartner import Bartner
from crossner_core.models.base import TokenTagger
from crossner_core.training.perturbation import input_noise, inputs_kept
from crossner_core.training.predictor import build_model
from tests.crossner_core.devices.runs import recipe_of, run
from tests.support.training_builders import TYPES, encoder_for, own_sentences, tiny_recipe


def model_on(encoder: str, architecture: str) -> tuple[TokenTagger, Batch]:
    recipe = tiny_recipe(encoder=encoder, architecture=architecture)
    body = encoder_for(recipe)
    model = build_model(recipe, body, TYPES).eval()
    return model, body.collate(body.windows([item.sentence for item in own_sentences(3)]))


@pytest.mark.parametrize(
    ("encoder", "architecture"),
    [("minilm", "crf"), ("minilm", "bartner"), ("words:own", "crf"), ("flair:own", "crf"), ("bart", "crf"),
     ("bart", "bartner")],
)  # fmt: skip
def test_noise_is_added_to_the_inputs_that_an_encoder_reads(encoder: str, architecture: str) -> None:
    model, batch = model_on(encoder, architecture)
    clean = model.hidden(batch)
    with inputs_kept(model) as inputs:
        model.hidden(batch).square().sum().backward()
    (read,) = inputs
    assert read.shape[:2] == batch.input_ids.shape[:2]
    with input_noise(model, torch.randn(read.shape, generator=torch.Generator().manual_seed(1))):
        noisy = model.hidden(batch)
    assert bool((noisy - clean).abs().amax(-1)[batch.attention_mask.bool()].min() > 1e-3)
    assert torch.equal(model.hidden(batch), clean)


def test_noise_on_bart_leaves_what_its_decoder_points_at_alone() -> None:
    model, batch = model_on("bart", "bartner")
    assert isinstance(model, Bartner)
    clean = model.read(batch)
    with inputs_kept(model) as inputs, input_noise(model, torch.ones(*batch.input_ids.shape, 32)):
        noisy, scores = model.read(batch), model.scores(batch)
    assert len(inputs) == 2 and bool(scores.isfinite().all())  # one of each reading, none of what is written
    assert torch.equal(noisy.given, clean.given) and not torch.allclose(noisy.hidden, clean.hidden)


@pytest.mark.parametrize("architecture", ["crf", "bartner"])
def test_pdaln_with_adversarial_noise_trains_on_bart(tmp_path: Path, architecture: str) -> None:
    recipe = recipe_of(architecture=architecture, setting="pdaln", pdaln_student="vat", encoder="bart", device="cpu")
    result = run(recipe, tmp_path)
    assert result.outcome == "all_epochs" and result.test is not None
