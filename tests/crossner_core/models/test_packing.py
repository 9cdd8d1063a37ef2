"""A packed batch is read as a padded one is, for a transformer that can read it, and learnt from alike."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from crossner_core.encoders import packing
from crossner_core.encoders.base import Encoder, vectors
from crossner_core.encoders.windows import Batch, collate
from crossner_core.models.dropout import speed_up_dropout
from crossner_core.training.loop import train
from crossner_core.training.perturbation import input_noise
from crossner_core.training.predictor import build_model
from tests.crossner_core.devices.claimed_device import claimed_gpu
from tests.crossner_core.devices.runs import recipe_of, run
from tests.support.training_builders import TYPES, own_sentences, tiny_data, tiny_encoder, tiny_recipe


@pytest.fixture
def encoder() -> Encoder:
    made = tiny_encoder(dropout=0.0)
    speed_up_dropout(made.model)
    return made


def batch_of(encoder: Encoder) -> Batch:
    batch = collate(encoder.windows([item.sentence for item in own_sentences(9)], 64), encoder.pad_id)
    assert batch.sizes.padded
    return batch


def read(encoder: Encoder, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the vectors (B, L, H), and the gradients of a loss that reads the subwords alone."""
    encoder.model.zero_grad()
    made = vectors(encoder.model, batch)
    (made * batch.attention_mask.unsqueeze(-1)).pow(2).sum().backward()
    gradients = {name: value.grad for name, value in encoder.model.named_parameters() if value.grad is not None}
    return made.detach(), {name: value.clone() for name, value in gradients.items()}


def test_packed_batch_has_the_vectors_and_gradients_of_the_padded_one(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = batch_of(encoder)
    padded, before = read(encoder, batch)
    monkeypatch.setattr(packing, "PACKED", True)
    packed, after = read(encoder, batch)
    here = batch.attention_mask.bool()
    torch.testing.assert_close(packed[here], padded[here])
    assert not packed[~here].any() and padded[~here].any()
    assert after.keys() == before.keys()
    for name, value in before.items():
        torch.testing.assert_close(after[name], value, msg=name)


def test_what_needs_windows_reads_them_padded(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "PACKED", True)
    batch = batch_of(encoder)
    model = build_model(tiny_recipe(), encoder, TYPES)
    assert packing.can_pack(encoder.model)
    noise = torch.ones(*batch.input_ids.shape, encoder.hidden_size)
    with input_noise(model, noise):
        assert not packing.can_pack(encoder.model)
        noisy = vectors(encoder.model, batch)
    assert not torch.equal(noisy, vectors(encoder.model, batch)) and packing.can_pack(encoder.model)
    encoder.recompute()
    assert not packing.can_pack(encoder.model) and not packing.can_pack(torch.nn.Linear(2, 2))


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> list[Batch]:
    """The batches that are read packed."""
    batches: list[Batch] = []
    real = packing.packed_vectors

    def counted(model: object, batch: Batch) -> Tensor:
        batches.append(batch)
        return real(model, batch)

    monkeypatch.setattr(packing, "packed_vectors", counted)
    return batches


def test_training_with_packed_batches_learns_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: list[Batch]
) -> None:
    losses = []
    for switch in (False, True):
        monkeypatch.setattr(packing, "PACKED", switch)
        recipe, encoder = tiny_recipe(max_epochs=3, dropout=0.0), tiny_encoder(dropout=0.0)
        *_, last = train(recipe, tiny_data(), checkpoint_dir=tmp_path / str(switch), encoder=encoder)
        assert last.result is not None and bool(packed) is switch
        losses.append([record.loss for record in last.result.history])
    assert losses[1] == pytest.approx(losses[0], abs=1e-4)


@pytest.mark.parametrize("architecture", ["tagger", "label_aware"])
def test_packed_batches_stay_on_the_device(
    architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: list[Batch]
) -> None:
    monkeypatch.setattr(packing, "PACKED", True)
    with claimed_gpu():
        assert run(recipe_of(architecture=architecture, max_epochs=1), tmp_path).steps and packed
