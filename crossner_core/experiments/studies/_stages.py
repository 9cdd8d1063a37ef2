"""Scores of the stages of a run (base stage and rounds), and what dev would choose among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from crossner_core.experiments.cells import CellResult
from crossner_core.experiments.studies._grid import UNITS, Row, average, scores_of
from crossner_core.experiments.study import Inputs, StudyConfig
from crossner_core.experiments.tables import Table, Value, summary
from crossner_core.training.events import StageScore

CHOSEN = "chosen on dev"
TITLE = "By stage"


def chosen_stage(result: CellResult) -> StageScore | None:
    """Return the stage that is best on dev, the first of equals; None if no stage was measured there."""
    measured = [stage for stage in result.stages if stage.dev is not None]
    return max(measured, key=lambda stage: stage.dev or 0.0, default=None)


def chosen_dev(result: CellResult) -> float | None:
    """Return the dev F1 in percent of the stage that dev chooses, or of the run if its stages are not reported."""
    stage = chosen_stage(result)
    f1 = stage.dev if stage is not None else None if result.dev is None else result.dev.f1
    return None if f1 is None else 100 * f1


def chosen_test(result: CellResult) -> float | None:
    """Return the test F1 in percent of the stage that dev chooses, or of the run if its stages are not reported."""
    stage = chosen_stage(result)
    return result.f1 if stage is None or stage.test is None else 100 * stage.test


def stage_table(config: StudyConfig, inputs: Inputs, rows: Sequence[Row], *, title: str = TITLE) -> Table | None:
    """Return test F1 of the base stage, of each round's last epoch, and of the stage that dev chooses, by row.

    Rows of one stage are left out, and the table is None if that leaves none.
    """
    results = {row.label: _results(config, inputs, row) for row in rows}
    shown = [row for row in rows if any(len(result.stages) > 1 for result in results[row.label])]
    if not shown:
        return None
    phases = list(dict.fromkeys(stage.phase for row in shown for r in results[row.label] for stage in r.stages))
    lines: list[tuple[Value, ...]] = []
    for row in shown:
        kept = sum(stage is not None and stage.phase != phases[0] for stage in map(chosen_stage, results[row.label]))
        measures: list[Callable[[CellResult], float | None]] = [_kept(phases[0]), *map(_last, phases[1:]), chosen_test]
        values = [scores_of(config, inputs, [row], measure)[row.label] for measure in measures]
        means = [summary(list(average(by_corpus).values())) for by_corpus in values]
        lines.append((row.label, *means, f"{kept} of {len(results[row.label])}"))
    note = (
        f"{UNITS.format('the whole test set')}: what the base stage kept, each round's last epoch whether dev chose it "
        "or not, and the stage that is best on dev; then in how many runs dev chose a round."
    )
    return Table(title, ("", *phases, CHOSEN, "a round chosen"), tuple(lines), note)


def _results(config: StudyConfig, inputs: Inputs, row: Row) -> list[CellResult]:
    """Return a row's results, in the order of seeds and corpora."""
    results: list[CellResult] = []

    def keep(result: CellResult) -> float | None:
        results.append(result)
        return None

    scores_of(config, inputs, [row], keep)
    return results


def _kept(phase: str) -> Callable[[CellResult], float | None]:
    return lambda result: _percent([stage.test for stage in result.stages if stage.phase == phase])


def _last(phase: str) -> Callable[[CellResult], float | None]:
    return lambda result: _percent([stage.last_test for stage in result.stages if stage.phase == phase])


def _percent(values: Sequence[float | None]) -> float | None:
    return 100 * values[0] if values and values[0] is not None else None
