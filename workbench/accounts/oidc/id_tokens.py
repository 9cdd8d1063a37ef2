"""Check the provider's tokens: signature, issuer, audience, times, nonce.

Sources: OpenID Connect Core 1.0, 3.1.3.7; Back-Channel Logout 1.0, 2.6.
"""

from __future__ import annotations

import datetime as dt
import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crossner_core.errors import SignInRefused
from workbench.accounts.oidc.provider import Provider

ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA",
)  # fmt: skip
"""Signatures with a key pair alone: neither `none` nor one made with the client's secret."""
_LEEWAY = 60
"""Seconds that the clocks may differ by."""
_LATEST = 1e11
_LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"
_LONGEST_SUBJECT = 255


@dataclass(frozen=True, slots=True)
class LogoutNotice:
    """Whose sessions the provider has ended; with a `sid` that one alone. It counts for sessions before `made_at`."""

    issuer: str
    subject: str
    sid: str
    made_at: dt.datetime


def check_id_token(token: str, provider: Provider, *, nonce: str) -> Mapping[str, Any]:
    """Return the claims of an ID token; raise SignInRefused with what is wrong with it, or ProviderUnavailable."""
    claims = _claims(token, provider)
    given = claims.get("nonce")
    if not isinstance(given, str) or not hmac.compare_digest(given.encode(), nonce.encode()):
        raise _wrong(provider, "its nonce is not the one that was sent")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 1 <= len(subject) <= _LONGEST_SUBJECT or not subject.isprintable():
        raise _wrong(provider, "it names no subject")
    return claims


def check_logout_token(token: str, provider: Provider) -> LogoutNotice:
    """Return what a logout token asks for; raise SignInRefused or ProviderUnavailable."""
    claims = _claims(token, provider)
    events = claims.get("events")
    if not isinstance(events, dict) or not isinstance(events.get(_LOGOUT_EVENT), dict):
        raise _wrong(provider, "it is no logout token")
    if "nonce" in claims:
        raise _wrong(provider, "a logout token has no nonce")
    subject, sid = claims.get("sub", ""), claims.get("sid", "")
    if not isinstance(subject, str) or not isinstance(sid, str) or not (subject or sid):
        raise _wrong(provider, "it names neither subject nor session")
    return LogoutNotice(provider.settings.issuer, subject, sid, dt.datetime.fromtimestamp(claims["iat"], dt.UTC))


def _claims(token: str, provider: Provider) -> Mapping[str, Any]:
    """Return the claims of a token that this provider signed for this client, and that is valid now."""
    claims, settings = _signed(token, provider), provider.settings
    if claims.get("iss") != settings.issuer:
        raise _wrong(provider, "it is of another issuer")
    audience = claims.get("aud")
    clients = [audience] if isinstance(audience, str) else audience if isinstance(audience, list) else []
    if settings.client_id not in clients:
        raise _wrong(provider, "it is meant for another client")
    party = claims.get("azp")
    if (len(clients) > 1 or party is not None) and party != settings.client_id:
        raise _wrong(provider, "it was given to another client")
    now = time.time()
    issued, expires, begins = (_seconds(claims, name) for name in ("iat", "exp", "nbf"))
    if expires is None or expires <= now - _LEEWAY:
        raise _wrong(provider, "it has expired")
    if issued is None or issued > now + _LEEWAY or (begins is not None and begins > now + _LEEWAY):
        raise _wrong(provider, "it is not valid yet; the clocks of the provider and of this server may differ")
    return claims


def _signed(token: str, provider: Provider) -> Mapping[str, Any]:
    """Return the claims of a token with a good signature; a key that is not known is looked for once more."""
    from joserfc import jwt
    from joserfc.errors import BadSignatureError, InvalidKeyIdError, JoseError

    for again in (False, True):
        keys = provider.keys(again=again)
        try:
            return jwt.decode(token, keys, algorithms=ALGORITHMS).claims
        except (InvalidKeyIdError, BadSignatureError) as error:
            if again:
                raise _wrong(provider, "its signature is not the provider's") from error
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise _wrong(provider, "its signature cannot be checked") from error
    raise AssertionError("the loop ends with an answer or an error")


def _seconds(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < _LATEST:
        return None
    return float(value)


def _wrong(provider: Provider, reason: str) -> SignInRefused:
    return SignInRefused(f"The answer of {provider.settings.name} was not accepted: {reason}.")
