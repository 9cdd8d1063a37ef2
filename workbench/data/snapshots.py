"""Freeze a campaign's gold into snapshots that are named by their content."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from crossner_core.errors import BadInput, NotFound
from crossner_core.schema import LabelledSentence
from db import label_review_rows, snapshot_rows
from db.engine import Session, Store
from db.tables import Campaign
from db.training_tables import Snapshot
from workbench.accounts import audit
from workbench.accounts.access import enter
from workbench.accounts.actors import SYSTEM, Actor, require
from workbench.accounts.roles import KEEPERS, OVERSEERS
from workbench.campaigns.domains import domain_of
from workbench.data import frozen, layers


@dataclass(frozen=True, slots=True)
class SnapshotView:
    """Frozen gold; `counts` has pool, dev, test (sentences) and entities. `is_new` is set by `freeze` alone."""

    id: int
    campaign_id: int
    hash: str
    domain_name: str
    types: tuple[str, ...]
    counts: Mapping[str, int]
    created_at: dt.datetime
    runs: int = 0
    is_new: bool = False

    @property
    def name(self) -> str:
        """The first twelve characters of the hash, by which people call it."""
        return self.hash[:12]

    @property
    def notes(self) -> tuple[str, ...]:
        """What cannot be measured on it, in words."""
        notes = []
        if not self.counts["dev"]:
            notes.append("No dev gold: runs train for the fixed number of epochs, without early stop.")
        if not self.counts["test"]:
            notes.append("No test gold: runs have no test score.")
        return tuple(notes)


def freeze(store: Store, actor: Actor, campaign_id: int) -> SnapshotView:
    """Freeze the gold as it is now, without what was left out; the same gold gives the same snapshot.

    Raises BadInput where there is none to train on.
    """
    require(actor, *KEEPERS, SYSTEM.role)
    with store.write() as session:
        current, campaign = enter(session, actor, campaign_id, *KEEPERS, SYSTEM.role)
        made = freeze_gold(session, actor, campaign)
        audit.record(session, current, "freeze", ("snapshot", made.hash[:12]), campaign_id, is_new=made.is_new)
        return made


def freeze_gold(session: Session, actor: Actor, campaign: Campaign) -> SnapshotView:
    """Freeze a campaign's gold within a transaction; the caller has authorised the actor."""
    types = domain_of(campaign).type_names
    gold = _gold(session, campaign.id)
    name = frozen.content_hash(types, gold)
    known = snapshot_rows.find(session, campaign_id=campaign.id, hash=name)
    if known is not None:
        return view(known)
    snapshot_id = snapshot_rows.add(
        session,
        campaign_id=campaign.id,
        hash=name,
        content="".join(frozen.to_line(item, split=split) + "\n" for split, item in gold),
        domain_name=campaign.domain_name,
        types=types,
        counts=_counts(gold),
        created_by=actor.id or None,
    )
    row = snapshot_rows.get(session, snapshot_id)
    assert row is not None
    return view(row, is_new=True)


def list_snapshots(store: Store, actor: Actor, campaign_id: int) -> tuple[SnapshotView, ...]:
    """Return a campaign's snapshots, newest first."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *OVERSEERS)
        runs = snapshot_rows.run_counts(session, campaign_id=campaign_id)
        rows = snapshot_rows.listed(session, campaign_id=campaign_id)
        return tuple(view(row, runs=runs.get(row.id, 0)) for row in rows)


def find_snapshot(store: Store, actor: Actor, campaign_id: int, prefix: str) -> SnapshotView:
    """Return the snapshot whose hash starts with `prefix`; raise NotFound if none or several do."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *OVERSEERS)
        rows = snapshot_rows.by_prefix(session, campaign_id=campaign_id, prefix=prefix)
        if len(rows) != 1:
            what = "No snapshot" if not rows else "More than one snapshot"
            known = ", ".join(row.hash[:12] for row in snapshot_rows.listed(session, campaign_id=campaign_id)) or "none"
            raise NotFound(f"{what} of this campaign begins with {prefix!r}; there are: {known}.")
        return view(rows[0])


def content_of(session: Session, snapshot_id: int) -> tuple[Snapshot, dict[str, tuple[LabelledSentence, ...]]]:
    """Return a snapshot with its sentences by split: pool, dev, test."""
    row = snapshot_rows.get(session, snapshot_id, content=True)
    if row is None:
        raise NotFound(f"There is no snapshot {snapshot_id}.")
    parts: dict[str, list[LabelledSentence]] = {"pool": [], "dev": [], "test": []}
    for item, values in frozen.read_lines(row.content):
        parts[values["split"]].append(item)
    return row, {split: tuple(items) for split, items in parts.items()}


def view(row: Snapshot, *, runs: int = 0, is_new: bool = False) -> SnapshotView:
    """Return the view of a row."""
    return SnapshotView(
        id=row.id,
        campaign_id=row.campaign_id,
        hash=row.hash,
        domain_name=row.domain_name,
        types=tuple(row.types),
        counts=dict(row.counts),
        created_at=row.created_at,
        runs=runs,
        is_new=is_new,
    )


def _gold(session: Session, campaign_id: int) -> list[tuple[str, LabelledSentence]]:
    gold = []
    for item in layers.gold_to_learn_from(session, campaign_id):
        # Metadata has no effect on training; it stays with the campaign.
        gold.append((item.split, LabelledSentence(item.labelled.sentence.bare(), item.labelled.spans)))
    if not any(split == "pool" for split, _ in gold):
        left_out = label_review_rows.left_out_gold(session, [campaign_id]).get(campaign_id, 0)
        why = f"the {len(gold)} gold sentences are dev and test, which are not trained on" if gold else "no gold yet"
        if left_out:
            why = f"{left_out} gold sentences are left out, {len(gold)} are dev and test, which are not trained on"
        raise BadInput(f"Nothing to train on: {why}. Adjudicate sentences of the pool, or import some with gold.")
    return gold


def _counts(gold: list[tuple[str, LabelledSentence]]) -> dict[str, int]:
    counts = {split: sum(1 for which, _ in gold if which == split) for split in ("pool", "dev", "test")}
    return {**counts, "entities": frozen.entities(item for _, item in gold)}
