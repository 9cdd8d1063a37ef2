"""Answer the calls of other tools: token, limit, call, scope and body, then the call's own function.

INCEpTION and some Label Studio send no header of their own, so a token may stand in the path of their protocols; it
is taken out before anything else sees the path, and no log has it.
"""

from __future__ import annotations

import base64
import binascii
import logging
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from crossner_core.errors import BadInput, NotAllowed, WorkbenchError
from workbench.accounts.tokens import PREFIX, Bearer, allows, bearer_of
from workbench.http.api import problems
from workbench.http.api.declared import Call
from workbench.http.api.limits import TooLarge, limited
from workbench.http.api.problems import Explained, Kind, explained
from workbench.http.api.serving import Api, on_disk
from workbench.http.headers import same_origin
from workbench.http.protocols.declared import Asked, Operation, Protocol, protocols
from workbench.settings import open_store

log = logging.getLogger(__name__)
_TOKEN = re.compile(rf"/({PREFIX}[A-Za-z0-9_-]+)(?=/|\?|\Z)")
_IN_TEXT = re.compile(rf"{PREFIX}[A-Za-z0-9_-]+")
_CHALLENGE = "Bearer"
"""Never Basic: a browser would ask for it, keep it, and send it from any site."""


class _Refused(Exception):
    """Ends a request with an error."""

    def __init__(self, kind: Kind, detail: str, **headers: str) -> None:
        super().__init__()
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        self.explained = Explained(kind, detail, headers=named)


@dataclass(frozen=True, slots=True)
class _Credential:
    """A token, and the name that came with it, if any."""

    secret: str
    name: str | None = None


class Protocols:
    """An ASGI app for the protocols of other tools; it shares limits and threads with the API."""

    def __init__(self, api: Api) -> None:
        self.settings, self.limits, self.slots = api.settings, api.limits, api.slots
        access = logging.getLogger("uvicorn.access")
        if not any(isinstance(known, _Masked) for known in access.filters):
            access.addFilter(_Masked())

    def routes(self) -> list[Route]:
        return [Route(f"{protocol.root}/{{rest:path}}", self._app(protocol)) for protocol in protocols()]

    def _app(self, protocol: Protocol) -> _Served:
        return _Served(self, protocol)

    async def answer(self, protocol: Protocol, request: Request, secret: str | None) -> Response:
        """Return the answer to a request whose path has no token any more."""
        path = request.url.path
        try:
            return await self._answered(protocol, request, secret)
        except _Refused as refused:
            made = refused.explained
        except TooLarge as large:
            made = Explained(problems.TOO_LARGE, large.detail)
        except WorkbenchError as error:
            made = explained(error, path)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        except Exception:
            log.exception("%s %s failed", request.method, path)
            made = Explained(problems.FAILED, "This is an error of the workbench, which its log describes.")
        return protocol.refuse(made, path)

    async def _answered(self, protocol: Protocol, request: Request, in_path: str | None) -> Response:
        if not same_origin(request.headers, required=False):
            raise NotAllowed("This request came from another site and was refused.")
        credential = _Credential(in_path) if in_path is not None else _credential(request)
        bearer = await self.slots.run("lookup", self._bearer, credential) if credential is not None else None
        if bearer is None:
            raise _Refused(problems.TOKEN, _without_token(protocol, credential), www_authenticate=_CHALLENGE)
        if seconds := self.limits.wait(bearer.token_id):
            detail = f"This token may make {self.limits.per_minute} requests a minute; try again in {seconds} s."
            raise _Refused(problems.RATE, detail, retry_after=str(seconds))
        operation, values = _matching(protocol, request)
        if not allows(bearer.scope, operation.scope):
            needs = f"{operation.method} {operation.path} needs the scope {operation.scope}"
            detail = f"{needs}; this token has {bearer.scope}."
            raise _Refused(problems.SCOPE, detail, www_authenticate=f'{_CHALLENGE} error="insufficient_scope"')
        asked, uploads = await _read(request, operation, values)
        call = Call(open_store(self.settings), bearer.actor, bearer.token_id)
        try:
            answer: Response = await self.slots.run(operation.slots, _carried_out, operation, call, asked, uploads)
        finally:
            for upload in uploads.values():
                await upload.close()
        return answer

    def _bearer(self, credential: _Credential) -> Bearer | None:
        """Return who holds a token; None too if it came under somebody else's name."""
        bearer = bearer_of(open_store(self.settings), credential.secret)
        if bearer is None or credential.name in (None, bearer.actor.name):
            return bearer
        return None


