"""Requests to the provider: what it publishes (kept for an hour), tokens for a code, claims, and its sign-out page.

Sources: OpenID Connect Core 1.0, Discovery 1.0, RP-Initiated Logout 1.0; RFC 7636 (PKCE).
"""

from __future__ import annotations

import base64
import hashlib
import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from crossner_core.errors import BadInput, InvalidConfig, ProviderUnavailable, SignInRefused
from crossner_core.records import parse
from crossner_core.web import Incomplete, Transient, Watch, check_address, send, status_of
from workbench.accounts.oidc.provider_settings import ProviderSettings, is_safe

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

log = logging.getLogger(__name__)

_TIMEOUT = 8.0  # seconds
_LARGEST = 1 << 20  # bytes
_KEPT = 3600.0  # seconds
_KEYS_AT_LEAST = 30.0
"""Seconds for which keys are not fetched again, whatever key a token names: anyone can send a logout token."""
_REQUIRED = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_OPTIONAL = ("userinfo_endpoint", "end_session_endpoint")


@dataclass(frozen=True, slots=True)
class Tokens:
    """What the provider gave for a code."""

    id_token: str
    access_token: str


class Provider:
    """The provider of the settings; safe to use from several threads."""

    def __init__(self, settings: ProviderSettings) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        self._published: tuple[float, Mapping[str, Any]] | None = None
        self._keys: tuple[float, KeySet] | None = None

    def published(self) -> Mapping[str, Any]:
        """Return the provider's metadata; raise ProviderUnavailable."""
        with self._lock:
            kept = self._published
        if kept is not None and time.monotonic() - kept[0] < _KEPT:
            return kept[1]
        fresh = self._checked(self._get(f"{self.settings.issuer.rstrip('/')}/.well-known/openid-configuration"))
        with self._lock:
            self._published = (time.monotonic(), fresh)
        return fresh

    def _checked(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        issuer = self.settings.issuer
        if document.get("issuer") != issuer:
            raise self._unusable(f"it calls itself {document.get('issuer')!r}, and the settings {issuer!r}")
        for name in (*_REQUIRED, *_OPTIONAL):
            url = document.get(name)
            if url is None and name in _OPTIONAL:
                continue
            try:
                if not isinstance(url, str) or not is_safe(check_address(url, what=name, example="https://…")):
                    raise self._unusable(f"its {name} is {url!r}")
            except InvalidConfig as error:
                raise self._unusable(str(error)) from error
        return document

    def keys(self, *, again: bool = False) -> KeySet:
        """Return the keys that the provider signs with; `again` fetches them anew, unless they are fresh."""
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        with self._lock:
            kept = self._keys
        if kept is not None and time.monotonic() - kept[0] < (_KEYS_AT_LEAST if again else _KEPT):
            return kept[1]
        document = self._get(self.published()["jwks_uri"])
        try:
            keys = KeySet.import_key_set({"keys": [key for key in document["keys"] if key.get("kty") != "oct"]})
        except (JoseError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise self._unusable("its keys cannot be read") from error
        with self._lock:
            self._keys = (time.monotonic(), keys)
        return keys

    def authorization_url(self, *, state: str, nonce: str, verifier: str, **more: str) -> str:
        """Return where the browser goes to sign in; `verifier` is the secret of PKCE."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        return _with_query(
            self.published()["authorization_endpoint"],
            response_type="code",
            client_id=self.settings.client_id,
            redirect_uri=self.settings.redirect_uri,
            scope=" ".join(self.settings.scopes),
            state=state,
            nonce=nonce,
            code_challenge=challenge,
            code_challenge_method="S256",
            **more,
        )

    def exchange(self, code: str, verifier: str) -> Tokens:
        """Return the tokens for a code; raise SignInRefused where it is not taken, or ProviderUnavailable."""
        published, settings = self.published(), self.settings
        fields = {"grant_type": "authorization_code", "code": code, "redirect_uri": settings.redirect_uri}
        fields["code_verifier"] = verifier
        headers = {"content-type": "application/x-www-form-urlencoded"}
        try:
            secret = settings.secret()
        except InvalidConfig as error:
            log.error("Nobody can sign in with %s: %s", settings.name, error)
            raise self._unusable("this workbench lacks its client secret") from error
        methods = published.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        if not secret:
            fields["client_id"] = settings.client_id
        elif "client_secret_basic" in methods or "client_secret_post" not in methods:
            pair = f"{quote(settings.client_id, safe='')}:{quote(secret, safe='')}"
            headers["authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        else:
            fields |= {"client_id": settings.client_id, "client_secret": secret}
        request = urllib.request.Request(published["token_endpoint"], urlencode(fields).encode(), headers)
        answer = self._sent(request)
        id_token, access_token = answer.get("id_token"), answer.get("access_token")
        if not isinstance(id_token, str) or not isinstance(access_token, str):
            raise self._unusable("its answer holds no ID token")
        return Tokens(id_token, access_token)

    def userinfo(self, access_token: str) -> Mapping[str, Any]:
        """Return the claims that the provider gives for an access token, none if it has no such endpoint."""
        url = self.published().get("userinfo_endpoint")
        if url is None:
            return {}
        return self._sent(urllib.request.Request(url, headers={"authorization": f"Bearer {access_token}"}))

    def logout_url(self, id_token: str, *, state: str) -> str | None:
        """Return where the browser signs out of the provider, None if it has no such page."""
        url = self.published().get("end_session_endpoint")
        if url is None:
            return None
        hint = {"id_token_hint": id_token} if id_token else {}
        return _with_query(
            url,
            client_id=self.settings.client_id,
            post_logout_redirect_uri=self.settings.after_logout,
            state=state,
            **hint,
        )

    def _get(self, url: str) -> Mapping[str, Any]:
        return self._sent(urllib.request.Request(url))

    def _sent(self, request: urllib.request.Request) -> Mapping[str, Any]:
        """Return a JSON object; raise ProviderUnavailable, or SignInRefused where the provider refuses a code."""
        request.add_header("accept", "application/json")
        try:
            with Watch(_TIMEOUT) as watch:
                _, body = send(request, timeout=_TIMEOUT, largest=_LARGEST, watch=watch)
        except urllib.error.HTTPError as error:
            with error:
                reason = _oauth_error(error.read(_LARGEST))
            log.warning("%s: %s %s", request.full_url, status_of(error), reason)
            if reason == "invalid_grant":
                raise SignInRefused(f"{self.settings.name} does not know this sign-in any more; try again.") from error
            raise self._unusable(f"{status_of(error)}{reason and f' ({reason})'}") from error
        except (Transient, Incomplete) as error:
            log.warning("%s: %s", request.full_url, error)
            raise self._unusable(str(error)) from error
        try:
            document = parse(body.decode("utf-8"), "JSON")
        except (BadInput, UnicodeDecodeError) as error:
            raise self._unusable("its answer is no JSON") from error
        if not isinstance(document, dict):
            raise self._unusable("its answer is no JSON object")
        return document

    def _unusable(self, reason: str) -> ProviderUnavailable:
        return ProviderUnavailable(f"{self.settings.name} cannot be used right now: {reason}.")


def _oauth_error(body: bytes) -> str:
    try:
        document = parse(body.decode("utf-8", "replace"), "JSON")
    except BadInput:
        return ""
    error = document.get("error") if isinstance(document, dict) else None
    return error if isinstance(error, str) and error.isidentifier() and len(error) <= 60 else ""


def _with_query(url: str, **fields: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(fields)}"
