"""A small OpenID Connect provider in this process, whose every answer a test can spoil."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

CLIENT = "workbench"
SECRET = "s3cret:with/odd chars"
LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"


def new_key(kid: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig"}, private=True)


@dataclass
class FakeProvider:
    """Its keys, who signs in next, and what it answers; `requests` are the paths it was asked for."""

    issuer: str = ""
    key: RSAKey = field(default_factory=lambda: new_key("first"))
    person: dict[str, Any] = field(
        default_factory=lambda: {"sub": "p-1", "preferred_username": "Pat", "name": "Pat P."}
    )
    userinfo: dict[str, Any] = field(default_factory=dict)
    published: dict[str, Any] = field(default_factory=dict)
    spoiled: dict[str, Any] = field(default_factory=dict)
    down: bool = False
    knows_address: bool = True
    requests: list[str] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def claims(self, **more: Any) -> dict[str, Any]:
        now = int(time.time())
        return {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300} | more

    def signed(self, claims: dict[str, Any], *, key: RSAKey | None = None, alg: str = "RS256") -> str:
        signer = key or self.key
        return jwt.encode({"alg": alg, "kid": signer.kid}, claims, signer, algorithms=[alg])

    def logout_token(self, **more: Any) -> str:
        return self.signed(self.claims(events={LOGOUT_EVENT: {}}, jti="1") | more)

    def agree(self, url: str) -> dict[str, str]:
        """Do as the person at the provider does who agrees; return what the browser comes back with."""
        asked = dict(parse_qsl(urlsplit(url).query))
        assert asked["client_id"] == CLIENT and asked["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(8)
        self.codes[code] = asked
        return {"code": code, "state": asked["state"]}

    def tokens(self, fields: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        if not self._is_client(authorization):
            return 401, {"error": "invalid_client"}
        asked = self.codes.pop(fields.get("code", ""), None)
        verifier = fields.get("code_verifier", "").encode()
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier).digest()).rstrip(b"=").decode()
        if asked is None or asked["code_challenge"] != challenge or asked["redirect_uri"] != fields["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        claims = self.claims(nonce=asked["nonce"], sid="s-1", **self.person) | self.spoiled
        return 200, {"access_token": "access", "token_type": "Bearer", "id_token": self.signed(claims)}

    @staticmethod
    def _is_client(authorization: str) -> bool:
        name, _, secret = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        return (unquote(name), unquote(secret)) == (CLIENT, SECRET)

    def answer(self, path: str, fields: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        self.requests.append(path)
        if self.down:
            return 503, {}
        if path == "/.well-known/openid-configuration":
            names = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "jwks"}
            names |= {"userinfo_endpoint": "userinfo", "end_session_endpoint": "logout"}
            urls = {name: f"{self.issuer}/{place}" for name, place in names.items()}
            return 200, {"issuer": self.issuer} | urls | self.published
        if path == "/jwks":
            return 200, dict(KeySet([self.key]).as_dict(private=False))
        if path == "/token":
            return self.tokens(fields, authorization)
        if path == "/authorize":
            return 200 if self.knows_address else 400, {}
        if path == "/userinfo" and authorization == "Bearer access":
            return 200, {"sub": self.person["sub"]} | self.userinfo
        return 404, {}


@contextmanager
def fake_provider() -> Iterator[FakeProvider]:
    """Serve a provider on a free port of this machine."""
    provider = FakeProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            self._answer(dict(parse_qsl(body.decode())))

        def _answer(self, fields: dict[str, str]) -> None:
            path, authorization = urlsplit(self.path).path, self.headers.get("authorization", "")
            status, document = provider.answer(path, fields, authorization)
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Keep the output of the tests clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.issuer = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
