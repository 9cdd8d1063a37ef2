"""What other campaigns' gold lent to a campaign's model, and how many of its own sentences that saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crossner_core.evaluation.learning_curves import MeanPoint, reaches
from crossner_core.experiments.few_shot import aggregate
from crossner_core.training.recipe import SOURCE_ONLY, effective
from db import run_rows
from db.engine import Session
from db.training_tables import Run
from workbench.reports.curves import recipe_family
from workbench.runs.source_corpora import FROZEN, GOLD_WORD, source_words


@dataclass(frozen=True, slots=True)
class Saved:
    """Gold sentences that a model needs more without other campaigns; with `at_least`, none was trained on enough."""

    sentences: int
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class Lent:
    """The sentences that a run had from other campaigns, by their names; `saved` where runs without them tell."""

    run_id: int
    campaigns: tuple[tuple[str, int], ...]
    saved: Saved | None = None

    @property
    def sentences(self) -> int:
        """How many they are in all."""
        return sum(count for _, count in self.campaigns)


def lent(session: Session, campaign_id: int) -> Lent | None:
    """Return what other campaigns' gold lent to a campaign's best model; None if that has none of it."""
    run = run_rows.best_done(session, campaign_id=campaign_id)
    lines = [line for line in (run.result or {}).get("sources", ()) if line["name"].startswith(FROZEN)] if run else []
    if run is None or not lines:
        return None
    words = source_words(session, [line["name"] for line in lines])
    named = tuple((words[line["name"]].removesuffix(GOLD_WORD), int(line["sentences"])) for line in lines)
    return Lent(run.id, named, _saved(run, run_rows.listed(session, campaign_id=campaign_id, states=("done",))))


def _saved(run: Run, others: Sequence[Run]) -> Saved | None:
    """Compare a run with the best method without other campaigns; None where none was trained on several sizes.

    `others` are the campaign's runs, newest first; those on the same snapshot count.
    """
    measure = "test_f1" if run.test_f1 is not None else "dev_f1"
    goal = getattr(run, measure)
    by_method: dict[str, dict[tuple[int, int], float]] = {}
    for other in others:
        f1 = getattr(other, measure)
        if f1 is not None and other.snapshot_id == run.snapshot_id and not _borrows(other):
            cells = by_method.setdefault(recipe_family(other.recipe), {})
            cells.setdefault((other.training_sentences, other.seed), float(f1))
    curves = [points for points in map(_curve, by_method.values()) if len(points) > 1]
    if goal is None or not curves:
        return None
    reached = [size for size in (reaches(points, goal) for points in curves) if size is not None]
    most = min(reached) if reached else max(points[-1].x for points in curves)
    saved = max(0, round(most) - run.training_sentences)
    return Saved(saved, at_least=not reached) if saved or reached else None


def _curve(cells: Mapping[tuple[int, int], float]) -> list[MeanPoint]:
    """Return the mean F1 at each size, from F1 by size and seed."""
    points = aggregate((size, f1) for (size, _), f1 in cells.items())
    return [MeanPoint(point.size, point.mean, point.sd, point.n) for point in points]


def _borrows(run: Run) -> bool:
    """Whether a run had gold of other campaigns, or none of its own."""
    recipe = effective(run.recipe)
    return FROZEN in str(recipe.get("source", "")) or recipe["setting"] == SOURCE_ONLY
