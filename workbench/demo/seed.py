"""Fill an empty store with the demo: people, two campaigns part-way through, a snapshot and a first curve to train.

Everything goes through the same use cases that people's clicks go through.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.resources import files

from crossner_core.domains import load_domain
from crossner_core.errors import NotFound
from crossner_core.formats import read_bytes
from crossner_core.formats.base import Record
from crossner_core.schema import Sentence
from crossner_core.training.recipe import Recipe
from db.engine import Store
from workbench.accounts import accounts
from workbench.accounts.actors import Actor
from workbench.accounts.passwords import random_password
from workbench.campaigns import campaigns, sentences
from workbench.data import snapshots
from workbench.demo.walk import STAGES, walk
from workbench.runs import adaptation
from workbench.suggestions import preannotating

PEOPLE = {
    "ada": "admin",
    "ann": "annotator",
    "ben": "annotator",
    "cleo": "annotator",
    "eva": "expert",
    "rosa": "researcher",
}
"""Role by account name."""
CAMPAIGNS = (("Politics (demo)", "politics"), ("Music (demo)", "music"))
CURVE_SIZES = (8, 16, 32)
CURVE_SEEDS = (555, 666)


def seed_if_empty(store: Store) -> Iterator[str]:
    """Make the demo where nobody has an account yet, and finish one that was interrupted.

    Yields the lines to print, the passwords among them, before the slow part.
    """
    fresh = _is_empty(store)
    if fresh:
        passwords = _make_people(store)
        yield "Demo accounts (shown this once; an admin can set new passwords under People):"
        for name, role in PEOPLE.items():
            yield f"  {name:<6} {passwords[name]}   {role}"
    people = _people(store)
    if not people:
        return
    known = {view.name: view.id for view in campaigns.list_campaigns(store, people["ada"])}
    for name, domain in CAMPAIGNS:
        begun = name in known and not snapshots.list_snapshots(store, people["ada"], known[name])
        if (fresh and name not in known) or begun:
            _make_campaign(store, people, name, domain, known.get(name))


def is_demo(store: Store) -> bool:
    """Return whether the demo's people work in this store."""
    return bool(_people(store))


def _is_empty(store: Store) -> bool:
    try:
        accounts.operator(store)
    except NotFound:
        return True
    return False


def _make_people(store: Store) -> dict[str, str]:
    """Make the demo's accounts; return their passwords."""
    passwords = {name: random_password() for name in PEOPLE}
    admin: Actor | None = None
    for name, role in PEOPLE.items():
        made = accounts.create_user(
            store, admin, name=name, display_name=name.capitalize(), password=passwords[name], role=role
        )
        admin = admin or made
    return passwords


def _people(store: Store) -> dict[str, Actor]:
    """Find the demo's people; none where this store was set up otherwise."""
    listed = {person.name: person for person in accounts.list_people(store, accounts.operator(store))}
    if not all(name in listed and listed[name].active for name in PEOPLE):
        return {}
    return {name: Actor(listed[name].id, name, listed[name].display_name, listed[name].role) for name in PEOPLE}


def _make_campaign(
    store: Store, people: Mapping[str, Actor], name: str, domain_name: str, campaign_id: int | None
) -> None:
    data = files("workbench.demo").joinpath(f"{domain_name}.jsonl").read_bytes()
    # Those furthest along first, so that the queue ends with what is still to be annotated.
    records = sorted(
        read_bytes(data, name=f"{domain_name}.jsonl").sentences,
        key=lambda record: -STAGES.index(record.sentence.meta["stage"]),
    )
    admin, researcher = people["ada"], people["rosa"]
    if campaign_id is None:
        campaign_id = campaigns.create_campaign(store, admin, name=name, domain=load_domain(domain_name))
    campaigns.set_members(store, admin, campaign_id, [actor.id for actor in people.values()])
    for split in ("dev", "test", "pool"):
        chosen = [_without_answers(record) for record in records if record.sentence.meta["split"] == split]
        sentences.add_sentences(store, admin, campaign_id, chosen, split=split)
    preannotating.preannotate(store, admin, campaign_id)
    walk(store, people, campaign_id, records)
    snapshot = snapshots.freeze(store, researcher, campaign_id)
    if domain_name == "music":
        adaptation.start_few_shot(
            store,
            researcher,
            campaign_id=campaign_id,
            snapshot_id=snapshot.id,
            recipe=Recipe(max_epochs=12, patience=4),
            sizes=CURVE_SIZES,
            seeds=CURVE_SEEDS,
        )


def _without_answers(record: Record) -> Sentence:
    """The sentence as a file without any annotation would give it."""
    return replace(record.sentence.bare(), meta={"source": "demo"})
