"""Which recipe to use: candidates that differ in some fields, chosen on dev; test is measured only for the choice."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from crossner_core.errors import InvalidConfig
from crossner_core.experiments.cells import CellResult
from crossner_core.experiments.plots import bars
from crossner_core.experiments.published import DOMAINS
from crossner_core.experiments.studies._grid import (
    Row,
    best_row,
    compared,
    each_encoder,
    f1_table,
    gain_table,
    grid_cells,
    grid_labels,
    joined,
    kept_by_row,
    paired_results,
    ran_apart,
    refused,
    repeated,
    scores_of,
)
from crossner_core.experiments.study import Inputs, Made, Study, StudyConfig, register
from crossner_core.options.base import option
from crossner_core.training.recipe import effective

TITLE = "Recipes compared on dev"
AS_IT_IS = "as it is"


@dataclass(frozen=True)
class RecipesConfig(StudyConfig):
    """The candidates, each as its changes to the recipe."""

    candidates: tuple[str, ...] = option(
        ("learning_rate=1e-4", "label_smoothing=0.1", "schedule=constant"),
        "Candidate recipes, each as its changes: FIELD=VALUE, several separated by blanks.",
        lines=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        seen = {json.dumps(effective(self.recipe_of().to_dict()), sort_keys=True): AS_IT_IS}
        for text in self.candidates:
            whole = json.dumps(effective(self.recipe_of(**changes_of(text)).to_dict()), sort_keys=True)
            if whole in seen:
                raise InvalidConfig(
                    f"Candidate {text!r} trains the same as {seen[whole]!r}; leave it out, or change what matters."
                )
            seen[whole] = text


def changes_of(candidate: str) -> dict[str, Any]:
    """Return the recipe fields that a candidate changes; raise InvalidConfig if it is not FIELD=VALUE."""
    changes: dict[str, Any] = {}
    for part in candidate.split():
        name, equals, text = part.partition("=")
        if not (name and equals and text) or name in changes:
            raise InvalidConfig(
                f"Candidate {candidate!r} is not FIELD=VALUE, several with blanks between them, each field once; "
                "as in 'learning_rate=1e-4 schedule=constant'."
            )
        try:
            changes[name] = json.loads(text)
        except ValueError:
            changes[name] = text
    if not changes:
        raise InvalidConfig("A candidate is empty; write FIELD=VALUE, as in schedule=constant, or leave it out.")
    if "seed" in changes:
        raise InvalidConfig(f"Candidate {candidate!r} sets seed; a study trains with its own seeds, named by seeds.")
    return changes


def groups(config: RecipesConfig) -> list[tuple[str, list[Row]]]:
    """Return for each encoder its label and its rows: the unchanged recipe, and each candidate against it."""
    return [(label, _group(config, label, encoder)) for label, encoder in each_encoder(config)]


def _group(config: RecipesConfig, label: str, encoder: str) -> list[Row]:
    first = joined(AS_IT_IS, label)
    candidates = (
        Row(joined(candidate, label), changes_of(candidate), encoder, against=(first,))
        for candidate in config.candidates
    )
    return [Row(first, {}, encoder), *candidates]


def rows(config: RecipesConfig) -> list[Row]:
    """Return the rows of all encoders."""
    return [row for _, group in groups(config) for row in group]


def build(config: RecipesConfig, inputs: Inputs) -> Made:
    """Return F1 on dev and the differences, then F1 on test of the best on dev, next to the unchanged recipe."""
    made = rows(config)
    on_dev, on_test = scores_of(config, inputs, made, _dev), scores_of(config, inputs, made)
    tables = [f1_table(TITLE, config, made, on_dev, on="dev")]
    tables += [gain_table(TITLE, config, made, on_dev, of="dev")] if config.candidates else []
    notes = []
    for label, group in groups(config):
        best, title = best_row(config, group, on_dev), joined("The choice on test", label)
        if best is None:
            notes.append(joined("Nothing is chosen while a candidate's F1 on dev is missing", label) + ".")
            continue
        notes.append(f"Best on dev: {best.label}.")
        shown = [group[0], *([best] if best is not group[0] else [])]
        tables.append(f1_table(title, config, shown, on_test))
        tables += [gain_table(title, config, shown, on_test)] if best is not group[0] else []
    remarks = (
        *notes,
        *repeated(config, made),
        *refused(kept_by_row(config, inputs, made)),
        *ran_apart(paired_results(config, inputs, compared(made))),
    )
    return Made(tuple(tables), bars(TITLE, tables[0], unit="dev F1 (%)"), remarks)


def _dev(result: CellResult) -> float | None:
    return None if result.dev is None else 100 * result.dev.f1


register(
    Study(
        id="recipes",
        title=TITLE,
        question="Which recipe is best on dev, and what does it reach on test?",
        reference="Reimers and Gurevych 2017",
        config=RecipesConfig,
        corpora=DOMAINS,
        cells=grid_cells(rows),
        labels=grid_labels(rows),
        build=build,
    )
)
