"""Campaigns with a queue to order, and what a round did to it."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from crossner_core.domains import load_domain
from crossner_core.schema import LabelledSentence
from crossner_core.training.recipe import Recipe
from db import layer_rows, round_rows
from db.engine import Store
from db.tables import Campaign, SentenceRow
from tests.support.campaigns import campaign_with_gold, in_music
from tests.support.training_builders import own_sentences
from tests.support.training_store import recipe_here
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns, sentences
from workbench.runs import rounds
from workbench.runs.rounds import RoundView


def bare(count: int, offset: int = 60) -> list[LabelledSentence]:
    return in_music(own_sentences(count, offset=offset))


def campaign(store: Store, admin: Actor, *, pool: int = 12, gold: bool = True) -> int:
    if gold:
        campaign_id = campaign_with_gold(store, admin)
    else:
        campaign_id = campaigns.create_campaign(store, admin, name="New", domain=load_domain("music"))
    sentences.add_sentences(store, admin, campaign_id, [item.sentence for item in bare(pool)])
    return campaign_id


def small(folder: Path) -> dict[str, object]:
    """Return the fields in which a quick recipe differs from the default one."""
    made, usual = recipe_here(folder, max_epochs=2).to_dict(), Recipe().to_dict()
    return {name: value for name, value in made.items() if usual[name] != value}


def places(store: Store, campaign_id: int) -> list[tuple[int, float, str | None]]:
    with store.read() as session:
        rows = round_rows.movable(session, campaign_id)
        return [(row.id, row.position, row.chosen_by) for row in rows]


def newest(store: Store, actor: Actor, campaign_id: int) -> RoundView:
    return rounds.list_rounds(store, actor, campaign_id)[0]


def with_idle_weight(store: Store, admin: Actor) -> int:
    """Return a campaign whose strategy was kept when functions that choose sets could still have a weight."""
    campaign_id = campaign(store, admin)
    rounds.change_round_settings(store, admin, campaign_id, strategy="2*longest + bert_km")
    with store.write() as session:
        session.get_one(Campaign, campaign_id).strategy = "2*longest + 100*bert_km"
    return campaign_id


def chosen_by_strategies(store: Store, campaign_id: int, count: int) -> None:
    """Have a strategy put some of the pool's sentences into the queue, and chance one."""
    with store.write() as session:
        ids = [row.id for row in layer_rows.sentences(session, campaign_id) if row.split == "pool"]
        for one, why in zip(ids, ["longest"] * count + ["chance"], strict=False):
            session.execute(sa.update(SentenceRow).where(SentenceRow.id == one).values(chosen_by=why))
