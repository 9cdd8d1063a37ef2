"""Access to a campaign: role, membership and existence are checked here before anything is read or written."""

from __future__ import annotations

from crossner_core.errors import NotAllowed, NotFound
from db import campaign_rows, people_rows, run_rows
from db.engine import Session
from db.tables import Campaign
from db.training_tables import Run
from workbench.accounts.actors import Actor, fresh, permitted
from workbench.accounts.roles import LABELLERS


def enter(session: Session, actor: Actor, campaign_id: int, *roles: str) -> tuple[Actor, Campaign]:
    """Return the actor as the store has them now, and the campaign; raise NotAllowed or NotFound.

    Annotators and experts must be members; to them any other campaign looks like one that does not exist.
    """
    return _entered(session, actor, campaign_id, roles, lock=False)


def enter_run(session: Session, actor: Actor, run_id: int, *roles: str, bare: bool = False) -> Run:
    """Return a run that the actor may see, one of a campaign as `enter` decides; raise NotAllowed or NotFound.

    `bare`: without its result and what it was trained on.
    """
    run = run_rows.get_bare(session, run_id) if bare else run_rows.get(session, run_id)
    if run is None:
        raise NotFound(f"There is no run {run_id}.")
    if run.campaign_id is not None:
        enter(session, actor, run.campaign_id, *roles)
    else:
        fresh(session, actor, *roles)
    return run


def enter_alone(session: Session, actor: Actor, campaign_id: int, *roles: str) -> tuple[Actor, Campaign]:
    """Enter to write, and make the actor's other tabs wait until the transaction ends.

    Only one transaction at a time then changes what a person holds. The lock is taken before any task is locked, so
    that two tabs never deadlock. SQLite has a single writer anyway.
    """
    return _entered(session, actor, campaign_id, roles, lock=True)


def _entered(
    session: Session, actor: Actor, campaign_id: int, roles: tuple[str, ...], *, lock: bool
) -> tuple[Actor, Campaign]:
    entry = people_rows.in_campaign(session, campaign_id=campaign_id, user_id=actor.id, lock=lock)
    if entry is not None:
        user, campaign = entry
        return permitted(actor, user, *roles), campaign
    now = fresh(session, actor, *roles)  # no member: an admin or researcher, or somebody to be refused
    outsider = campaign_rows.find(session, campaign_id)
    if outsider is None or now.role in LABELLERS:
        raise NotFound(f"There is no campaign {campaign_id} for {now.display_name}; an admin can add members.")
    return now, outsider


def refuse_archived(campaign: Campaign) -> None:
    """Raise NotAllowed when the campaign is archived and so no longer changes."""
    if campaign.archived:
        raise NotAllowed(f"The campaign {campaign.name!r} is archived; an admin can bring it back in its settings.")
