"""Scripts of browser parts, served under the hash of their content: a browser fetches each once and keeps it."""

from __future__ import annotations

import hashlib
from pathlib import PurePosixPath

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from workbench.http.headers import PARTS

_KEEP = "private, max-age=31536000, immutable"
_SCRIPTS: dict[str, bytes] = {}
"""What this process serves, by name."""


def publish(name: str, script: str) -> str:
    """Serve an ES module from now on; return its path, which changes with its content."""
    _SCRIPTS[name] = script.encode()
    return _path(name)


def loader(path: str) -> str:
    """Return the module that a page sends in place of the published one, with the same default export."""
    return f"const part = await import(new URL({path!r}, document.baseURI).href)\nexport default part.default\n"


def routes() -> list[Route]:
    return [Route(PARTS + "{file}", _serve, methods=["GET"])]


def _path(name: str) -> str:
    return f"{PARTS}{name}.{hashlib.sha256(_SCRIPTS[name]).hexdigest()[:20]}.js"


async def _serve(request: Request) -> Response:
    """Send a script; under an earlier hash, which an updated server may be asked for, send the newest uncached."""
    name = PurePosixPath(request.path_params["file"]).name.split(".")[0]
    if name not in _SCRIPTS:
        return PlainTextResponse("There is no such part.", 404, {"cache-control": "no-store"})
    keep = _KEEP if request.url.path == _path(name) else "no-store"
    return Response(_SCRIPTS[name], media_type="text/javascript", headers={"cache-control": keep})
