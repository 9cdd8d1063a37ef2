"""Campaigns: their settings, members and end."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from crossner_core.domains import Domain, domain_to_toml
from crossner_core.errors import BadInput, Conflict, UnknownType
from crossner_core.schema import UNSTORABLE, is_storable
from db import account_rows, campaign_rows, label_review_rows, people_rows, run_rows
from db.engine import Session, Store
from db.tables import SPLITS, STAGES, Campaign, SentenceRow, User
from workbench.accounts import audit
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, fresh, require
from workbench.accounts.roles import EVERYONE, KEEPERS, LABELLERS
from workbench.campaigns.domains import campaign_domain, domain_of, with_guidelines
from workbench.campaigns.sentences import draw
from workbench.campaigns.settings import CampaignSettings, checked, names

MOST_GUIDELINE = 20_000
"""Characters of one type's guideline."""


@dataclass(frozen=True, slots=True)
class MemberView:
    """A person who works in a campaign."""

    id: int
    name: str
    display_name: str
    role: str
    active: bool


@dataclass(frozen=True, slots=True)
class StageCounts:
    """Tasks of one stage by state; `waiting` sentences have not reached the stage yet."""

    stage: str
    open: int
    leased: int
    done: int
    parked: int
    waiting: int


@dataclass(frozen=True, kw_only=True)
class CampaignView(CampaignSettings):
    """A campaign with its settings and how far it has come."""

    id: int
    domain_name: str
    domain_toml: str
    created_at: dt.datetime
    sentences: int
    splits: dict[str, int]
    stages: tuple[StageCounts, ...]
    members: tuple[MemberView, ...] = ()
    left_out: int = 0
    """How many of the gold sentences snapshots leave out."""

    @property
    def domain(self) -> Domain:
        """The campaign's own definition of its domain."""
        return campaign_domain(self.name, self.domain_toml)

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources of pre-annotation, in this order, as text."""
        named = (f"the gazetteer {self.gazetteer}" if self.gazetteer else None, self.endpoint, "the bundled sample")
        return tuple(name for name in named if name)

    @property
    def gold(self) -> int:
        """Number of sentences with gold."""
        return next((stage.done for stage in self.stages if stage.stage == "adjudicate"), 0)


def create_campaign(
    store: Store, actor: Actor, *, name: str, domain: Domain, member_ids: Iterable[int] = (), **settings: Any
) -> int:
    """Create an empty campaign with the domain as it is now and these `CampaignSettings`; return its id.

    For researchers and admins; an endpoint, which is an address the server asks, is set by admins alone.
    """
    require(actor, *KEEPERS)
    with store.write() as session:
        current = fresh(session, actor, *KEEPERS)
        made = add_campaign(session, current, name=name, domain=domain, member_ids=member_ids, **settings)
        audit.record(session, current, "create_campaign", ("campaign", made.name), made.id, domain=domain.name)
        return made.id


def add_campaign(
    session: Session, actor: Actor, *, name: str, domain: Domain, member_ids: Iterable[int] = (), **settings: Any
) -> Campaign:
    """Like `create_campaign`, inside a transaction whose caller has authorised the actor."""
    chosen = check_new(session, actor, name=name, **settings)
    campaign = campaign_rows.add(session, domain_name=domain.name, domain_toml=domain_to_toml(domain), **asdict(chosen))
    _add_members(session, campaign.id, member_ids)
    return campaign


def check_new(session: Session, actor: Actor, *, name: str, **settings: Any) -> CampaignSettings:
    """Return the settings of a campaign that is to be made; raise for wrong ones, or a name that is taken."""
    chosen = CampaignSettings(**checked({"name": name, **settings}, ("name", *names("rules", "new"))))
    if chosen.endpoint is not None:
        require(actor, "admin")
    _refuse_taken_name(session, chosen.name)
    return chosen


def possible_members(store: Store, actor: Actor) -> tuple[MemberView, ...]:
    """Return who can become a member: every active account, by name. For researchers and admins."""
    require(actor, *KEEPERS)
    with store.read() as session:
        fresh(session, actor, *KEEPERS)
        return tuple(_member_view(user) for user in account_rows.everyone(session) if user.active)


def list_campaigns(store: Store, actor: Actor, *, archived: bool = False) -> tuple[CampaignView, ...]:
    """Return the campaigns the actor may see, newest first; archived ones only when asked for."""
    require(actor, *EVERYONE)
    with store.read() as session:
        current = fresh(session, actor, *EVERYONE)
        member_id = current.id if current.role in LABELLERS else None
        rows = [row for row in campaign_rows.everything(session, member_id=member_id) if archived or not row.archived]
        return _views(session, rows)


def last_campaign(store: Store, actor: Actor) -> int | None:
    """Return the campaign the actor chose last, on any browser; None where they cannot choose it any more."""
    require(actor, *EVERYONE)
    with store.read() as session:
        current = fresh(session, actor, *EVERYONE)
        user = people_rows.find(session, current.id)
        member_id = current.id if current.role in LABELLERS else None
        mine = {row.id for row in campaign_rows.everything(session, member_id=member_id) if not row.archived}
        return user.last_campaign_id if user is not None and user.last_campaign_id in mine else None


def choose_campaign(store: Store, actor: Actor, campaign_id: int) -> None:
    """Remember the campaign for the actor's next visit; raise NotFound when there is none for them."""
    require(actor, *EVERYONE)
    with store.write() as session:
        current, campaign = enter(session, actor, campaign_id, *EVERYONE)
        user = people_rows.find(session, current.id)
        if user is not None:
            user.last_campaign_id = campaign.id


