from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, BertConfig, BertModel
from transformers.masking_utils import sdpa_mask

from crossner_core.encoders.loading import load_encoder
from crossner_core.models.dropout import ATTENTION, Dropout, attention, drop, speed_up_dropout


def _bert(**changes: Any) -> BertModel:
    torch.manual_seed(3)
    small = {"vocab_size": 50, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3}
    return BertModel(BertConfig(**{**small, "intermediate_size": 32, "attn_implementation": "sdpa", **changes}))


def test_dropout_keeps_its_share_and_the_mean() -> None:
    torch.manual_seed(0)
    for share in (0.1, 0.5, 0.9):
        for count in (1_000_000, 1_000_003):
            values = drop(torch.ones(count), share)
            assert float((values == 0).float().mean()) == pytest.approx(share, abs=2e-3)
            kept = values[values != 0]
            assert torch.equal(kept, kept[:1].expand_as(kept)) and float(kept[0]) == pytest.approx(
                1 / (1 - share), rel=1e-4
            )
    # Neighbours, of which four come of one number, are drawn independently.
    zero = (drop(torch.ones(4_000_000), 0.1) == 0).double().view(-1, 4)
    assert torch.allclose(torch.corrcoef(zero.T), torch.eye(4, dtype=torch.float64), atol=4e-3)


def test_dropout_follows_the_seed_and_its_gradient_its_mask() -> None:
    values = torch.randn(7, 5, dtype=torch.bfloat16, requires_grad=True)
    torch.manual_seed(1)
    first = drop(values, 0.4)
    assert first.dtype == torch.bfloat16
    torch.manual_seed(1)
    assert torch.equal(first, drop(values, 0.4)) and not torch.equal(first, drop(values, 0.4))
    first.sum().backward()
    assert values.grad is not None and torch.equal(values.grad == 0, first == 0)


def test_dropout_of_nothing_and_of_all() -> None:
    values = torch.randn(4, 4)
    state = torch.get_rng_state()
    assert drop(values, 0.0) is values and torch.equal(state, torch.get_rng_state())
    assert torch.equal(drop(values, 1.0), torch.zeros(4, 4))
    layer = Dropout(0.5)
    assert layer.eval()(values) is values
    assert drop(torch.ones(0), 0.5).shape == (0,) and int((layer.train()(values) == 0).sum()) > 0


@pytest.mark.parametrize("kind", ["bool", "float", "none"])
def test_attention_with_dropout_has_the_usual_attention_as_its_mean(kind: str) -> None:
    torch.manual_seed(5)
    query, key, value = (torch.randn(2, 3, 6, 8) for _ in range(3))
    there = torch.ones(2, 1, 6, 6, dtype=torch.bool)
    there[1, :, :, 4:] = False
    masks = {"bool": there, "float": torch.zeros(2, 1, 6, 6).masked_fill(~there, -1e9), "none": None}
    module = nn.Module()
    module.is_causal = False  # type: ignore[assignment]
    usual, _ = attention(module, query, key, value, masks[kind], scaling=0.3)
    drawn = [attention(module, query, key, value, masks[kind], dropout=0.2, scaling=0.3)[0] for _ in range(4000)]
    assert usual.shape == drawn[0].shape == (2, 6, 3, 8)
    assert torch.allclose(torch.stack(drawn).mean(0), usual, atol=0.08)
    # With next to nothing dropped it is the usual one, element by element.
    nearly, _ = attention(module, query, key, value, masks[kind], dropout=1.01 / 2**17, scaling=0.3)
    assert torch.allclose(nearly, usual, atol=1e-3)


def test_attention_leaves_what_it_does_not_know_to_the_usual_way() -> None:
    module = nn.Module()
    query, key = torch.randn(1, 4, 5, 8), torch.randn(1, 4, 5, 8)
    torch.manual_seed(2)
    causal, _ = attention(module, query, key, key, None, dropout=0.0)  # such a module is causal
    assert torch.allclose(causal[:, 0], key[:, :, 0], atol=1e-5)  # the first word sees itself alone
    dropped, _ = attention(module, query, key, key, None, dropout=0.5)
    assert all(
        bool((dropped[:, 0, at] == 0).all()) or torch.allclose(dropped[:, 0, at], 2 * key[:, at, 0]) for at in range(4)
    )


def test_encoder_with_fast_dropout_has_its_weights_and_answers_and_drops_in_training(tmp_path: Path) -> None:
    model = _bert(hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.0).eval()
    ids, there = torch.randint(0, 50, (2, 9)), torch.ones(2, 9, dtype=torch.long)
    there[1, 6:] = 0
    with torch.no_grad():
        before = model(input_ids=ids, attention_mask=there).last_hidden_state
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    for _ in range(2):
        speed_up_dropout(model)
        layers = [layer for layer in model.modules() if isinstance(layer, nn.Dropout)]
        assert {type(layer) for layer in layers} == {Dropout} and model.config._attn_implementation == ATTENTION
        assert not any(layer.training for layer in layers)
    assert list(model.state_dict()) == list(weights)
    with torch.no_grad():
        assert torch.equal(before, model(input_ids=ids, attention_mask=there).last_hidden_state)
        model.train()
        assert not torch.equal(before, model(input_ids=ids, attention_mask=there).last_hidden_state)
    # What is kept of the encoder says nothing of it: others can load it.
    model.save_pretrained(tmp_path)
    assert ATTENTION not in json.dumps(json.loads((tmp_path / "config.json").read_text()))
    assert BertModel.from_pretrained(tmp_path).config._attn_implementation == "sdpa"


def test_encoder_drops_in_attention_alone() -> None:
    model = _bert(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.3)
    speed_up_dropout(model)
    ids = torch.randint(0, 50, (2, 9))

    def drawn() -> torch.Tensor:
        torch.manual_seed(4)
        return model.train()(input_ids=ids).last_hidden_state

    with torch.no_grad():
        assert torch.equal(drawn(), drawn())
        assert not torch.allclose(drawn(), model.eval()(input_ids=ids).last_hidden_state, atol=1e-3)


def test_encoder_sent_to_a_process_that_knows_nothing_of_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    model = _bert()
    speed_up_dropout(model)
    ids = torch.randint(0, 50, (2, 9))
    monkeypatch.setattr(AttentionInterface, "_global_mapping", {})
    monkeypatch.setattr(AttentionMaskInterface, "_global_mapping", {"sdpa": sdpa_mask})
    with pytest.raises(KeyError, match=ATTENTION):
        model(input_ids=ids)
    speed_up_dropout(model)
    assert model(input_ids=ids).last_hidden_state.shape == (2, 9, 24)


def test_encoder_with_another_attention_keeps_it() -> None:
    model = _bert(attn_implementation="eager")
    speed_up_dropout(model)
    assert model.config._attn_implementation == "eager"


def test_bundled_encoder_answers_as_before() -> None:
    encoder = load_encoder("minilm")
    model = encoder.model.eval()
    batch = encoder.tokenizer(
        ["Ada plays the oboe.", "Her trio, Blue Lamp, toured in Norway."], padding=True, return_tensors="pt"
    )
    with torch.no_grad():
        before = model(**batch).last_hidden_state
        speed_up_dropout(model)
        assert torch.equal(before, model(**batch).last_hidden_state)
