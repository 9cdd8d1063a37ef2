"""Annotators without a browser: they mount the editor by Streamlit's protocol, then save at a steady pace over HTTP.

    python -m benchmarks.streamlit_client ADDRESS --people people.json --campaign 1 --out crowd.json

A server from before there was a route for that gets the saves as Streamlit's messages, too, for comparison.

Prints `ready` once all editors are mounted, then works until its standard input is closed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.BidiComponent_pb2 import BidiComponent
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect

COMPONENT = "crossner_span_editor"
PERIOD = 4.0
"""Seconds per sentence: `AUTOSAVES` autosaves, then the submit; with 0 each event follows on the last one's answer."""
AUTOSAVES = 3
_PATIENCE = 30.0
_LARGEST_MESSAGE = 64 * 1024 * 1024


@dataclass(slots=True)
class Saved:
    """An acknowledged event; `sent_at` is the machine's monotonic clock in seconds, `spans` is (start, end, type)."""

    user: int
    task: int
    key: str
    kind: str
    spans: list[tuple[int, int, str]]
    sent_at: float
    milliseconds: float


@dataclass(slots=True)
class Editor:
    """The state of the page's span editor, from the server's messages so far."""

    page: str = ""
    """Script hash of the page, as the last session message named it."""
    widget: str = ""
    fragment: str = ""
    payload: dict[str, Any] = field(default_factory=dict)
    problem: str = ""

    def read(self, message: ForwardMsg) -> bool:
        """Process a message; return True if it has a new payload for the editor."""
        kind = message.WhichOneof("type")
        if kind == "new_session":
            self.page = message.new_session.page_script_hash
        elif kind == "auth_redirect":
            self.problem = "The server reports that this client is signed out."
        if kind != "delta" or message.delta.WhichOneof("type") != "new_element":
            return False
        element = message.delta.new_element
        self._note_problem(element)
        if element.WhichOneof("type") != "bidi_component" or element.bidi_component.component_name != COMPONENT:
            return False
        component: BidiComponent = element.bidi_component
        self.widget, self.fragment = component.id, message.delta.fragment_id
        self.payload = json.loads(component.json)
        return True

    def _note_problem(self, element: Any) -> None:
        kind = element.WhichOneof("type")
        if kind == "exception":
            self.problem = f"{element.exception.type}: {element.exception.message}"
        elif kind == "alert":
            self.problem = element.alert.body

    def refused(self, client: str) -> str:
        """Return the server's reason for the first rejection of this client's events, or an empty string."""
        rejections = [rejection for rejection in self.payload.get("rejections", []) if rejection["client"] == client]
        return f"{rejections[0]['reason']}: {rejections[0]['message']}" if rejections else ""


def open_page_message(page: str) -> bytes:
    """Return the message with which a browser requests a page."""
    message = BackMsg()
    message.rerun_script.page_name = page
    return bytes(message.SerializeToString())


def outbox_message(editor: Editor, outbox: Mapping[str, Any]) -> bytes:
    """Return the message that sends the editor's state to the server: one widget, one fragment."""
    message = BackMsg()
    state = message.rerun_script
    state.page_script_hash, state.fragment_id = editor.page, editor.fragment
    widget = state.widget_states.widgets.add()
    widget.id = editor.widget
    widget.json_value = json.dumps({"outbox": outbox})
    return bytes(message.SerializeToString())


