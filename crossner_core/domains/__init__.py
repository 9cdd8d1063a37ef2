"""Domains: one TOML file each with its entity types, and the loader."""

from __future__ import annotations

from crossner_core.domains.loader import (
    Domain,
    EntityType,
    builtin_domains,
    domain_to_toml,
    load_domain,
    parse_domain,
)

__all__ = ["Domain", "EntityType", "builtin_domains", "domain_to_toml", "load_domain", "parse_domain"]
