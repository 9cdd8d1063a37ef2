"""What the API refuses and repeats: limits, wrong bodies, cursors, idempotency keys; and what it says of itself."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

import workbench.client
from crossner_core.domains import load_domain
from crossner_core.errors import WorkbenchError
from db import account_rows
from db.engine import Store
from db.types import now
from tests.support.api import secret_of, settings_for
from workbench.accounts import accounts
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.http.api import declared, document_page, problems, serving
from workbench.http.api.declared import ROOT, cursor_of, number_in, routes
from workbench.http.api.limits import Limits
from workbench.http.api.openapi import openapi
from workbench.http.api.serving import Api
from workbench.http.gate import Gate

People = dict[str, Actor]
CREATED = {"name": "Once", "domain": "music"}


@pytest.fixture
def client(store: Store, tmp_path: Path, people: People) -> Iterator[TestClient]:
    """A client with a researcher's token."""
    settings = settings_for(store, tmp_path)
    with TestClient(Gate(Starlette(routes=Api(settings).routes()), settings=settings)) as made:
        made.headers["authorization"] = f"Bearer {secret_of(store, people['res'])}"
        yield made


def said(answer: Any, status: int, name: str) -> str:
    """Check that an answer is a problem of this kind, and return its detail."""
    value = answer.json()
    assert (answer.status_code, answer.headers["content-type"]) == (status, problems.MEDIA_TYPE), answer.text
    assert value["type"] == f"{ROOT}/#problem-{name}" and value["status"] == status
    assert value["title"] and value["instance"].startswith("/api/")
    return str(value["detail"])


@pytest.mark.parametrize(
    "body, status, name, words",
    [
        (b"", 400, "invalid", "is not JSON"),
        (b"{oops", 400, "invalid", "is not JSON"),
        (b"[]", 400, "invalid", "must be an object"),
        (b"null", 400, "invalid", "must be an object"),
        (b"\xff\xfe", 400, "invalid", "JSON"),
        (b'{"name": "a"}', 400, "invalid", "domain is missing"),
        (b'{"name": 1, "domain": "music"}', 400, "invalid", "name must be a text, not 1"),
        (b'{"name": "", "domain": "music"}', 400, "invalid", "at least 1"),
        (b'{"name": "a", "domain": "music", "nmae": 1}', 400, "invalid", "nmae is no key of the body; valid are name"),
        (b'{"name": "a\\u0000", "domain": "music"}', 400, "invalid", "cannot be stored"),
        (b'{"name": "a\\ud800", "domain": "music"}', 400, "invalid", "not JSON"),
        (b'{"name": "a", "domain": "none"}', 404, "not-found", "no domain 'none'; there are"),
        (b'{"name": "a", "domain": "music", "members": [99]}', 400, "invalid", "no person 99"),
        (b'{"name": "a", "domain": "music", "members": [1e400]}', 400, "invalid", "members"),
        (b'{"name": "a", "domain": "music", "members": [' + b"9" * 5000 + b"]}", 400, "invalid", ""),
        (b'{"name": "a", "domain": "music", "settings": {"blind": 1}}', 400, "invalid", "no setting 'blind'; settings"),
        (b'{"name": "a", "domain": "music", "settings": {"blind_share": 2}}', 400, "invalid", "from 0 to 1"),
        (b'{"name": "a", "domain": "music", "settings": {"endpoint": "http://x"}}', 403, "not-allowed", "admin"),
        (b"[" * 100_000, 400, "invalid", "JSON"),
    ],
)
def test_wrong_bodies_are_explained(client: TestClient, body: bytes, status: int, name: str, words: str) -> None:
    answer = client.post(f"{ROOT}/campaigns", content=body, headers={"content-type": "application/json"})
    assert words in said(answer, status, name)


