"""Proposals of gazetteer and links as evidence for a teacher's soft targets, with reliability fitted on gold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from crossner_core.calibration.proposals import best_spans
from crossner_core.schema import LabelledSentence, Sentence, Span, Suggestion
from crossner_core.tags import parse_tag, tags_from_spans

OUTSIDE = "O"
Proposed = Mapping[str, Sequence[Span]]
"""Spans that gazetteer and links propose in a sentence, by its content hash; none may overlap."""

# Pseudo-counts: PRIOR_OF_TYPE tokens of each type are distributed like those of all types together, and PRIOR tokens of
# all types evenly over three outcomes (its tag, another one, nothing). Outside entities, one token in PRIOR_OUTSIDE
# counts as wrongly proposed.
PRIOR_OF_TYPE = 20.0
PRIOR = 3.0
PRIOR_OUTSIDE = 20.0


class _Counts(NamedTuple):
    """Tokens of gold: by type and what was proposed (its tag, another one, nothing), and what was wrongly proposed."""

    by_type: dict[str, NDArray[np.float64]]  # type → (3,)
    wrong: dict[str, float]  # type → tokens


@dataclass(frozen=True)
class ProposalModel:
    """Likelihood of a proposed tag under each true tag, (K, K): row = proposed, column = true; each column adds to 1.

    A token's proposal is assumed to depend only on its true tag: Dawid and Skene 1979, with the model's posterior as
    the prior. For each true tag three probabilities are fitted: proposed correctly, as another tag, not at all. Which
    other tag does not depend on the true one.
    """

    tags: tuple[str, ...]
    likelihood: NDArray[np.float64]
    proposed: Proposed

    @classmethod
    def fit(cls, gold: Iterable[LabelledSentence], proposed: Proposed, tags: Sequence[str]) -> ProposalModel:
        """Fit to the gold sentences with known (possibly empty) proposals.

        Without any, reliability is unknown, and no proposals are used.
        """
        index = {tag: number for number, tag in enumerate(tags)}
        counts = _count(gold, proposed, index)
        if not counts.by_type:
            proposed = {}
        pooled = sum((counted for name, counted in counts.by_type.items() if name), np.full(3, PRIOR / 3))
        overall = pooled / pooled.sum()
        wrong = np.array([0.0 if tag == OUTSIDE else 1.0 + counts.wrong.get(_type_of(tag), 0.0) for tag in tags])
        likelihood = np.zeros((len(tags), len(tags)))
        for column, tag in enumerate(tags):
            counted = counts.by_type.get(_type_of(tag), np.zeros(3))
            others = wrong.copy()
            others[column] = 0.0
            others /= max(others.sum(), 1e-9)
            if tag == OUTSIDE:
                wrongly = (counted[1] + 1.0) / (counted.sum() + PRIOR_OUTSIDE)
                likelihood[:, column] = wrongly * others
                likelihood[column, column] = 1.0 - wrongly
            else:
                exact, other, nothing = (counted + PRIOR_OF_TYPE * overall) / (counted.sum() + PRIOR_OF_TYPE)
                likelihood[:, column] = other * others
                likelihood[column, column] = exact
                likelihood[index[OUTSIDE], column] += nothing
        return cls(tuple(tags), likelihood, proposed)

    def likelihoods(self, sentence: Sentence) -> NDArray[np.float64] | None:
        """Return the likelihood of a sentence's proposals, (tokens, K); None if they are unknown."""
        if (spans := self.proposed.get(sentence.content_hash)) is None:
            return None
        index = {tag: number for number, tag in enumerate(self.tags)}
        return self.likelihood[[index[tag] for tag in _tags(spans, sentence, index)]]


def proposed_spans(
    suggest: Callable[[Sequence[Sentence]], Sequence[Sequence[Suggestion]]], sentences: Sequence[Sentence]
) -> dict[str, tuple[Span, ...]]:
    """Return a gazetteer's proposals for sentences, by content hash."""
    pairs = zip(sentences, suggest(sentences), strict=True)
    return {sentence.content_hash: best_spans(suggestions) for sentence, suggestions in pairs}


def _count(gold: Iterable[LabelledSentence], proposed: Proposed, index: Mapping[str, int]) -> _Counts:
    counts = _Counts({}, {})
    for item in gold:
        if (spans := proposed.get(item.sentence.content_hash)) is None:
            continue
        true = tags_from_spans(item.spans, len(item.sentence.tokens))
        for proposal, tag in zip(_tags(spans, item.sentence, index), true, strict=True):
            what = 0 if proposal == tag != OUTSIDE else 2 if proposal == OUTSIDE else 1
            counts.by_type.setdefault(_type_of(tag), np.zeros(3))[what] += 1
            if what == 1:
                counts.wrong[_type_of(proposal)] = counts.wrong.get(_type_of(proposal), 0.0) + 1
    return counts


def _tags(spans: Sequence[Span], sentence: Sentence, index: Mapping[str, int]) -> list[str]:
    """Return the tags of the spans whose types the model has."""
    return tags_from_spans([span for span in spans if f"B-{span.type}" in index], len(sentence.tokens))


def _type_of(tag: str) -> str:
    return parse_tag(tag)[1]
