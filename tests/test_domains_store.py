"""Domains that users define, beside the built-in ones."""

from __future__ import annotations

import pytest

from crossner_core.domains import builtin_domains
from crossner_core.errors import Conflict, InvalidDomain, NotAllowed, NotFound
from db.engine import Store
from tests.training_store import person
from workbench.campaigns import campaigns, domains

TOML = """\
name = "cooking"
title = "Cooking"

[[types]]
name = "dish"
guideline = "What is served."

[[types]]
name = "spice"
parent = "dish"
"""


def test_domains_store_lists_builtin_and_own(store: Store) -> None:
    actor = person(store, "researcher")
    domains.save_domain(store, actor, TOML)
    listed = domains.list_domains(store, actor)
    assert [one.name for one in listed] == [*builtin_domains(), "cooking"]
    assert listed[-1].types == ("dish", "spice") and listed[-1].can_be_deleted and not listed[0].can_be_deleted
    assert domains.get_domain(store, "cooking").type("spice").parent == "dish"
    assert domains.get_toml(store, actor, "cooking") == TOML
    assert "[[types]]" in domains.get_toml(store, actor, "music")


def test_domains_store_keeps_no_bad_definition(store: Store) -> None:
    actor = person(store, "researcher")
    with pytest.raises(InvalidDomain, match="nodish"):
        domains.save_domain(store, actor, TOML.replace('parent = "dish"', 'parent = "nodish"'))
    with pytest.raises(Conflict, match="built-in"):
        domains.save_domain(store, actor, TOML.replace('"cooking"', '"music"'))
    with pytest.raises(NotFound, match="music"):
        domains.get_domain(store, "cooking")


def test_domains_store_change_leaves_campaigns_as_they_began(store: Store) -> None:
    admin = person(store, "admin")
    domain = domains.save_domain(store, admin, TOML)
    campaign_id = campaigns.create_campaign(store, admin, name="Food", domain=domain)
    domains.save_domain(store, admin, TOML.replace('"spice"', '"herb"'))
    assert domains.get_domain(store, "cooking").type_names == ("dish", "herb")
    view = campaigns.get_campaign(store, admin, campaign_id)
    assert view.domain.type_names == ("dish", "spice")


def test_domains_store_in_use_stays(store: Store) -> None:
    admin = person(store, "admin")
    domain = domains.save_domain(store, admin, TOML)
    campaigns.create_campaign(store, admin, name="Food", domain=domain)
    with pytest.raises(Conflict, match="campaign 'Food'"):
        domains.delete_domain(store, admin, "cooking")
    domains.save_domain(store, admin, TOML.replace('"cooking"', '"baking"'))
    domains.delete_domain(store, admin, "baking")
    with pytest.raises(NotFound):
        domains.delete_domain(store, admin, "baking")
    with pytest.raises(Conflict, match="built in"):
        domains.delete_domain(store, admin, "music")


def test_domains_store_roles(store: Store) -> None:
    for role in ("annotator", "expert"):
        actor = person(store, role)
        assert domains.list_domains(store, actor)
        with pytest.raises(NotAllowed):
            domains.save_domain(store, actor, TOML)
