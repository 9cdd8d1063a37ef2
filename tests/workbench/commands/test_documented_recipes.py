"""The flags that docs/models.md gives for the papers' systems are those of the studies, and none is without effect."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import typer

from crossner_core.encoders.names import FLAIR, TRANSFORMER, kind_named
from crossner_core.encoders.names import WORDS as WORD_VECTORS
from crossner_core.experiments.studies._grid import Row, cell_of
from crossner_core.experiments.studies.baselines import rows as baselines
from crossner_core.experiments.studies.pdaln_baselines import rows as pdaln_baselines
from crossner_core.experiments.studies.pdaln_grid import SUPERVISIONS, groups
from crossner_core.experiments.study import StudyConfig, study
from crossner_core.training.recipe import Recipe
from crossner_core.training.settings.registry import setting
from db.engine import Store
from tests.support.paths import ROOT
from tests.support.training_builders import tiny_flair
from tests.support.training_store import own_dataset, person, recipe_here, work
from workbench.commands.recipe_options import takes_recipe
from workbench.runs import adaptation

TEXT = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
TABLES = TEXT.partition("**The papers' baselines**")[2].partition("`bartner` has")[0]
USUAL = (
    TABLES.partition("workbench run -d NAME")[2].partition("```")[0].replace("\\\n", "").replace("--source NAME", "")
)
WORDS, TRANSFORMERS = (
    dict(re.findall(r"^\| ([^|]+) \| `(--[^`]+)`", part, re.MULTILINE)) for part in TABLES.split("| on a transformer |")
)
ROWS = {
    "Coach": "Coach, word+char",
    "Jia et al. 2019": "Jia et al. 2019, word+char",
    "FLAIR": "FLAIR, word+char",
    "multi-cell LSTM": "Multi-cell LSTM, word",
    "La-DTL": "La-DTL, BiLSTM",
    "DATNet-F": "DATNet-F, BiLSTM",
    "DATNet-P": "DATNet-P, BiLSTM",
}
"""By the document's name of a system on words, the row of a study."""
BASELINES = study("baselines").config(flair="NAME"), baselines
OF_PDALN = study("pdaln_baselines").config(recipe={"encoder": "words:glove,chars=cnn"}), pdaln_baselines


def made(flags: str, capsys: pytest.CaptureFixture[str]) -> Recipe:
    """Return the recipe that a command makes of flags; fail if one has no effect, or the recipe cannot be trained."""
    recipes: list[Recipe] = []
    app = typer.Typer()

    @app.command()
    @takes_recipe
    def command(recipe: Recipe) -> None:
        recipes.append(recipe)

    app(shlex.split(flags), standalone_mode=False)
    assert not capsys.readouterr().err
    (recipe,) = recipes
    setting(recipe.setting).check(recipe)
    return recipe


def trained(config: StudyConfig, row: Row) -> Recipe:
    return replace(cell_of(config, row, "music", 0).recipe, seed=Recipe().seed)


def studied(label: str) -> Recipe:
    (recipe,) = (
        trained(config, row) for config, rows in (BASELINES, OF_PDALN) for row in rows(config) if row.label == label
    )
    return recipe


@pytest.mark.parametrize("system", ROWS)
def test_baselines_on_words_are_documented_as_the_studies_train_them(
    system: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert made(f"{USUAL} {WORDS[system]}", capsys) == studied(ROWS[system])


def test_every_documented_baseline_is_compared(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(WORDS) == set(ROWS) and len(TRANSFORMERS) == 3
    assert made(USUAL, capsys) == studied("BiLSTM-CRF, word+char")


@pytest.mark.parametrize(
    ("system", "label"),
    [("multi-cell LSTM", "Multi-cell LSTM, encoder"), ("BARTNER, a new decoder", "BARTNER, encoder")],
)
def test_baselines_on_a_transformer_are_documented_as_the_studies_train_them(
    system: str, label: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert made(TRANSFORMERS[system], capsys) == studied(label)


def test_bartner_on_bart_has_the_papers_rates_and_epochs(capsys: pytest.CaptureFixture[str]) -> None:
    papers = {"source_learning_rate": 1e-5, "source_head_learning_rate": 1e-5, "source_epochs": 30, "encoder": "FOLDER"}
    assert made(TRANSFORMERS["BARTNER on BART"], capsys) == replace(studied("BARTNER, encoder"), **papers)  # type: ignore[arg-type]


@pytest.mark.parametrize("supervision", SUPERVISIONS)
def test_pdaln_as_printed_is_documented_as_the_grid_trains_it(
    supervision: str, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = TEXT.partition("is, beside the defaults, ")[2].partition("Without\naugmentation")[0]
    usual, *halves = re.findall(r"`([^`]+)`", printed)
    of_setting = dict(zip(halves[::2], halves[1::2], strict=True))
    config = study("pdaln_grid").config(supervision=(supervision,))
    (group,) = groups(config)
    chosen = f"--setting {SUPERVISIONS[supervision]}"
    documented = made(f"{usual} {chosen} {of_setting[chosen]}", capsys)
    assert documented.hash == trained(config, group.papers[-1]).hash  # of what has an effect


@pytest.mark.slow
def test_each_documented_baseline_is_queued_and_trained(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    researcher, tiny = person(store, "researcher"), recipe_here(tmp_path)
    data = own_dataset(store, researcher)
    own_dataset(store, researcher, name="news")
    small = {"source": "news", "upsample": 2, "source_epochs": 1, "lstm_size": 8, "cell_size": 8, "span_size": 8}
    small |= {name: getattr(tiny, name) for name in ("precision", "device", "min_epoch_steps", "max_length")}
    tiny_flair(8).save(tmp_path / "flair")
    encoders = {
        WORD_VECTORS: "words:size=8,chars=cnn",
        FLAIR: f"{FLAIR}:{tmp_path / 'flair'},words=size=8",
        TRANSFORMER: tiny.encoder,
    }
    runs = {}
    for system, flags in ({system: f"{USUAL} {flags}" for system, flags in WORDS.items()} | TRANSFORMERS).items():
        recipe = made(flags, capsys)
        chosen = replace(recipe, **small, encoder=encoders[kind_named(recipe.encoder)])  # type: ignore[arg-type]
        runs[system] = adaptation.start_run(store, researcher, dataset_id=data.id, recipe=chosen)
    assert work(store, tmp_path / "home") == len(runs)
    states = {system: adaptation.get_run(store, researcher, run).run.state for system, run in runs.items()}
    assert set(states.values()) == {"done"}, states
