"""The small domain of the gazetteer's tests."""

from __future__ import annotations

import pytest

from crossner_core.domains import Domain, parse_domain
from tests.support.gazetteers.builders import DOMAIN_TOML


@pytest.fixture(scope="module")
def domain() -> Domain:
    """A small domain with parents inside the domain (artist) and in the class tree alone (band, country)."""
    return parse_domain(DOMAIN_TOML, origin="mini")
