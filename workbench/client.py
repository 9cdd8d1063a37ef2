"""A client of the API for programs; it needs nothing but Python's standard library.

from workbench.client import Client

api = Client("http://127.0.0.1:8501", token)
for campaign in api.items("/campaigns"):
    print(campaign["name"], campaign["gold"])
"""

from __future__ import annotations

import http.client
import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

ROOT = "/api/v1"
FINAL = ("done", "failed", "cancelled")
_CREATES = (("POST", "/campaigns"), ("POST", "/runs"), ("POST", "/curves"))
_CREATED_IN_CAMPAIGN = ("/sentences", "/documents", "/snapshots", "/webhooks", "/test")


class ApiProblem(Exception):
    """What the server answered instead of doing it; `problems` are single ones, such as the lines of a file."""

    def __init__(self, status: int, value: Mapping[str, Any], retry_after: int | None = None) -> None:
        self.status = status
        self.type = str(value.get("type", "about:blank"))
        self.title = str(value.get("title", ""))
        self.detail = str(value.get("detail", ""))
        self.problems: tuple[str, ...] = tuple(value.get("problems", ()))
        self.retry_after = retry_after
        """Seconds to wait, if the server said so."""
        super().__init__(f"{status} {self.title}: {self.detail}")


class Client:
    """Calls with one token over one connection; not for several threads at a time.

    A request that makes something carries an idempotency key, so that it is safely sent again where the connection
    breaks. `waits`: how often a request is sent again after the wait that the server asks for. Raises ApiProblem for
    what is refused, OSError where the server cannot be reached.
    """

    def __init__(self, address: str, token: str, *, timeout: float = 120.0, waits: int = 3) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{address!r} is no address of a server; give one like http://127.0.0.1:8501.")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=timeout)
        self._token, self._waits = token, waits
        self.left_out = ""
        """What the format of the file that was asked for last could not hold, by kind and number."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def get(self, path: str, **parameters: Any) -> Any:
        """Get what is at a path below /api/v1."""
        return self.request("GET", path, parameters)

    def post(self, path: str, body: Mapping[str, Any] | None = None, **parameters: Any) -> Any:
        """Post a body to a path below /api/v1."""
        return self.request("POST", path, parameters, body=body)

    def items(self, path: str, **parameters: Any) -> Iterator[dict[str, Any]]:
        """Yield the items of a list, page after page."""
        while True:
            page = self.get(path, **parameters)
            yield from page["items"]
            if (cursor := page.get("next")) is None:
                return
            parameters["cursor"] = cursor

    def import_files(self, campaign: int, files: Sequence[tuple[str, bytes]], **parameters: Any) -> dict[str, Any]:
        """Add the sentences of files, each with its name, to a campaign.

        Of large files the worker takes care; the answer then has `follow`, and `follow_import` waits for the end.
        """
        made: dict[str, Any] = self.request("POST", f"/campaigns/{campaign}/sentences", parameters, files=files)
        return made

    def add_document(self, campaign: int, files: Sequence[tuple[str, bytes]], **parameters: Any) -> dict[str, Any]:
        """Add one document to a campaign, given the files that its format has for one."""
        made: dict[str, Any] = self.request("POST", f"/campaigns/{campaign}/documents", parameters, files=files)
        return made

    def document(self, campaign: int, document: int, *, layer: str | None = None, format: str = "text") -> bytes:
        """Return a document as a file, without annotation or with a layer."""
        place = f"/campaigns/{campaign}/documents/{document}"
        within = f"/layers/{quote(layer)}" if layer is not None else ""
        data: bytes = self.get(f"{place}{within}/export", format=format)
        return data

    def follow_import(self, started: Mapping[str, Any], *, seconds: float = 1.0) -> dict[str, Any]:
        """Return what became of an import that was left to the worker, once it has ended."""
        while True:
            state: dict[str, Any] = self.get(str(started["follow"]).removeprefix(ROOT))
            if state["state"] in FINAL:
                return state
            time.sleep(seconds)

    def export(
        self,
        campaign: int,
        layer: str,
        *,
        format: str = "jsonl",
        split: str | None = None,
        besides: Sequence[str] = (),
        with_names: bool = False,
    ) -> bytes:
        """Return a layer of a campaign as a file, other layers `besides` where the format has a place for them."""
        asked = {"besides": ",".join(besides), "with_names": with_names} if besides else {}
        data: bytes = self.get(
            f"/campaigns/{campaign}/layers/{quote(layer)}/export", format=format, split=split, **asked
        )
        return data

    def follow(self, run: int, *, seconds: float = 1.0) -> Iterator[dict[str, Any]]:
        """Yield the lines of a run's log as they come, until it has ended."""
        after = 0
        while True:
            log = self.get(f"/runs/{run}/events", after=after)
            yield from log["items"]
            after = log["last"]
            if log["state"] in FINAL:
                return
            time.sleep(seconds)

    def predict(
        self,
        texts: Sequence[str] | None = None,
        *,
        words: Sequence[Sequence[str]] | None = None,
        run: int | None = None,
        campaign: int | None = None,
    ) -> list[dict[str, Any]]:
        """Return the predicted entities of sentences, given as texts or as words, by a run's or a campaign's model."""
        given = {"texts": texts, "words": words, "run": run, "campaign": campaign}
        answer = self.post("/predict", {name: value for name, value in given.items() if value is not None})
        sentences: list[dict[str, Any]] = answer["sentences"]
        return sentences

    def request(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        body: Mapping[str, Any] | None = None,
        files: Sequence[tuple[str, bytes]] | None = None,
        key: str | None = None,
    ) -> Any:
        """Send a request and return its answer: JSON as values, a file as bytes."""
        stated = [(name, _text(value)) for name, value in (parameters or {}).items() if value is not None]
        target = ROOT + path + (f"?{urlencode(stated)}" if stated else "")
        headers = {"Authorization": f"Bearer {self._token}"}
        data: bytes | None = None
        if files is not None:
            data, headers["Content-Type"] = _multipart(files)
        elif body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        if key is None and _creates(method, path):
            key = uuid.uuid4().hex
        if key is not None:
            headers["Idempotency-Key"] = key
        may_repeat = method == "GET" or key is not None
        for left in range(self._waits, -1, -1):
            response = self._sent(method, target, data, headers, may_repeat)
            content, retry_after = response.read(), response.headers.get("Retry-After")
            if response.status < 400:
                self.left_out = response.headers.get("Left-Out", "")
                is_json = response.headers.get_content_type() == "application/json"
                return json.loads(content) if is_json else content
            seconds = int(retry_after) if retry_after is not None and retry_after.isdecimal() else None
            is_turned_away = response.status == 429 or (response.status == 503 and may_repeat)
            if not (is_turned_away and seconds is not None and left):
                raise ApiProblem(response.status, _values(content), seconds)
            time.sleep(seconds)
        raise AssertionError("unreachable")

    def _sent(
        self, method: str, target: str, data: bytes | None, headers: Mapping[str, str], may_repeat: bool
    ) -> http.client.HTTPResponse:
        """Send a request; where the server has closed the idle connection, send it once more over a new one."""
        was_open = self._connection.sock is not None
        try:
            self._connection.request(method, target, data, dict(headers))
            return self._connection.getresponse()
        except (http.client.HTTPException, ConnectionError):
            self._connection.close()
            if not (was_open and may_repeat):
                raise
        self._connection.request(method, target, data, dict(headers))
        return self._connection.getresponse()


def _creates(method: str, path: str) -> bool:
    return (method, path) in _CREATES or (method == "POST" and path.endswith(_CREATED_IN_CAMPAIGN))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _values(content: bytes) -> dict[str, Any]:
    """Read a problem; of an answer that is none, such as a proxy's, keep the beginning."""
    try:
        value = json.loads(content)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"detail": content[:200].decode(errors="replace")}


def _multipart(files: Sequence[tuple[str, bytes]]) -> tuple[bytes, str]:
    boundary = uuid.uuid4().hex
    parts = bytearray()
    for name, data in files:
        safe = name.replace("\\", "_").replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="files"; filename="{safe}"\r\n'
        parts += head.encode() + b"Content-Type: application/octet-stream\r\n\r\n" + data + b"\r\n"
    parts += f"--{boundary}--\r\n".encode()
    return bytes(parts), f"multipart/form-data; boundary={boundary}"
