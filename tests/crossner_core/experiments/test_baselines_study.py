"""The papers' baselines: rows, published figures beside them, and a small run of all."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossner_core.errors import InvalidConfig
from crossner_core.experiments.running import run_study
from crossner_core.experiments.studies import baselines
from crossner_core.experiments.studies.baselines import BaselinesConfig, rows
from crossner_core.experiments.study import study
from crossner_core.experiments.tables import Measured
from tests.support.study_builders import data_folder, small_config
from tests.support.training_builders import save_encoder

CHOSEN = study("baselines")
ROWS = [
    "BiLSTM-CRF, word", "BiLSTM-CRF, word+char", "Coach, word", "Coach, word+char", "Jia et al. 2019, word+char",
    "Multi-cell LSTM, word", "BARTNER, encoder", "Multi-cell LSTM, encoder",
]  # fmt: skip


def test_baselines_are_trained_as_in_the_papers() -> None:
    cells = CHOSEN.cells(CHOSEN.config(corpora=("music",), seeds=(5,)))
    assert [(cell.recipe.architecture, cell.recipe.encoder) for cell in cells] == [
        ("bilstm_crf", "words:glove"),
        ("bilstm_crf", "words:glove,case=exact"),
        ("bilstm_crf", "words:glove,chars=cnn"),
        ("coach", "words:glove"),
        ("coach", "words:glove,chars=cnn"),
        ("bilstm_crf", "words:glove,chars=cnn"),
        ("multi_cell", "words:glove"),
        ("bartner", "minilm"),
        ("multi_cell", "minilm"),
    ]
    assert {cell.recipe.upsample for cell in cells} == {10}
    assert [cell.recipe.dropout for cell in cells] == [*[0.5] * 7, 0.3, 0.5]
    assert [cell.recipe.setting for cell in cells] == [*["joint"] * 5, "cross_domain_lm", *["joint"] * 3]
    bilstm, _, _, coach, _, jia, *_ = (cell.recipe for cell in cells)
    assert (bilstm.lstm_size, bilstm.lstm_layers, bilstm.source_head_learning_rate) == (256, 2, 1e-3)
    assert (coach.lstm_size, coach.span_size, coach.lstm_layers, coach.type_rows) == (256, 200, 2, False)
    assert (coach.source_head_learning_rate, coach.transition_rate_scale, coach.type_texts) == (1e-3, 1.0, "titles")
    assert {cell.recipe.source_epochs for cell in cells} == {10}
    assert (jia.lstm_size, jia.lstm_layers, jia.source_batch_size, jia.lm_weight) == (100, 1, 30, 1.0)
    changed = CHOSEN.config(corpora=("music",), seeds=(5,), recipe={"dropout": 0.3, "source_epochs": 4})
    assert {(cell.recipe.dropout, cell.recipe.source_epochs) for cell in CHOSEN.cells(changed)} == {(0.3, 4)}
    with pytest.raises(InvalidConfig, match="recipe sets setting"):
        CHOSEN.cells(CHOSEN.config(corpora=("music",), recipe={"setting": "direct"}))


@pytest.mark.parametrize(
    ("only", "told"),
    [
        ((), ("All learn", "Word vectors", "The language models", "The released code")),
        (("BARTNER, encoder",), ("All learn",)),
        (("Multi-cell LSTM, word",), ("All learn", "Word vectors")),
        (("Jia et al. 2019, word+char",), ("All learn", "Word vectors", "The language models")),
        (("Coach, word",), ("All learn", "Word vectors", "The released code")),
    ],
)
def test_notes_are_of_the_rows_that_are_shown(only: tuple[str, ...], told: tuple[str, ...]) -> None:
    notes = baselines._notes(BaselinesConfig(corpora=("music",), only=only))
    assert len(notes) == len(told) and all(map(str.startswith, notes, told))


def test_a_grid_trains_and_shows_only_the_rows_that_are_asked_for(tmp_path: Path) -> None:
    def config(**changes: object) -> BaselinesConfig:
        values = small_config(str(save_encoder(tmp_path / "tiny")), words="size=8", **changes)
        return BaselinesConfig.from_dict(values)

    data, out = data_folder(tmp_path / "data"), tmp_path / "out"
    chosen = ["Coach, word", "Coach, word+char"]
    small = {label: {"lstm_size": 8, "span_size": 8} for label in chosen}
    *_, last = run_study("baselines", config(only=chosen, rows=small), data=data, out=out)
    assert last.result is not None and last.result.complete and last.done == 2
    scores, gains = last.result.tables
    assert [row[0] for row in scores.rows] == chosen
    assert [row[0] for row in gains.rows] == ["Coach, word+char − Coach, word"]
    with pytest.raises(InvalidConfig, match="only names Couch, but the rows are: BiLSTM-CRF, word;"):
        CHOSEN.cells(config(only=["Couch"]))
    with pytest.raises(InvalidConfig, match="only would have no effect: this study trains all of its rows"):
        list(run_study("recipes", study("recipes").config(only=("default",)), data=data, out=out))


def test_baselines_are_printed_beside_the_published_figures(tmp_path: Path) -> None:
    encoder = str(save_encoder(tmp_path / "tiny"))
    values = small_config(encoder, words="size=8", rows={label: {"lstm_size": 8, "span_size": 8} for label in ROWS[:5]})
    config = CHOSEN.config.from_dict(values)
    *_, last = run_study("baselines", config, data=data_folder(tmp_path / "data"), out=tmp_path / "out")
    assert last.result is not None and last.result.complete and last.done == 8
    scores, gains = last.result.tables
    assert [row[0] for row in scores.rows] == ROWS
    printed = [row[1].published for row in scores.rows if isinstance(row[1], Measured)]
    assert printed == [40.77, 44.79, 45.58, 51.66, 63.56, None, 65.35, 70.52]
    assert [row[0] for row in gains.rows] == [
        "BiLSTM-CRF, word+char − BiLSTM-CRF, word",
        "Coach, word − BiLSTM-CRF, word",
        "Coach, word+char − Coach, word",
        "Coach, word+char − BiLSTM-CRF, word+char",
        "Jia et al. 2019, word+char − BiLSTM-CRF, word+char",
        "Multi-cell LSTM, word − BiLSTM-CRF, word",
        "Multi-cell LSTM, encoder − Multi-cell LSTM, word",
    ]


def test_flair_has_a_row_where_its_character_models_are() -> None:
    row = next(row for row in rows(BaselinesConfig(corpora=("music",), flair="/lm")) if row.label.startswith("FLAIR"))
    assert (row.label, row.encoder, row.against) == (
        "FLAIR, word+char", "flair:/lm,words=glove", ("BiLSTM-CRF, word+char",),
    )  # fmt: skip
    assert row.published["music"] == 65.60 and row.changes["lstm_layers"] == 1


def test_baselines_on_a_pretrained_encoder_have_the_figure_of_its_way() -> None:
    config = BaselinesConfig(
        corpora=("music",), encoders=("none=minilm", "span-integrated=/{corpus}/x", "token-domain=/{corpus}/y")
    )
    made = {row.label: row.published.get("music") for row in rows(config)[-6:]}
    one_for_all = BaselinesConfig(corpora=("music",), encoders=("span-integrated=/x",))
    assert not any(row.published for row in rows(one_for_all) if row.encoder == "/x")
    for body, figures in (("BARTNER", (65.35, None, None)), ("Multi-cell LSTM", (70.52, 74.19, None))):
        for way, figure in zip(("none", "span-integrated", "token-domain"), figures, strict=True):
            assert made[f"{body}, encoder, {way}"] == figure
