"""What a search of a campaign's sentences asks for, and which of them match, as far as the actor may see them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from crossner_core.errors import BadInput, NotAllowed
from crossner_core.suggest.base import sources
from db import search_rows
from db.engine import Session, Store
from db.search_rows import DISAGREEMENTS, LAYERS, Sight, Wanted
from db.tables import SPLITS, Campaign
from workbench.accounts.actors import Actor
from workbench.accounts.roles import KEEPERS, OVERSEERS
from workbench.campaigns.domains import domain_of
from workbench.data import patterns
from workbench.data.patterns import Ranges

MOST_CHARACTERS = 200
PLACES = ("annotate", "check", "adjudicate", "gold", "parked")
"""The places of sentences: waiting at a stage, finished as gold, or parked because people skipped them."""


@dataclass(frozen=True, slots=True)
class Search:
    """The conditions of a search; those that are empty or None do not narrow it.

    `text` is a part of text or id, or with `regex` a regular expression on the text; case does not matter. `type` is
    looked for in `layer`, without one in all of them, and among the suggestions of `source` if that is given alone.
    """

    text: str = ""
    regex: bool = False
    place: str | None = None
    split: str | None = None
    type: str | None = None
    layer: str | None = None
    source: str | None = None
    differ: str | None = None


EVERYTHING = Search()


def source_kinds() -> dict[str, str]:
    """Return the kinds of sources that suggestions can have, with their display names."""
    return {kind: words for source in sources() for kind, words in source.kinds.items()}


def check(search: Search, actor: Actor, campaign: Campaign) -> None:
    """Raise BadInput for a value that is not known, NotAllowed for a comparison of annotators by an annotator."""
    known: tuple[tuple[str, str | None, Collection[str]], ...] = (
        ("place", search.place, PLACES),
        ("split", search.split, SPLITS),
        ("type", search.type, domain_of(campaign).type_names),
        ("layer", search.layer, LAYERS),
        ("source", search.source, source_kinds()),
        ("disagreement", search.differ, DISAGREEMENTS),
    )
    for what, value, values in known:
        if value is not None and value not in values:
            raise BadInput(f"There is no {what} {value!r}; there are {', '.join(values)}.")
    if len(search.text) > MOST_CHARACTERS:
        raise BadInput(f"The search has {len(search.text)} characters; up to {MOST_CHARACTERS} are allowed.")
    if search.differ is not None and actor.role not in OVERSEERS:
        raise NotAllowed("Where annotators differ is for those who settle or oversee; search by text or type instead.")


def matching(
    store: Store, session: Session, campaign: Campaign, actor: Actor, search: Search, *, offset: int, limit: int | None
) -> tuple[int, list[int]]:
    """Return how many sentences match, and the ids of some in the order of the queue; the actor is authorised."""
    check(search, actor, campaign)
    sight = Sight(
        actor.id,
        everything=actor.role in KEEPERS,
        settles=actor.role in OVERSEERS,
        suggestions=campaign.suggestions_on,
    )
    text, offset = search.text.strip(), max(offset, 0)
    # SQLite knows the case of ASCII letters only: other text is matched by Python, as expressions are.
    by_python = bool(text) and (search.regex or not text.isascii())
    wanted = Wanted(
        text="" if by_python else text, place=search.place, split=search.split, kind=search.type,
        layer=search.layer, source=search.source, differ=search.differ,
    )  # fmt: skip
    if wanted == Wanted(split=wanted.split) and not by_python:  # counting is much quicker than listing
        total = search_rows.count(session, campaign.id, wanted, sight)
        return total, search_rows.ids(session, campaign.id, wanted, sight, offset=offset, limit=limit)
    if by_python:
        among = _matched(store, session, campaign, search, sight)
        ids = search_rows.ids_among(session, campaign.id, wanted, sight, among)
    else:
        ids = search_rows.ids(session, campaign.id, wanted, sight)
    return len(ids), ids[offset : None if limit is None else offset + limit]


def _matched(store: Store, session: Session, campaign: Campaign, search: Search, sight: Sight) -> set[int]:
    text = search.text.strip()
    if search.regex:
        return set(patterns.matching_ids(store, session, campaign.id, text))
    by_id = search_rows.ids(session, campaign.id, Wanted(text=text), sight)  # an id may hold it, too
    return set(patterns.matching_ids(store, session, campaign.id, re.escape(text))).union(by_id)


def ranges(search: Search, texts: Sequence[str]) -> list[Ranges]:
    """Return the characters of each text that the search's own text matches."""
    text = search.text.strip()
    if not text:
        return [()] * len(texts)
    return patterns.ranges_of(text, texts) if search.regex else patterns.ranges_of_text(text, texts)
