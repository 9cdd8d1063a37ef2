"""Gains of an encoder's pre-training: its runs compared with runs of the same recipe on its base encoder."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, stdev

from crossner_core.training.recipe import effective
from db import run_rows
from db.engine import Session
from db.training_tables import Run
from workbench.runs.recipe_names import architecture_name, setting_name

# A different device does not make a different recipe; the encoder is what is compared.
_NOT_COMPARED = ("encoder", "device", "precision")


@dataclass(frozen=True, slots=True)
class Gain:
    """Runs of one method on one set of sentences, paired by seed; F1 in [0, 1] on test, or on dev without test gold.

    `change` is the mean difference to the base encoder, `sd` its standard deviation over `pairs`, None for one pair.
    """

    on: str
    method: str
    sentences: int | None
    measure: str
    base: float
    own: float
    change: float
    sd: float | None
    pairs: int


def gains(session: Session, name: str, base: str) -> tuple[Gain, ...]:
    """Pair the finished runs of an encoder with those of its base that differ in nothing else."""
    before = {_key(run): run for run in run_rows.of_encoders(session, [base], states=("done",))}
    pairs = defaultdict(list)
    for run in run_rows.of_encoders(session, [name], states=("done",)):
        base_run = before.get(_key(run))
        measure = next(
            (split for split in ("test", "dev") if base_run and _f1(run, split) and _f1(base_run, split)), None
        )
        if base_run is not None and measure is not None:
            pairs[_where(run), _method(run), run.size, measure].append((_f1(base_run, measure), _f1(run, measure)))
    return tuple(_gain(key, pair_scores) for key, pair_scores in pairs.items())


def _gain(key: tuple[str, str, int | None, str], pair_scores: Iterable[tuple[float | None, float | None]]) -> Gain:
    scores = [(old, new) for old, new in pair_scores if old is not None and new is not None]
    changes = [new - old for old, new in scores]
    base, own = fmean(old for old, _ in scores), fmean(new for _, new in scores)
    return Gain(*key, base, own, fmean(changes), stdev(changes) if len(changes) > 1 else None, len(changes))


def _f1(run: Run, measure: str) -> float | None:
    return run.test_f1 if measure == "test" else run.dev_f1


def _key(run: Run) -> str:
    recipe = {name: value for name, value in effective(run.recipe).items() if name not in _NOT_COMPARED}
    return json.dumps([run.snapshot_id, run.dataset_id, run.size, run.order_seed, recipe], sort_keys=True)


def _where(run: Run) -> str:
    return (
        f"snapshot {run.snapshot.hash[:12]}" if run.snapshot else f"data set {run.dataset.name if run.dataset else ''}"
    )


def _method(run: Run) -> str:
    return f"{architecture_name(run.recipe.get('architecture', ''))}, {setting_name(run.recipe['setting'])}"
