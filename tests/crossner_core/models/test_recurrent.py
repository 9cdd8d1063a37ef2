"""BiLSTMs over sentences of several lengths: as PyTorch's on packed sequences, whichever way they are run."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from crossner_core.models._recurrent import run_lstm

SIZES = torch.tensor([2, 6, 1])


def lstm_of(layers: int = 1, dropout: float = 0.0) -> nn.LSTM:
    torch.manual_seed(0)
    return nn.LSTM(5, 4, layers, batch_first=True, bidirectional=True, dropout=dropout)


def packed(lstm: nn.LSTM, vectors: Tensor) -> Tensor:
    """Return the states as PyTorch computes them on its own."""
    states, _ = lstm(pack_padded_sequence(vectors, SIZES, batch_first=True, enforce_sorted=False))
    return pad_packed_sequence(states, batch_first=True, total_length=vectors.shape[1])[0]


def gradients(states: Tensor, lstm: nn.LSTM, vectors: Tensor) -> list[Tensor]:
    """Return those of the vectors and of all weights, from a loss that tells states apart."""
    loss = (states * torch.arange(states.numel()).view(states.shape)).square().mean()
    return list(torch.autograd.grad(loss, [vectors, *lstm.parameters()]))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("layers", [1, 2])
def test_states_and_gradients_are_those_of_packed_sequences(layers: int, training: bool) -> None:
    lstm, vectors = lstm_of(layers).train(training), torch.randn(3, 7, 5, requires_grad=True)
    ours, theirs = run_lstm(lstm, vectors, SIZES), packed(lstm, vectors)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(gradients(ours, lstm, vectors), gradients(theirs, lstm, vectors))


def test_states_are_zero_after_the_end_and_do_not_depend_on_what_stands_there() -> None:
    lstm, vectors = lstm_of(2), torch.randn(3, 7, 5)
    inside = torch.arange(7) < SIZES.unsqueeze(1)
    states = run_lstm(lstm, vectors, SIZES)
    assert not states[~inside].any() and states[inside].all()
    vectors[~inside] = 1000.0
    assert torch.equal(run_lstm(lstm, vectors, SIZES), states)


def test_dropout_is_between_the_layers_and_in_training_alone() -> None:
    lstm, vectors = lstm_of(2, dropout=0.5), torch.randn(3, 7, 5)
    assert not torch.equal(run_lstm(lstm, vectors, SIZES), run_lstm(lstm, vectors, SIZES))
    single = nn.LSTM(5, 4, batch_first=True, bidirectional=True)
    assert torch.equal(run_lstm(single, vectors, SIZES), run_lstm(single, vectors, SIZES))
    lstm.eval()
    torch.testing.assert_close(run_lstm(lstm, vectors, SIZES), packed(lstm, vectors))


def test_bf16_gives_nearly_the_same_states_in_single_precision() -> None:
    lstm, vectors = lstm_of(2), torch.randn(3, 7, 5, requires_grad=True)
    usual, low = run_lstm(lstm, vectors, SIZES), run_lstm(lstm, vectors, SIZES, bf16=True)
    assert low.dtype == torch.float32 and not torch.equal(low, usual)
    torch.testing.assert_close(low, usual, atol=0.02, rtol=0.02)
    for mine, own in zip(gradients(low, lstm, vectors), gradients(usual, lstm, vectors), strict=True):
        assert mine.dtype == torch.float32
        assert nn.functional.cosine_similarity(mine.flatten(), own.flatten(), dim=0) > 0.99
