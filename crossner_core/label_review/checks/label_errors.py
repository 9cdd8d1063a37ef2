"""Likely label errors: gold that models not trained on the sentence find least likely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from crossner_core.label_review.base import Desk, Finding, Gold, in_words, ranked, register, touching
from crossner_core.label_review.cross_validation import out_of_sample
from crossner_core.label_review.doubt import doubts
from crossner_core.label_review.evidence import Floats, Place, TagProbabilities, places_of
from crossner_core.label_review.surfaces import Surfaces
from crossner_core.label_review.weighing import RULE, Rule, Weights, weigh
from crossner_core.options.label_review import LabelReviewOptions
from crossner_core.schema import LabelledSentence, Span


@register(
    "label_errors",
    "Likely label errors",
    "Models that did not learn from the sentence would have labelled it otherwise.",
)
def find(gold: Gold, options: LabelReviewOptions, desk: Desk) -> list[Finding] | None:
    """Rank every entity, and every place where models see one that gold lacks; return the most doubtful share.

    Proposals that are weaker than the gold they attack are held back. Raises BadInput if there are fewer sentences
    than folds.
    """
    items = [item for item in gold.items if item.sentence.tokens]
    numbers = [index for index, item in enumerate(gold.items) if item.sentence.tokens]
    if not any(item.spans for item in items):
        return []
    probabilities = out_of_sample(items, gold.types, options, desk)
    if probabilities is None:
        return None
    return [
        replace(finding, item=numbers[finding.item])
        for finding in proposals(items, probabilities, gold.types, options.share, RULE, titles=gold.titles)
    ]


def proposals(
    items: Sequence[LabelledSentence],
    probabilities: Sequence[Floats],
    types: Sequence[str],
    share: float,
    rule: Rule = RULE,
    *,
    titles: Mapping[str, str] | None = None,
) -> list[Finding]:
    """Return the findings among the most doubtful share of the places that the rule does not hold back."""
    queue = rank(items, probabilities, types)
    most = max(1, round(share * len(queue)))
    findings: dict[tuple[int, int, int], Finding] = {}
    for place, doubt in queue[:most]:
        finding = _finding(
            items[place.item],
            place,
            doubt,
            TagProbabilities(probabilities[place.item], types),
            rule,
            titles or {},
        )
        # Two doubts may widen to the same place; the stronger one came first.
        if finding is not None:
            findings.setdefault((finding.item, finding.start, finding.end), finding)
    return ranked(findings.values())


def rank(
    items: Sequence[LabelledSentence], probabilities: Sequence[Floats], types: Sequence[str]
) -> list[tuple[Place, float]]:
    """Return all places with their doubts, the most doubtful first: the queue that a share is taken from."""
    places = [
        place for index, item in enumerate(items) for place in places_of(index, item, probabilities[index], types)
    ]
    doubted = zip(places, doubts(places, items, Surfaces(items)).tolist(), strict=True)
    return sorted(doubted, key=lambda pair: -pair[1])


def _finding(
    item: LabelledSentence,
    place: Place,
    doubt: float,
    tag_probabilities: TagProbabilities,
    rule: Rule,
    titles: Mapping[str, str],
) -> Finding | None:
    seen = tag_probabilities.spans()
    span = place.given or place.proposed
    assert span is not None
    start, end = span.start, span.end
    while (wide := _widened(start, end, (*item.spans, *seen))) != (start, end):
        start, end = wide
    labelled, proposed = touching(item.spans, start, end), touching(seen, start, end)
    if not proposed and not labelled:
        proposed = (span,)
    if proposed == labelled:
        proposed = _other_type(labelled, place.given, tag_probabilities)
    weights = weigh(tag_probabilities, labelled, proposed)
    if weights is None or not rule.lets(weights):
        return None
    return Finding(
        place.item,
        _kind(labelled, proposed),
        start,
        end,
        labelled,
        proposed,
        doubt,
        _why(item, labelled, proposed, weights, titles),
        proposed_probability=weights.proposed,
        present_probability=weights.present,
    )


def _widened(start: int, end: int, spans: Sequence[Span]) -> tuple[int, int]:
    near = touching(spans, start, end)
    return min([start, *(span.start for span in near)]), max([end, *(span.end for span in near)])


def _other_type(
    labelled: tuple[Span, ...], given: Span | None, tag_probabilities: TagProbabilities
) -> tuple[Span, ...]:
    """Return the spans with the doubted entity as its most likely other type; unchanged if there is only one type."""
    if given is None or len(tag_probabilities.types) < 2:
        return labelled
    probabilities = tag_probabilities.type_probabilities(given.start, given.end)
    probabilities[tag_probabilities.types.index(given.type)] = -1.0
    other = Span(given.start, given.end, tag_probabilities.types[int(probabilities.argmax())])
    return tuple(other if span == given else span for span in labelled)


def _kind(labelled: tuple[Span, ...], proposed: tuple[Span, ...]) -> str:
    if not labelled:
        return "missing"
    if not proposed:
        return "extra"
    same_places = [(s.start, s.end) for s in labelled] == [(s.start, s.end) for s in proposed]
    if same_places:
        return "type"
    return "boundary" if {s.type for s in labelled} == {s.type for s in proposed} else "boundary+type"


def _why(
    item: LabelledSentence,
    labelled: tuple[Span, ...],
    proposed: tuple[Span, ...],
    weights: Weights,
    titles: Mapping[str, str],
) -> str:
    """Return what models give both sides, in one line; the rule sees to it that the proposal has more."""
    sides = [f"{in_words(item.sentence, proposed, titles)} {_percent(weights.proposed)}"]
    sides.append(f"the gold, {in_words(item.sentence, labelled, titles)}, {_percent(weights.present)}")
    return f"Models that did not learn from this sentence give {sides[0]}; {sides[1]}."


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
