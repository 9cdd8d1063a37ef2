"""Searches, opening a hit and proposing in all hits give on a PostgreSQL server what they give on SQLite."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from crossner_core.errors import Conflict
from crossner_core.schema import Suggestion
from db import suggestion_rows
from db.engine import Store
from tests.support import builders
from tests.support.postgres import fresh_store, needs_postgres
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.data import browsing
from workbench.data.searching import PLACES, Search
from workbench.data.values import suggestion_values
from workbench.labelling.opening import open_in_editor
from workbench.suggestions import from_search

pytestmark = needs_postgres
SEARCHES = (
    Search(), Search(text="MARA"), Search(text="music-3"), Search(text="Émile"), Search(text=r"\bthe\b", regex=True),
    Search(type="album"), Search(type="album", layer="gold"), Search(layer="suggestions"), Search(source="model"),
    Search(source="model", type="band"), Search(text="in", place="gold", split="pool"),
    *(Search(differ=kind) for kind in ("any", "type", "boundary", "first", "second", "flagged")),
    *(Search(place=place) for place in PLACES),
)  # fmt: skip


@pytest.fixture
def server() -> Iterator[Store]:
    with fresh_store() as fresh:
        yield fresh


def half_done(store: Store) -> tuple[dict[str, Actor], int]:
    """A campaign with a model's suggestion, and two sentences of which the annotators differ about one."""
    people = builders.make_people(store)
    campaign = builders.make_campaign(store, people)
    first = browsing.browse(store, people["res"], campaign).lines[0].id
    with store.write() as session:
        suggestion_rows.add(session, [suggestion_values(first, Suggestion(0, 2, "band", "model:run 1", 0.9))])
    for name, stage, kind in (("ann1", "annotate", "album"), ("ann2", "check", "song")):
        tab = builders.Tab(store, people[name], campaign, stage)
        for number, item in enumerate(tab.items(2)):
            tab.do("submit", item, [(0, 2, kind if number else "album")])
    tab = builders.Tab(store, people["eva"], campaign, "adjudicate")
    spans, decisions = builders.first_choices(item := tab.items(1)[0])
    tab.do("submit", item, spans, parts={"decisions": decisions})
    return people, campaign


def ids_of(store: Store, actor: Actor, campaign: int, search: Search) -> list[str]:
    return [line.external_id for line in browsing.browse(store, actor, campaign, search).lines]


def test_searches_find_the_same_on_both_stores(store: Store, server: Store) -> None:
    found = []
    for each in (store, server):
        people, campaign = half_done(each)
        found.append(
            {
                (name, search): [
                    line.external_id for line in browsing.browse(each, people[name], campaign, search).lines
                ]
                for name in ("res", "eva", "ann1")
                for search in SEARCHES
                if name != "ann1" or search.differ is None
            }
        )
    assert found[0] == found[1]
    assert sum(bool(ids) for ids in found[0].values()) > 20


def test_proposals_are_written_and_withdrawn_on_a_server(server: Store) -> None:
    people, campaign = half_done(server)
    source, number = from_search.propose(server, people["eva"], campaign, Search(text="cello"), "musicalinstrument")
    assert number == 1 and from_search.proposed(server, people["eva"], campaign)[0].source == source
    assert from_search.withdraw(server, people["eva"], campaign, source) == (1, 0)


def test_two_experts_who_open_the_same_sentence_do_not_both_get_it(server: Store) -> None:
    people, campaign = half_done(server)
    other = builders.make_person(server, "otto", "expert")
    campaigns.add_members(server, people["adm"], campaign, [other.id])
    waiting = browsing.browse(server, people["res"], campaign, Search(place="adjudicate")).lines[0].id
    outcomes: list[str] = []
    both = threading.Barrier(2)

    def opens(actor: Actor) -> None:
        both.wait()
        try:
            outcomes.append(open_in_editor(server, actor, campaign, waiting))
        except Conflict as error:
            outcomes.append(str(error))

    threads = [threading.Thread(target=opens, args=(actor,)) for actor in (people["eva"], other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(outcomes)[1] == "adjudicate" and "went to somebody else" in sorted(outcomes)[0]
