"""What the protocols share: tokens of every kind, scopes, limits, and no token in any log."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cassis import Cas
from starlette.testclient import TestClient

from crossner_core.formats.cas import dkpro_types
from crossner_core.formats.webanno_tsv import NAMED_ENTITY
from db.engine import Store
from tests.support.api import gated, secret_of, settings_for
from tests.support.authorisation import Scene, scene_in, use_cases
from tests.support.screens import give_session
from workbench.accounts import tokens
from workbench.accounts.actors import Actor
from workbench.http.cookies import SESSION_COOKIE
from workbench.http.protocols.declared import Operation, Protocol, protocols
from workbench.runs import predicting

People = dict[str, Actor]
CALLS = [(protocol, operation) for protocol in protocols() for operation in protocol.operations]
NAMES = [f"{protocol.id}.{operation.name}" for protocol, operation in CALLS]
CONFIG = '<View><Labels name="a" toName="b"><Label value="band"/></Labels><Text name="b" value="$text"/></View>'
HEALTH = "/api/label-studio/{campaign}{token}/health"


@pytest.fixture
def client(store: Store, tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(gated(settings_for(store, tmp_path))) as made:
        yield made


def path_of(protocol: Protocol, operation: Operation, campaign: int = 1) -> str:
    values = {"campaign": campaign, "project": campaign, "document": 1, "user": "ann1"}
    return protocol.root + operation.path.format(**values)


def basic(name: str, secret: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()}


@pytest.mark.parametrize("protocol, operation", CALLS, ids=NAMES)
def test_no_call_is_answered_without_a_token_or_by_cookie(
    protocol: Protocol, operation: Operation, client: TestClient, store: Store, people: People
) -> None:
    cookie = {"cookie": f"{SESSION_COOKIE}={give_session(store, people['adm'])}"}
    for headers in (
        {},
        cookie,
        basic("adm", "x"),
        {"authorization": "Bearer crossner_x"},
        {"authorization": "Basic %"},
    ):
        answer = client.request(operation.method, path_of(protocol, operation), headers=headers)
        assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("protocol, operation", CALLS, ids=NAMES)
def test_scope_is_a_limit_on_every_call(
    protocol: Protocol, operation: Operation, client: TestClient, store: Store, people: People
) -> None:
    for scope in tokens.SCOPES:
        headers = {"authorization": f"Token {secret_of(store, people['adm'], scope)}"}
        answer = client.request(operation.method, path_of(protocol, operation), headers=headers)
        is_scope = answer.status_code == 403 and f"needs the scope {operation.scope}" in answer.text
        assert is_scope is not tokens.allows(scope, operation.scope)
        assert answer.status_code < 500


PERSONS = ("demoted", "outsider", "outside expert", "annotator", "checker", "expert", "researcher", "admin")
OUTSIDE = ("demoted", "outsider", "outside expert")
ROLE = {"demoted": "annotator", "outsider": "annotator", "outside expert": "expert", "checker": "annotator"}
FILE = {"content": ("data", b"Ada sang here too .\n")}
BODIES: dict[str, dict[str, Any]] = {
    "aero.create_project": {"data": {"name": "By role", "title": "music"}},
    "aero.import_project": {"files": {"file": ("data", b"no zip")}},
    "aero.create_document": {"data": {"name": "new"}, "files": FILE},
    "aero.create_annotation": {"data": {"format": "ctsv3", "state": "COMPLETE"}, "files": FILE},
    "aero.set_annotation_state": {"data": {"state": "COMPLETE"}},
    "aero.create_curation": {"data": {"format": "ctsv3"}, "files": FILE},
    "label_studio.setup": {"json": {}},
    "label_studio.predict": {"json": {"tasks": [], "label_config": CONFIG}},
}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene_in(tmp_path_factory.mktemp("scene")) as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("protocol, operation", CALLS, ids=NAMES)
def test_every_person_at_every_call(protocol: Protocol, operation: Operation, scene: Scene, tmp_path: Path) -> None:
    name = f"{protocol.id}.{operation.name}"
    body = {"json": request_to_predict()} if name == "inception.predict" else BODIES.get(name, {})
    about_campaign = "{" in operation.path
    for person in PERSONS:
        actor = scene.people[person]
        path = path_of(protocol, operation, scene.ids["campaign"]).replace("ann1", actor.name)
        with scene.copied(tmp_path) as store, TestClient(gated(settings_for(store, tmp_path))) as client:
            headers = {"authorization": f"Bearer {secret_of(store, actor)}"}
            answer = client.request(operation.method, path, headers=headers, **body)
        is_refused = answer.status_code == 403 or (answer.status_code == 404 and "There is no campaign" in answer.text)
        lets_in = ROLE.get(person, person) in operation.roles and not (about_campaign and person in OUTSIDE)
        where = (name, person, answer.status_code, answer.text[:300])
        assert answer.status_code < 500 and is_refused is not lets_in, where


def request_to_predict() -> dict[str, Any]:
    system = dkpro_types()
    cas = Cas(system)
    cas.sofa_string = "Ada sang ."
    metadata = {"layer": NAMED_ENTITY, "feature": "value"}
    return {"metadata": metadata, "document": {"xmi": cas.to_xmi()}, "typeSystem": system.to_xml()}


def test_calls_name_use_cases_that_are_in_the_table() -> None:
    known = set(use_cases().values())
    for protocol, operation in CALLS:
        assert operation.use and known.issuperset(operation.use), (protocol.id, operation.name)


def test_only_calls_that_change_something_need_more_than_read() -> None:
    for protocol, operation in CALLS:
        changes = protocol.id == "aero" and operation.method != "GET"
        assert (operation.scope != "read") is changes, operation.name


def test_token_comes_in_every_header_and_in_the_path(
    client: TestClient, store: Store, people: People, campaign: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predicting, "model_of", lambda *_: 5)
    secret = secret_of(store, people["res"], "read")
    plain = HEALTH.format(campaign=campaign, token="")
    for headers in ({"authorization": f"Bearer {secret}"}, {"authorization": f"token {secret}"}, basic("res", secret)):
        assert client.get(plain, headers=headers).json()["model_version"] == "run-5"
    assert client.get(HEALTH.format(campaign=campaign, token=f"/{secret}")).status_code == 200
    assert client.get(plain, headers=basic("adm", secret)).status_code == 401
    assert client.get(HEALTH.format(campaign=campaign, token="/crossner_wrong")).status_code == 401
    made = tokens.create_token(store, people["res"], name="x")
    tokens.revoke_token(store, people["res"], made.token.id)
    assert client.get(HEALTH.format(campaign=campaign, token=f"/{made.secret}")).status_code == 401
    elsewhere = client.get(f"/api/aero/v1/projects/{secret}")
    assert elsewhere.status_code == 401 and secret not in elsewhere.text


def test_another_site_is_refused(client: TestClient, store: Store, people: People, campaign: int) -> None:
    secret = secret_of(store, people["res"], "read")
    for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "https://elsewhere.example"}):
        answer = client.get(HEALTH.format(campaign=campaign, token=f"/{secret}"), headers=headers)
        assert answer.status_code == 403 and "another site" in answer.text


def test_rate_is_shared_with_the_api(store: Store, people: People, campaign: int, tmp_path: Path) -> None:
    secret = secret_of(store, people["res"], "read")
    with TestClient(gated(settings_for(store, tmp_path, api_per_minute=2))) as client:
        assert client.get("/api/v1/me", headers={"authorization": f"Bearer {secret}"}).status_code == 200
        path = HEALTH.format(campaign=campaign, token=f"/{secret}")
        assert client.get(path).status_code == 404
        answer = client.get(path)
        assert answer.status_code == 429 and int(answer.headers["retry-after"]) > 0


def test_no_log_and_no_answer_has_a_token(
    client: TestClient,
    store: Store,
    people: People,
    campaign: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("an inner detail")

    monkeypatch.setattr(predicting, "model_of", fail)
    secret = secret_of(store, people["res"], "read")
    answer = client.get(HEALTH.format(campaign=campaign, token=f"/{secret}"))
    assert answer.status_code == 500 and "inner detail" not in answer.text and secret not in answer.text
    access = logging.getLogger("uvicorn.access")
    with caplog.at_level(logging.INFO, "uvicorn.access"):
        access.info('%s - "%s %s HTTP/%s" %d', "host", "GET", HEALTH.format(campaign=1, token=f"/{secret}"), "1.1", 200)
    assert "inner detail" in caplog.text and "/api/label-studio/" in caplog.text
    assert secret not in caplog.text and "crossner_…" in caplog.text


def test_what_is_no_call_is_said(client: TestClient, store: Store, people: People, campaign: int) -> None:
    secret = secret_of(store, people["res"], "read")
    answer = client.post(HEALTH.format(campaign=campaign, token=f"/{secret}"))
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    assert client.get(f"/api/inception/{campaign}/{secret}/nothing").status_code == 404
