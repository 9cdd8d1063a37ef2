"""What the settings of a campaign may be, and its own definition of its domain."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from crossner_core.domains import Domain, parse_domain
from crossner_core.errors import InvalidConfig
from db.tables import Campaign
from workbench.settings import is_name
from workbench.views import CampaignView

SETTINGS = (
    "name",
    "blind_share",
    "control_share",
    "lease_minutes",
    "endpoint",
    "gazetteer",
    "suggestions_on",
    "hint_below",
    "archived",
)
_MAX_LEASE_MINUTES = 7 * 24 * 60


def domain_of(campaign: Campaign | CampaignView) -> Domain:
    """Return the campaign's own definition of its domain."""
    return _parsed(campaign.domain_toml, f"campaign {campaign.name}")


@lru_cache(maxsize=64)
def _parsed(toml_text: str, origin: str) -> Domain:
    return parse_domain(toml_text, origin=origin)


def checked(**values: Any) -> dict[str, Any]:
    """Return the settings, tidied; raise InvalidConfig for one that is out of range."""
    for key, (fits, allowed) in _RULES.items():
        if key in values and not fits(values[key]):
            raise InvalidConfig(f"The setting {key} is {values[key]!r}; allowed is {allowed}.")
    tidy = {key: value.strip() if isinstance(value, str) else value for key, value in values.items()}
    return tidy | {key: tidy[key] or None for key in ("endpoint", "gazetteer") if key in tidy}


def _share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _address(value: object) -> bool:
    return value is None or (isinstance(value, str) and re.fullmatch(r"\s*(https?://\S+)?\s*", value) is not None)


def _folder_name(value: object) -> bool:
    return value is None or (isinstance(value, str) and (not value.strip() or is_name(value.strip())))


_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "name": (lambda value: isinstance(value, str) and 0 < len(value.strip()) <= 100, "1 to 100 characters"),
    "blind_share": (_share, "a number from 0 to 1"),
    "control_share": (_share, "a number from 0 to 1"),
    "lease_minutes": (
        lambda value: type(value) is int and 1 <= value <= _MAX_LEASE_MINUTES,
        f"a whole number from 1 to {_MAX_LEASE_MINUTES}",
    ),
    "endpoint": (_address, "an address that begins with http:// or https://, or nothing"),
    "gazetteer": (_folder_name, "the name of a compiled gazetteer (see workbench gazetteer list), or nothing"),
    "hint_below": (_share, "a number from 0 to 1"),
    "suggestions_on": (lambda value: isinstance(value, bool), "true or false"),
    "archived": (lambda value: isinstance(value, bool), "true or false"),
}
