"""PDALN's grid: what it trains, how dev chooses, and its paired differences."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crossner_core.errors import InvalidConfig
from crossner_core.experiments import __main__ as command
from crossner_core.experiments.cells import Cell, CellResult, CellStore, training_data
from crossner_core.experiments.corpora import read_corpus
from crossner_core.experiments.published import PDALN_SENTENCES
from crossner_core.experiments.results import list_studies
from crossner_core.experiments.studies import pdaln_grid
from crossner_core.experiments.studies.pdaln_grid import PAPER_RECIPE, PdalnGridConfig
from crossner_core.experiments.study import Inputs, study
from crossner_core.experiments.tables import Measured, interval_of, summary, verdict
from crossner_core.training.events import StageScore
from crossner_core.training.recipe import Recipe
from tests.support.study_builders import data_folder
from tests.support.training_builders import save_encoder, tiny_recipe

CONFIG = PdalnGridConfig(corpora=("wikigold",), seeds=(1, 2), choice_seeds=(1,))


def test_paired_interval_is_students_t() -> None:
    low, high = interval_of(summary([1.0, 2.0, 3.0, 4.0, 5.0])) or (0.0, 0.0)
    # t of 4 degrees of freedom is 2.77645; the deviation is 1.5811, and its mean's over √5 0.7071.
    half = pytest.approx(2.77645 * 0.707107, abs=1e-4)
    assert 3 - low == half and high - 3 == half
    assert interval_of(summary([1.0])) is None and interval_of(summary([2.0, 2.0])) == (2.0, 2.0)
    wide, narrow = interval_of(summary([0.0, 1.0] * 20)), interval_of(summary([0.0, 1.0] * 15))
    assert wide is not None and narrow is not None and wide[1] - wide[0] < narrow[1] - narrow[0]


def test_verdict_is_yes_no_undecided_one_seed_or_not_tested() -> None:
    above = summary([1.0, 2.0, 1.5])
    assert verdict(above) == "yes" and verdict(summary([-1.0, -2.0, -1.5])) == "no" == verdict(above, 4.03)
    assert (verdict(summary([-1.0, 2.0, 0.5])), verdict(summary([3.0]))) == ("undecided", "one seed")
    assert verdict(summary([])) == "not tested"


def test_grid_trains_on_dev_with_its_own_seeds_and_every_round_stands() -> None:
    cells = study("pdaln_grid").cells(CONFIG)
    semi = [cell.recipe for cell in cells if cell.recipe.setting == "pdaln"]
    assert {cell.recipe.seed for cell in cells} == {1} and {cell.order for cell in cells} == {"entities"}
    # Two batches with a CRF and one trained on, two estimators by two batches, three weights, contrast alone.
    assert len(semi) == 2 * 2 + 4 + 3 + 1 and len(cells) - len(semi) == 2 + 4 + 3 + 1
    assert all(recipe.pdaln_keep == "last" for recipe in semi)
    assert {(recipe.pdaln_alpha, round(recipe.pdaln_beta, 6)) for recipe in semi} == {
        (1.0, 0.3), (0.1, 0.03), (0.3, 0.09), (3.0, 0.9),
    }  # fmt: skip
    alone = [recipe for recipe in semi if recipe.pdaln_use_contrastive and not recipe.pdaln_rounds]
    assert len(alone) == 1 and not alone[0].pdaln_use_sentence_mmd and not alone[0].pdaln_use_word_mmd
    with pytest.raises(InvalidConfig, match="batches is 8, 8; each must be there once"):
        PdalnGridConfig(batches=(8, 8))
    with pytest.raises(InvalidConfig, match="recipe sets pdaln_batch_size"):
        study("pdaln_grid").cells(replace(CONFIG, recipe={"pdaln_batch_size": 16}))


def test_grid_control_takes_as_many_steps_as_pdaln(tmp_path: Path) -> None:
    from crossner_core.training.settings.registry import setting

    data = data_folder(tmp_path / "data")
    config = replace(CONFIG, corpora=("music",), target_sentences=8)
    (semi, _) = pdaln_grid.groups(config)
    best = semi.candidates[1]

    def stages(label: str) -> list[tuple[int, int, int]]:
        row = next(row for row in pdaln_grid.rows(config) if row.label == label)
        cell = pdaln_grid.cell_of(config, row, "music", 1)
        planned = setting(cell.recipe.setting).plan(cell.recipe, training_data(cell, data))
        return [(len(stage.train), stage.epochs, stage.batch_size) for stage in planned]

    base, trained_on = (row.label for row in semi.baselines(best))
    assert stages(trained_on) == stages(best.label) and len(stages(best.label)) == 3
    assert stages(base) == stages(best.label)[:1]
    recipe = [row.label for row in semi.papers]
    # By the paper's recipe the labelled sentences are among those of the base stage.
    (sentences, *base_stage), *rounds = stages(best.label)
    assert stages(recipe[1]) == stages(recipe[2]) == [(sentences + 8, *base_stage), *rounds]
    assert stages(recipe[0]) == stages(recipe[2])[:1]


def _result(dev: float, test: float) -> Any:
    """Return a result whose round is better on dev than its base stage, and whose second round is worse."""
    stages = (
        StageScore("base", 2, dev - 0.02, test - 0.03, dev - 0.02, test - 0.03),
        StageScore("round 1", 3, dev, test, dev, test),
        StageScore("round 2", 3, dev - 0.1, test - 0.2, dev - 0.1, test - 0.2),
    )
    return SimpleNamespace(machine={}, f1=100 * (test - 0.2), stages=stages, dev=None, best_epoch=1, epochs=1)


def test_grid_chooses_on_dev_and_measures_its_choice_on_test() -> None:
    chosen = study("pdaln_grid")
    assert chosen.follow is not None
    config = replace(CONFIG, supervision=("semi-supervised",))
    results: dict[Cell, Any] = {cell: _result(0.5, 0.6) for cell in chosen.cells(config)}
    best = next(cell for cell in results if cell.recipe.pdaln_estimator == "biased" and cell.recipe.pdaln_rounds)
    results[best] = _result(0.55, 0.62)
    following = chosen.follow(config, Inputs(results, Path(), Path()))
    # The choice, its CRF and the CRF trained on; the same by the paper's recipe; with both seeds.
    assert len(following) == 2 * 6 and best in following
    paper = [cell.recipe for cell in following if cell.recipe.learning_rate == PAPER_RECIPE["learning_rate"]]
    assert len(paper) == 6 and {recipe.max_length for recipe in paper} == {128}
    assert {recipe.pdaln_labels for recipe in paper} == {"once"}
    assert [recipe.pdaln_distil_tokens for recipe in paper[:3]] == ["all", "all", "entities"]
    for cell in following:
        if cell not in results:
            results[cell] = _result(0.5, 0.6 + 0.001 * cell.recipe.seed)
    second = next(cell for cell in following if replace(cell.recipe, seed=1) == best.recipe and cell != best)
    results[second] = _result(0.5, 0.64)
    made = chosen.build(config, Inputs(results, Path(), Path()))
    on_dev, on_test, as_there, by_stage, gains = made.tables
    assert on_dev.rows[4][1] == Measured(pytest.approx(50.0), None, 1) and len(on_dev.rows) == 12  # type: ignore[arg-type]
    assert "Best on dev: PDALN, biased MMD, batch 8." in made.notes
    assert [row[0] for row in on_test.rows][:3] == ["CRF, batch 8", "CRF trained further, batch 8", best_label(config)]
    # The last round is 20 points below the first; of two runs the second is the better one.
    mean, best_run = (row[1] for row in as_there.rows[-2:])
    assert isinstance(mean, Measured) and isinstance(best_run, Measured)
    assert (round(mean.mean or 0, 2), round(best_run.mean or 0, 2)) == (40.15, 40.2)
    assert (mean.published, best_run.published) == (52.48, 53.06)
    # Base stage, round 1, round 2, chosen: each as it is.
    values = [round(value.mean, 4) for value in by_stage.rows[2][1:5]]  # type: ignore[union-attr]
    assert values == [60.0, 63.0, 43.0, 63.0] and by_stage.rows[2][5] == "2 of 2"
    first = gains.rows[0]
    assert first[0] == f"{best_label(config)} − CRF, batch 8" and first[3] == "undecided" and first[5] == 2
    assert first[1].published == pytest.approx(4.03) and str(first[1]).startswith("+2.90")  # type: ignore[union-attr]
    printed = {str(row[0]): row[1].published for row in gains.rows}  # type: ignore[union-attr]
    (by_paper,) = (note for note in made.notes if note.startswith("By the paper's recipe"))
    assert "tokens of entities alone. Elsewhere each step" in by_paper and by_paper.endswith("learns on all tokens.")
    for ending in ("", ", last epochs"):
        assert printed[f"PDALN, the paper's recipe − CRF, the paper's recipe{ending}"] == pytest.approx(4.03)
        assert printed[f"PDALN, the paper's recipe − CRF trained further, the paper's recipe{ending}"] is None
    # Each run's last round is 20 points below its first, so that the same differences come out.
    ahead = f"{best_label(config)} − CRF trained further"
    assert [str(row[1])[:5] for row in gains.rows if str(row[0]).startswith(ahead)] == ["+2.90", "+2.90"]
    other = chosen.build(replace(config, target_sentences=50), Inputs({}, Path(), Path()))
    assert all(row[1].published is None for row in other.tables[-1].rows)  # type: ignore[union-attr]
    assert any("Nothing is chosen" in note for note in other.notes)


def test_last_epochs_are_those_of_the_base_stage_where_there_are_no_rounds() -> None:
    grid, config = study("pdaln_grid"), replace(CONFIG, supervision=("unsupervised",))
    assert grid.follow is not None
    base = StageScore("base", 1, 0.5, 0.6, 0.4, 0.55)
    result = SimpleNamespace(machine={}, f1=60.0, stages=(base,), dev=None, best_epoch=1, epochs=2)
    results: dict[Cell, Any] = dict.fromkeys(grid.cells(config), result)
    results |= dict.fromkeys(grid.follow(config, Inputs(results, Path(), Path())), result)
    by_paper = [cell.recipe for cell in results if cell.recipe.max_length == 128]
    assert [recipe.pdaln_bare_text for recipe in by_paper[:2]] == ["rest", "test"]
    crf = next(cell for cell in results if cell.recipe.max_length == 128 and not cell.recipe.pdaln_use_contrastive)
    lower = replace(base, last_test=0.5)
    results |= {replace(crf, recipe=replace(crf.recipe, seed=seed)): SimpleNamespace(
        machine={}, f1=60.0, stages=(lower,), dev=None, best_epoch=1, epochs=2
    ) for seed in (1, 2)}  # fmt: skip
    tables = {table.title: table for table in grid.build(config, Inputs(results, Path(), Path())).tables}
    means = [str(row[1])[:4] for row in tables["As in the paper"].rows]
    assert means == ["50.0", "55.0", "55.0"]
    pair = "PDALN, the paper's recipe, unsupervised − CRF, the paper's recipe, unsupervised"
    gains = {row[0]: str(row[1])[:5] for row in tables["PDALN's grid: differences"].rows}
    assert (gains[pair], gains[f"{pair}, last epochs"]) == ("+0.00", "+5.00")


def test_notes_say_what_the_asked_recipe_reads() -> None:
    def notes(supervision: str, **recipe: object) -> str:
        config = replace(CONFIG, supervision=(supervision,), recipe=recipe)
        return " ".join(study("pdaln_grid").build(config, Inputs({}, Path(), Path())).notes)

    assert "by the paper's recipe the test sentences" in notes("unsupervised")
    everywhere = notes("unsupervised", pdaln_bare_text="test")
    assert "text is the test sentences" in everywhere and "elsewhere" not in everywhere
    assert "Elsewhere" not in notes("semi-supervised", pdaln_labels="once", pdaln_distil_tokens="entities")


def best_label(config: PdalnGridConfig) -> str:
    (group,) = pdaln_grid.groups(config)
    return next(row.label for row in group.candidates if "biased MMD, batch 8" in row.label and "un" not in row.label)


def test_order_entities_draws_labelled_sentences_that_have_any(tmp_path: Path) -> None:
    corpus = read_corpus("music", data_folder(tmp_path))
    half = tuple(replace(item, spans=()) if index % 2 else item for index, item in enumerate(corpus.train))
    corpus = replace(corpus, train=half)
    drawn = [corpus.data(size=6, seed=seed, order="entities") for seed in (1, 2, 3)]
    assert all(len(data.train) == 6 and all(item.spans for item in data.train) for data in drawn)
    assert all(len(data.unlabelled) == len(half) - 6 for data in drawn)
    assert drawn[0].train != drawn[1].train != drawn[2].train
    assert drawn[0].train == corpus.data(size=6, seed=1, order="entities").train
    assert corpus.data(size=12, seed=1, order="entities").train == half[::2]
    assert corpus.data(seed=1, order="entities").train == half  # all is all


@pytest.mark.slow
def test_grid_runs_from_the_command_with_a_tiny_encoder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, encoder, tiny = data_folder(tmp_path / "data"), save_encoder(tmp_path / "tiny"), tiny_recipe()
    fields = ("min_epoch_steps", "precision", "device")
    recipe = {"encoder": str(encoder), "pdaln_base_epochs": 1, "pdaln_round_epochs": 1, "pdaln_rounds": 1}
    recipe |= {name: getattr(tiny, name) for name in fields}
    words = ["pdaln_grid", "--data", str(data), "--out", str(tmp_path / "out"), "--corpora", "music"]
    words += ["--seeds", "1", "2", "--choice-seeds", "1", "--estimators", "unbiased", "--batches", "32"]
    words += [
        "--supervision",
        "semi-supervised",
        "--weights",
        "3",
        "--target-sentences",
        "8",
        "--recipe",
        json.dumps(recipe),
    ]
    assert command.main(words) == 0, capsys.readouterr().err
    (result,) = list_studies(tmp_path / "out")
    assert not result.missing and result.tables[0].title == "PDALN's grid"
    kept = list(CellStore(tmp_path / "out").known.values())
    assert len(result.cells) == len(kept) and all(cell.stages for cell in kept)
    assert {len(cell.stages) for cell in kept} == {1, 2}
    again = CellResult.from_dict(json.loads(json.dumps(kept[0].to_dict())))
    assert again == kept[0] and again.stages
    gains = result.tables[-1]
    assert len(gains.rows) == 2 * (2 + 2) and all(row[-1] == 2 for row in gains.rows)
    # 2 CRFs and 3 candidates with one seed; the second seed's CRFs and choice; the paper's three with both.
    assert len(kept) == 5 + 3 + 2 * 3
    for cell in kept:
        if cell.recipe["learning_rate"] != PAPER_RECIPE["learning_rate"]:  # all that the choice on dev needs
            (tmp_path / "out" / "cells" / f"{cell.key}.json").unlink()
    assert command.main([*words, "--tables"]) == 1 and "not trained yet" in capsys.readouterr().err
    (result,) = list_studies(tmp_path / "out")
    assert result.missing and result.tables[0].title == "As in the paper"
    assert all("the paper's recipe" in str(row[0]) for row in result.tables[0].rows)
    assert any("Nothing is chosen" in note for note in result.notes)


def test_grids_set_up_makes_exactly_the_papers_adaptive_data(shared: Path) -> None:
    from crossner_core.training.settings.registry import setting

    recipe = Recipe(architecture="crf", setting="pdaln")
    data = training_data(Cell("wikigold", recipe, PDALN_SENTENCES, "entities"), shared / "data" / "ner")
    base, *rounds = setting("pdaln").plan(recipe, data)
    assert base.train == data.source_train and [len(stage.train) for stage in rounds] == [1400, 1400]
    assert {stage.batch_size for stage in (base, *rounds)} == {32}
