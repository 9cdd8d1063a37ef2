from __future__ import annotations

from dataclasses import is_dataclass
from itertools import product

import pytest
import torch

from crossner_core.errors import InvalidConfig
from crossner_core.models.heads import head_tags
from crossner_core.models.registry import architecture, architecture_ids, register
from crossner_core.models.viterbi import iob2_transitions, viterbi
from crossner_core.tags import tag_problems
from crossner_core.training.engine import rate_factor
from crossner_core.training.predictor import build_model
from tests.support.training_builders import TYPES, batch_for, own_sentences, tiny_encoder, tiny_recipe

ITEMS = own_sentences(5)


@pytest.mark.parametrize("id", architecture_ids())
def test_models_contract(id: str) -> None:
    found = architecture(id)
    model = build_model(tiny_recipe(architecture=id), tiny_encoder(), TYPES)
    assert found.id == id and found.title and is_dataclass(model.options)
    assert model.tags == head_tags(TYPES) and model.tags[0] == "O"
    batch = batch_for(model)
    loss = model.loss(batch)
    assert loss.shape == () and torch.isfinite(loss)
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    decoded = model.eval().decode(batch)
    assert [len(answer.tags) for answer in decoded] == [len(item.sentence.tokens) for item in ITEMS]
    assert all(0.0 <= p <= 1.0 for answer in decoded for p in answer.probabilities)
    narrow = model.decode(batch, allowed=3)
    assert all(tag < 3 for answer in narrow for tag in answer.tags)


@pytest.mark.parametrize("id", architecture_ids())
def test_models_padding_changes_nothing(id: str) -> None:
    model = build_model(tiny_recipe(architecture=id), tiny_encoder(), TYPES).eval()
    together = model.decode(batch_for(model))
    alone = model.decode(batch_for(model, 1))
    assert alone[0].tags == together[0].tags
    assert alone[0].probabilities == pytest.approx(together[0].probabilities, abs=1e-5)


def test_models_registry_refuses_unknown_and_misplaced() -> None:
    with pytest.raises(InvalidConfig, match="tagger"):
        architecture("forest")
    with pytest.raises(InvalidConfig, match="file of that name"):
        register("forest")(int)


def test_models_options_come_from_the_recipe() -> None:
    options = build_model(tiny_recipe(dropout=0.4, constrained=False), tiny_encoder(), TYPES).options
    assert (options.dropout, options.constrained) == (0.4, False)


def test_models_constrained_decoding_is_valid_iob2() -> None:
    tags = head_tags(TYPES)
    start, moves = iob2_transitions(tags)
    scores = torch.randn(40, 12, len(tags), generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    path = viterbi(scores, torch.ones(40, 12, dtype=torch.bool), start, moves)
    for row in path.tolist():
        assert list(tag_problems([tags[tag] for tag in row], "IOB2")) == []


def test_models_viterbi_equals_exhaustive_search() -> None:
    tags = head_tags(("a", "b"))
    start, moves = iob2_transitions(tags)
    scores = torch.randn(6, 4, len(tags), generator=torch.Generator().manual_seed(1))
    path = viterbi(scores, torch.ones(6, 4, dtype=torch.bool), start, moves)
    for row in range(6):
        best = max(
            (p for p in product(range(len(tags)), repeat=4) if not list(tag_problems([tags[t] for t in p], "IOB2"))),
            key=lambda p: sum(float(scores[row, at, tag]) for at, tag in enumerate(p)),
        )
        assert path[row].tolist() == list(best)


def test_models_viterbi_ignores_padding() -> None:
    tags = head_tags(("a",))
    start, moves = iob2_transitions(tags)
    scores = torch.randn(1, 3, len(tags), generator=torch.Generator().manual_seed(2))
    padded = torch.cat([scores, torch.full((1, 4, len(tags)), 7.0)], dim=1)
    mask = torch.tensor([[True] * 3 + [False] * 4])
    assert viterbi(padded, mask, start, moves)[0, :3].tolist() == viterbi(scores, mask[:, :3], start, moves)[0].tolist()


def test_models_bf16_is_close_to_single_precision() -> None:
    model = build_model(tiny_recipe(), tiny_encoder(), TYPES).eval()
    batch = batch_for(model)
    exact = model.loss(batch)
    model.use_bf16 = True
    assert model.loss(batch).item() == pytest.approx(exact.item(), rel=0.03)


@pytest.mark.parametrize("id", ["tagger", "label_aware"])
def test_models_label_smoothing_spreads_the_share_over_all_tags(id: str) -> None:
    plain, smooth = (
        build_model(tiny_recipe(architecture=id, label_smoothing=share), tiny_encoder(dropout=0.0), TYPES).eval()
        for share in (0.0, 0.2)
    )
    smooth.load_state_dict(plain.state_dict())
    batch = batch_for(plain)
    log_probabilities = plain.scores(batch).log_softmax(-1)[batch.mask]  # (N, K)
    gold = -log_probabilities.gather(1, batch.tags[batch.mask].unsqueeze(1)).mean()
    expected = 0.8 * gold - 0.2 * log_probabilities.mean()
    assert smooth.loss(batch).item() == pytest.approx(expected.item(), rel=1e-5)
    assert plain.loss(batch).item() == pytest.approx(gold.item(), rel=1e-5)
    crf = {"architecture": "crf", "label_smoothing": 0.2}
    assert tiny_recipe(**crf).hash == tiny_recipe(architecture="crf").hash


def test_models_rate_climbs_and_then_falls_or_stays() -> None:
    falls = [rate_factor(step, 10, 0.2) for step in range(10)]
    stays = [rate_factor(step, 10, 0.2, "constant") for step in range(10)]
    assert falls[:3] == stays[:3] == pytest.approx([1 / 3, 2 / 3, 1.0])
    assert stays[2:] == [1.0] * 8 and falls[2:] == pytest.approx([1 - at / 8 for at in range(8)])
    assert tiny_recipe(schedule="linear").hash == tiny_recipe().hash != tiny_recipe(schedule="constant").hash