class _Served:
    """The ASGI app of one protocol."""

    def __init__(self, protocols: Protocols, protocol: Protocol) -> None:
        self.protocols, self.protocol = protocols, protocol

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        secret = None
        if self.protocol.has_token_in_path and (matched := _TOKEN.search(scope["path"])) is not None:
            secret = matched[1]
            path = scope["path"][: matched.start()] + scope["path"][matched.end() :]
            scope = {**scope, "path": path, "raw_path": path.encode("utf-8", "replace")}
        scope = {**scope, "path": _IN_TEXT.sub(f"{PREFIX}…", scope["path"])}  # one where it does not belong
        response = await self.protocols.answer(self.protocol, Request(scope, receive), secret)
        await response(scope, receive, send)


class _Masked(logging.Filter):
    """Takes tokens out of the lines of an access log: a server that is started otherwise may write one."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(
                _IN_TEXT.sub(f"{PREFIX}…", value) if isinstance(value, str) else value for value in record.args
            )
        return True


def _credential(request: Request) -> _Credential | None:
    """Return the token of the header: as Bearer, as Token, or as the password of HTTP Basic."""
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() in ("bearer", "token"):
        return _Credential(value.strip())
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(value.strip(), validate=True).decode("utf-8").partition(":")
    except (binascii.Error, ValueError):
        return None
    return _Credential(password, name) if colon else None


def _without_token(protocol: Protocol, credential: _Credential | None) -> str:
    why = "is missing" if credential is None else "is not valid: unknown, expired, revoked, or its account is closed"
    if credential is not None and credential.name is not None:
        why += ", or the name beside it is not its person's"
    where = "as the password beside your account name, or as Authorization: Bearer TOKEN"
    if protocol.has_token_in_path:
        where = "in the path, behind the campaign's number, or as Authorization: Bearer TOKEN"
    return f"The token {why}. Send it {where}; make one on My account."


def _matching(protocol: Protocol, request: Request) -> tuple[Operation, dict[str, str]]:
    """Return the call of a path and method with the parameters in the path."""
    below = request.url.path.removeprefix(protocol.root).rstrip("/")
    matches = [
        (operation, values) for operation in protocol.operations if (values := operation.match(below)) is not None
    ]
    if not matches:
        detail = f"{protocol.title} has no call {below[:200]!r} here; docs/outside-tools.md lists all."
        raise _Refused(problems.NO_ROUTE, detail)
    for operation, values in matches:
        if operation.method == request.method:
            return operation, values
    allowed = ", ".join(sorted({operation.method for operation, _ in matches}))
    raise _Refused(problems.METHOD, f"This call has {allowed} alone.", allow=allowed)


def _carried_out(operation: Operation, call: Call, asked: Asked, uploads: Mapping[str, UploadFile]) -> Response:
    """Carry a call out, the files of its form in a folder, under numbers."""
    if operation.reads != "form":
        return operation.handle(call, asked)
    with tempfile.TemporaryDirectory(prefix="workbench-") as name:
        folder = Path(name)
        files = dict(zip(uploads, on_disk(uploads.values(), folder), strict=True))
        return operation.handle(call, replace(asked, files=files, folder=folder))


async def _read(request: Request, operation: Operation, values: dict[str, str]) -> tuple[Asked, dict[str, UploadFile]]:
    """Read the body as the call wants it; files of a form are read once it is the request's turn."""
    query = dict(request.query_params)
    if operation.reads == "nothing":
        return Asked(values, query), {}
    receive = limited(request, operation.most_bytes)
    body = Request(request.scope, receive)
    if operation.reads == "skipped":
        async for _ in body.stream():
            pass
        return Asked(values, query), {}
    if operation.reads == "body":
        return Asked(values, query, await body.body()), {}
    try:
        form = await body.form(max_files=2, max_fields=20)
    except (HTTPException, ValueError, KeyError, UnicodeError) as error:
        reason = error.detail if isinstance(error, HTTPException) else error
        raise BadInput(f"The body is no form: {reason}") from error
    texts = {name: value for name, value in form.multi_items() if isinstance(value, str)}
    uploads = {name: value for name, value in form.multi_items() if isinstance(value, UploadFile)}
    for _, value in form.multi_items():
        if isinstance(value, UploadFile) and value not in uploads.values():
            await value.close()  # its field came twice
    return Asked(values, query, form=texts), uploads