def get_campaign(store: Store, actor: Actor, campaign_id: int) -> CampaignView:
    """Return one campaign; raise NotFound when there is none for the actor."""
    require(actor, *EVERYONE)
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *EVERYONE)
        return _views(session, [campaign])[0]


def get_domain(store: Store, actor: Actor, campaign_id: int) -> Domain:
    """Return the campaign's definition of its domain as it is now; raise NotFound when there is none for the actor."""
    require(actor, *EVERYONE)
    with store.read() as session:
        return domain_of(enter(session, actor, campaign_id, *EVERYONE)[1])


def update_settings(
    store: Store,
    actor: Actor,
    campaign_id: int,
    *,
    check: Callable[[CampaignView], object] | None = None,
    **changes: Any,
) -> CampaignView:
    """Change any setting but the seed; new shares apply to the sentences that nobody has begun. For admins.

    `check` gets the campaign as it is before the change, while nobody else can change it, and may raise.
    """
    require(actor, "admin")
    values = checked(changes, names("campaign", "rules"))
    with store.write() as session:
        current, campaign = enter(session, actor, campaign_id, "admin")
        if check is not None:
            campaign_rows.hold(session, campaign_id)
            session.refresh(campaign)
            check(_views(session, [campaign])[0])
        if "name" in values and values["name"] != campaign.name:
            _refuse_taken_name(session, values["name"])
        changes = audit.changed({key: getattr(campaign, key) for key in values}, values)
        audit.record(session, current, _change_of(changes), ("campaign", campaign.name), campaign.id, **changes)
        for key, value in values.items():
            setattr(campaign, key, value)
        if "control_share" in values:
            _redraw(session, campaign, "annotate")
        if "blind_share" in values:
            _redraw(session, campaign, "check")
        session.flush()
        return _views(session, [campaign])[0]


def _change_of(changes: Mapping[str, Any]) -> str:
    """Return what a change of settings is called in the audit trail."""
    if "archived" not in changes:
        return "update_settings"
    return "archive_campaign" if changes["archived"][1] else "reopen_campaign"