@pytest.mark.parametrize("media_type", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_other_media_types_are_not_read(client: TestClient, media_type: str) -> None:
    answer = client.post(f"{ROOT}/campaigns", content=b"{}", headers={"content-type": media_type})
    assert "reads application/json" in said(answer, 415, "media-type")


@pytest.mark.parametrize(
    "query, words",
    [
        ("limit=0", "limit is 0; at least 1"),
        ("limit=201", "at most 200"),
        ("limit=many", "limit must be a whole number"),
        ("limit=1&limit=2", "comes twice"),
        ("archived=perhaps", "archived must be true or false"),
        ("page=2", "page is no key of the parameters; valid are cursor, limit, archived"),
        ("cursor=abc", "is no cursor"),
        ("cursor=%00", "cannot be stored"),
        (f"cursor={'x' * 101}", "at most 100"),
    ],
)
def test_wrong_parameters_are_explained(client: TestClient, query: str, words: str) -> None:
    assert words in said(client.get(f"{ROOT}/campaigns?{query}"), 400, "invalid")


def test_numbers_too_large_for_a_store_are_refused(client: TestClient) -> None:
    for path in (f"campaigns/{2**31}", f"campaigns/{2**70}", "campaigns/-1", "campaigns/one", f"runs/{2**63}"):
        said(client.get(f"{ROOT}/{path}"), 400, "invalid")


def test_a_body_that_is_too_large_is_refused_with_and_without_a_length(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = json.dumps({"name": "x" * declared.JSON_BYTES, "domain": "music"}).encode()
    headers = {"content-type": "application/json"}
    assert "4,194,304 bytes" in said(client.post(f"{ROOT}/campaigns", content=body, headers=headers), 413, "too-large")
    chunks = (body[start : start + 65_536] for start in range(0, len(body), 65_536))
    said(client.post(f"{ROOT}/campaigns", content=chunks, headers=headers), 413, "too-large")


@pytest.mark.parametrize(
    "content, media_type, words",
    [
        (b"", "multipart/form-data", "no multipart/form-data"),
        (b"x", "multipart/form-data; boundary=b", "no multipart/form-data"),
        (b"--b--\r\n", "multipart/form-data; boundary=b", "one or more files"),
        (b'--b\r\nContent-Disposition: form-data; name="files"\r\n\r\nx\r\n--b--\r\n',
         "multipart/form-data; boundary=b", "one or more files"),
        (b'--b\r\nContent-Disposition: form-data; name="other"; filename="a"\r\n\r\nx\r\n--b--\r\n',
         "multipart/form-data; boundary=b", "called files"),
    ],
)  # fmt: skip
def test_wrong_forms_are_explained(
    client: TestClient, campaign: int, content: bytes, media_type: str, words: str
) -> None:
    url = f"{ROOT}/campaigns/{campaign}/sentences"
    answer = client.post(url, content=content, headers={"content-type": media_type})
    assert words in said(answer, 400, "invalid")


def test_requests_of_a_token_are_limited(store: Store, tmp_path: Path, people: People) -> None:
    settings = settings_for(store, tmp_path, api_per_minute=2)
    secrets = [secret_of(store, people["res"]), secret_of(store, people["res"])]
    with TestClient(Gate(Starlette(routes=Api(settings).routes()), settings=settings)) as client:
        ask = [client.get(f"{ROOT}/me", headers={"authorization": f"Bearer {secrets[0]}"}) for _ in range(3)]
        assert [answer.status_code for answer in ask] == [200, 200, 429]
        assert "2 requests a minute" in said(ask[2], 429, "rate") and 1 <= int(ask[2].headers["retry-after"]) <= 30
        assert client.get(f"{ROOT}/me", headers={"authorization": f"Bearer {secrets[1]}"}).status_code == 200


def test_limit_fills_up_again_evenly() -> None:
    moment = [100.0]
    limits = Limits(6, clock=lambda: moment[0])
    assert [limits.wait(1) for _ in range(7)] == [0, 0, 0, 0, 0, 0, 10]
    moment[0] += 9
    assert limits.wait(1) == 1
    moment[0] += 1
    assert [limits.wait(1), limits.wait(1), limits.wait(2)] == [0, 10, 0]
    moment[0] += 3600
    assert [limits.wait(1) for _ in range(7)][-1] == 10


def test_pages_cover_a_list_once(client: TestClient, store: Store, people: People) -> None:
    made = [campaigns.create_campaign(store, people["res"], name=f"C{n}", domain=_music()) for n in range(7)]
    seen, cursor = list[int](), ""
    while True:
        page = client.get(f"{ROOT}/campaigns?limit=3{cursor}").json()
        seen += [one["id"] for one in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert seen == sorted(made, reverse=True)


@pytest.mark.parametrize("number", [0, 1, 50, 2**31 - 1])
def test_cursors_come_back(number: int) -> None:
    assert number_in(cursor_of(number)) == number and number_in(None) == 0


def test_a_key_makes_a_thing_once(client: TestClient, store: Store, people: People) -> None:
    headers = {"idempotency-key": "one"}
    first, second = (client.post(f"{ROOT}/campaigns", json=CREATED, headers=headers) for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 201) and first.json() == second.json()
    assert "idempotent-replayed" not in first.headers and second.headers["idempotent-replayed"] == "true"
    assert len(campaigns.list_campaigns(store, people["res"])) == 1
    other = client.post(f"{ROOT}/campaigns", json={**CREATED, "name": "Other"}, headers=headers)
    assert "for another request" in said(other, 409, "conflict")


def test_a_key_belongs_to_a_token(client: TestClient, store: Store, people: People) -> None:
    headers = {"idempotency-key": "one"}
    client.post(f"{ROOT}/campaigns", json=CREATED, headers=headers)
    client.headers["authorization"] = f"Bearer {secret_of(store, people['res'])}"
    assert "already a campaign" in said(
        client.post(f"{ROOT}/campaigns", json=CREATED, headers=headers), 409, "conflict"
    )


def test_a_refused_request_frees_its_key(client: TestClient) -> None:
    headers = {"idempotency-key": "one"}
    assert client.post(f"{ROOT}/campaigns", json={**CREATED, "domain": "none"}, headers=headers).status_code == 404
    assert client.post(f"{ROOT}/campaigns", json=CREATED, headers=headers).status_code == 201


def test_a_request_that_was_cut_off_is_not_repeated(
    client: TestClient, store: Store, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = campaigns.create_campaign

    def fail(*arguments: Any, **more: Any) -> int:
        made(*arguments, **more)
        raise RuntimeError("after the commit")

    headers = {"idempotency-key": "one"}
    with monkeypatch.context() as patched:
        patched.setattr(campaigns, "create_campaign", fail)
        assert client.post(f"{ROOT}/campaigns", json=CREATED, headers=headers).status_code == 500
    assert "cut off" in said(client.post(f"{ROOT}/campaigns", json=CREATED, headers=headers), 409, "conflict")
    assert len(campaigns.list_campaigns(store, people["res"])) == 1


def test_a_key_is_forgotten_after_a_day(
    client: TestClient, store: Store, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"idempotency-key": "one"}
    client.post(f"{ROOT}/campaigns", json=CREATED, headers=headers)
    with store.write() as session:
        account_rows.forget_replies(session, before=now())
    assert "already a campaign" in said(
        client.post(f"{ROOT}/campaigns", json=CREATED, headers=headers), 409, "conflict"
    )


def test_a_repeated_answer_is_not_given_to_somebody_who_lost_the_right(
    client: TestClient, store: Store, people: People
) -> None:
    headers = {"idempotency-key": "one"}
    client.post(f"{ROOT}/campaigns", json=CREATED, headers=headers)
    accounts.set_role(store, people["adm"], people["res"].id, "expert")
    said(client.post(f"{ROOT}/campaigns", json=CREATED, headers=headers), 403, "not-allowed")


@pytest.mark.parametrize("key", ["", "x" * 201, "a\tb"])
def test_wrong_keys_are_explained(client: TestClient, key: str) -> None:
    answer = client.post(f"{ROOT}/campaigns", json=CREATED, headers={"idempotency-key": key})
    assert "1 to 200 printable ASCII" in said(answer, 400, "invalid")


def test_the_same_files_have_the_same_key_whatever_the_boundary(client: TestClient, campaign: int) -> None:
    url, headers = f"{ROOT}/campaigns/{campaign}/sentences?preannotate=false", {"idempotency-key": "one"}
    first, second = (client.post(url, files=[("files", ("a.txt", b"Ada sang .\n"))], headers=headers) for _ in range(2))
    assert first.json()["added"] == 1 and second.json() == first.json()
    other = client.post(url, files=[("files", ("a.txt", b"Ada slept .\n"))], headers=headers)
    said(other, 409, "conflict")


def test_every_error_of_ours_has_a_kind() -> None:
    def below(kind: type[WorkbenchError]) -> Iterator[type[WorkbenchError]]:
        yield kind
        for one in kind.__subclasses__():
            yield from below(one)

    kinds = {kind.__name__: problems.kind_of(kind("x")) for kind in below(WorkbenchError)}
    assert kinds["SignInRefused"].status == 403 and kinds["CheckpointMismatch"].status == 409
    assert kinds["BadInput"].status == 400 and kinds["StoreFailed"].status == 503
    assert len({kind.name for kind in problems.KINDS}) == len(problems.KINDS)


def test_openapi_describes_every_route() -> None:
    document = openapi()
    assert document["openapi"] == "3.1.0" and json.loads(json.dumps(document, allow_nan=False)) == document
    operations = {(ROOT + route.path, route.method.lower()): route for route in routes()}
    described = {(path, method) for path, methods in document["paths"].items() for method in methods}
    assert described == set(operations)
    for (path, method), route in operations.items():
        operation = document["paths"][path][method]
        assert operation["summary"].endswith(".") and route.roles[0] in operation["description"]
        assert {"401", "403", "429", "503"} <= set(operation["responses"])
        assert {one["name"] for one in operation["parameters"] if one["in"] == "path"} == set(route.path_names)
        assert ("requestBody" in operation) == (route.body is not None)
    for name in _references(document):
        assert name in document["components"]["schemas"]


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_page_shows_every_route_and_loads_nothing_from_elsewhere(client: TestClient) -> None:
    answer = client.get(f"{ROOT}/")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    tags = _Tags()
    tags.feed(answer.text)
    assert not {tag for tag, _ in tags.found} & {"script", "img", "iframe", "object", "form", "embed", "video"}
    loaded = [values["href"] for tag, values in tags.found if tag == "link"]
    assert loaded == ["data:,"] and not any("src" in values for _, values in tags.found) and "url(" not in answer.text
    ids = {values["id"] for _, values in tags.found if "id" in values}
    assert {route.name for route in routes()} | {f"problem-{kind.name}" for kind in problems.KINDS} <= ids
    anchors = {str(values["href"])[1:] for tag, values in tags.found if tag == "a" and str(values["href"])[0] == "#"}
    assert anchors <= ids


def test_page_escapes_what_routes_say() -> None:
    wicked = dataclasses.replace(routes()[0], path="/<b>x</b>", roles=("<i>",), answer=declared.File)
    text = document_page._article(wicked)
    assert "<b>" not in text and "<i>" not in text and "&lt;b&gt;" in text


@pytest.mark.parametrize("name", sorted(route.name for route in routes() if route.method == "POST"))
def test_client_sends_a_key_where_one_is_taken(name: str) -> None:
    (route,) = [route for route in routes() if route.name == name]
    assert workbench.client._creates("POST", route.path) == route.creates


@pytest.mark.slow
def test_the_web_process_has_no_model_in_memory() -> None:
    code = "import sys, app; from workbench.http.api.declared import routes; routes()\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False" and serving.API == "/api/"


def _music() -> Any:
    return load_domain("music")


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"].rsplit("/", 1)[1]
        for part in value.values():
            yield from _references(part)
    elif isinstance(value, list):
        for part in value:
            yield from _references(part)
