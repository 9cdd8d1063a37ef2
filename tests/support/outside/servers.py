"""Local servers that answer as an OpenAI-compatible endpoint or a zero-shot tagger does, or misbehave."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from crossner_core.domains import load_domain
from crossner_core.outside.asking import Asker, Spend
from crossner_core.outside.base import OutsideModel
from crossner_core.suggest.chat import ChatModel
from tests.support.gazetteers.sparql_servers import Behaviour, Endpoint, MemoryCache, Reply, serve

KEY = "sk-test-9f81"
VARIABLE = "OUTSIDE_TEST_KEY"
JSON = {"Content-Type": "application/json"}
Entity = tuple[str, str]


def as_json(value: Any, **more: Any) -> Reply:
    """Return an answer that holds JSON."""
    return Reply(json.dumps(value).encode(), headers=JSON, **more)


def chat(content: Any, *, usage: Any = None, finish_reason: str = "stop", **message: Any) -> Reply:
    """Return a chat completion whose message is `content`, as JSON unless it is a text."""
    text = content if isinstance(content, str) else json.dumps(content)
    choice = {"index": 0, "finish_reason": finish_reason, "message": {"role": "assistant", "content": text, **message}}
    taken = {"prompt_tokens": 200, "completion_tokens": 20} if usage is None else usage
    return as_json({"object": "chat.completion", "choices": [choice], "usage": taken})


def entities(named: Sequence[Entity]) -> dict[str, Any]:
    """Return the JSON that is asked for."""
    return {"entities": [{"text": text, "type": kind} for text, kind in named]}


def sentence_in(body: Mapping[str, Any]) -> str:
    """Return the sentence of a request."""
    return str(body["messages"][-1]["content"])


def knows(names: Mapping[str, str]) -> Behaviour:
    """Return what names these entities, text → title of the type, wherever they stand in a sentence."""

    def answer(_number: int, body: Any) -> Reply:
        text = sentence_in(body)
        return chat(entities([(name, kind) for name, kind in names.items() if name in text]))

    return answer


@contextmanager
def serve_json(behave: Behaviour, *, path: str = "/v1") -> Iterator[Endpoint]:
    """Run a server that takes JSON, and does with request n (from 0) what `behave(n, body)` says."""
    with serve(behave, path=path, read=lambda body: (json.loads(body), None)) as endpoint:
        yield endpoint


class Purse:
    """A budget in memory."""

    def __init__(self, requests: int = 1000, tokens: int = 10**9) -> None:
        self.most, self.most_tokens = requests, tokens
        self.requests = self.tokens = 0
        self.cost = 0.0
        self._lock = Lock()

    def reserve(self, most: Spend) -> bool:
        with self._lock:
            tokens = self.tokens + most.input_tokens + most.output_tokens
            if self.requests + most.requests > self.most or tokens > self.most_tokens:
                return False
            self._add(most, 1)
            return True

    def settle(self, reserved: Spend, spent: Spend) -> None:
        with self._lock:
            self._add(reserved, -1)
            self._add(spent, 1)

    def _add(self, spend: Spend, sign: int) -> None:
        self.requests += sign * spend.requests
        self.tokens += sign * (spend.input_tokens + spend.output_tokens)
        self.cost += sign * spend.cost


def chat_model(url: str, **changes: Any) -> ChatModel:
    """Return a model at a server of ours, asked one request at a time unless `changes` say otherwise."""
    values = {"name": "own", "model": "tiny", "at_once": 1, "retries": 2, "timeout": 5.0, **changes}
    return ChatModel(address=url, **values)


def asker(model: OutsideModel, *, source: str = "chat:own", key: str = "", **changes: Any) -> Asker:
    """Return what asks a model about music, quick to retry."""
    values: dict[str, Any] = {"cache": MemoryCache(), "budget": Purse(), "backoff": 0.01, **changes}
    return Asker(model, load_domain("music"), source, key=key, rng=random.Random(0), **values)


def write_models(home: Path, url: str, *, name: str = "own", **more: Any) -> None:
    """Write the file of outside models of a home folder, with one model at a server of ours."""
    values = {"kind": "chat", "address": url, "model": "tiny", "timeout": 5, "retries": 1, **more}
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    home.mkdir(parents=True, exist_ok=True)
    (home / "outside.toml").write_text("\n".join([f"[{name}]", *lines, ""]), encoding="utf-8")