def update_domain(store: Store, actor: Actor, campaign_id: int, domain: Domain) -> CampaignView:
    """Give the campaign a changed definition of its domain; types in use must stay. For admins."""
    require(actor, "admin")
    with store.write() as session:
        current, campaign = enter(session, actor, campaign_id, "admin")
        missing = sorted(campaign_rows.types_in_use(session, campaign_id) - set(domain.type_names))
        if missing:
            raise UnknownType(f"Annotations use {', '.join(missing)}; the new definition must keep these types.")
        types = audit.changed({"types": list(domain_of(campaign).type_names)}, {"types": list(domain.type_names)})
        audit.record(session, current, "update_domain", ("domain", domain.name), campaign.id, **types)
        campaign.domain_name, campaign.domain_toml = domain.name, domain_to_toml(domain)
        session.flush()
        return _views(session, [campaign])[0]


def set_guidelines(store: Store, actor: Actor, campaign_id: int, guidelines: Mapping[str, str]) -> CampaignView:
    """Give types of the campaign other guidelines; its domain elsewhere stays as it is. For researchers and admins.

    Raises UnknownType for a type that the campaign lacks, BadInput for a text that cannot be stored or is too long.
    """
    require(actor, *KEEPERS)
    for name, text in guidelines.items():
        if not is_storable(text):
            raise BadInput(f"The guideline of {name} {UNSTORABLE}.")
        if len(text) > MOST_GUIDELINE:
            raise BadInput(
                f"The guideline of {name} has {len(text):,} characters; at most {MOST_GUIDELINE:,} are kept."
            )
    with store.write() as session:
        current, campaign = enter(session, actor, campaign_id, *KEEPERS)
        about = ("campaign", campaign.name)
        audit.record(session, current, "set_guidelines", about, campaign.id, types=sorted(guidelines))
        campaign.domain_toml = domain_to_toml(with_guidelines(domain_of(campaign), guidelines))
        session.flush()
        return _views(session, [campaign])[0]


STUDY_DATA = "datasets"
"""In the folder of experiments: what studies were run on."""


def gold_corpus(campaign_id: int | str) -> str:
    """Return the name of a campaign's gold as a corpus of studies."""
    return f"gold-{campaign_id}"


def delete_campaign(store: Store, actor: Actor, campaign_id: int, *, home: Path | None = None) -> None:
    """Delete an archived campaign with everything in it; from a home, its runs' weights, its pool's scores and
    what studies were given of its gold too.

    The files are removed after the campaign's rows; a folder that cannot be removed stays, and nothing reads it
    any more. For admins.
    """
    require(actor, "admin")
    with store.write() as session:
        current, campaign = enter(session, actor, campaign_id, "admin")
        if not campaign.archived:
            raise Conflict(f"The campaign {campaign.name!r} is in use; archive it first, then delete it.")
        runs = run_rows.ids_of_campaign(session, campaign_id)
        audit.record(session, current, "delete_campaign", ("campaign", campaign.name), campaign.id, runs=runs)
        campaign_rows.remove(session, campaign)
    if home is not None:
        for folder in (
            home / "signals" / f"campaign-{campaign_id}",
            *(home / "checkpoints" / f"run-{id}" for id in runs),
            *(home / "experiments" / STUDY_DATA).glob(f"*/{gold_corpus(campaign_id)}"),
        ):
            shutil.rmtree(folder, ignore_errors=True)


def add_members(store: Store, actor: Actor, campaign_id: int, user_ids: Iterable[int]) -> None:
    """Make people members of a campaign. For researchers and admins."""
    require(actor, *KEEPERS)
    with store.write() as session:
        current, campaign = enter(session, actor, campaign_id, *KEEPERS)
        wanted = tuple(user_ids)
        _add_members(session, campaign_id, wanted)
        names = [user.name for user in people_rows.by_ids(session, wanted).values()]
        audit.record(session, current, "add_members", ("campaign", campaign.name), campaign.id, members=names)


