"""What models say about each token of sentences they did not learn from: k folds, one short learning each."""

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
    """Learns from some items and says of others how likely each tag is."""

    def judge(self, learnt: Sequence[int], held: Sequence[int], number: int) -> list[Floats] | None:
        """Return for each held item (tokens, 1 + 2 · types) probabilities; None when stopped."""


def folds_of(count: int, folds: int, rng: np.random.Generator) -> list[list[int]]:
    """Cut the numbers 0 … count − 1 at random into folds whose sizes differ by one at most."""
    if count < folds:
        raise BadInput(
            f"There are {count} gold sentences, fewer than the {folds} folds they are to be cut into. Adjudicate more, "
            f"or look again with fewer folds (2 or more)."
        )
    return [sorted(part.tolist()) for part in np.array_split(rng.permutation(count), folds)]


def out_of_sample(
    items: Sequence[LabelledSentence], types: Sequence[str], options: LabelReviewOptions, desk: Desk
) -> list[Floats] | None:
    """Return each sentence's tag probabilities (tokens, 1 + 2 · types), by models that never saw it.

    Tags are in the order of `head_tags(types)`; with repeats they are means over all cuts. None when stopped. Raises
    BadInput where there are fewer sentences than folds.
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
