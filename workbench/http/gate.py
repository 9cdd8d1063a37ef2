"""The gate: nothing behind it, page, file or websocket, answers a request without a valid session or token."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from urllib.parse import quote

import anyio
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crossner_core.errors import StorageError, StoreFailed
from workbench.accounts.actors import Actor
from workbench.accounts.sign_in import actor_for_token
from workbench.http.cookies import session_token
from workbench.http.downloads import FOLDER, Downloads
from workbench.http.headers import same_origin, with_security, without_identity
from workbench.http.index_page import plain_page, with_server_address
from workbench.http.uploads import Held, Uploads
from workbench.settings import Settings, open_store

log = logging.getLogger(__name__)

OPEN = {
    "/auth/login": ("GET", "HEAD", "POST"),
    "/auth/oidc": ("GET",),
    "/auth/oidc/callback": ("GET",),
    "/auth/oidc/logout": ("POST",),
    "/health": ("GET", "HEAD"),
}
"""All that is open without a session: exact path and methods."""

API = "/api/"
"""Paths of the API, which are answered by token; a cookie opens its documents alone (`workbench.http.api.serving`)."""

SIGNED_OUT = 4401
"""Close code of a websocket whose session ended."""

STORE_FAILED = 1013
"""Close code of a websocket whose person could not be looked up: try again later."""

_THREADS = 4
"""People who are looked up at a time; more would only wait for each other and for connections to the store."""

_SAFE = ("GET", "HEAD", "OPTIONS")

Authenticator = Callable[[HTTPConnection, Settings], Actor | None]
"""Looks up whose request it is, in a thread; None if it has no valid credential of this kind."""


def by_cookie(connection: HTTPConnection, settings: Settings) -> Actor | None:
    """Return who is signed in with the browser that sent a request."""
    token = session_token(connection, settings)
    return actor_for_token(open_store(settings), token) if token else None


class Gate:
    """A pure ASGI middleware (Starlette's own base class would let websockets pass unchecked).

    A request belongs to the first person that one of `authenticators` returns. `farewell` is the last message of a
    websocket whose session was revoked meanwhile; the app supplies it, in the format of its frontend. `held` says which
    uploads the frontend still holds.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: Settings,
        authenticators: Sequence[Authenticator] = (by_cookie,),
        farewell: bytes | None = None,
        held: Held | None = None,
    ) -> None:
        self.app = app
        self.settings = settings
        self.authenticators = tuple(authenticators)
        self.farewell = farewell
        self.downloads = Downloads()
        self._slots: anyio.CapacityLimiter | None = None
        self.uploads = Uploads(held) if held is not None else Uploads()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(without_identity(scope), receive, with_security(scope, send))
        elif scope["type"] == "websocket":
            await self._websocket(without_identity(scope), receive, send)
        elif scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        else:
            raise RuntimeError(f"The gate does not support requests of type {scope['type']!r}.")

    async def actor(self, connection: HTTPConnection) -> Actor | None:
        """Look up whose request it is."""
        if self._slots is None:
            self._slots = anyio.CapacityLimiter(_THREADS)
        return await anyio.to_thread.run_sync(self._actor, connection, limiter=self._slots)

    def _actor(self, connection: HTTPConnection) -> Actor | None:
        named = (authenticate(connection, self.settings) for authenticate in self.authenticators)
        return next((actor for actor in named if actor is not None), None)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].startswith(API):  # no browser sends a token by itself, so another site cannot either
            await self.app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        if scope["method"] not in _SAFE and not same_origin(connection.headers, required=False):
            await PlainTextResponse("This request came from another site and was refused.", 403)(scope, receive, send)
            return
        if scope["method"] in OPEN.get(scope["path"], ()):
            await self.app(scope, receive, send)
            return
        try:
            actor = await self.actor(connection)
        except StorageError as error:
            log.error("Nobody could be looked up for %s %s: %s", scope["method"], scope["path"], error)
            await PlainTextResponse(StoreFailed.TRY_LATER, 503, {"retry-after": "5"})(scope, receive, send)
            return
        if actor is None:
            await _to_sign_in(connection)(scope, receive, send)
            return
        session = session_token(connection, self.settings)
        if scope["path"].startswith(FOLDER.rstrip("/")) and not self.downloads.may(session, scope["path"]):
            await PlainTextResponse("This download was made for another browser session.", 404)(scope, receive, send)
            return
        with self.uploads.admitted(actor, connection) as refusal:
            if refusal is not None:
                await PlainTextResponse(refusal.reason, refusal.status)(scope, receive, send)
                return
            known = {**plain_page(scope), "state": {**scope.get("state", {}), "actor": actor}}
            await self.app(known, receive, with_server_address(scope["method"], send))

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = HTTPConnection(scope)
        try:
            allowed = same_origin(connection.headers, required=False) and await self.actor(connection) is not None
        except StorageError as error:
            log.error("Nobody could be looked up for the websocket %s: %s", scope["path"], error)
            await send({"type": "websocket.close", "code": STORE_FAILED, "reason": "try again later"})
            return
        if not allowed:
            await send({"type": "websocket.close", "code": SIGNED_OUT, "reason": "sign in first"})
            return
        await self.app(scope, self._watched(connection, receive, send), self._noted(connection, send))

    def _noted(self, connection: HTTPConnection, send: Send) -> Send:
        """Wrap `send` so that this browser may fetch the downloads it is told of, and nobody else may."""
        session = session_token(connection, self.settings)

        async def noted(message: Message) -> None:
            if message["type"] == "websocket.send":
                self.downloads.note(session, message.get("bytes") or (message.get("text") or "").encode())
            await send(message)

        return noted

    def _watched(self, connection: HTTPConnection, receive: Receive, send: Send) -> Receive:
        """Wrap `receive` to end the websocket at the first message after its session ended.

        Revoking a session closes no websocket by itself, and Streamlit runs callbacks before the page's own check.
        """

        async def watched() -> Message:
            message = await receive()
            try:
                if message["type"] != "websocket.receive" or await self.actor(connection) is not None:
                    return message
            except StorageError as error:
                log.error("Nobody could be looked up for a message of a websocket: %s", error)
                await send({"type": "websocket.close", "code": STORE_FAILED, "reason": "try again later"})
                return {"type": "websocket.disconnect", "code": STORE_FAILED}
            if self.farewell is not None:
                await send({"type": "websocket.send", "bytes": self.farewell})
            await send({"type": "websocket.close", "code": SIGNED_OUT, "reason": "signed out"})
            return {"type": "websocket.disconnect", "code": SIGNED_OUT}

        return watched


def _to_sign_in(connection: HTTPConnection) -> Response:
    """Send a browser to the sign-in page; answer anything else with 401."""
    wants_page = "text/html" in connection.headers.get("accept", "")
    if connection.scope["method"] not in ("GET", "HEAD") or not wants_page:
        return PlainTextResponse("Sign in first.", 401)
    path = connection.url.path + (f"?{connection.url.query}" if connection.url.query else "")
    target = "/auth/login" if path == "/" else f"/auth/login?next={quote(path, safe='/')}"
    return RedirectResponse(target, 303)
