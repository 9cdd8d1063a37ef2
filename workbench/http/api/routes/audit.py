"""The audit trail."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any

from pydantic import Field

from workbench.accounts.roles import KEEPERS
from workbench.http.api.declared import Answer, Call, Id, Page, PageInputs, route
from workbench.reports import audit_trail
from workbench.reports.audit_trail import Asked


class AuditEntry(Answer):
    """Something somebody did."""

    id: str
    done_at: dt.datetime
    actor: str
    """The account's name as it was; `system` is the workbench itself, empty somebody who was not signed in."""
    via: str
    """`page`, `api`, `command` or `worker`."""
    token_id: int | None
    action: str
    campaign_id: int | None
    campaign: str
    """Empty for a campaign that is deleted."""
    subject_kind: str
    subject: str
    details: dict[str, Any]


class AuditAsked(PageInputs):
    """Which entries; conditions that are left out do not narrow it."""

    campaign: Id | None = None
    person: Annotated[str, Field(max_length=100)] = ""
    """An account's name."""
    action: Annotated[str, Field(max_length=100)] = ""
    since: dt.datetime | None = None
    """Entries from this time on; UTC where no zone is given."""
    until: dt.datetime | None = None
    """Entries of before this time."""
    text: Annotated[str, Field(max_length=200)] = ""
    """A part of a name, of the subject or of the details."""


@route("GET", "/audit", scope="read", roles=KEEPERS, use=audit_trail.search)
def list_audit(call: Call, inputs: AuditAsked) -> Page[AuditEntry]:
    """List who did what, newest first. Admins see everything, researchers what belongs to campaigns."""
    asked = Asked(inputs.person, inputs.action, inputs.campaign, inputs.since, inputs.until, inputs.text)
    part = audit_trail.search(call.store, call.actor, asked, cursor=inputs.cursor, limit=inputs.limit)
    return Page(items=[AuditEntry.model_validate(entry) for entry in part.entries], next=part.next)
