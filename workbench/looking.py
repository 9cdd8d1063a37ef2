"""The worker's part of a second look: gold in, each check over it, findings into the queues."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from crossner_core.errors import BadInput
from crossner_core.options.second_look import SecondLookOptions
from crossner_core.second_look.base import Desk, Gold, check
from workbench.campaigns.settings import domain_of
from workbench.data import layers
from workbench.labelling.label_review import keep_findings

if TYPE_CHECKING:
    from db.engine import Session
    from workbench.lease import Lease
    from workbench.running import Workplace

# The checks that ask models; the others are done in a moment.
_WITH_ENCODER = ("label_errors",)


def look(place: Workplace, lease: Lease) -> str:
    """Run the job's checks one after the other, each kept as soon as it is done; return what came of it in words.

    A check that this gold does not allow (fewer sentences than folds) says so, and the others go on.
    """
    campaign_id = lease.job.campaign_id
    assert campaign_id is not None, "a second look is at a campaign"
    options = SecondLookOptions(**lease.job.payload["options"])
    with place.store.read() as session:
        gold, ids = gold_of(session, campaign_id)
    checks = [check(id) for id in lease.job.payload["checks"]]
    said = []
    for number, one in enumerate(checks):
        lease.message = one.title
        encoder = place.encoder(options.encoder) if one.id in _WITH_ENCODER else None
        report = partial(_report, lease, number, len(checks))
        try:
            found = one.find(gold, options, Desk(encoder, lease.should_stop, report))
        except BadInput as error:
            said.append(f"{one.title}: {error}")
            continue
        if found is None or lease.lost.is_set():
            break
        with place.store.write() as session:
            stand, before = keep_findings(session, campaign_id, one.id, found, ids)
        said.append(f"{one.title}: {stand}" + (f" ({before} decided before)" if before else ""))
        report(1.0)
    return " · ".join(said)


def gold_of(session: Session, campaign_id: int) -> tuple[Gold, list[int]]:
    """Return a campaign's gold for the checks, and the id of each of its sentences; raise BadInput without gold."""
    from db import campaign_rows

    campaign = campaign_rows.find(session, campaign_id)
    assert campaign is not None, "jobs go with their campaign"
    found = sorted(layers.gold(session, campaign_id), key=lambda one: one.sentence_id)
    items, splits = tuple(one.labelled for one in found), tuple(one.split for one in found)
    return Gold(items, splits, domain_of(campaign).type_names), [one.sentence_id for one in found]


def _report(lease: Lease, number: int, checks: int, share: float) -> None:
    lease.progress = (number + share) / checks
