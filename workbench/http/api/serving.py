"""Answer requests to the API: token, limit, route, scope, parameters and body, then the route's own function."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from crossner_core.errors import BadInput, StorageError, WorkbenchError
from crossner_core.records import read, read_json
from crossner_core.schema import UNSTORABLE, is_storable
from workbench.accounts.actors import admit
from workbench.accounts.sign_in import actor_for_token
from workbench.accounts.tokens import Bearer, allows, bearer_of
from workbench.accounts.ways import acting
from workbench.campaigns.campaigns import get_campaign
from workbench.http.api import problems, replays
from workbench.http.api.declared import LEFT_OUT, ROOT, Accepted, Body, Call, Declared, File, Files, in_utf8, routes
from workbench.http.api.document_page import document_page
from workbench.http.api.etags import is_known, tag_of, tags_in, weak_tag
from workbench.http.api.limits import Limits, Slots, TooLarge, limited
from workbench.http.api.openapi import openapi
from workbench.http.api.problems import problem, refusal
from workbench.http.cookies import session_token
from workbench.http.gate import API
from workbench.settings import Settings, open_store

log = logging.getLogger(__name__)
_MOST_FILES = 1_000
_PAGE, _OPENAPI = f"{ROOT}/", f"{ROOT}/openapi.json"


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request as it was understood; `files` are read once it is the request's turn."""

    route: Declared
    inputs: BaseModel
    body: Any
    files: tuple[UploadFile, ...]
    raw: bytes
    tags: tuple[str, ...] | None
    """Of If-None-Match where the route only reads, else of If-Match."""


class _Refused(Exception):
    """Ends a request with an answer."""

    def __init__(self, response: Response) -> None:
        super().__init__()
        self.response = response


