"""Compare two runs on the sentences both predicted: how far apart are they, and could it be chance?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crossner_core.errors import BadInput
from crossner_core.evaluation.scores import score_spans
from crossner_core.evaluation.significance import (
    FEWEST_SENTENCES,
    PairedTest,
    difference_intervals,
    paired_test,
    sentence_counts,
)
from crossner_core.schema import LabelledSentence, Span
from crossner_core.training.recipe import effective
from db.engine import Store
from db.training_tables import Run
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import OVERSEERS
from workbench.reports.curves import finished, recipe_changes
from workbench.runs.kept_predictions import Answers, answers_of, measured_on

SEED = 1
"""Seed of the resamples: the same two runs give the same figures each time."""
MOST_SENTENCES = 50


@dataclass(frozen=True, slots=True)
class TypeChange:
    """F1 of one type in two runs, in [0, 1]; `low` and `high` are the 95 % interval of second minus first."""

    type: str
    support: int
    first: float
    second: float
    change: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Outcome of the gold entities: found by both runs (right boundaries and type), by one of them, by neither."""

    both: int
    only_first: int
    only_second: int
    neither: int


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A sentence that the runs predict differently; `gain` is correct minus wrong entities, second less first."""

    item: LabelledSentence
    first: tuple[Span, ...]
    second: tuple[Span, ...]
    gain: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs on `split`, second against first, both scored against the gold of the newer one.

    `left_out` counts the sentences that only one of them predicted, `regraded` those whose gold has changed since the
    older one was measured. `disagreements` are the `MOST_SENTENCES` widest of `differing`.
    """

    first: int
    second: int
    split: str
    test: PairedTest
    types: tuple[TypeChange, ...]
    outcomes: Outcomes
    recipe_changes: Mapping[str, tuple[Any, Any]]
    left_out: int
    regraded: int
    differing: int
    disagreements: tuple[Disagreement, ...]


def compare(store: Store, actor: Actor, first: int, second: int, *, split: str | None = None) -> Comparison:
    """Compare two finished runs on a split, by default test if both were measured on it, else dev.

    Raises BadInput with a reason if they cannot be compared: no split or sentence in common, predictions not kept.
    """
    require(actor, *OVERSEERS)
    if first == second:
        raise BadInput(f"Run {first} is compared with itself; choose two different runs.")
    with store.read() as session:
        first_run, second_run = (finished(session, actor, run_id) for run_id in (first, second))
        chosen = split or _common_split(first_run, second_run)
        answers = answers_of(session, first_run, chosen), answers_of(session, second_run, chosen)
        recipes = effective(first_run.recipe), effective(second_run.recipe)
    common = _Common(*answers)
    gold = [item.spans for item in common.items]
    counts = [sentence_counts(gold, predicted) for predicted in (common.first, common.second)]
    rng = np.random.default_rng(SEED)
    apart = common.disagreements()
    return Comparison(
        first=first,
        second=second,
        split=chosen,
        test=paired_test(counts[0], counts[1], rng),
        types=tuple(_types(common, rng)),
        outcomes=_outcomes(common),
        recipe_changes=recipe_changes(*recipes),
        left_out=common.left_out,
        regraded=common.regraded,
        differing=len(apart),
        disagreements=tuple(apart[:MOST_SENTENCES]),
    )


def _common_split(first: Run, second: Run) -> str:
    shared = [split for split in measured_on(first) if split in measured_on(second)]
    if not shared:
        raise BadInput(
            f"Runs {first.id} and {second.id} were measured on no common split; "
            "compare runs that both have dev or test."
        )
    return shared[0]


class _Common:
    """The sentences that two runs predicted, in the newer one's order and with its gold."""

    def __init__(self, first: Answers, second: Answers) -> None:
        older, newer = sorted((first, second), key=lambda answers: answers.run_id)
        older_index = {item.sentence.content_hash: index for index, item in enumerate(older.items)}
        pairs = [
            (older_index[item.sentence.content_hash], index)
            for index, item in enumerate(newer.items)
            if item.sentence.content_hash in older_index
        ]
        if len(pairs) < FEWEST_SENTENCES:
            raise BadInput(
                f"Runs {first.run_id} and {second.run_id} were measured on {len(first.items)} and {len(second.items)} "
                f"{first.split} sentences, of which {len(pairs)} are the same; compare runs on the same campaign or "
                "data set."
            )
        self.items = tuple(newer.items[index] for _, index in pairs)
        self.types = tuple(dict.fromkeys((*newer.types, *older.types)))
        predicted = {
            older.run_id: tuple(older.predicted[index] for index, _ in pairs),
            newer.run_id: tuple(newer.predicted[index] for _, index in pairs),
        }
        self.first, self.second = predicted[first.run_id], predicted[second.run_id]
        self.left_out = len(older.items) + len(newer.items) - 2 * len(pairs)
        self.regraded = sum(set(older.items[a].spans) != set(newer.items[b].spans) for a, b in pairs)

    def disagreements(self) -> list[Disagreement]:
        """Return the sentences with different predictions, those with the widest gain or loss first."""
        differing = [
            Disagreement(item, first, second, _rightness(item, second) - _rightness(item, first))
            for item, first, second in zip(self.items, self.first, self.second, strict=True)
            if set(first) != set(second)
        ]
        return sorted(differing, key=lambda pair: -abs(pair.gain))


def _rightness(item: LabelledSentence, predicted: Sequence[Span]) -> int:
    """Return the number of correct entities minus that of wrong ones."""
    right = len(set(predicted) & set(item.spans))
    return right - (len(set(predicted)) - right)


def _types(common: _Common, rng: np.random.Generator) -> list[TypeChange]:
    gold = [item.spans for item in common.items]
    first, second = (score_spans(gold, predicted, common.types).per_type for predicted in (common.first, common.second))
    counts = {
        name: (sentence_counts(gold, common.first, name), sentence_counts(gold, common.second, name))
        for name in dict.fromkeys([*first, *second])
    }
    shown = {name: pair for name, pair in counts.items() if any(part[:, 1:].any() for part in pair)}
    rows = []
    for name, (low, high) in zip(shown, difference_intervals(list(shown.values()), rng), strict=True):
        before, after = (part[name].f1 if name in part else 0.0 for part in (first, second))
        support = int(shown[name][0][:, 2].sum())
        rows.append(TypeChange(name, support, before, after, after - before, low, high))
    return rows


def _outcomes(common: _Common) -> Outcomes:
    differing = [
        (span in first, span in second)
        for item, first, second in zip(common.items, map(set, common.first), map(set, common.second), strict=True)
        for span in item.spans
    ]
    return Outcomes(*(differing.count(pair) for pair in ((True, True), (True, False), (False, True), (False, False))))
