"""Campaigns, their domains, and the tasks in them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from workbench.accounts.actors import admit
from workbench.accounts.roles import EVERYONE, KEEPERS, OVERSEERS
from workbench.campaigns import campaigns, domains, tasks
from workbench.campaigns.campaigns import CampaignView
from workbench.campaigns.settings import checked, fields, names
from workbench.http.api.declared import (
    Answer,
    Body,
    Call,
    Id,
    Inputs,
    Nothing,
    Page,
    PageInputs,
    cursor_of,
    given,
    number_in,
    route,
    with_ids_after,
)

Stage = Literal["annotate", "check", "adjudicate"]
State = Literal["open", "leased", "done", "parked"]


class Domain(Answer):
    """A domain to make a campaign of."""

    name: str
    title: str
    description: str
    types: list[str]
    is_builtin: bool


class Domains(Answer):
    """All domains, the built-in ones first."""

    items: list[Domain]


class Stages(Answer):
    """Tasks of one stage by state; `waiting` sentences have not reached the stage yet."""

    stage: Stage
    open: int
    leased: int
    done: int
    parked: int
    waiting: int


class Member(Answer):
    """A person who works in a campaign."""

    id: int
    name: str
    display_name: str
    role: str


class Campaign(Answer):
    """A campaign and how far it has come."""

    id: int
    name: str
    domain: str
    types: list[str]
    archived: bool
    created_at: dt.datetime
    sentences: int
    splits: dict[str, int]
    """Sentences in pool, dev and test."""
    gold: int
    """Sentences with gold."""
    stages: list[Stages]
    members: list[Member] | None
    """Null for annotators, who need not know whose work they check."""
    settings: dict[str, Any]


_RULES = "; ".join(f"{spec.name}: {spec.metadata['help'].rstrip('.')}" for spec in fields("rules", "new"))


class NewCampaign(Body):
    """A campaign to make."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    domain: Annotated[str, Field(min_length=1, max_length=100)]
    """Name of its domain, as `/domains` lists them."""
    members: Annotated[list[Id], Field(max_length=1000)] = Field(default=[])
    """Numbers of the accounts that work in it."""
    settings: dict[str, bool | int | float | str | None] = Field(
        default={}, description=f"Rules that are not at their defaults. {_RULES}."
    )


class Settings(Answer):
    """What a campaign is set to; it changes by an admin's decision alone."""

    name: str
    archived: bool
    settings: dict[str, Any]


class SettingsChange(Body):
    """What is to be changed; what is left out stays as it is."""

    name: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    archived: bool | None = None
    settings: dict[str, bool | int | float | str | None] = Field(
        default={}, description=f"Rules that are to change; the seed never does. {_RULES}."
    )


class Task(Answer):
    """One stage of one sentence; a lease that has expired is anybody's."""

    id: int
    sentence_id: int
    external_id: str
    """The sentence's id as it was imported."""
    stage: Stage
    state: State
    leased_to: str | None
    lease_expires: dt.datetime | None
    done_by: str | None
    done_at: dt.datetime | None


class CampaignsAsked(PageInputs):
    """Which campaigns."""

    archived: bool = False
    """Archived ones, too."""


class OneCampaign(Inputs):
    """A campaign."""

    campaign: Id


class TasksAsked(PageInputs):
    """Which tasks of a campaign."""

    campaign: Id
    stage: Stage | None = None
    state: State | None = None


@route("GET", "/domains", scope="read", roles=EVERYONE, use=domains.list_domains)
def list_domains(call: Call, inputs: Nothing) -> Domains:
    """List the domains that a campaign can be made of."""
    views = domains.list_domains(call.store, call.actor)
    return Domains(items=[Domain.model_validate(view) for view in views])


