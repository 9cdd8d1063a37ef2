"""Mistakes that were only seen by reading: each fails on a GPU in the way that its test would show."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, distributed

from crossner_core.models import _label_predictor, _recurrent
from crossner_core.models.registry import architecture_ids
from crossner_core.models.tagger import Tagger
from crossner_core.training import engine, processes
from crossner_core.training.events import RunResult
from crossner_core.training.loop import train
from crossner_core.training.machine import RunRandom, deterministic
from crossner_core.training.recipe import Recipe
from crossner_core.training.settings.registry import setting
from crossner_core.training.tagging import begin_stage
from tests.crossner_core.devices.claimed_device import TwoDevices, claimed_gpu
from tests.crossner_core.devices.runs import recipe_of, run, small_data
from tests.support.training_builders import tiny_encoder, tiny_recipe


def test_step_counts_of_a_fused_optimizer_are_resumed_where_its_weights_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def left_on_cpu(optimizer: Any, names: Mapping[Tensor, str], tensors: Mapping[str, Tensor]) -> None:
        parameters = {name: parameter for parameter, name in names.items()}
        for key, value in tensors.items():
            name, _, kind = key.rpartition("|")
            where = "cpu" if kind == "step" else parameters[name].device
            optimizer.state[parameters[name]][kind] = value.to(where, copy=True)

    recipe = recipe_of(max_epochs=3)
    with claimed_gpu():
        run(recipe, tmp_path / "right", stop_after=2)
        assert run(recipe, tmp_path / "right").outcome == "all_epochs"
        run(recipe, tmp_path / "wrong", stop_after=2)
        monkeypatch.setattr(engine, "restore_optimizer", left_on_cpu)
        with pytest.raises(TwoDevices, match="_fused_adamw_"):
            run(recipe, tmp_path / "wrong")


@pytest.mark.parametrize("module", [_label_predictor, _recurrent])
def test_adversarial_training_needs_an_lstm_without_cudnn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: object
) -> None:
    architecture = "label_aware" if module is _label_predictor else "bilstm_crf"
    recipe = recipe_of(architecture=architecture, setting="pdaln", pdaln_student="vat", source_epochs=1)
    monkeypatch.setattr(module, "with_backward", lambda _: nullcontext())
    with claimed_gpu(), pytest.raises(RuntimeError, match="cudnn RNN backward"):
        run(recipe, tmp_path)


@pytest.mark.parametrize(("rank", "size", "cards"), [(0, 2, 1), (1, 2, 1), (1, 0, 1), (0, 3, 2)])
def test_more_processes_than_gpus_are_refused_in_all_of_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rank: int, size: int, cards: int
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cards)
    for name, value in {"RANK": rank, "WORLD_SIZE": max(size, 2), "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size}.items():
        monkeypatch.setenv(name, str(value))
    if not size:
        monkeypatch.delenv("LOCAL_WORLD_SIZE")
    assert processes.run_together(lambda: 0) == 2
    assert f"{max(size, 2)} processes were launched on this machine, which has {cards} GPU" in capsys.readouterr().err


def test_deterministic_steps_and_measures_are_those_of_the_recipe_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[bool, set[bool]] = {True: set(), False: set()}
    right = Tagger.scores

    def scores(model: Tagger, batch: object) -> Tensor:
        seen[model.training].add(torch.are_deterministic_algorithms_enabled())
        return right(model, batch)  # type: ignore[arg-type]

    monkeypatch.setattr(Tagger, "scores", scores)
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    begin(tmp_path / "usual", tiny_recipe(max_epochs=1))
    assert seen == {True: {False}, False: {False}} and "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    for kept in seen.values():
        kept.clear()
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")  # put back at the end, whatever the run sets
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    begin(tmp_path / "same", tiny_recipe(max_epochs=1, deterministic=True))
    assert seen[True] == {True} and True in seen[False] and os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert not torch.are_deterministic_algorithms_enabled()
    assert tiny_recipe(deterministic=True).hash != tiny_recipe().hash


def test_a_stage_begun_by_any_process_fixes_cublas(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others of a run in several processes never see the run's first lines, but begin each stage."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")  # put back at the end
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    for wanted in (False, True):
        recipe = tiny_recipe(deterministic=wanted)
        (stage,) = setting("direct").plan(recipe, small_data())
        begin_stage(recipe, stage, tiny_encoder())
        assert ("CUBLAS_WORKSPACE_CONFIG" in os.environ) == wanted


def test_what_no_process_has_a_gradient_of_the_optimizer_passes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = torch.tensor([5.0, 5.0, 7.0, 7.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.25])  # gradients, who has one, loss
    monkeypatch.setattr(distributed, "all_reduce", lambda whole: whole.add_(elsewhere))
    both, other, neither = (torch.nn.Parameter(torch.ones(2)) for _ in range(3))
    both.grad = torch.tensor([1.0, 2.0])
    assert processes.Processes(0, 2).all_reduce([both, other, neither], 0.5) == 0.75
    assert neither.grad is None and other.grad is not None
    assert (both.grad.tolist(), other.grad.tolist()) == ([6.0, 7.0], [7.0, 7.0])


def test_deterministic_block_refuses_what_adds_in_any_order() -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with deterministic(True), pytest.raises(RuntimeError, match="deterministic"):
            torch.zeros(2).put_(torch.tensor([0, 0]), torch.ones(2), accumulate=False)
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("architecture", architecture_ids())
def test_every_architecture_trains_with_deterministic_algorithms(tmp_path: Path, architecture: str) -> None:
    with claimed_gpu():
        assert run(recipe_of(architecture=architecture, deterministic=True), tmp_path).outcome == "all_epochs"


def test_claimed_gpu_refuses_what_has_no_deterministic_algorithm() -> None:
    with claimed_gpu():
        scores, counts = torch.rand(2, 3, 4, device="cuda"), torch.ones(3, dtype=torch.int64, device="cuda")
        targets = torch.zeros(2, 4, dtype=torch.int64, device="cuda")
        refused: list[Callable[[], Tensor]] = [
            lambda: scores.cumsum(1), lambda: scores.median(1).values, lambda: scores.kthvalue(1).values,
            lambda: torch.nn.functional.cross_entropy(scores, targets), lambda: counts.bincount(counts.float()),
        ]  # fmt: skip
        for operation in refused:
            assert operation().isfinite().all()
        with deterministic(True):
            for operation in refused:
                with pytest.raises(RuntimeError, match="deterministic"):
                    operation()
            assert counts.cumsum(0).tolist() == [1, 2, 3] and scores.median() > 0 and counts.bincount().sum() == 3


def test_state_of_a_cpu_draws_on_a_gpu_from_the_run_not_from_the_caller() -> None:
    saved = RunRandom(7, torch.device("cpu")).state
    assert "cuda" not in saved
    drawn = []
    with claimed_gpu():
        for caller in (1, 2):
            random = RunRandom(8, torch.device("cuda"))
            random.state = saved
            torch.cuda.manual_seed(caller)
            with random.active():
                drawn.append(torch.rand(4, device="cuda").tolist())
            assert "cuda" in random.state
            torch.cuda.manual_seed(caller + 10)
            with random.active():
                drawn[-1] += torch.rand(4, device="cuda").tolist()
    assert drawn[0] == drawn[1] and drawn[0][:4] != drawn[0][4:]


def test_run_begun_on_a_cpu_ends_alike_on_a_gpu_whatever_the_caller_draws(tmp_path: Path) -> None:
    recipe = recipe_of(device="auto", max_epochs=4)
    losses = []
    for caller in (1, 2):
        run(recipe, tmp_path / str(caller), stop_after=3)
        with claimed_gpu():
            torch.cuda.manual_seed(caller)
            torch.manual_seed(caller)
            result = run(recipe, tmp_path / str(caller))
        losses.append([record.loss for record in result.history])
    assert losses[0] == losses[1]


def begin(folder: Path, recipe: Recipe) -> RunResult:
    *_, last = train(recipe, small_data(), checkpoint_dir=folder, encoder=tiny_encoder())
    assert last.result is not None
    return last.result