def work_on(item: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Return the work of an annotator who has accepted the first `count` suggestions of an item."""
    spans: list[dict[str, Any]] = []
    for suggestion in sorted(item["suggestions"], key=lambda suggestion: suggestion["start"])[:count]:
        start, end = suggestion["start"], suggestion["end"]
        surface = item["text"][item["tokens"][start][0] : item["tokens"][end - 1][1]]
        spans.append({"start": start, "end": end, "type": suggestion["type"], "surface": surface, "origin": "accepted"})
    return {
        "spans": spans,
        "rejected": [],
        "flags": [],
        "decisions": [],
        "no_entities": not spans,
        "comment": "",
    }


async def sign_in(address: str, name: str, password: str) -> str:
    """Sign in through the form and return the browser's cookies as one header."""
    async with httpx.AsyncClient(base_url=address, timeout=60) as browser:
        page = await browser.get("/auth/login")
        token = re.search(r'name="form_token" value="([0-9a-f]+)"', page.text)
        if token is None:
            raise RuntimeError(f"The sign-in page has no form token (status {page.status_code}).")
        fields = {"form_token": token.group(1), "name": name, "password": password, "next": "/annotate"}
        answer = await browser.post("/auth/login", data=fields)
        if answer.status_code != 303:
            raise RuntimeError(f"{name} could not sign in: status {answer.status_code}.")
        return "; ".join(f"{cookie.name}={cookie.value}" for cookie in browser.cookies.jar)


class Line:
    """A connection that is kept open for one post after the other, as a browser's; httpx takes longer than a save."""

    def __init__(self, address: str, cookie: str) -> None:
        self.host, self.port = urlsplit(address).hostname, urlsplit(address).port
        self.head = f"Host: {urlsplit(address).netloc}\r\nOrigin: {address}\r\nCookie: {cookie}\r\n"
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, token: str, value: Any) -> dict[str, Any]:
        """Post JSON and return the answer's; raise RuntimeError for any status but 200."""
        body = json.dumps(value).encode()
        head = f"POST {path} HTTP/1.1\r\n{self.head}x-form-token: {token}\r\nContent-Type: application/json\r\n"
        if self._streams is None or self._streams[0].at_eof():  # a server closes what is idle for some seconds
            self.close()
            self._streams = await asyncio.open_connection(self.host, self.port)
        reader, writer = self._streams
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answered = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = re.search(r"content-length: (\d+)", answered)
        content = await reader.readexactly(int(length.group(1)) if length else 0)
        if " 200 " not in answered.split("\r\n", 1)[0]:
            raise RuntimeError(f"{answered.splitlines()[0]}: {content[:200].decode('utf-8', 'replace')}")
        return dict(json.loads(content))

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()


class Annotator:
    """One person on the annotate page."""

    def __init__(
        self, user: int, connection: ClientConnection, line: Line, rng: random.Random, *, period: float = PERIOD
    ) -> None:
        self.user, self.connection, self.line, self.rng, self.period = user, connection, line, rng, period
        self.client = uuid.uuid4().hex
        self.editor = Editor()
        self.saved: list[Saved] = []
        self.bytes_read = 0
        self._seq = 0
        self._sent = 0
        self._finished: set[int] = set()

    async def mount(self) -> None:
        """Open the page and wait until its editor has a sentence."""
        await self.connection.send(open_page_message("annotate"))
        await asyncio.wait_for(self._until(lambda: bool(self.editor.payload)), _PATIENCE)

    async def work(self, stop: asyncio.Event) -> None:
        """Annotate sentence after sentence until `stop` is set; the first one begins at a random moment."""
        await _pause(stop, self.rng.uniform(0, self.period))
        while not stop.is_set():
            item = self._next_item()
            revision = item["revision"]
            for step in range(1, AUTOSAVES + 2):
                began = time.monotonic()
                kind = "submit" if step > AUTOSAVES else "draft"
                work = work_on(item, len(item["suggestions"]) if kind == "submit" else step)
                await self._save(kind, item["task"], revision, work)
                revision += 1
                wait = self.period / (AUTOSAVES + 1) * self.rng.uniform(0.8, 1.2)
                await _pause(stop, max(0.0, wait - (time.monotonic() - began)))
                if stop.is_set():
                    break

    def _next_item(self) -> dict[str, Any]:
        for item in self.editor.payload["items"]:
            if item["task"] not in self._finished:
                return dict(item)
        raise RuntimeError(f"User {self.user} has nothing left to annotate; make the campaign larger.")

    async def _save(self, kind: str, task: int, base: int, work: dict[str, Any]) -> None:
        self._seq, self._sent = self._seq + 1, self._sent + 1
        event = {
            "seq": self._seq, "key": uuid.uuid4().hex, "kind": kind, "task": task, "base": base, "revision": base + 1,
            "work": work, "reason": "", "active_ms": 900, "keystrokes": 3,
        }  # fmt: skip
        message = {"client": self.client, "events": [event], "sent": self._sent, "user": self.user}
        sent_at = time.monotonic()
        await asyncio.wait_for(self._exchange(message), _PATIENCE)
        milliseconds = (time.monotonic() - sent_at) * 1000
        spans = [(span["start"], span["end"], span["type"]) for span in work["spans"]]
        self.saved.append(Saved(self.user, task, str(event["key"]), kind, spans, sent_at, milliseconds))
        if kind == "submit":
            self._finished.add(task)

    async def _exchange(self, message: dict[str, Any]) -> None:
        """Send a message and wait for its acknowledgement."""
        payload = self.editor.payload
        if "url" in payload:
            known = {item["task"]: item for item in payload["items"]}
            message["known"] = list(known)
            payload |= await self.line.post(payload["url"], payload["token"], message)
            payload["items"] = [item if "text" in item else known[item["task"]] for item in payload["items"]]
            if not self._acknowledged():
                raise RuntimeError(f"User {self.user}: {self.editor.refused(self.client)}")
        else:
            await self.connection.send(outbox_message(self.editor, message))
            await self._until(self._acknowledged)

    def _acknowledged(self) -> bool:
        return self.editor.payload["acks"].get(self.client, 0) >= self._seq

    async def _until(self, reached: Any) -> None:
        while not reached():
            data = await self.connection.recv(decode=False)
            self.bytes_read += len(data)
            self.editor.read(ForwardMsg.FromString(data))
            problem = self.editor.problem or self.editor.refused(self.client)
            if problem:
                raise RuntimeError(f"User {self.user}: {problem}")


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return


