"""How a campaign's spans are linked: how many, how far the annotators agree, and how good the candidates are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from crossner_core.gazetteer.linking import Linker
from crossner_core.schema import NIL, LabelledSentence, Sentence, Span
from db import annotation_rows, layer_rows
from db.engine import Store
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import OVERSEERS
from workbench.data.values import sentence_of, spans_of
from workbench.labelling.linking import MOST_OFFERED, linker_of
from workbench.labelling.units import linked

MOST_ASKED = 200
"""Spans of the newest gold whose candidates are looked up."""


@dataclass(frozen=True, slots=True)
class Linking:
    """Counts of linked spans.

    `spans` are gold's, `linked` those of them with a resource, `nil` those that name none. `compared` are spans that
    both annotators of a blind check have, `agreed` those of them with the same link. Of `asked` gold spans with a
    resource it was the first candidate `first` times, and one of those offered `offered` times, by links, gazetteers,
    type and context alone: what was decided before is left out.
    """

    spans: int
    linked: int
    nil: int
    compared: int
    agreed: int
    asked: int
    first: int
    offered: int


def linking(store: Store, actor: Actor, campaign_id: int) -> Linking | None:
    """Return how a campaign's spans are linked, None where its rule is off. For those who oversee."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *OVERSEERS)
        if not campaign.linking:
            return None
        first, second, gold = (
            {row.id: (row, work) for row, work in layer_rows.submitted(session, campaign_id, stage)}
            for stage in ("annotate", "check", "adjudicate")
        )
        newest = sorted(gold.values(), key=lambda pair: pair[1].updated_at, reverse=True)
        with_links = (pair for pair in newest if any(_is_resource(span.entity) for span in pair[1].spans))
        wanted = list(islice(with_links, MOST_ASKED))
        links = annotation_rows.links_of(session, [row.id for row, _ in wanted])
        asked = [LabelledSentence(sentence_of(row, links.get(row.id, ())), spans_of(work)) for row, work in wanted]
        linker = linker_of(store, campaign)
        entities = [span.entity for _, work in gold.values() for span in work.spans]
        pairs = [
            (spans_of(first[id_][1]), spans_of(work))
            for id_, (row, work) in second.items()
            if row.blind and id_ in first
        ]
    spans = ((item.sentence, span) for item in asked for span in item.spans if _is_resource(span.entity))
    places = [_place(linker, *pair) for pair in islice(spans, MOST_ASKED)]
    same = [left == right for left, right in _shared(pairs)]
    return Linking(
        spans=len(entities),
        linked=sum(map(_is_resource, entities)),
        nil=entities.count(NIL),
        compared=len(same),
        agreed=sum(same),
        asked=len(places),
        first=places.count(0),
        offered=sum(place < MOST_OFFERED for place in places),
    )


def _is_resource(entity: str | None) -> bool:
    return entity is not None and entity != NIL


def _place(linker: Linker, sentence: Sentence, span: Span) -> int:
    """Return where a span's resource stands among its candidates, after all that are offered if it is none of them."""
    addresses = [made.address for made in linker.candidates(sentence, span.start, span.end, type=span.type)]
    return addresses.index(span.entity) if span.entity in addresses else MOST_OFFERED


def _shared(pairs: Iterable[tuple[tuple[Span, ...], tuple[Span, ...]]]) -> Iterable[tuple[str | None, str | None]]:
    """Yield both links of each span that two annotators have, unless neither linked it."""
    for first, second in pairs:
        links = linked(first)
        for span in second:
            if span in links and (links[span] or span.entity):
                yield links[span], span.entity
