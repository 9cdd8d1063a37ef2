"""Out-of-sample tag probabilities of each token: k folds, with one short training each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from crossner_core.errors import BadInput
from crossner_core.label_review.base import Desk
from crossner_core.label_review.evidence import Floats
from crossner_core.options.label_review import LabelReviewOptions
from crossner_core.schema import LabelledSentence


class Judge(Protocol):
    """Learns from some items and returns tag probabilities for others."""

    def judge(self, learnt: Sequence[int], held: Sequence[int], number: int) -> list[Floats] | None:
        """Return probabilities (tokens, 1 + 2 · types) for each held-out item; None when stopped."""


def folds_of(count: int, folds: int, rng: np.random.Generator) -> list[list[int]]:
    """Split 0 … count − 1 at random into folds whose sizes differ by at most one."""
    if count < folds:
        raise BadInput(
            f"There are {count} gold sentences, fewer than the {folds} folds to split them into. Adjudicate more, or "
            "use fewer folds (2 or more)."
        )
    return [sorted(part.tolist()) for part in np.array_split(rng.permutation(count), folds)]


def out_of_sample(
    items: Sequence[LabelledSentence], types: Sequence[str], options: LabelReviewOptions, desk: Desk
) -> list[Floats] | None:
    """Return each sentence's tag probabilities (tokens, 1 + 2 · types), by models that never saw it.

    Tags are in the order of `head_tags(types)`; with repeats they are averaged over all splits. None when stopped.
    Raises BadInput if there are fewer sentences than folds.
    """
    rng = np.random.default_rng(options.seed)
    cuts = [part for _ in range(options.repeats) for part in folds_of(len(items), options.folds, rng)]
    judge = _judge(items, types, options, desk)
    summed: list[Floats] = [np.zeros((len(item.sentence.tokens), 1 + 2 * len(types))) for item in items]
    for number, held in enumerate(cuts):
        out = set(held)
        learnt = [index for index in range(len(items)) if index not in out]
        judged = None if desk.should_stop() else judge.judge(learnt, held, number)
        if judged is None:
            return None
        for index, probabilities in zip(held, judged, strict=True):
            summed[index] += probabilities
        desk.report((number + 1) / len(cuts))
    return [total / options.repeats for total in summed]


def _judge(items: Sequence[LabelledSentence], types: Sequence[str], options: LabelReviewOptions, desk: Desk) -> Judge:
    if options.judge == "tagger":
        from crossner_core.label_review.judging_tagger import TaggerJudge

        return TaggerJudge(items, types, options, desk)
    from crossner_core.label_review.judging_probe import ProbeJudge

    return ProbeJudge(items, types, options, desk)
