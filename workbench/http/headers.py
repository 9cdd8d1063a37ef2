"""Headers: those of every response, and which request headers are trusted."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import Message, Scope, Send

CONTENT_POLICY = "; ".join(
    (
        "default-src 'self'",
        # Streamlit compiles chart expressions and loads the modules of components from blob URLs.
        "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob: data:",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "media-src 'self' data: blob:",
        "connect-src 'self' data: blob:",
        "worker-src 'self' blob:",
        "frame-src 'self' blob: data:",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
FORM_POLICY = "; ".join(
    (
        "default-src 'none'",
        "style-src 'unsafe-inline'",
        "img-src data:",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
PARTS = "/parts/"
"""Where scripts lie under the hash of their content."""
_CACHED = ("/static/", PARTS)
_ALWAYS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
_IDENTITY = (
    b"x-crossner-",
    b"x-forwarded-user",
    b"x-forwarded-email",
    b"x-forwarded-preferred-username",
    b"x-auth-request-",
    b"x-remote-",
    b"remote-user",
    b"x-user",
    b"x-authenticated-",
)


def without_identity(scope: Scope) -> Scope:
    """Copy the scope without any header by which a client could claim to be someone."""
    kept = [(name, value) for name, value in scope["headers"] if not name.lower().startswith(_IDENTITY)]
    return {**scope, "headers": kept}


def with_security(scope: Scope, send: Send) -> Send:
    """Wrap `send` so that every HTTP response carries the security headers."""
    cached = scope["path"].startswith(_CACHED)

    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _ALWAYS.items():
                headers[name] = value
            headers.setdefault("content-security-policy", CONTENT_POLICY)
            if not cached or message["status"] >= 400:
                headers["cache-control"] = "no-store"
        await send(message)

    return guarded


def same_origin(headers: Headers, *, required: bool) -> bool:
    """Return whether the request comes from a page of this server.

    A client that sends no origin counts as one, unless an origin is `required`.
    """
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    if origin is None:
        return not required
    return bool(origin != "null" and urlsplit(origin).netloc == headers.get("host"))


def local_path(target: str) -> str:
    """Return `target` when it is a path on this server outside /auth, else "/".

    Backslashes and control characters are refused: browsers read `/\\host` and `/<tab>/host` as another host.
    """
    if not target.startswith("/") or target.startswith("//") or "\\" in target or len(target) > 2000:
        return "/"
    if not target.isprintable() or target.startswith("/auth/"):
        return "/"
    parts = urlsplit(target)
    return target if not parts.scheme and not parts.netloc else "/"
