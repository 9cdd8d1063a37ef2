"""Evidence from out-of-sample tag probabilities about each entity of the gold, and each one it may lack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from crossner_core.schema import LabelledSentence, Span
from crossner_core.tags import spans_from_tags

Floats = NDArray[np.float64]
LEAST = 1e-4
# A token outside the gold's entities is questioned from this entity probability on.
ENTITY_CHANCE = 0.25


@dataclass(frozen=True, slots=True)
class Place:
    """A gold entity (`given`), or a place where gold has none and models see one (`proposed`).

    `signals` are doubts by name, as −log-probabilities; larger is more doubtful.
    """

    item: int
    given: Span | None
    proposed: Span | None
    signals: dict[str, float]


class TagProbabilities:
    """One sentence's tag probabilities, grouped: entity or not, its type, where it begins."""

    def __init__(self, probabilities: Floats, types: Sequence[str]) -> None:
        self.types, self.probabilities = tuple(types), probabilities
        self.begin, self.inside = probabilities[:, 1::2], probabilities[:, 2::2]  # (L, T) each
        self.entity = 1.0 - probabilities[:, 0]  # (L,)
        self.typed = self.begin + self.inside  # (L, T)

    def type_probabilities(self, start: int, end: int) -> Floats:
        """Return type probabilities (T,), given that these tokens are an entity: the geometric mean over tokens."""
        given = self.typed[start:end] / np.maximum(self.entity[start:end, None], LEAST)
        means = np.exp(np.log(np.maximum(given, LEAST)).mean(0))
        return means / means.sum()

    def spans(self) -> tuple[Span, ...]:
        """Return the entities of the most likely valid IOB2 sequence."""
        import torch

        from crossner_core.models.heads import head_tags
        from crossner_core.models.viterbi import iob2_transitions, viterbi

        tags = head_tags(self.types)
        scores = torch.from_numpy(np.log(np.maximum(self.probabilities, LEAST))).float().unsqueeze(0)  # (1, L, K)
        path = viterbi(scores, torch.ones(scores.shape[:2], dtype=torch.bool), *iob2_transitions(tags))
        return spans_from_tags([tags[index] for index in path[0].tolist()])

    def of_tag(self, token: int, tag: str) -> float:
        """Return a token's probability of a tag such as `B-song`; the domain must have its type."""
        if tag == "O":
            return float(self.probabilities[token, 0])
        side = self.begin if tag.startswith("B-") else self.inside
        return float(side[token, self.types.index(tag[2:])])

    def continues(self, token: int) -> float:
        """Return the probability that the token continues the preceding entity; 0 outside the sentence."""
        return float(self.inside[token].sum()) if 0 <= token < len(self.entity) else 0.0


def negative_log(value: float) -> float:
    """Return −log of a probability, kept finite."""
    return float(-np.log(max(value, LEAST)))


def places_of(number: int, item: LabelledSentence, probabilities: Floats, types: Sequence[str]) -> Iterator[Place]:
    """Yield a place for each gold entity, then one for each run of tokens that gold seems to miss."""
    tag_probabilities = TagProbabilities(probabilities, types)
    for span in item.spans:
        yield _entity(number, item, span, tag_probabilities)
    covered = {token for span in item.spans for token in range(span.start, span.end)}
    yield from _missing(number, tag_probabilities, covered)


def _entity(number: int, item: LabelledSentence, span: Span, tag_probabilities: TagProbabilities) -> Place:
    start, end = span.start, span.end
    inside = tag_probabilities.entity[start:end]
    outside = [tag_probabilities.entity[token] for token in (start - 1, end) if _is_free(item, token)]
    signals = {
        "type": negative_log(
            float(tag_probabilities.type_probabilities(start, end)[tag_probabilities.types.index(span.type)])
        ),
        "outside": negative_log(float(inside.max())),
        "edge": negative_log(float(min(inside[0], inside[-1]))),
        "left": negative_log(1.0 - tag_probabilities.continues(start)),
        "right": negative_log(1.0 - tag_probabilities.continues(end)),
        "beside": negative_log(1.0 - max(outside, default=0.0)),
    }
    return Place(number, span, None, signals)


def _is_free(item: LabelledSentence, token: int) -> bool:
    """Return whether a token exists and no entity covers it."""
    return 0 <= token < len(item.sentence.tokens) and all(not s.start <= token < s.end for s in item.spans)


def _missing(number: int, tag_probabilities: TagProbabilities, covered: set[int]) -> Iterator[Place]:
    token, length = 0, len(tag_probabilities.entity)
    while token < length:
        if token in covered or tag_probabilities.entity[token] < ENTITY_CHANCE:
            token += 1
            continue
        end = token + 1
        while (
            end < length
            and end not in covered
            and tag_probabilities.entity[end] >= ENTITY_CHANCE
            and _continues(tag_probabilities, end)
        ):
            end += 1
        typed = tag_probabilities.type_probabilities(token, end)
        proposed = Span(token, end, tag_probabilities.types[int(typed.argmax())])
        signals = {"chance": negative_log(1.0 - float(tag_probabilities.entity[token:end].max()))}
        yield Place(number, None, proposed, signals)
        token = end


def _continues(tag_probabilities: TagProbabilities, token: int) -> bool:
    return bool(tag_probabilities.inside[token].sum() >= tag_probabilities.begin[token].sum())
