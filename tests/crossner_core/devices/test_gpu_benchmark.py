"""The benchmark of a GPU, as far as a CPU can run it, and the switches that it measures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from benchmarks.gpu import __main__ as command
from benchmarks.gpu import correct, speed
from crossner_core.encoders import packing, windows
from crossner_core.experiments.corpora import Corpus
from crossner_core.training import tagging
from crossner_core.training.data import TrainingData
from crossner_core.training.events import RunResult
from crossner_core.training.loop import train
from crossner_core.training.recipe import Recipe
from crossner_core.training.settings.registry import setting, setting_ids
from tests.crossner_core.devices.claimed_device import claimed_gpu
from tests.crossner_core.devices.runs import recipe_of, run, small_data
from tests.support.training_builders import TYPES, own_sentences, tiny_encoder, tiny_recipe


def test_benchmark_measures_nothing_where_there_is_no_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["gpu", "--data", str(tmp_path), "--report", str(tmp_path)])
    assert command.main() == 2
    assert "nothing is measured" in capsys.readouterr().out and not list(tmp_path.iterdir())


def test_benchmark_writes_its_lines_as_a_section(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(command, "measured", lambda _: iter(["a card", "- 3 tokens/s"]))
    monkeypatch.setattr(sys, "argv", ["gpu", "--data", str(tmp_path), "--report", str(tmp_path)])
    with claimed_gpu():
        assert command.main() == 0
    page = (tmp_path / "training.md").read_text()
    assert "<!-- begin gpu -->" in page and "- 3 tokens/s" in page and str(tmp_path) not in page


def test_every_pair_of_the_benchmark_has_a_recipe_that_its_setting_accepts() -> None:
    assert {pair.setting for pair in correct.pairs()} == set(setting_ids())
    for pair in correct.pairs():
        setting(pair.setting).check(correct.recipe_of(pair, encoder="minilm"))
    on_words = correct.recipe_of(correct.Pair("coach", "joint", on_words=True), encoder="minilm")
    assert (on_words.architecture, on_words.encoder) == ("coach", "words:size=8,chars=cnn")


@pytest.mark.parametrize(
    ("words", "noise", "code", "verdicts"),
    [
        ((), 0.0, 0, ("- met: two runs of a seed are equal", "- met: stopped and resumed equals whole")),
        ((), 0.1, 1, ("- met: two runs", "- NOT met: stopped and resumed equals whole but for crf pretrain_finetune")),
        (("--no-deterministic",), 0.1, 0, ("- not judged",)),
    ],
)
def test_a_resumed_run_that_differs_misses_the_bar(
    words: tuple[str, ...],
    noise: float,
    code: int,
    verdicts: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """On a claimed GPU, a pair in the process itself; `noise` is added to a weight of the run that went on."""

    def go_on(recipe: Recipe, data: TrainingData, folder: Path, first: str) -> RunResult:
        result = resumed(recipe, data, folder, first)
        if folder.name == "resumed" and noise:
            (path,) = folder.rglob("*.safetensors")
            weights = load_file(path)
            weights["head.bias"] += noise
            save_file(weights, path)
        return result

    def each_pair(options: argparse.Namespace) -> Iterator[list[str]]:
        yield correct.measure(correct.Pair("crf", "pretrain_finetune"), options)

    resumed = correct.resumed
    monkeypatch.setattr(correct, "resumed", go_on)
    monkeypatch.setattr(correct, "_each_pair", each_pair)
    monkeypatch.setattr(correct, "_data", lambda *_: small_data())
    monkeypatch.setattr(correct, "train", lambda *given, **others: train(*given, encoder=tiny_encoder(), **others))
    monkeypatch.setattr(sys, "argv", ["gpu", "--data", str(tmp_path), "--only", "correct", *words])
    with claimed_gpu():
        assert command.main() == code
    printed = capsys.readouterr().out
    assert all(verdict in printed for verdict in verdicts) and "failed" not in printed


@pytest.mark.slow
def test_pairs_are_measured_in_processes_of_their_own(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a card each run on one fails, by name; the line comes all the same."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # The pool's processes hide a card by it.
    words = correct.on_words()
    monkeypatch.setattr(correct, "pairs", lambda: words[:1])
    monkeypatch.setattr(correct, "on_words", list)
    options = argparse.Namespace(data=shared / "data" / "ner", corpus="music", source="ai", workers=1, encoder="minilm")
    options.deterministic = True
    (line,) = correct._each_pair(options)
    assert line[:2] == ["bilstm_crf on words", "joint"]
    assert len(line) == len(correct.COLUMNS) and "failed" in line[2] and float(line[3]) >= 0


def test_bars_name_the_pairs_that_are_not_equal_or_failed() -> None:
    row = ["crf", "direct", "1", "1", "0e+00", "0e+00", "1", "1.0", "1.0"]
    other = ["tagger", "joint", "1", "1", "nan", "failed: ValueError: x", "1", "1.0", "1.0"]
    assert correct.bars([row, other]) == [
        "- NOT met: two runs of a seed are equal but for tagger joint (nan); of 2 pairs 1",
        "- NOT met: stopped and resumed equals whole but for tagger joint (failed); of 2 pairs 1",
    ]


@pytest.mark.parametrize("switch", ["usual", "pinned", "packed", "deterministic"])
def test_speed_of_a_switch_is_that_of_the_run(switch: str) -> None:
    corpus = Corpus("own", TYPES, {}, train=own_sentences(6), dev=own_sentences(3), test=own_sentences(3))
    line = speed.timed(tiny_recipe(max_epochs=1), corpus, tiny_encoder(), switch, peak=100)
    assert "tokens/s" in line and "% of the peak" in line and "dev F1" in line
    assert not windows.PINNED and not packing.PACKED and not torch.are_deterministic_algorithms_enabled()


def test_peak_is_that_of_the_longest_name() -> None:
    assert speed.peak_of("NVIDIA H100 PCIe") == 756 and speed.peak_of("NVIDIA H100 80GB HBM3") == 989
    assert speed.peak_of("an unknown card") is None


def test_pinned_batches_are_sent_without_waiting_and_train_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[bool] = []
    with claimed_gpu():
        plain = run(recipe_of(max_epochs=2), tmp_path / "plain")
        moved = Tensor.to

        def to(tensor: Tensor, *args: object, **kwargs: object) -> Tensor:
            sent.append(bool(kwargs.get("non_blocking")))
            return moved(tensor, *args, **kwargs)  # type: ignore[call-overload, no-any-return]

        monkeypatch.setattr(Tensor, "to", to)
        monkeypatch.setattr(windows, "PINNED", True)
        pinned = run(recipe_of(max_epochs=2), tmp_path / "pinned")
        monkeypatch.undo()
    assert sum(sent) >= 5 * plain.steps and pinned.history == plain.history
    assert len(small_data().train) > 4  # several batches


@pytest.mark.slow
def test_compiled_encoder_learns_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Traced as for torch.compile, but run by PyTorch's own kernels: making others takes minutes on a CPU."""
    compiled, real = [], torch.nn.Module.compile

    def traced(module: torch.nn.Module, **options: object) -> None:
        compiled.append(module)
        real(module, backend="eager", **options)

    recipe = tiny_recipe(max_epochs=2, dropout=0.0)
    *_, plain = train(recipe, small_data(), checkpoint_dir=tmp_path / "plain", encoder=tiny_encoder(dropout=0.0))
    monkeypatch.setattr(tagging, "COMPILED", True)
    monkeypatch.setattr(torch.nn.Module, "compile", traced)
    *_, made = train(recipe, small_data(), checkpoint_dir=tmp_path / "made", encoder=tiny_encoder(dropout=0.0))
    assert len(compiled) == 1 and plain.result is not None and made.result is not None
    losses = [[record.loss for record in result.history] for result in (plain.result, made.result)]
    assert losses[1] == pytest.approx(losses[0], abs=1e-5)
