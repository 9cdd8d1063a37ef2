"""Likely label errors: gold that models not trained on the sentence find least likely."""

from __future__ import annotations

from collections.abc import Sequence

from crossner_core.label_review.base import Desk, Finding, Gold, ranked, register, touching
from crossner_core.label_review.cross_validation import out_of_sample
from crossner_core.label_review.doubt import doubts
from crossner_core.label_review.evidence import Floats, Place, TagProbabilities, places_of
from crossner_core.label_review.surfaces import Surfaces
from crossner_core.options.label_review import LabelReviewOptions
from crossner_core.schema import LabelledSentence, Span


@register(
    "label_errors",
    "Likely label errors",
    "Models that did not learn from the sentence would have labelled it otherwise.",
)
def find(gold: Gold, options: LabelReviewOptions, desk: Desk) -> list[Finding] | None:
    """Rank every entity, and every place where models see one that gold lacks; return the most doubtful share.

    Raises BadInput if there are fewer sentences than folds.
    """
    items = [item for item in gold.items if item.sentence.tokens]
    numbers = [index for index, item in enumerate(gold.items) if item.sentence.tokens]
    if not any(item.spans for item in items):
        return []
    probabilities = out_of_sample(items, gold.types, options, desk)
    if probabilities is None:
        return None
    queue = rank(items, probabilities, gold.types)
    most = max(1, round(options.share * len(queue)))
    findings: dict[tuple[int, int, int], Finding] = {}
    for place, doubt in queue[:most]:
        finding = _finding(
            items[place.item],
            place,
            doubt,
            TagProbabilities(probabilities[place.item], gold.types),
            numbers[place.item],
        )
        # Two doubts may widen to the same place; the stronger one came first.
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
    item: LabelledSentence, place: Place, doubt: float, tag_probabilities: TagProbabilities, number: int
) -> Finding:
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
    kind = _kind(labelled, proposed)
    return Finding(number, kind, start, end, labelled, proposed, doubt, _why(item, place, tag_probabilities))


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


def _why(item: LabelledSentence, place: Place, tag_probabilities: TagProbabilities) -> str:
    """Return the strongest evidence against the gold, in one line with percentages."""
    span = place.given
    if span is None:
        assert place.proposed is not None
        proposed = place.proposed
        chance = float(tag_probabilities.entity[proposed.start : proposed.end].max())
        words = item.sentence.surface(proposed.start, proposed.end)
        return f"Models see an entity in “{words}” ({_percent(chance)}), most likely {proposed.type}; gold has none."
    signals = place.signals
    sides = {name: signals[name] for name in ("left", "right", "beside")}
    edge, side = max(signals["edge"], signals["outside"]), max(sides.values())
    if signals["type"] >= max(edge, side):
        probabilities = tag_probabilities.type_probabilities(span.start, span.end)
        own = float(probabilities[tag_probabilities.types.index(span.type)])
        best = tag_probabilities.types[int(probabilities.argmax())]
        rather = (
            f"{best} {_percent(float(probabilities.max()))}" if best != span.type else "and nothing else is more likely"
        )
        return f"Models give {span.type} {_percent(own)} here, {rather}."
    if edge >= side:
        inside = tag_probabilities.entity[span.start : span.end]
        weakest = span.start + int(inside.argmin())
        word = item.sentence.surface(weakest, weakest + 1)
        return f"Models doubt that “{word}” belongs to an entity ({_percent(float(inside.min()))})."
    return "Models would let it begin or end elsewhere, or see an entity beside it."


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