def set_members(store: Store, actor: Actor, campaign_id: int, user_ids: Iterable[int]) -> None:
    """Make these people, and nobody else, the members of a campaign. For researchers and admins."""
    require(actor, *KEEPERS)
    wanted = tuple(user_ids)
    with store.write() as session:
        current, campaign = enter(session, actor, campaign_id, *KEEPERS)
        before = [user.name for user in people_rows.members(session, campaign_id)]
        campaign_rows.keep_members(session, campaign_id, wanted)
        _add_members(session, campaign_id, wanted)
        after = [user.name for user in people_rows.members(session, campaign_id)]
        changes = audit.changed({"members": before}, {"members": after})
        audit.record(session, current, "set_members", ("campaign", campaign.name), campaign.id, **changes)


def _redraw(session: Session, campaign: Campaign, stage: str) -> None:
    for row in campaign_rows.sentences_not_begun(session, campaign.id, stage):
        _set_draw(row, draw(campaign, row.content_hash), stage)


def _set_draw(row: SentenceRow, drawn: tuple[bool, bool], stage: str) -> None:
    if stage == "annotate":
        row.control = drawn[0]
    else:
        row.blind = drawn[1]


def _refuse_taken_name(session: Session, name: str) -> None:
    if campaign_rows.find_by_name(session, name) is not None:
        raise Conflict(f"There is already a campaign {name!r}; choose another name.")


def _add_members(session: Session, campaign_id: int, user_ids: Iterable[int]) -> None:
    wanted = sorted(set(user_ids))
    unknown = sorted(set(wanted) - set(people_rows.by_ids(session, wanted)))
    if unknown:
        raise BadInput(f"There is no person {unknown[0]}; members must have an account.")
    campaign_rows.add_members(session, campaign_id, wanted)


def _views(session: Session, rows: Sequence[Campaign]) -> tuple[CampaignView, ...]:
    ids = [row.id for row in rows]
    tasks, sentences = campaign_rows.task_counts(session, ids), campaign_rows.sentence_counts(session, ids)
    left_out = label_review_rows.left_out_gold(session, ids)
    return tuple(
        _campaign_view(
            row,
            splits={split: sentences.get((row.id, split), 0) for split in SPLITS},
            counts=tasks,
            members=people_rows.members(session, row.id),
            left_out=left_out.get(row.id, 0),
        )
        for row in rows
    )


def _member_view(user: User) -> MemberView:
    """Make the view of a member."""
    return MemberView(user.id, user.name, user.display_name, user.role, user.active)


def stage_counts(
    campaign: Campaign, counts: dict[tuple[int, str, str], int], sentences: int
) -> tuple[StageCounts, ...]:
    """Make the counts of the three stages; sentences imported with gold have a task at the last one only."""
    states = ("open", "leased", "done", "parked")
    of = {stage: {state: counts.get((campaign.id, stage, state), 0) for state in states} for stage in STAGES}
    totals = {stage: sum(of[stage].values()) for stage in STAGES}
    waiting = {
        "annotate": 0,
        "check": totals["annotate"] - totals["check"],
        "adjudicate": sentences - totals["adjudicate"],
    }
    return tuple(StageCounts(stage=stage, waiting=waiting[stage], **of[stage]) for stage in STAGES)


def _campaign_view(
    campaign: Campaign,
    *,
    splits: dict[str, int],
    counts: dict[tuple[int, str, str], int],
    members: Iterable[User],
    left_out: int,
) -> CampaignView:
    """Make the view of a campaign."""
    total = sum(splits.values())
    return CampaignView(
        id=campaign.id,
        domain_name=campaign.domain_name,
        domain_toml=campaign.domain_toml,
        created_at=campaign.created_at,
        sentences=total,
        splits=splits,
        stages=stage_counts(campaign, counts, total),
        members=tuple(_member_view(user) for user in members),
        left_out=left_out,
        **{name: getattr(campaign, name) for name in names()},
    )
