"""The study of PDALN's baselines: what it trains, what stands beside it, and the command from end to end."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crossner_core.experiments import __main__ as command
from crossner_core.experiments.results import list_studies
from crossner_core.experiments.study import Inputs, study
from crossner_core.experiments.tables import Measured
from tests.support.study_builders import data_folder
from tests.support.training_builders import save_encoder, tiny_recipe

BARE = ("source_only", "cross_domain_lm_unsupervised")
PRINTED = {"La-DTL": 47.74, "DATNet-F": 37.92, "La-DTL, BiLSTM": 47.74, "DATNet-F, BiLSTM": 37.92}
PRINTED |= {"DATNet-P, BiLSTM": 37.92, "BiLSTM-CRF, joint with the whole source": 44.65, "Jia et al. 2019": 45.77}
PRINTED |= {"Multi-cell LSTM": 46.45, "BiLSTM-CRF, source only": 42.92, "Multi-cell LSTM, source only": 46.04}
PRINTED |= {"Jia et al. 2019, without target labels": 45.18}


def test_baselines_have_the_papers_f1_beside_them_only_in_its_set_up() -> None:
    chosen = study("pdaln_baselines")
    config = chosen.config(corpora=("wikigold",), seeds=(1, 2), recipe={"encoder": "words:size=8"})
    cells = chosen.cells(config)
    assert len(cells) == 2 * 12
    assert all(cell.size == (None if cell.recipe.setting in BARE else 100) for cell in cells)
    assert sum(cell.recipe.lstm_private for cell in cells) == 2
    results: dict[Any, Any] = {
        cell: SimpleNamespace(
            machine={}, f1=50.0 + cell.recipe.seed, stages=(), best_epoch=1, epochs=2, train_sentences=100
        )
        for cell in cells
    }
    made = chosen.build(config, Inputs(results, Path(), Path()))
    shown = {str(row[0]): row[1] for row in made.tables[0].rows}
    assert all(isinstance(value, Measured) and value.mean == 51.5 for value in shown.values())
    assert {label: value.published for label, value in shown.items() if value.published} == PRINTED  # type: ignore[union-attr]
    assert len(made.tables[1].rows) == 8  # each against joint training, or the source alone
    fewer = chosen.config(corpora=("wikigold",), seeds=(1,), target_sentences=50)
    other = chosen.build(fewer, Inputs({}, Path(), Path())).tables[0]
    assert all(row[1].published is None for row in other.rows)  # type: ignore[union-attr]


@pytest.mark.slow
def test_baselines_run_from_the_command_with_a_tiny_encoder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, encoder, tiny = data_folder(tmp_path / "data"), save_encoder(tmp_path / "tiny"), tiny_recipe()
    recipe = {name: getattr(tiny, name) for name in ("min_epoch_steps", "precision", "device", "upsample")}
    recipe |= {"encoder": str(encoder), "source_epochs": 1, "lstm_size": 8}
    words = ["pdaln_baselines", "--data", str(data), "--out", str(tmp_path / "out"), "--corpora", "music"]
    words += ["--seeds", "1", "--target-sentences", "8", "--recipe", json.dumps(recipe)]
    assert command.main(words) == 0, capsys.readouterr().err
    (result,) = list_studies(tmp_path / "out")
    assert not result.missing and len(result.cells) == 10  # Jia et al. 2019 reads words
    assert all(isinstance(row[1], Measured) and row[1].mean is not None for row in result.tables[0].rows)
