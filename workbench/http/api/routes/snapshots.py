"""Snapshots: the frozen gold of a campaign."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

from pydantic import Field

from workbench.accounts.roles import KEEPERS, OVERSEERS
from workbench.data import snapshots
from workbench.http.api.declared import Answer, Call, Id, Inputs, Page, PageInputs, route, with_ids_after


class Snapshot(Answer):
    """Frozen gold, named by its hash."""

    id: int
    campaign_id: int
    hash: str
    types: list[str]
    counts: dict[str, int]
    """Sentences in pool, dev and test, and entities."""
    created_at: dt.datetime
    runs: int
    """Runs on it; 0 for one just frozen."""
    notes: list[str]
    """What cannot be measured on it."""


class Frozen(Snapshot):
    """A snapshot that was asked for; the same gold gives the same snapshot."""

    is_new: bool


class SnapshotsAsked(PageInputs):
    """The snapshots of a campaign."""

    campaign: Id


class OneCampaign(Inputs):
    """A campaign."""

    campaign: Id


class OneSnapshot(Inputs):
    """A snapshot of a campaign."""

    campaign: Id
    hash: Annotated[str, Field(pattern=r"^[0-9a-f]{4,64}$")]
    """Its hash, or the first characters of it."""


@route("GET", "/campaigns/{campaign}/snapshots", scope="read", roles=OVERSEERS, use=snapshots.list_snapshots)
def list_snapshots(call: Call, inputs: SnapshotsAsked) -> Page[Snapshot]:
    """List the snapshots of a campaign, newest first."""
    rows = snapshots.list_snapshots(call.store, call.actor, inputs.campaign)
    part, after = with_ids_after(sorted(rows, key=lambda row: -row.id), inputs, lambda row: row.id)
    return Page(items=[Snapshot.model_validate(row) for row in part], next=after)


@route("GET", "/campaigns/{campaign}/snapshots/{hash}", scope="read", roles=OVERSEERS, use=snapshots.find_snapshot)
def get_snapshot(call: Call, inputs: OneSnapshot) -> Snapshot:
    """Get the snapshot whose hash begins like this; `runs` is counted in the list alone."""
    return Snapshot.model_validate(snapshots.find_snapshot(call.store, call.actor, inputs.campaign, inputs.hash))


@route(
    "POST",
    "/campaigns/{campaign}/snapshots",
    scope="write",
    roles=KEEPERS,
    use=snapshots.freeze,
    status=201,
    creates=True,
    slots="long",
)
def freeze_gold(call: Call, inputs: OneCampaign) -> Frozen:
    """Freeze the gold of a campaign as it is now."""
    return Frozen.model_validate(snapshots.freeze(call.store, call.actor, inputs.campaign))