class Api:
    """An ASGI app for all paths that begin with `/api/`. Cookies open its documents, and nothing else."""

    def __init__(self, settings: Settings, *, limits: Limits | None = None) -> None:
        self.settings = settings
        self.limits = limits or Limits(settings.api_per_minute)
        self.slots = Slots()

    def routes(self) -> list[Route]:
        return [Route(API + "{rest:path}", self)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        path = request.url.path
        try:
            response = await self._answered(request, path)
        except _Refused as refused:
            response = refused.response
        except TooLarge as large:
            response = problem(problems.TOO_LARGE, large.detail, path=path)
        except WorkbenchError as error:
            response = refusal(error, path)
        except ClientDisconnect:
            response = Response(status_code=400)  # nobody reads it
        except Exception:
            log.exception("%s %s failed", request.method, path)
            detail = "This is an error of the workbench, which its log describes. Nothing was partly written."
            response = problem(problems.FAILED, detail, path=path)
        await response(scope, receive, send)

    async def _answered(self, request: Request, path: str) -> Response:
        bearer = await self.slots.run("lookup", self._bearer, request)
        if bearer is None and not (path in (ROOT, _PAGE, _OPENAPI) and await self._is_signed_in(request)):
            raise _Refused(_without_token(path, "authorization" in request.headers))
        if bearer is not None and (seconds := self.limits.wait(bearer.token_id)):
            detail = f"This token may make {self.limits.per_minute} requests a minute; try again in {seconds} s."
            raise _Refused(problem(problems.RATE, detail, path=path, headers={"retry-after": str(seconds)}))
        if path in (ROOT, _PAGE, _OPENAPI):
            return _document(request, path)
        assert bearer is not None
        route, in_path = _found(request.method, path)
        if not allows(bearer.scope, route.scope):
            detail = f"{route.method} {route.path} needs the scope {route.scope}; this token has {bearer.scope}."
            challenge = {"www-authenticate": f'Bearer error="insufficient_scope", scope="{route.scope}"'}
            raise _Refused(problem(problems.SCOPE, detail, path=path, headers=challenge))
        asked = await _read(request, route, in_path)
        key = request.headers.get(replays.HEADER) if route.creates else None
        try:
            return await self.slots.run(route.slots, self._done, bearer, asked, key)
        finally:
            for file in asked.files:
                await file.close()

    def _bearer(self, request: Request) -> Bearer | None:
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        return bearer_of(open_store(self.settings), secret.strip()) if scheme.lower() == "bearer" else None

    async def _is_signed_in(self, request: Request) -> bool:
        token = session_token(request, self.settings)
        return await self.slots.run("lookup", actor_for_token, open_store(self.settings), token) is not None

    def _done(self, bearer: Bearer, asked: _Asked, key: str | None) -> Response:
        """Carry a request out; with a key, once."""
        with acting("api", bearer.token_id):
            return self._carried_out(bearer, asked, key)

    def _carried_out(self, bearer: Bearer, asked: _Asked, key: str | None) -> Response:
        if not asked.files:
            return self._handled_once(bearer, asked, asked.body, key)
        with tempfile.TemporaryDirectory(prefix="workbench-") as folder:
            names = [upload.filename or "upload" for upload in asked.files]
            files = Files(files=tuple(zip(names, on_disk(asked.files, Path(folder)), strict=True)))
            return self._handled_once(bearer, asked, files, key)

    def _handled_once(self, bearer: Bearer, asked: _Asked, body: Any, key: str | None) -> Response:
        store, route = open_store(self.settings), asked.route
        call = Call(store, bearer.actor, bearer.token_id, None if route.is_read else asked.tags)
        if route.is_read:
            return _conditional(call, asked)
        if key is None:
            return _response(route, _handled(call, asked, body))
        checked = replays.checked_key(key)
        kept = replays.begin(store, bearer.token_id, checked, _hash(asked, body))
        if kept is not None:
            _still_allowed(call, asked)
            return _json(kept.status, in_utf8(kept.body), {"idempotent-replayed": "true", **_follow(kept)})
        try:
            made = _handled(call, asked, body)
        except WorkbenchError as error:
            if not isinstance(error, StorageError):
                replays.free(store, bearer.token_id, checked)
            raise
        kept = replays.Kept(_status(route, made), made.model_dump_json())
        replays.keep(store, bearer.token_id, checked, kept)
        return _response(route, made)


def on_disk(uploads: Iterable[UploadFile], folder: Path) -> list[Path]:
    """Copy the files of a request into a folder, under numbers: their names are the client's."""
    paths = []
    for number, upload in enumerate(uploads):
        paths.append(folder / str(number))
        with paths[-1].open("wb") as file:
            shutil.copyfileobj(upload.file, file)
    return paths


def _handled(call: Call, asked: _Asked, body: Any) -> Any:
    arguments = (asked.inputs,) if asked.route.body is None else (asked.inputs, body)
    return asked.route.handle(call, *arguments)


def _conditional(call: Call, asked: _Asked) -> Response:
    """Answer a request that only reads, or say that the program has this answer (304)."""
    route, tag = asked.route, None
    if route.version is not None:
        _still_allowed(call, asked)
        # Before the answer: what changes in between makes the next request get it again.
        version = route.version(call, asked.inputs)
        tag = None if version is None else weak_tag(version)
        if tag is not None and is_known(tag, asked.tags):
            return Response(status_code=304, headers={"etag": tag})
    response = _response(route, _handled(call, asked, None))
    tag = tag or tag_of(bytes(response.body))
    if is_known(tag, asked.tags):
        return Response(status_code=304, headers={"etag": tag})
    response.headers["etag"] = tag
    return response


def _still_allowed(call: Call, asked: _Asked) -> None:
    """Refuse to repeat an answer, or to say that it holds, to somebody who would not get it now."""
    admit(call.store, call.actor, *asked.route.roles)
    campaign_id = getattr(asked.inputs, "campaign", None)
    if campaign_id is not None:
        get_campaign(call.store, call.actor, campaign_id)


def _without_token(path: str, is_given: bool) -> Response:
    why = "is not valid: unknown, expired, revoked, or its account is closed" if is_given else "is missing"
    detail = f"The token {why}. Send the header Authorization: Bearer TOKEN; make a token on My account."
    challenge = 'Bearer error="invalid_token"' if is_given else "Bearer"
    return problem(problems.TOKEN, detail, path=path, headers={"www-authenticate": challenge})


def _document(request: Request, path: str) -> Response:
    if request.method not in ("GET", "HEAD"):
        raise _Refused(_no_method(path, {"GET", "HEAD"}))
    return JSONResponse(openapi()) if path == _OPENAPI else document_page()


def _found(method: str, path: str) -> tuple[Declared, dict[str, str]]:
    """Return the route of a path and method with the parameters in the path."""
    below = path.removeprefix(ROOT) if path.startswith(f"{ROOT}/") else ""
    matches = [(route, values) for route in routes() if (values := route.match(below)) is not None]
    if not matches:
        detail = f"There is no route {path[:200]!r}; {_PAGE} lists all."
        raise _Refused(problem(problems.NO_ROUTE, detail, path=path))
    for route, values in matches:
        if route.method == method:
            return route, values
    raise _Refused(_no_method(path, {route.method for route, _ in matches}))


def _no_method(path: str, methods: Iterable[str]) -> Response:
    allowed = ", ".join(sorted(methods))
    return problem(problems.METHOD, f"This route has {allowed} alone.", path=path, headers={"allow": allowed})


async def _read(request: Request, route: Declared, in_path: Mapping[str, str]) -> _Asked:
    """Read parameters and body; raise BadInput for what does not fit."""
    stated: dict[str, str] = dict(in_path)
    for name, value in request.query_params.multi_items():
        if name in stated:
            raise BadInput(f"The parameter {name!r} comes twice; give it once.")
        if value != "":
            stated[name] = value
    inputs = read(route.inputs, stated, "the parameters")
    _check_texts(inputs)
    tags = _tags(request, route)
    if route.body is None:
        return _Asked(route, inputs, None, (), b"", tags)
    receive = limited(request, route.most_bytes)
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    wanted = "multipart/form-data" if route.takes_files else "application/json"
    if media_type != wanted:
        detail = f"The body is {media_type or 'of no stated media type'}; this route reads {wanted}."
        raise _Refused(problem(problems.MEDIA, detail, path=request.url.path))
    if route.takes_files:
        return _Asked(route, inputs, None, await _files(request, receive), b"", tags)
    raw = await Request(request.scope, receive).body()
    assert issubclass(route.body, Body)
    body = read_json(route.body, raw, "the body")
    _check_texts(body)
    return _Asked(route, inputs, body, (), raw, tags)


def _tags(request: Request, route: Declared) -> tuple[str, ...] | None:
    """Return the tags of the condition that a route takes; raise BadInput for one that it does not take."""
    taken = "If-None-Match" if route.is_read else "If-Match" if route.matches else ""
    for header in ("If-Match", "If-None-Match"):
        if header != taken and header in request.headers:
            other = f"it takes {taken}" if taken else "leave it out"
            raise BadInput(f"{route.method} {route.path} takes no header {header}; {other}.")
    values = request.headers.getlist(taken)
    return tags_in(taken, ", ".join(values) if values else None)


async def _files(request: Request, receive: Receive) -> tuple[UploadFile, ...]:
    try:
        form = await Request(request.scope, receive).form(max_files=_MOST_FILES, max_fields=1)
    except HTTPException as error:
        raise BadInput(f"The body is no multipart/form-data: {error.detail}") from error
    except (ValueError, KeyError, UnicodeError) as error:
        raise BadInput(f"The body is no multipart/form-data: {error}") from error
    items = form.multi_items()
    files = tuple(value for _, value in items if isinstance(value, UploadFile))
    if not files or len(files) < len(items) or any(name != "files" for name, _ in items):
        for file in files:
            await file.close()
        raise BadInput("The body must hold one or more files, each in a field called files.")
    return files


def _check_texts(model: BaseModel) -> None:
    """Raise BadInput for a text, at any depth, that some store cannot hold."""
    level: list[Any] = list(model.model_dump().items())
    while level:
        value = level.pop()
        if isinstance(value, str) and not is_storable(value):
            raise BadInput(f"The text {value[:40]!a} {UNSTORABLE}.")
        if isinstance(value, Mapping):
            level += [*value, *value.values()]
        elif isinstance(value, list | tuple):
            level += value


def _hash(asked: _Asked, body: Any) -> str:
    """Return what two requests have in common if they ask for the same."""
    stated = json.dumps(asked.inputs.model_dump(mode="json"), sort_keys=True)
    digest = hashlib.sha256(f"{asked.route.method} {asked.route.path} {stated}\n".encode())
    digest.update(asked.raw)
    if isinstance(body, Files):
        for name, path in body.files:
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            digest.update(f"{name!r} {content}\n".encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


def _response(route: Declared, made: Any) -> Response:
    if isinstance(made, File):
        name = made.name.encode("ascii", "replace").decode().replace('"', "").replace("?", "-")
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        headers |= {LEFT_OUT: made.left_out.encode("ascii", "replace").decode()} if made.left_out else {}
        return Response(made.data, 200, headers, made.media_type)
    if made is None:
        return Response(status_code=route.status)
    body = made.encoded()
    headers = {"etag": tag_of(body)} if route.matches else {}
    headers |= {"location": made.follow} if isinstance(made, Accepted) else {}
    return _json(_status(route, made), body, headers)


def _status(route: Declared, made: Any) -> int:
    return 202 if isinstance(made, Accepted) else route.status


def _follow(kept: replays.Kept) -> dict[str, str]:
    return {"location": Accepted.model_validate_json(kept.body).follow} if kept.status == 202 else {}


def _json(status: int, body: bytes, headers: Mapping[str, str]) -> Response:
    return Response(body, status, headers, "application/json")
