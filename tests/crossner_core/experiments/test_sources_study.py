"""The study of many sources: by name and by description, before the first label and after."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crossner_core.errors import InvalidConfig, NotFound
from crossner_core.experiments.cells import Binder
from crossner_core.experiments.running import run_study
from crossner_core.experiments.study import StudyConfig, study
from tests.support.gazetteers.fakes import compiled
from tests.support.study_builders import data_folder, small_config
from tests.support.training_builders import save_encoder

ID = "sources"


def _config(**changes: Any) -> StudyConfig:
    many = "conll2003*2, music, politics"
    return study(ID).config(**{"corpora": ("music",), "seeds": (1,), "sources": many, "sizes": (0, 3), **changes})


def test_a_target_is_never_its_own_source_and_zero_shot_has_no_target_stage() -> None:
    cells = {
        (cell.recipe.setting, cell.recipe.architecture, cell.recipe.type_texts, cell.size): cell.recipe.source
        for cell in study(ID).cells(_config())
    }
    assert len(study(ID).cells(_config())) == 2 + 4 * 3 + 1
    assert cells["source_only", "type_aware", "guidelines", None] == "conll2003*2, politics"
    assert cells["transfer_self_training", "type_aware", "guidelines", 3] == "conll2003*2, politics"
    assert ("source_only", "direct", "guidelines", None) not in cells


def test_each_seed_has_a_source_stage_of_its_own_where_asked_for() -> None:
    def seeds(**changes: Any) -> set[tuple[int, int]]:
        return {
            (cell.recipe.seed, cell.recipe.source_seed) for cell in study(ID).cells(_config(seeds=(5, 6), **changes))
        }

    assert seeds() == {(5, 0), (6, 0)}
    assert seeds(own_source=True) == {(5, 5), (6, 6)}
    with pytest.raises(InvalidConfig, match="leave out source_seed"):
        _config(own_source=True, recipe={"source_seed": 3})


def test_rows_with_many_sources_are_trained_as_the_recipe_says() -> None:
    def epochs(**changes: Any) -> set[int]:
        cells = study(ID).cells(_config(methods=("many by description",), **changes))
        return {cell.recipe.source_epochs for cell in cells}

    assert epochs() == {3}
    assert epochs(recipe={"source_epochs": 1}) == {1}


def test_study_tells_types_that_sources_have_from_those_they_lack(tmp_path: Path) -> None:
    data, encoder = data_folder(tmp_path / "corpora"), str(save_encoder(tmp_path / "tiny"))
    methods, sizes = ("one source by name", "many by description"), ("0", "all sentences")
    small = small_config(encoder, methods=methods, sizes=(0,), sources="conll2003, politics")
    config = study(ID).config.from_dict(small)
    *_, last = run_study(ID, config, data=data, out=tmp_path / "out")
    assert last.result is not None and last.result.complete
    scores, gains, kinds = last.result.tables
    labels = [f"{method}, {size}" for method in methods for size in sizes]
    assert [row[0] for row in scores.rows] == labels == [row[0] for row in kinds.rows]
    assert [row[0] for row in gains.rows] == [f"{methods[1]}, {size} − {methods[0]}, {size}" for size in sizes]
    for label, seen, near, unseen, rare in kinds.rows:  # person and location; band by its parent; nothing else occurs
        assert seen.n == near.n == 1 and unseen.n == 0
        assert rare.n == label.endswith(", 0"), "each has ten mentions or more among all sentences"
    more = replace(config, corpora=("music", "politics"))
    *_, last = run_study(ID, more, data=data, out=tmp_path / "out", should_stop=lambda: True)
    assert last.result is not None and not last.result.complete
    assert "F1 by kind of type" not in {table.title for table in last.result.tables}, "politics has no results yet"


def test_gazetteer_proposes_to_students_where_there_is_one(tmp_path: Path) -> None:
    data, encoder = data_folder(tmp_path / "corpora"), str(save_encoder(tmp_path / "tiny"))
    (name,) = (method for method in study(ID).config().methods if method.endswith("gazetteer"))
    compiled(tmp_path / "names", {"Oslo": ("Location",), "Mara Vell": ("MusicalArtist",)})
    methods, sources = (name.removesuffix(", gazetteer"), name), "conll2003, politics"
    small = small_config(encoder, methods=methods, sizes=(3,), sources=sources)
    assert len(study(ID).cells(study(ID).config.from_dict(small))) == 1
    config = study(ID).config.from_dict(small | {"gazetteer": str(tmp_path / "names")})
    without, teaches = (Binder(data).bind(cell) for cell in study(ID).cells(config))
    assert without.key != teaches.key and without.data_hash != teaches.data_hash
    *_, last = run_study(ID, config, data=data, out=tmp_path / "out")
    assert last.result is not None and last.result.complete
    assert [row[0] for row in last.result.tables[1].rows] == [f"{name}, 3 − {methods[0]}, 3"]
    with pytest.raises(NotFound, match="nowhere"):
        (cell,) = study(ID).cells(study(ID).config.from_dict(small | {"gazetteer": str(tmp_path / "nowhere")}))[1:]
        Binder(data).bind(cell)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"source": "conll2003, politics"}, "name one corpus"),
        ({"source": "music"}, "music is both the source"),
        ({"sources": "music"}, "without music itself none is left"),
        ({"recipe": {"source": "politics"}}, "recipe sets source"),
        ({"methods": ("by magic",)}, "choose"),
    ],
)
def test_what_cannot_be_compared_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        study(ID).cells(_config(**changes))
