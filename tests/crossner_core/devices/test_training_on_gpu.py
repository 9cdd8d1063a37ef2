"""Training on a claimed GPU: every architecture in every setting, stopped and resumed, and the tagger it leaves."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.gpu.correct import NEEDS, pairs
from crossner_core.models.registry import architecture_ids
from crossner_core.training.predictor import load_tagger
from crossner_core.training.recipe import Recipe
from tests.crossner_core.devices.claimed_device import ClaimedGpu, claimed_gpu, whole_on_gpu
from tests.crossner_core.devices.runs import recipe_of, run, run_in_parts, small_data
from tests.support.training_builders import tiny_flair

# `direct` has a test of its own, which is not slow.
PAIRS = {
    f"{architecture}-{id}": {"architecture": architecture, "setting": id, **NEEDS.get(id, {})}
    for architecture, id, _ in pairs()
    if id != "direct"
}
# Fields by which an architecture or setting computes otherwise, each a case of its own.
VARIANTS: dict[str, dict[str, object]] = {
    "label_aware-mixed": {"architecture": "label_aware", "label_history": "mixed", "label_noise": 0.1},
    "type_aware-own-hard": {
        "architecture": "type_aware",
        "type_encoder": "own",
        "type_negatives": "hard",
        "type_interaction": True,
    },
    "type_label_aware-own-drawn": {
        "architecture": "type_label_aware",
        "type_encoder": "own",
        "type_negatives": "drawn",
    },
    "crf-unknown": {"architecture": "crf", "setting": "joint", "source_unmarked": "unknown"},
    "tagger-unknown": {"architecture": "tagger", "setting": "joint", "source_unmarked": "unknown"},
    "tagger-parts-recomputed": {"architecture": "tagger", "accumulate": 2, "recompute": True},
    "bilstm_crf-words-lstm": {"architecture": "bilstm_crf", "encoder": "words:own,chars=lstm"},
    "coach-words-cnn": {
        "architecture": "coach",
        "encoder": "words:own,chars=cnn",
        "type_rows": False,
        "type_texts": "titles",
    },
    "multi_cell-words": {"architecture": "multi_cell", "encoder": "words:own"},
    "la_dtl-words": {"architecture": "bilstm_crf", "setting": "la_dtl", "encoder": "words:own,chars=lstm"},
    "datnet-words": {
        "architecture": "bilstm_crf",
        "setting": "datnet",
        "encoder": "words:own,chars=lstm",
        "datnet_epsilon": 1.0,
    },
    "bartner-bart": {"architecture": "bartner", "encoder": "bart"},
    "bartner-bart-recomputed": {"architecture": "bartner", "encoder": "bart", "recompute": True},
    "la_dtl-bart": {"architecture": "crf", "setting": "la_dtl", "encoder": "bart"},
    "datnet-bart": {"architecture": "crf", "setting": "datnet", "encoder": "bart", "datnet_epsilon": 1.0},
    "pdaln-vat-bart": {"architecture": "crf", "setting": "pdaln", "encoder": "bart", "pdaln_student": "vat"},
    "pdaln-vat-bartner-bart": {
        "architecture": "bartner",
        "setting": "pdaln",
        "encoder": "bart",
        "pdaln_student": "vat",
    },
    "pdaln-median-unbiased": {
        "setting": "pdaln",
        "pdaln_bandwidths": "median",
        "pdaln_estimator": "unbiased",
        "pdaln_distil_tokens": "entities",
    },
    "pdaln-mean-teacher": {"setting": "pdaln", "pdaln_student": "mean_teacher"},
    "pdaln-vat": {"architecture": "bilstm_crf", "setting": "pdaln", "pdaln_student": "vat"},
    "datnet-private": {"architecture": "bilstm_crf", "setting": "datnet", "lstm_private": True},
    "coach-templates": {"architecture": "coach", "template_weight": 1.0},
}


def check_tagger(gpu: ClaimedGpu, folder: Path) -> None:
    """Let a tagger predict on the GPU what it predicts on the CPU."""
    sentences = [item.sentence for item in small_data().test]
    away, here = load_tagger(folder, device="cuda"), load_tagger(folder, device="cpu")
    assert whole_on_gpu(gpu, away.model) and not whole_on_gpu(gpu, here.model)
    assert away.predict_spans(sentences) == here.predict_spans(sentences)


def check_resumed(recipe: Recipe, folder: Path) -> None:
    """Train whole, and stopped and resumed, to the same end."""
    with claimed_gpu() as gpu:
        whole, parts = run(recipe, folder / "whole"), run_in_parts(recipe, folder / "parts")
        check_tagger(gpu, folder / "parts")
    assert parts.outcome == whole.outcome != "stopped" and parts.test is not None
    assert (parts.history, parts.steps, parts.test) == (whole.history, whole.steps, whole.test)
    mine, other = (load_tagger(folder / name, device="cpu").model.state_dict() for name in ("whole", "parts"))
    assert all(torch.equal(mine[name], other[name]) for name in mine)


@pytest.mark.parametrize("architecture", architecture_ids())
def test_architecture_resumed_on_a_gpu_equals_uninterrupted(tmp_path: Path, architecture: str) -> None:
    check_resumed(recipe_of(architecture=architecture, max_epochs=4), tmp_path)


def test_flair_body_resumed_on_a_gpu_equals_uninterrupted(tmp_path: Path) -> None:
    (tmp_path / "vectors.txt").write_text("oslo 1 2 3\nmarble 4 5 6\n", encoding="utf-8")
    tiny_flair(8).save(tmp_path / "models")
    encoder = f"flair:{tmp_path / 'models'},words={tmp_path / 'vectors.txt'}"
    check_resumed(recipe_of(architecture="bilstm_crf", encoder=encoder, max_epochs=4), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("changes", list((PAIRS | VARIANTS).values()), ids=list(PAIRS | VARIANTS))
def test_architecture_in_setting_resumed_on_a_gpu_equals_uninterrupted(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    check_resumed(recipe_of(**changes, deterministic=True), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", architecture_ids())
def test_adversarial_training_goes_back_through_a_model_in_evaluation_mode_on_a_gpu(
    tmp_path: Path, architecture: str
) -> None:
    with claimed_gpu() as gpu:
        result = run(recipe_of(architecture=architecture, setting="pdaln", pdaln_student="vat"), tmp_path)
        check_tagger(gpu, tmp_path)
    assert result.outcome in ("all_epochs", "early_stop") and result.test is not None
