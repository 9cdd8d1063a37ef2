"""Who the provider has signed in, as its tokens and claims say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crossner_core.errors import SignInRefused
from workbench.accounts.oidc.id_tokens import check_id_token
from workbench.accounts.oidc.provider import Provider

_MOST_GROUPS = 2000


@dataclass(frozen=True, slots=True)
class Arrival:
    """Somebody whom the provider has signed in; `name` and `display_name` are what it calls them."""

    issuer: str
    subject: str
    name: str
    display_name: str
    groups: tuple[str, ...] = ()
    sid: str = ""
    id_token: str = ""


def arrival_of(provider: Provider, code: str, *, verifier: str, nonce: str) -> Arrival:
    """Return who a code is for: its ID token is checked, and what that lacks is asked for at the provider.

    Raises SignInRefused or ProviderUnavailable.
    """
    tokens = provider.exchange(code, verifier)
    claims = check_id_token(tokens.id_token, provider, nonce=nonce)
    settings = provider.settings
    wanted = ["name", *([settings.groups_claim] if settings.roles else [])]
    if any(name not in claims for name in wanted):
        more = provider.userinfo(tokens.access_token)
        if more and more.get("sub") != claims["sub"]:
            raise SignInRefused(f"{settings.name} gave the data of somebody else; try again.")
        claims = {**more, **claims}
    return Arrival(
        issuer=settings.issuer,
        subject=claims["sub"],
        name=_text(claims, "preferred_username") or _text(claims, "email") or _text(claims, "name"),
        display_name=_text(claims, "name"),
        groups=_groups(claims.get(settings.groups_claim)),
        sid=_text(claims, "sid"),
        id_token=tokens.id_token,
    )


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    return value[:255] if isinstance(value, str) else ""


def _groups(value: object) -> tuple[str, ...]:
    """Return groups from a claim that is a list of texts, or one text."""
    listed = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(group for group in listed[:_MOST_GROUPS] if isinstance(group, str))
