"""The cookies of a browser: its session and, before sign-in, the seed of its form token."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Any

from starlette.requests import HTTPConnection
from starlette.responses import Response

from workbench.settings import Settings

SESSION_COOKIE = "crossner_session"
FORM_COOKIE = "crossner_form"
FLOW_COOKIE = "crossner_oidc"
FLOW_SECONDS = 600


def session_cookie(settings: Settings) -> str:
    """Name the session cookie; over HTTPS its prefix keeps subdomains from setting it."""
    return f"__Host-{SESSION_COOKIE}" if settings.secure_cookie else SESSION_COOKIE


def session_token(connection: HTTPConnection, settings: Settings) -> str:
    """Return the token the browser sent, or an empty string."""
    return connection.cookies.get(session_cookie(settings), "")


def set_session(response: Response, settings: Settings, token: str) -> None:
    response.set_cookie(
        session_cookie(settings), token, max_age=int(settings.session_hours * 3600), **_attributes(settings)
    )


def clear_session(response: Response, settings: Settings) -> None:
    response.delete_cookie(
        session_cookie(settings), path="/", secure=settings.secure_cookie, httponly=True, samesite="lax"
    )


def form_token(secret: str) -> str:
    """Derive the hidden field of a form from a cookie only this browser sends."""
    return hashlib.sha256(f"form:{secret}".encode("utf-8", "surrogateescape")).hexdigest()


def form_token_fits(secret: str, given: str) -> bool:
    """Compare in constant time; an absent cookie matches nothing."""
    return bool(secret) and hmac.compare_digest(form_token(secret).encode(), given.encode("utf-8", "replace"))


def form_secret(connection: HTTPConnection) -> str:
    """Return the form cookie the browser sent, or an empty string when it is missing or not one of ours."""
    sent = connection.cookies.get(FORM_COOKIE, "")
    return sent if len(sent) == 43 and sent.isascii() else ""


def new_form_secret() -> str:
    return secrets.token_urlsafe(32)


def set_form_secret(response: Response, settings: Settings, secret: str) -> None:
    response.set_cookie(FORM_COOKIE, secret, max_age=24 * 3600, **_attributes(settings))


def set_flow(response: Response, settings: Settings, sealed: str) -> None:
    """Keep what a sign-in with a provider needs when the browser comes back."""
    response.set_cookie(_flow_cookie(settings), sealed, max_age=FLOW_SECONDS, **_attributes(settings))


def flow(connection: HTTPConnection, settings: Settings) -> str:
    return connection.cookies.get(_flow_cookie(settings), "")


def clear_flow(response: Response, settings: Settings) -> None:
    response.delete_cookie(
        _flow_cookie(settings), path="/", secure=settings.secure_cookie, httponly=True, samesite="lax"
    )


def _flow_cookie(settings: Settings) -> str:
    return f"__Host-{FLOW_COOKIE}" if settings.secure_cookie else FLOW_COOKIE


def _attributes(settings: Settings) -> dict[str, Any]:
    return {"path": "/", "secure": settings.secure_cookie, "httponly": True, "samesite": "lax"}