async def enter(
    address: str, person: Mapping[str, Any], campaign: int, rng: random.Random, *, period: float = PERIOD
) -> Annotator:
    """Sign a person in and mount their editor on the campaign; the caller closes the connection."""
    cookie = await sign_in(address, person["name"], person["password"])
    connection = await connect(
        f"ws://{urlsplit(address).netloc}/_stcore/stream",
        origin=address,  # type: ignore[arg-type]
        subprotocols=["streamlit"],  # type: ignore[list-item]
        additional_headers={"Cookie": cookie},
        max_size=_LARGEST_MESSAGE,
    )
    try:
        annotator = Annotator(person["id"], connection, Line(address, cookie), rng, period=period)
        await annotator.mount()
        if annotator.editor.payload["campaign"] != campaign:
            raise RuntimeError(f"The page opened campaign {annotator.editor.payload['campaign']}, not {campaign}.")
    except BaseException:
        connection.transport.abort()
        raise
    return annotator


async def run_crowd(
    address: str, people: Sequence[Mapping[str, Any]], campaign: int, seed: int, period: float = PERIOD
) -> dict[str, Any]:
    """Let all annotators work from when a line comes in until standard input ends; return what was acknowledged."""
    annotators = [
        await enter(address, person, campaign, random.Random(seed + number), period=period)
        for number, person in enumerate(people)
    ]
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    stop = asyncio.Event()
    tasks = [asyncio.create_task(annotator.work(stop)) for annotator in annotators]
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    await asyncio.wait([ended, *tasks], return_when=asyncio.FIRST_COMPLETED)
    stop.set()
    await asyncio.gather(*tasks)
    for annotator in annotators:
        await annotator.connection.close()
        annotator.line.close()
    saved = [asdict(saved_event) for annotator in annotators for saved_event in annotator.saved]
    return {"saved": saved, "bytes_read": sum(annotator.bytes_read for annotator in annotators)}


def main() -> None:
    """Run the crowd of `--people` (a JSON list of id, name and password) and write its figures to `--out`."""
    parser = argparse.ArgumentParser(description="Annotators without a browser.")
    parser.add_argument("address")
    parser.add_argument("--people", type=Path, required=True)
    parser.add_argument("--campaign", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--period", type=float, default=PERIOD, help="seconds a sentence; 0: without a pause")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    people = json.loads(options.people.read_text(encoding="utf-8"))
    report = asyncio.run(run_crowd(options.address, people, options.campaign, options.seed, options.period))
    options.out.write_text(json.dumps(report), encoding="utf-8")


if __name__ == "__main__":
    main()
