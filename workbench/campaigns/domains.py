"""The domains to choose from: the built-in ones, and those that users defined in TOML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from crossner_core.domains import Domain, builtin_domains, load_domain, parse_domain
from crossner_core.errors import Conflict, NotFound
from db import domain_rows
from db.engine import Session, Store
from db.tables import Campaign
from workbench.accounts import audit
from workbench.accounts.actors import SYSTEM, Actor, fresh, require
from workbench.accounts.roles import EVERYONE, KEEPERS


@dataclass(frozen=True, slots=True)
class DomainView:
    """A domain in a list; `used_by` names campaigns and data sets in words."""

    name: str
    title: str
    description: str
    types: tuple[str, ...]
    is_builtin: bool
    used_by: tuple[str, ...]

    @property
    def can_be_deleted(self) -> bool:
        return not self.is_builtin and not self.used_by


def list_domains(store: Store, actor: Actor) -> tuple[DomainView, ...]:
    """Return all domains, the built-in ones first."""
    require(actor, *EVERYONE)
    with store.read() as session:
        fresh(session, actor, *EVERYONE)
        builtin = [_view(session, load_domain(name), is_builtin=True) for name in builtin_domains()]
        own = [_view(session, _parsed(row.name, row.toml), is_builtin=False) for row in domain_rows.listed(session)]
        return (*builtin, *own)


def get_domain(store: Store, name: str) -> Domain:
    """Return a domain by name; raise NotFound naming those that exist."""
    with store.read() as session:
        return find_domain(session, name)


def get_toml(store: Store, actor: Actor, name: str) -> str:
    """Return a user's domain as it was written, a built-in one in the same form."""
    from crossner_core.domains import domain_to_toml

    require(actor, *EVERYONE)
    with store.read() as session:
        fresh(session, actor, *EVERYONE)
        row = domain_rows.find(session, name)
        return row.toml if row is not None else domain_to_toml(find_domain(session, name))


def find_domain(session: Session, name: str) -> Domain:
    """Return a domain by name within a transaction; raise NotFound naming those that exist."""
    if name in builtin_domains():
        return load_domain(name)
    row = domain_rows.find(session, name)
    if row is None:
        known = [*builtin_domains(), *(row.name for row in domain_rows.listed(session))]
        raise NotFound(f"There is no domain {name!r}; there are {', '.join(known)}.")
    return _parsed(row.name, row.toml)


def check_domain(toml_text: str) -> Domain:
    """Read a definition without saving it; raise InvalidDomain, or Conflict for a built-in domain's name."""
    domain = parse_domain(toml_text, origin="domain")
    if domain.name in builtin_domains():
        raise Conflict(
            f"The name {domain.name!r} belongs to a built-in domain, which cannot be replaced; choose another name."
        )
    return domain


def save_domain(store: Store, actor: Actor, toml_text: str) -> Domain:
    """Save a definition, replacing an earlier one of that name; campaigns keep the one they began with."""
    require(actor, *KEEPERS)
    domain = check_domain(toml_text)
    with store.write() as session:
        now = fresh(session, actor, *KEEPERS)
        user_id = None if now == SYSTEM else now.id
        domain_rows.save(session, name=domain.name, toml=toml_text, user_id=user_id)
        audit.record(session, now, "save_domain", ("domain", domain.name), types=domain.type_names)
    return domain


def add_domain(session: Session, actor: Actor, toml_text: str) -> Domain:
    """Save a new definition within a transaction whose caller has authorised the actor; Conflict for a taken name."""
    domain = check_domain(toml_text)
    if domain_rows.find(session, domain.name) is not None:
        raise Conflict(f"There is already a domain {domain.name!r}; choose it, or give the new one another name.")
    domain_rows.save(session, name=domain.name, toml=toml_text, user_id=actor.id)
    return domain


def delete_domain(store: Store, actor: Actor, name: str) -> None:
    """Delete a user's domain; raise Conflict for a built-in one and for one in use."""
    require(actor, *KEEPERS)
    with store.write() as session:
        current = fresh(session, actor, *KEEPERS)
        if name in builtin_domains():
            raise Conflict(f"The domain {name!r} is built in and cannot be deleted.")
        find_domain(session, name)
        used = domain_rows.used_by(session, name)
        if used:
            raise Conflict(f"The domain {name!r} is in use by {', '.join(used)}; it cannot be deleted.")
        audit.record(session, current, "delete_domain", ("domain", name))
        domain_rows.delete(session, name)


def _parsed(name: str, toml: str) -> Domain:
    return parse_domain(toml, origin=f"domain {name}")


def _view(session: Session, domain: Domain, *, is_builtin: bool) -> DomainView:
    return DomainView(
        name=domain.name,
        title=domain.title,
        description=domain.description,
        types=domain.type_names,
        is_builtin=is_builtin,
        used_by=tuple(domain_rows.used_by(session, domain.name)),
    )


def with_guidelines(domain: Domain, guidelines: Mapping[str, str]) -> Domain:
    """Return a domain with other guidelines for some of its types; raise UnknownType for a type it lacks."""
    for name in guidelines:
        domain.type(name)
    types = (replace(kind, guideline=guidelines.get(kind.name, kind.guideline)) for kind in domain.types)
    return replace(domain, types=tuple(types))


def domain_of(campaign: Campaign) -> Domain:
    """Return the campaign's own definition of its domain."""
    return campaign_domain(campaign.name, campaign.domain_toml)


@lru_cache(maxsize=64)
def campaign_domain(name: str, toml_text: str) -> Domain:
    """Read the definition of its domain that a campaign of this name keeps."""
    return parse_domain(toml_text, origin=f"campaign {name}")