@route("GET", "/campaigns", scope="read", roles=EVERYONE, use=campaigns.list_campaigns)
def list_campaigns(call: Call, inputs: CampaignsAsked) -> Page[Campaign]:
    """List the campaigns you may see, newest first."""
    views = campaigns.list_campaigns(call.store, call.actor, archived=inputs.archived)
    part, after = with_ids_after(sorted(views, key=lambda view: -view.id), inputs, lambda view: view.id)
    return Page(items=[_campaign(call, view) for view in part], next=after)


@route("POST", "/campaigns", scope="write", roles=KEEPERS, use=campaigns.create_campaign, status=201, creates=True)
def create_campaign(call: Call, inputs: Nothing, body: NewCampaign) -> Campaign:
    """Make an empty campaign of a domain as it is now. An endpoint is set by admins alone."""
    admit(call.store, call.actor, *KEEPERS)
    domain = domains.get_domain(call.store, body.domain)
    made = campaigns.create_campaign(
        call.store, call.actor, name=body.name, domain=domain, member_ids=body.members, **rules(body.settings)
    )
    return _campaign(call, campaigns.get_campaign(call.store, call.actor, made))


@route("GET", "/campaigns/{campaign}", scope="read", roles=EVERYONE, use=campaigns.get_campaign)
def get_campaign(call: Call, inputs: OneCampaign) -> Campaign:
    """Get a campaign with its settings, its members and the state of its stages."""
    return _campaign(call, campaigns.get_campaign(call.store, call.actor, inputs.campaign))


@route("GET", "/campaigns/{campaign}/settings", scope="read", roles=EVERYONE, use=campaigns.get_campaign)
def get_settings(call: Call, inputs: OneCampaign) -> Settings:
    """Get what a campaign is set to."""
    return _settings(campaigns.get_campaign(call.store, call.actor, inputs.campaign))


@route(
    "PATCH",
    "/campaigns/{campaign}/settings",
    scope="write",
    roles=("admin",),
    use=campaigns.update_settings,
    matches=True,
)
def change_settings(call: Call, inputs: OneCampaign, body: SettingsChange) -> Settings:
    """Change settings of a campaign; new shares apply to the sentences that nobody has begun."""
    admit(call.store, call.actor, "admin")
    view = campaigns.update_settings(
        call.store,
        call.actor,
        inputs.campaign,
        check=lambda view: call.refuse_changed(_settings(view)),
        **checked(body.settings, names("rules")),
        **given(body, "name", "archived"),
    )
    return _settings(view)


@route("GET", "/campaigns/{campaign}/tasks", scope="read", roles=KEEPERS, use=tasks.list_tasks)
def list_tasks(call: Call, inputs: TasksAsked) -> Page[Task]:
    """List the tasks of a campaign with their state, oldest first."""
    rows = tasks.list_tasks(
        call.store,
        call.actor,
        inputs.campaign,
        stage=inputs.stage,
        state=inputs.state,
        after=number_in(inputs.cursor),
        limit=inputs.limit + 1,
    )
    part = rows[: inputs.limit]
    after = cursor_of(part[-1].id) if len(rows) > len(part) else None
    return Page(items=[Task.model_validate(row) for row in part], next=after)


def rules(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a new campaign; raise InvalidConfig for one that is none of its rules."""
    return checked(settings, names("rules", "new"))


def _settings(view: CampaignView) -> Settings:
    settings = {name: getattr(view, name) for name in names("rules", "new")}
    return Settings(name=view.name, archived=view.archived, settings=settings)


def _campaign(call: Call, view: CampaignView) -> Campaign:
    return Campaign(
        id=view.id,
        name=view.name,
        domain=view.domain_name,
        types=list(view.domain.type_names),
        archived=view.archived,
        created_at=view.created_at,
        sentences=view.sentences,
        splits=view.splits,
        gold=view.gold,
        stages=[Stages.model_validate(stage) for stage in view.stages],
        members=[Member.model_validate(member) for member in view.members] if call.actor.role in OVERSEERS else None,
        settings=_settings(view).settings,
    )
