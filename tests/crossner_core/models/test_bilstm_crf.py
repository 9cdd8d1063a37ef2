"""What the contract tests do not say of a BiLSTM-CRF: its states, its windows, and what a later stage takes over."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from crossner_core.errors import InvalidConfig
from crossner_core.models.bilstm_crf import BilstmCrf
from crossner_core.training.engine import make_optimizer
from crossner_core.training.predictor import build_model
from crossner_core.training.recipe import Recipe
from tests.support.training_builders import TYPES, batch_for, tiny_encoder, tiny_recipe


def model_for(types: tuple[str, ...] = TYPES, seed: int = 0, **changes: object) -> BilstmCrf:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = build_model(
            tiny_recipe(**{"architecture": "bilstm_crf", "lstm_size": 7, "dropout": 0.0, **changes}),
            tiny_encoder(),
            types,
        )
    assert isinstance(made, BilstmCrf)
    return made.eval()


def test_bilstm_crf_states_are_those_of_each_sentence_alone() -> None:
    model = model_for()
    batch = batch_for(model)
    states, vectors = model.read(batch), model.token_vectors(batch)
    assert states.shape == (*batch.mask.shape, 14) and len(set(batch.mask.sum(1).tolist())) > 1
    for row, size in enumerate(batch.mask.sum(1).tolist()):
        alone, _ = model.lstm(vectors[row : row + 1, :size])
        assert torch.allclose(states[row, :size], alone[0], atol=1e-6)
        assert not states[row, size:].any()


def test_bilstm_crf_reads_what_stands_before_and_after_a_token() -> None:
    model = model_for()
    batch = batch_for(model)
    vectors = model.token_vectors(batch).detach().requires_grad_()
    model.token_vectors = lambda batch: vectors  # type: ignore[method-assign]
    model.read(batch)[0, 2].sum().backward()
    assert vectors.grad is not None and bool((vectors.grad[0, : int(batch.mask[0].sum())].abs().sum(-1) > 0).all())
    assert not vectors.grad[1:].any()


def test_bilstm_crf_learns_through_its_lstm_in_evaluation_mode_too() -> None:
    model = model_for()
    model.loss(batch_for(model)).backward()
    assert all(weights.grad is not None and weights.grad.abs().sum() > 0 for weights in model.lstm.parameters())


def test_bilstm_crf_takes_the_lstm_and_the_rows_of_shared_types() -> None:
    source, target = model_for(("misc", "person"), seed=1), model_for(("person", "band"), seed=2)
    before = target.head.weight[target.tags.index("B-band")].clone()
    assert not torch.equal(source.lstm.weight_ih_l0, target.lstm.weight_ih_l0)
    assert target.copy_shared_tags(source) == ("O", "B-person", "I-person")
    assert all(torch.equal(a, b) for a, b in zip(source.lstm.parameters(), target.lstm.parameters(), strict=True))
    mine, theirs = (model.head.weight[model.tags.index("I-person")] for model in (target, source))
    assert torch.equal(mine, theirs) and torch.equal(target.head.weight[target.tags.index("B-band")], before)


def test_bilstm_crf_with_a_second_lstm_has_the_states_of_both_and_takes_both() -> None:
    source, target = (model_for(seed=seed, lstm_private=True) for seed in (1, 2))
    batch = batch_for(target)
    assert source.private is not None and target.private is not None
    states, first = target.read(batch), target.read(batch, target.lstm)
    assert states.shape == (*batch.mask.shape, 28) and torch.equal(first[..., 14:], states[..., :14])
    assert not torch.equal(states[..., :14], states[..., 14:])
    target.copy_shared_tags(source)
    assert torch.equal(target.read(batch), source.read(batch)) and not torch.equal(target.read(batch), states)
    assert target.copy_shared_tags(model_for()) == model_for().copy_shared_tags(target) == ()


def test_bilstm_crf_takes_nothing_of_another_size_or_architecture() -> None:
    target, crf = model_for(), build_model(tiny_recipe(architecture="crf"), tiny_encoder(), TYPES)
    before = target.lstm.weight_ih_l0.clone()
    assert target.copy_shared_tags(model_for(seed=1, lstm_layers=1)) == ()
    assert target.copy_shared_tags(crf) == crf.copy_shared_tags(target) == ()
    assert torch.equal(target.lstm.weight_ih_l0, before)


def test_bilstm_crf_learns_at_the_heads_rate_and_its_transitions_faster() -> None:
    model = model_for()
    optimizer = make_optimizer(model, learning_rate=1e-4, head_learning_rate=1e-3, weight_decay=0.1, layer_decay=1.0)
    peaks = {id(weights): group["peak"] for group in optimizer.param_groups for weights in group["params"]}
    assert peaks[id(model.lstm.weight_hh_l1)] == 1e-3 and peaks[id(model.moves)] == pytest.approx(2e-2)


def test_bilstm_crf_options_count_for_it_alone() -> None:
    for name, value in (("lstm_size", 100), ("lstm_layers", 1), ("lstm_private", True)):
        assert replace(Recipe(), **{name: value}).hash == Recipe().hash  # type: ignore[arg-type]
        own = Recipe(architecture="bilstm_crf")
        assert replace(own, **{name: value}).hash != own.hash  # type: ignore[arg-type]
    with pytest.raises(InvalidConfig, match="lstm_layers is 0; it must lie in"):
        Recipe(lstm_layers=0)
