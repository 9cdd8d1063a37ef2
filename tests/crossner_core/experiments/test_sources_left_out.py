"""What each source is worth: all of them against all but one, seed by seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.experiments.running import run_study
from crossner_core.experiments.study import StudyConfig, study
from crossner_core.formats import write
from crossner_core.training.recipe import Recipe
from tests.support.training_builders import own_sentences, save_encoder, tiny_recipe

ID = "sources_left_out"


def _config(**changes: Any) -> StudyConfig:
    values = {"corpora": ("north",), "seeds": (1, 2), "sources": "press*2, radio", **changes}
    return study(ID).config(**values)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A target corpus north, and the sources press and radio."""
    root = tmp_path / "corpora"
    for number, (name, size) in enumerate((("north", 8), ("press", 10), ("radio", 6))):
        for split, count, offset in (("train", size, 0), ("dev", 4, 30), ("test", 6, 40)):
            (root / name).mkdir(parents=True, exist_ok=True)
            items = own_sentences(count, offset=offset + 3 * number)
            (root / name / f"{split}.jsonl").write_text(write(items, "jsonl"), encoding="utf-8")
    return root


def test_each_row_lacks_one_source_and_what_is_said_of_its_types() -> None:
    recipe = {"source_types": "person@press=artist, band", "source_unmarked": "unknown"}
    cells = study(ID).cells(_config(seeds=(1,), recipe=recipe))
    assert [(cell.recipe.source, cell.recipe.source_types) for cell in cells] == [
        ("press*2, radio", "person@press=artist, band"),
        ("radio", "band"),
        ("press*2", "person@press=artist, band"),
    ]
    assert {cell.recipe.setting for cell in cells} == {"pretrain_finetune"}
    assert {cell.recipe.source_unmarked for cell in cells} == {"unknown"}


def test_study_prints_what_each_source_adds_by_seed(data: Path, tmp_path: Path) -> None:
    encoder = str(save_encoder(tmp_path / "tiny"))
    small = tiny_recipe(encoder=encoder, max_epochs=1, head_first_epochs=1, source_epochs=1).to_dict()
    recipe = {name: value for name, value in small.items() if value != Recipe().to_dict()[name]}
    *_, last = run_study(ID, _config(recipe=recipe), data=data, out=tmp_path / "out")
    assert last.result is not None and last.result.complete and last.done == 6
    scores, gains = last.result.tables
    assert [row[0] for row in scores.rows] == ["all sources", "without press", "without radio"]
    assert [row[0] for row in gains.rows] == ["all sources − without press", "all sources − without radio"]
    assert len(list((tmp_path / "out" / "source").iterdir())) == 3  # a source stage serves both seeds
    by_row = {str(row[0]): row[1].mean for row in scores.rows}
    for row, without in zip(gains.rows, ("without press", "without radio"), strict=True):
        assert row[1].mean == pytest.approx(by_row["all sources"] - by_row[without], abs=0.01)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sources": "press"}, "name at least two"),
        ({"sources": "press, press"}, "names 'press' twice"),
        ({"sources": "press, north"}, "north is both a source and a corpus"),
        ({"setting": "direct"}, "choose one of pretrain_finetune"),
        ({"recipe": {"source": "press"}}, "recipe sets source"),
    ],
)
def test_sources_that_cannot_be_left_out_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        study(ID).cells(_config(**changes))


def test_source_that_is_not_there_is_named(data: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="nowhere"):
        list(run_study(ID, _config(sources="press, nowhere"), data=data, out=tmp_path / "out"))
