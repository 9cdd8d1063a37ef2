"""The routes of sign-in with a provider: there and back again, linking an account, and sign-out by the provider.

Authorisation code flow with PKCE, state and nonce. What has to be known when the browser comes back lies in a signed
cookie of ten minutes; its key lives as long as the process.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

import anyio
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from crossner_core.errors import (
    BadInput,
    Conflict,
    NotAllowed,
    ProviderUnavailable,
    RateLimited,
    SignInRefused,
    StorageError,
)
from crossner_core.records import Record, read_json
from workbench.accounts import identities
from workbench.accounts.oidc.arrivals import Arrival, arrival_of
from workbench.accounts.oidc.id_tokens import check_logout_token
from workbench.accounts.oidc.provider import Provider
from workbench.accounts.oidc.provider_settings import CALLBACK, LOGOUT
from workbench.accounts.sign_in import (
    SignedIn,
    actor_for_token,
    attempt_by_provider,
    attempt_settled,
    token_hash,
)
from workbench.http import cookies, forms
from workbench.http.headers import local_path
from workbench.http.routes import OLD_PAGE, Accounts, form_fields
from workbench.settings import open_store

log = logging.getLogger(__name__)

T = TypeVar("T")
_THREADS = 4
"""Sign-ins under way at a time; each may wait for the provider."""
_ERROR = re.compile(r"[a-z_]{1,60}")


@dataclass(frozen=True, slots=True)
class Flow(Record):
    """A sign-in under way; `linking` is the hash of the session whose account is to be linked, else empty."""

    state: str
    nonce: str
    verifier: str
    target: str
    linking: str
    began: float


class ProviderSignIn:
    """Handlers beside those of name and password, with whom they share provider and sign-in page."""

    def __init__(self, accounts: Accounts) -> None:
        self.accounts = accounts
        self.settings = accounts.settings
        self._key = secrets.token_bytes(32)
        self._slots: anyio.CapacityLimiter | None = None

    def routes(self) -> list[Route]:
        return [
            Route("/auth/oidc", self.start, methods=["GET"]),
            Route(CALLBACK, self.callback, methods=["GET"]),
            Route("/auth/oidc/link", self.show_link, methods=["GET"]),
            Route("/auth/oidc/link", self.link, methods=["POST"]),
            Route(LOGOUT, self.sign_out_by_provider, methods=["POST"]),
        ]

    async def start(self, request: Request) -> Response:
        """Send the browser to the provider."""
        provider, target = self.accounts.provider, local_path(request.query_params.get("next", "/"))
        if provider is None:
            return _none_here()
        wanted = request.url.replace(path="/auth/oidc").include_query_params(moved="1")
        if "moved" not in request.query_params and request.url.netloc != urlsplit(provider.settings.address).netloc:
            # The provider sends the browser back to this address alone, where the cookie has to be.
            return RedirectResponse(f"{provider.settings.address.rstrip('/')}/auth/oidc?{wanted.query}", 303)
        flow = self._new_flow(target)
        try:
            url = await self._in_thread(lambda: _way_there(provider, flow))
        except ProviderUnavailable as error:
            return self._failed(request, error, target=target)
        response = RedirectResponse(url, 303)
        cookies.set_flow(response, self.settings, self._sealed(flow))
        return response

    async def callback(self, request: Request) -> Response:
        """Check what the provider sent the browser back with, then sign the person in or link their identity."""
        provider, flow = self.accounts.provider, self._opened(cookies.flow(request, self.settings))
        if provider is None:
            return _none_here()
        given = request.query_params
        if flow is None or not hmac.compare_digest(flow.state.encode(), given.get("state", "").encode()):
            return self.accounts.form(request, problem=OLD_PAGE, status=400)  # of a stranger's link nothing is shown
        if "error" in given:
            error = given["error"] if _ERROR.fullmatch(given["error"]) else "an error"
            response = self.accounts.form(
                request,
                target=flow.target,
                problem=f"{provider.settings.name} did not sign you in ({error}). Try again, or ask an admin.",
                status=403,
            )
        elif given.get("iss", provider.settings.issuer) != provider.settings.issuer or not given.get("code"):
            response = self.accounts.form(request, target=flow.target, problem=OLD_PAGE, status=400)
        else:
            response = await self._arrived(request, provider, flow, given["code"])
        cookies.clear_flow(response, self.settings)
        return response

    async def _arrived(self, request: Request, provider: Provider, flow: Flow, code: str) -> Response:
        old_token = cookies.session_token(request, self.settings)
        if flow.linking and flow.linking != token_hash(old_token):
            return self.accounts.form(request, problem=OLD_PAGE, status=403)
        address = request.client.host if request.client else "unknown"
        try:
            if flow.linking:
                return await self._in_thread(lambda: self._linked(provider, flow, code, address, old_token))
            signed_in = await self._in_thread(lambda: self._signed_in(provider, flow, code, address, old_token))
        except (ProviderUnavailable, NotAllowed, Conflict, BadInput, StorageError) as error:
            return self._failed(request, error, target=flow.target)
        response = RedirectResponse(flow.target, 303)
        cookies.set_session(response, self.settings, signed_in.token)
        return response

    def _signed_in(self, provider: Provider, flow: Flow, code: str, address: str, old_token: str) -> SignedIn:
        arrival = self._confirmed(provider, flow, code, address)
        return identities.sign_in_by_provider(
            open_store(self.settings),
            arrival,
            provider.settings,
            hours=self.settings.session_hours,
            old_token=old_token,
        )

    def _linked(self, provider: Provider, flow: Flow, code: str, address: str, token: str) -> Response:
        arrival, store = self._confirmed(provider, flow, code, address), open_store(self.settings)
        actor = actor_for_token(store, token)
        if actor is None:
            raise NotAllowed("You were signed out meanwhile; sign in, and link the account again.")
        try:
            identities.link_own(store, actor, arrival)
        except Conflict as error:
            return forms.note_page("Not linked", str(error), back="/account", link="Back to My account")
        return RedirectResponse("/account", 303)

    def _confirmed(self, provider: Provider, flow: Flow, code: str, address: str) -> Arrival:
        """Return whom the provider has signed in; what it refuses counts as a failed attempt."""
        store = open_store(self.settings)
        attempt = attempt_by_provider(store, address)
        try:
            arrival = arrival_of(provider, code, verifier=flow.verifier, nonce=flow.nonce)
        except ProviderUnavailable:
            attempt_settled(store, attempt)
            raise
        attempt_settled(store, attempt)
        return arrival

    async def show_link(self, request: Request) -> Response:
        """Ask whether an identity at the provider shall be linked to one's account."""
        if self.accounts.provider is None:
            return _none_here()
        token = cookies.form_token(cookies.session_token(request, self.settings))
        return forms.link_page(
            token=token,
            display_name=request.state.actor.display_name,
            provider=self.accounts.provider.settings.name,
        )

    async def link(self, request: Request) -> Response:
        """Send the browser to the provider to confirm an identity for one's account."""
        fields, token = await form_fields(request), cookies.session_token(request, self.settings)
        provider = self.accounts.provider
        if provider is None:
            return _none_here()
        if not cookies.form_token_fits(token, fields.get("form_token", "")):
            return PlainTextResponse("This form is too old; open My account and try again.", 403)
        flow = self._new_flow("/account", linking=token_hash(token))
        try:
            url = await self._in_thread(lambda: _way_there(provider, flow))
        except ProviderUnavailable as error:
            return forms.note_page("Not linked", str(error), back="/account", link="Back to My account")
        name = provider.settings.name
        response = forms.leave_page("Linking", f"{name} is asked who you are.", url=url, link=f"Go to {name}")
        cookies.set_flow(response, self.settings, self._sealed(flow))
        return response

    async def sign_out_by_provider(self, request: Request) -> Response:
        """End the sessions that a logout token of the provider names (Back-Channel Logout 1.0)."""
        fields, provider = await form_fields(request), self.accounts.provider
        if provider is None:
            return _none_here()
        try:
            ended = await self._in_thread(lambda: self._ended(provider, fields.get("logout_token", "")))
        except SignInRefused as error:
            log.warning("A logout token was refused: %s", error)
            return JSONResponse({"error": "invalid_request", "error_description": str(error)}, 400)
        except (ProviderUnavailable, StorageError) as error:
            log.error("A logout token could not be carried out: %s", error)
            return JSONResponse({"error": "temporarily_unavailable"}, 503)
        log.info("The provider ended %d sessions", ended)
        return PlainTextResponse("")

    def _ended(self, provider: Provider, token: str) -> int:
        return identities.end_sessions(open_store(self.settings), check_logout_token(token, provider))

    def _failed(self, request: Request, error: Exception, *, target: str) -> Response:
        if isinstance(error, StorageError):
            return self.accounts.store_failed(request, error, target=target)
        status = 503 if isinstance(error, ProviderUnavailable) else 429 if isinstance(error, RateLimited) else 403
        advice = " Sign in with name and password, or try later." if status == 503 else ""
        return self.accounts.form(request, target=target, problem=f"{error}{advice}", status=status)

    def _new_flow(self, target: str, *, linking: str = "") -> Flow:
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        return Flow(state, nonce, verifier, target, linking, time.time())

    def _sealed(self, flow: Flow) -> str:
        payload = base64.urlsafe_b64encode(json.dumps(flow.to_dict()).encode()).decode()
        return f"{payload}.{self._signature(payload)}"

    def _opened(self, sealed: str) -> Flow | None:
        """Return what a cookie of ours holds, None for any other and for one that is too old."""
        payload, _, signature = sealed.rpartition(".")
        if not hmac.compare_digest(self._signature(payload).encode(), signature.encode("utf-8", "replace")):
            return None
        flow = read_json(Flow, base64.urlsafe_b64decode(payload), "the cookie")
        return flow if time.time() - flow.began < cookies.FLOW_SECONDS else None

    def _signature(self, payload: str) -> str:
        return hmac.new(self._key, payload.encode("utf-8", "replace"), hashlib.sha256).hexdigest()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._slots is None:
            self._slots = anyio.CapacityLimiter(_THREADS)
        return await anyio.to_thread.run_sync(work, limiter=self._slots)


def _way_there(provider: Provider, flow: Flow) -> str:
    # Who links an account shows anew who they are: the provider may have another person signed in from before.
    more = {"prompt": "login"} if flow.linking else {}
    return provider.authorization_url(state=flow.state, nonce=flow.nonce, verifier=flow.verifier, **more)


def _none_here() -> Response:
    return PlainTextResponse("This workbench has no sign-in provider.", 404)
