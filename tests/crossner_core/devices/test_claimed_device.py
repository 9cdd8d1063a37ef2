"""The claimed GPU itself: what PyTorch refuses on a machine with a GPU is refused, and what it allows is allowed."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from crossner_core.models import viterbi as of_viterbi
from tests.crossner_core.devices.claimed_device import ClaimedGpu, TwoDevices, claimed_gpu, whole_on_gpu


@pytest.fixture
def gpu() -> Iterator[ClaimedGpu]:
    with claimed_gpu() as claimed:
        yield claimed


def test_tensors_of_two_devices_are_refused_and_moved_ones_are_not(gpu: ClaimedGpu) -> None:
    here, away = torch.ones(3), torch.ones(3, device="cuda")
    assert (here.device.type, away.device.type, away.is_cuda) == ("cpu", "cuda", True)
    for mix in (
        lambda: here + away,
        lambda: torch.cat([here, away]),
        lambda: torch.where(away > 0, away, here),
        lambda: here[torch.zeros(1, dtype=torch.long, device="cuda")],
        lambda: torch.nn.functional.embedding(torch.zeros(1, dtype=torch.long), away.unsqueeze(1)),
    ):
        with pytest.raises(TwoDevices):
            mix()
    assert (here.to("cuda") + away).is_cuda and (here.to(away) + away).is_cuda
    assert not (here + away.cpu()).is_cuda
    with pytest.raises(TypeError):
        away.numpy()


def test_what_pytorch_allows_between_devices_is_allowed(gpu: ClaimedGpu) -> None:
    away = torch.arange(4.0, device="cuda")
    assert (away * torch.tensor(2.0)).is_cuda
    assert away[torch.tensor([0, 2])].is_cuda
    away[1:3] = torch.zeros(2)
    assert away.cpu().tolist() == [0.0, 0.0, 0.0, 3.0]
    assert away.new_zeros(2).is_cuda and torch.zeros_like(away).is_cuda and copy.deepcopy(away).is_cuda
    assert torch.where(away > 0, 0.0, away).is_cuda


def test_model_moves_whole_and_its_gradients_are_where_it_is(gpu: ClaimedGpu) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.LSTM(4, 2)).to("cuda")
    assert whole_on_gpu(gpu, model) and whole_on_gpu(gpu, copy.deepcopy(model))
    inputs = torch.ones(2, 5, 3, device="cuda")
    states, _ = model[2](model[1](model[0](inputs)))
    states.sum().backward()
    assert all(p.grad is not None and p.grad.is_cuda for p in model.parameters())
    with pytest.raises(TwoDevices):
        model[0](torch.ones(2, 3))


def test_waits_of_the_host_are_counted(gpu: ClaimedGpu) -> None:
    away = torch.ones(3, device="cuda")
    assert not gpu.waits
    away.sum().item(), bool(away.all()), away.tolist(), away.cpu(), away[away > 0], away.nonzero()
    assert gpu.waits.total() == 6
    torch.ones(3).sum().item()
    assert gpu.waits.total() == 6


def test_gpu_draws_from_a_generator_of_its_own(gpu: ClaimedGpu) -> None:
    torch.manual_seed(1)
    first = torch.rand(2)
    torch.manual_seed(1)
    away = torch.rand(3, device="cuda")
    nn.functional.dropout(away, 0.5)
    assert torch.equal(torch.rand(2), first)
    torch.cuda.manual_seed(5)
    first = torch.rand(3, device="cuda")
    torch.cuda.manual_seed(5)
    assert torch.equal(torch.rand(3, device="cuda").cpu(), first.cpu())


def test_lstm_in_evaluation_mode_refuses_its_backward_pass(gpu: ClaimedGpu) -> None:
    lstm, inputs = nn.LSTM(2, 2).to("cuda"), torch.ones(1, 1, 2, device="cuda")
    lstm(inputs)[0].sum().backward()
    lstm.eval()
    with pytest.raises(RuntimeError, match="cudnn RNN backward"):
        lstm(inputs)[0].sum().backward()
    with torch.backends.cudnn.flags(enabled=False):
        lstm(inputs)[0].sum().backward()


def test_missing_move_in_decoding_is_caught(gpu: ClaimedGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    start, transitions = (part.to("cuda") for part in of_viterbi.iob2_transitions(("O", "B-a", "I-a")))
    scores, mask = torch.rand(2, 4, 3, device="cuda"), torch.ones(2, 4, dtype=torch.bool, device="cuda")
    assert of_viterbi.viterbi(scores, mask, start, transitions).is_cuda
    with pytest.raises(TwoDevices, match="viterbi"):
        of_viterbi.viterbi(scores, mask, *of_viterbi.iob2_transitions(("O", "B-a", "I-a")))


def test_nothing_is_left_behind() -> None:
    with claimed_gpu():
        pass
    assert torch.zeros(1).device.type == "cpu" and not torch.cuda.is_available()
    assert "device" not in vars(torch.Tensor) and "lstm" not in vars(torch._VF)
