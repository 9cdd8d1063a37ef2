"""Likely label errors: what models that did not learn from a sentence find hardest to believe of its gold."""

from __future__ import annotations

from collections.abc import Sequence

from crossner_core.options.second_look import SecondLookOptions
from crossner_core.schema import LabelledSentence, Span
from crossner_core.second_look.base import Desk, Finding, Gold, ranked, register, touching
from crossner_core.second_look.cross_validation import out_of_sample
from crossner_core.second_look.doubt import doubts
from crossner_core.second_look.evidence import Floats, Place, TagShares, places_of
from crossner_core.second_look.surfaces import Surfaces


@register(
    "label_errors",
    "Likely label errors",
    "Models that did not learn from the sentence would have labelled it otherwise.",
)
def find(gold: Gold, options: SecondLookOptions, desk: Desk) -> list[Finding] | None:
    """Rank every entity, and every place where models see one that gold lacks; return the most doubtful share.

    Raises BadInput where there are fewer sentences than folds, or not one entity.
    """
    items = [item for item in gold.items if item.sentence.tokens]
    numbers = [at for at, item in enumerate(gold.items) if item.sentence.tokens]
    if not any(item.spans for item in items):
        return []
    shares = out_of_sample(items, gold.types, options, desk)
    if shares is None:
        return None
    queue = rank(items, shares, gold.types)
    most = max(1, round(options.share * len(queue)))
    found: dict[tuple[int, int, int], Finding] = {}
    for place, doubt in queue[:most]:
        one = _finding(items[place.item], place, doubt, TagShares(shares[place.item], gold.types), numbers[place.item])
        # Two doubts may widen to one place; the stronger came first.
        found.setdefault((one.item, one.start, one.end), one)
    return ranked(found.values())


def rank(
    items: Sequence[LabelledSentence], shares: Sequence[Floats], types: Sequence[str]
) -> list[tuple[Place, float]]:
    """Return all places with their doubts, the most doubtful first: the queue that a share is taken from."""
    places = [place for at, item in enumerate(items) for place in places_of(at, item, shares[at], types)]
    found = zip(places, doubts(places, items, Surfaces(items)).tolist(), strict=True)
    return sorted(found, key=lambda pair: -pair[1])


def _finding(item: LabelledSentence, place: Place, doubt: float, found: TagShares, number: int) -> Finding:
    seen = found.spans()
    span = place.given or place.proposed
    assert span is not None
    start, end = span.start, span.end
    while (wide := _widened(start, end, (*item.spans, *seen))) != (start, end):
        start, end = wide
    there, proposed = touching(item.spans, start, end), touching(seen, start, end)
    if not proposed and not there:
        proposed = (span,)
    if proposed == there:
        proposed = _other_type(there, place.given, found)
    kind = _kind(there, proposed)
    return Finding(number, kind, start, end, there, proposed, doubt, _why(item, place, found))


def _widened(start: int, end: int, spans: Sequence[Span]) -> tuple[int, int]:
    near = touching(spans, start, end)
    return min([start, *(span.start for span in near)]), max([end, *(span.end for span in near)])


def _other_type(there: tuple[Span, ...], given: Span | None, found: TagShares) -> tuple[Span, ...]:
    """Return what is there with the doubted entity as its most likely other type; as it is with one type alone."""
    if given is None or len(found.types) < 2:
        return there
    shares = found.type_shares(given.start, given.end)
    shares[found.types.index(given.type)] = -1.0
    other = Span(given.start, given.end, found.types[int(shares.argmax())])
    return tuple(other if span == given else span for span in there)


def _kind(there: tuple[Span, ...], proposed: tuple[Span, ...]) -> str:
    if not there:
        return "missing"
    if not proposed:
        return "extra"
    same_places = [(s.start, s.end) for s in there] == [(s.start, s.end) for s in proposed]
    if same_places:
        return "type"
    return "boundary" if {s.type for s in there} == {s.type for s in proposed} else "boundary+type"


def _why(item: LabelledSentence, place: Place, found: TagShares) -> str:
    """Say what speaks most against the gold, in one line with shares in percent."""
    span = place.given
    if span is None:
        assert place.proposed is not None
        one = place.proposed
        chance = float(found.entity[one.start : one.end].max())
        words = item.sentence.surface(one.start, one.end)
        return f"Models see an entity in “{words}” ({_percent(chance)}), most likely {one.type}; gold has none."
    signals = place.signals
    sides = {name: signals[name] for name in ("left", "right", "beside")}
    edge, side = max(signals["edge"], signals["outside"]), max(sides.values())
    if signals["type"] >= max(edge, side):
        shares = found.type_shares(span.start, span.end)
        own = float(shares[found.types.index(span.type)])
        best = found.types[int(shares.argmax())]
        rather = f"{best} {_percent(float(shares.max()))}" if best != span.type else "and nothing else is more likely"
        return f"Models give {span.type} {_percent(own)} here, {rather}."
    if edge >= side:
        inside = found.entity[span.start : span.end]
        at = span.start + int(inside.argmin())
        word = item.sentence.surface(at, at + 1)
        return f"Models doubt that “{word}” belongs to an entity ({_percent(float(inside.min()))})."
    return "Models would let it begin or end elsewhere, or see an entity beside it."


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
