"""From a sentence to gold: annotate, check, adjudicate, look into the store after each step."""

from __future__ import annotations

from db.engine import Store
from tests.support.builders import GOLD, Tab
from workbench.accounts.actors import Actor
from workbench.data import layers


def test_flow_takes_every_sentence_to_gold(store: Store, people: dict[str, Actor], campaign: int) -> None:
    assert Tab(store, people["ann1"], campaign, "annotate").submit_all() == 6
    assert Tab(store, people["ann1"], campaign, "check").items() == ()
    assert len(layers.layer(store, people["res"], campaign, "first")) == 6
    assert Tab(store, people["ann2"], campaign, "check").submit_all() == 6
    assert layers.layer(store, people["res"], campaign, "gold") == []
    assert Tab(store, people["eva"], campaign, "adjudicate").submit_all() == 6
    gold = layers.layer(store, people["res"], campaign, "gold")
    assert [[(s.start, s.end, s.type) for s in one.spans] for one, _ in gold] == list(GOLD)
