"""The routes of our own beside Streamlit's: sign in, sign out, health."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from urllib.parse import parse_qsl

import anyio
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from crossner_core.errors import (
    ProviderUnavailable,
    RateLimited,
    SignInRefused,
    StorageError,
    StoreFailed,
    WorkbenchError,
)
from workbench.accounts.actors import Actor
from workbench.accounts.identities import provider_of
from workbench.accounts.oidc.provider import Provider
from workbench.accounts.oidc.provider_settings import read_provider
from workbench.accounts.sign_in import SignedIn, actor_for_token, sign_in, sign_out
from workbench.http import cookies, forms
from workbench.http.headers import local_path
from workbench.settings import Settings, open_store

log = logging.getLogger(__name__)

_LARGEST_FORM = 16_384
"""Bytes; the largest honest form is a name, a password and a path."""

SIGNED_OUT = "out"
"""What the provider gives back when a browser has signed out there, too."""
OLD_PAGE = "This page was open for too long, or cookies are blocked. Please try again."


class Accounts:
    """Handlers that share the settings; sign-ins run two at a time, as argon2 takes 64 MiB each."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        described = read_provider(settings.sign_in_provider)
        self.provider = Provider(described) if described is not None else None
        self._slots: anyio.CapacityLimiter | None = None

    def routes(self) -> list[Route]:
        return [
            Route("/auth/login", self.show_sign_in, methods=["GET"]),
            Route("/auth/login", self.sign_in, methods=["POST"]),
            Route("/auth/logout", self.show_sign_out, methods=["GET"]),
            Route("/auth/logout", self.sign_out, methods=["POST"]),
            Route("/health", self.health, methods=["GET"]),
        ]

    async def show_sign_in(self, request: Request) -> Response:
        """Show the form, or redirect to the page if this browser is signed in already."""
        target = local_path(request.query_params.get("next", "/"))
        token = cookies.session_token(request, self.settings)
        try:
            if await self._holder(token) is not None:
                return RedirectResponse(target, 303)
        except StorageError as error:
            return self.store_failed(request, error, target=target)
        is_out = "out" in request.query_params or request.query_params.get("state") == SIGNED_OUT
        notice = "You are signed out." if is_out else ""
        return self.form(request, target=target, notice=notice)

    async def sign_in(self, request: Request) -> Response:
        """Check form token, limit, name and password; set a new session cookie."""
        fields = await form_fields(request)
        target = local_path(fields.get("next", "/"))
        name = fields.get("name", "")[:100]
        if not cookies.form_token_fits(cookies.form_secret(request), fields.get("form_token", "")):
            return self.form(request, target=target, name=name, problem=OLD_PAGE, status=403)
        try:
            signed_in = await self._checked(request, name, fields.get("password", ""))
        except RateLimited as error:
            return self.form(request, target=target, name=name, problem=str(error), status=429)
        except SignInRefused as error:
            return self.form(request, target=target, name=name, problem=str(error), status=401)
        except StorageError as error:
            return self.store_failed(request, error, target=target, name=name)
        response = RedirectResponse(target, 303)
        cookies.set_session(response, self.settings, signed_in.token)
        return response

    async def show_sign_out(self, request: Request) -> Response:
        token = cookies.form_token(cookies.session_token(request, self.settings))
        return forms.sign_out_page(token=token, display_name=request.state.actor.display_name)

    async def sign_out(self, request: Request) -> Response:
        """Revoke this browser's session; the form token is bound to it."""
        fields = await form_fields(request)
        token = cookies.session_token(request, self.settings)
        if not cookies.form_token_fits(token, fields.get("form_token", "")):
            return PlainTextResponse("This form is too old; open /auth/logout and try again.", 403)
        try:
            opened_by = await run_in_threadpool(provider_of, open_store(self.settings), token)
            await run_in_threadpool(sign_out, open_store(self.settings), token)
        except StorageError as error:
            log.error("Nobody could be signed out: %s", error)
            return PlainTextResponse(StoreFailed.TRY_LATER, 503)
        response = await self._signed_out(opened_by)
        cookies.clear_session(response, self.settings)
        return response

    async def _signed_out(self, opened_by: tuple[str, str] | None) -> Response:
        """Lead to the provider's sign-out if it opened the session, else to the sign-in page."""
        here: Response = RedirectResponse("/auth/login?out=1", 303)
        if self.provider is None or opened_by is None or opened_by[0] != self.provider.settings.issuer:
            return here
        name = self.provider.settings.name
        try:
            url = await run_in_threadpool(self.provider.logout_url, opened_by[1], state=SIGNED_OUT)
        except ProviderUnavailable as error:
            log.warning("Nobody could be led to the provider's sign-out: %s", error)
            return forms.note_page(
                "You are signed out here",
                f"{name} could not be reached, so you may still be signed in there.",
            )
        if url is None:
            return here
        line = f"You are signed out here. {name} is asked to sign you out, too."
        return forms.leave_page("Signing out", line, url=url, link=f"Sign out of {name}")

    async def health(self, request: Request) -> Response:
        """Answer `ok` if the store responds; reveal nothing else to anyone."""
        try:
            await self._holder("health")
        except WorkbenchError:
            return PlainTextResponse("unavailable", 503)
        return PlainTextResponse("ok")

    async def _holder(self, token: str) -> Actor | None:
        return await run_in_threadpool(actor_for_token, open_store(self.settings), token)

    async def _checked(self, request: Request, name: str, password: str) -> SignedIn:
        if self._slots is None:
            self._slots = anyio.CapacityLimiter(2)
        return await anyio.to_thread.run_sync(
            lambda: sign_in(
                open_store(self.settings),
                name=name,
                password=password,
                address=request.client.host if request.client else "unknown",
                hours=self.settings.session_hours,
                old_token=cookies.session_token(request, self.settings),
            ),
            limiter=self._slots,
        )

    def store_failed(self, request: Request, error: StorageError, *, target: str, name: str = "") -> Response:
        """Answer a stranger without a word about the store; the log has the rest."""
        log.error("Nobody could be looked up for %s: %s", request.url.path, error)
        return self.form(request, target=target, name=name, problem=StoreFailed.TRY_LATER, status=503)

    def form(
        self,
        request: Request,
        *,
        target: str = "/",
        name: str = "",
        problem: str = "",
        notice: str = "",
        status: int = 200,
    ) -> Response:
        """Show the sign-in page; where something went wrong, name and password are there in any case."""
        described = self.provider.settings if self.provider is not None else None
        show_local = described is None or described.show_local or bool(problem) or "local" in request.query_params
        secret = cookies.form_secret(request) or cookies.new_form_secret()
        response = forms.sign_in_page(
            token=cookies.form_token(secret),
            target=target,
            name=name,
            problem=problem,
            notice=notice,
            provider=described.name if described is not None else "",
            show_local=show_local,
            status=status,
        )
        cookies.set_form_secret(response, self.settings, secret)
        return response


async def form_fields(request: Request) -> Mapping[str, str]:
    """Read a small urlencoded form; anything else gives no fields, and so no matching form token."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LARGEST_FORM:
            return {}
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return {}
    try:
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=20))
    except ValueError:
        return {}
