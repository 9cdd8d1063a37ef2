"""Who gets in at the API: every kind of person × every route, tokens of every kind, and no cookie."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from crossner_core.errors import StoreFailed
from db.engine import Store
from db.migrate import migrate
from tests.support.api import secret_of, settings_for
from tests.support.authorisation import Scene, scene_in
from tests.support.builders import make_people
from tests.support.screens import give_session
from tests.support.serving import serve
from workbench.accounts import accounts, tokens
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.client import Client
from workbench.http.api import problems
from workbench.http.api.declared import ROOT, Declared, routes
from workbench.http.api.serving import Api
from workbench.http.cookies import SESSION_COOKIE
from workbench.http.gate import Gate

People = dict[str, Actor]
ROUTES = {f"{route.method} {route.path}": route for route in routes()}
PERSONS = ("demoted", "outsider", "outside expert", "annotator", "checker", "expert", "researcher", "admin")
OUTSIDE = ("demoted", "outsider", "outside expert")
"""No members of the scene's campaign; `demoted` was an admin when the token was made."""
ROLE = {"demoted": "annotator", "outsider": "annotator", "outside expert": "expert", "checker": "annotator"}
BODIES: dict[str, dict[str, Any]] = {
    "create_campaign": {"name": "By role", "domain": "music"},
    "start_run": {"snapshot": 1, "recipe": {"max_epochs": 1, "seed": 9}},
    "start_curve": {"snapshot": 1, "sizes": [2], "seeds": [1]},
    "predict": {"run": 1, "texts": ["Ada sang ."]},
    "make_webhook": {"url": "https://192.0.2.1/hooks"},
    "change_webhook": {"events": ["run.ended"]},
    "change_settings": {"settings": {"hint_below": 0.5}},
}
HIDDEN = {403, 404}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with scene_in(tmp_path_factory.mktemp("scene")) as made:
        yield made


def server(store: Store, home: Path, **changes: object) -> TestClient:
    settings = settings_for(store, home, webhook_private_hosts="192.0.2.1", **changes)
    return TestClient(Gate(Starlette(routes=Api(settings).routes()), settings=settings))


@pytest.fixture
def client(store: Store, tmp_path: Path) -> Iterator[TestClient]:
    with server(store, tmp_path) as made:
        yield made


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def concrete(route: Declared, scene: Scene) -> str:
    """Return the route's path with what the scene has."""
    ids = scene.ids
    with closing(sqlite3.connect(scene.file)) as connection:
        (sentence,) = connection.execute("SELECT sentence_id FROM task WHERE id = ?", [ids["gold"]]).fetchone()
        query = "SELECT min(id) FROM sentence WHERE campaign_id = ?"
        (document,) = connection.execute(query, [ids["campaign"]]).fetchone()
    names = ("campaign", "run", "webhook", "delivery", "job")
    values = {name: ids[name] for name in names} | {"sentence": sentence, "layer": "gold", "document": document}
    return ROOT + route.path.format(**values, hash=ids["snapshot"].hash[:8])


def call(client: TestClient, route: Declared, path: str, headers: dict[str, str]) -> Any:
    if route.takes_files:
        return client.request(route.method, path, headers=headers, files=[("files", ("x.txt", b"Ada sang .\n"))])
    body = {"json": BODIES.get(route.name, {})} if route.body is not None else {}
    return client.request(route.method, path, headers=headers, **body)  # type: ignore[arg-type]


def lets_in(route: Declared, person: str) -> bool:
    """Return whether the declared roles, and membership, let somebody in."""
    in_role = ROLE.get(person, person) in route.roles
    if route.name in ("list_runs", "get_curves"):  # without a campaign they show everybody's
        return person in ("researcher", "admin")
    about_campaign = "{" in route.path
    return in_role and not (about_campaign and person in OUTSIDE)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ROUTES))
def test_every_person_at_every_route(name: str, scene: Scene, tmp_path: Path) -> None:
    route = ROUTES[name]
    for person in PERSONS:
        with scene.copied(tmp_path) as store, server(store, tmp_path) as client:
            answer = call(client, route, concrete(route, scene), bearer(secret_of(store, scene.people[person])))
        where = (name, person, answer.status_code, answer.text[:300])
        assert answer.status_code < 500, where
        if lets_in(route, person):
            known = {409} if route.name in ("predict", "resume_run") else set()  # the run has not been trained
            known |= {409} if route.name == "remove_document" else set()  # it carries work
            known |= {404} if "{job}" in route.path else set()  # the scene's job is no import
            assert answer.status_code in {route.status, *known}, where
        else:
            assert answer.status_code in HIDDEN, where


@pytest.mark.parametrize("name", sorted(ROUTES))
def test_no_route_answers_without_a_token_or_by_cookie(name: str, scene: Scene, tmp_path: Path) -> None:
    route = ROUTES[name]
    with scene.copied(tmp_path) as store, server(store, tmp_path) as client:
        cookie = {"cookie": f"{SESSION_COOKIE}={give_session(store, scene.people['admin'])}"}
        for headers in ({}, cookie, {"authorization": "Basic YWRtOng="}, bearer("crossner_x"), bearer("")):
            answer = call(client, route, concrete(route, scene), headers)
            assert answer.status_code == 401 and answer.headers["content-type"] == problems.MEDIA_TYPE
            assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("scope", tokens.SCOPES)
def test_scope_is_a_limit_on_every_route(scope: str, scene: Scene, tmp_path: Path) -> None:
    with scene.copied(tmp_path) as store, server(store, tmp_path) as client:
        headers = bearer(secret_of(store, scene.people["admin"], scope))
        for name, route in ROUTES.items():
            if tokens.allows(scope, route.scope):
                continue
            answer = call(client, route, concrete(route, scene), headers)
            assert answer.status_code == 403 and answer.json()["type"].endswith("#problem-scope"), name
            assert route.scope in answer.json()["detail"]


def test_writes_need_more_than_read() -> None:
    assert {route.scope for route in ROUTES.values() if route.method == "GET"} == {"read"}
    assert {route.name for route in ROUTES.values() if route.method != "GET" and route.scope == "read"} == {"predict"}


@pytest.mark.parametrize("name", sorted(ROUTES))
def test_routes_name_use_cases_that_are_in_the_table(name: str) -> None:
    for use in ROUTES[name].use:
        assert next(iter(use.__code__.co_varnames)) == "store" and use.__module__.startswith("workbench.")


def test_revoked_token_is_refused_at_the_next_request(client: TestClient, store: Store, people: People) -> None:
    made = tokens.create_token(store, people["res"], name="x")
    assert client.get(f"{ROOT}/me", headers=bearer(made.secret)).status_code == 200
    tokens.revoke_token(store, people["res"], made.token.id)
    answer = client.get(f"{ROOT}/me", headers=bearer(made.secret))
    assert answer.status_code == 401 and "revoked" in answer.json()["detail"]


def test_closed_account_and_lost_role_are_refused_at_the_next_request(
    client: TestClient, store: Store, people: People, campaign: int
) -> None:
    headers = bearer(secret_of(store, people["res"]))
    layers = f"{ROOT}/campaigns/{campaign}/layers"
    assert client.get(layers, headers=headers).status_code == 200
    accounts.set_role(store, people["adm"], people["res"].id, "annotator")
    assert client.get(layers, headers=headers).status_code == 403
    accounts.set_active(store, people["adm"], people["res"].id, False)
    assert client.get(layers, headers=headers).status_code == 401


def test_lost_membership_hides_the_campaign(client: TestClient, store: Store, people: People, campaign: int) -> None:
    headers = bearer(secret_of(store, people["eva"]))
    page = client.get(f"{ROOT}/campaigns/{campaign}/sentences?limit=2", headers=headers).json()
    campaigns.set_members(store, people["adm"], campaign, [people["ann1"].id])
    following = f"{ROOT}/campaigns/{campaign}/sentences?limit=2&cursor={page['next']}"
    assert client.get(following, headers=headers).status_code == 404
    assert client.get(f"{ROOT}/campaigns", headers=headers).json() == {"items": [], "next": None}


def test_account_closed_while_a_request_is_under_way_is_refused(
    client: TestClient, store: Store, people: People, campaign: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The use case looks the person up afresh: who was let in at the door may be refused inside."""
    secret = secret_of(store, people["res"])
    looked_up = tokens.bearer_of

    def close_after(*arguments: Any) -> Any:
        known = looked_up(*arguments)
        accounts.set_active(store, people["adm"], people["res"].id, False)
        return known

    monkeypatch.setattr("workbench.http.api.serving.bearer_of", close_after)
    body = {"name": "Too late", "domain": "music"}
    answer = client.post(f"{ROOT}/campaigns", headers=bearer(secret), json=body)
    assert answer.status_code == 403 and "no longer active" in answer.json()["detail"]
    assert len(campaigns.list_campaigns(store, people["adm"])) == 1


def test_documents_open_to_people_who_are_signed_in_and_to_tokens(
    client: TestClient, store: Store, people: People
) -> None:
    cookie = {"cookie": f"{SESSION_COOKIE}={give_session(store, people['ann1'])}"}
    for path in (f"{ROOT}/", ROOT, f"{ROOT}/openapi.json"):
        assert client.get(path).status_code == 401
        assert client.get(path, headers=cookie).status_code == 200
        assert client.get(path, headers=bearer(secret_of(store, people["ann1"], "read"))).status_code == 200
        assert client.post(path, headers=cookie).status_code == 405


@pytest.mark.parametrize(
    "path", ["/api/", "/api/v1/x", "/api/v2/me", "/api/v1/campaigns/", "/api/v1//me", "/api/v1/ME", "/api/v1/me/"]
)
def test_what_is_no_route_is_hidden_from_strangers_and_said_to_others(
    client: TestClient, store: Store, people: People, path: str
) -> None:
    assert client.get(path).status_code == 401
    answer = client.get(path, headers=bearer(secret_of(store, people["ann1"])))
    assert answer.status_code == 404 and answer.json()["type"].endswith("#problem-no-route")


def test_a_store_that_fails_is_said_without_a_word_about_it(
    client: TestClient, store: Store, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = secret_of(store, people["res"])

    def fail(*_: object, **__: object) -> None:
        raise StoreFailed("disk I/O error at /srv/secret")

    monkeypatch.setattr(campaigns, "list_campaigns", fail)
    answer = client.get(f"{ROOT}/campaigns", headers=bearer(secret))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5") and "secret" not in answer.text
    monkeypatch.setattr("workbench.http.api.serving.bearer_of", fail)
    assert client.get(f"{ROOT}/campaigns", headers=bearer(secret)).status_code == 503


@pytest.mark.slow
def test_the_whole_server_answers_beside_its_pages(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    store = Store(f"sqlite:///{home / 'workbench.sqlite3'}")
    migrate(store)
    secret = secret_of(store, make_people(store)["res"], "write")
    with serve(home) as url, Client(url, secret) as client:
        assert client.get("/me")["name"] == "res"
        assert client.post("/campaigns", {"name": "Live", "domain": "music"})["id"] == 1
        files = [("big.txt", b"".join(b"Sentence number %d is here .\n" % number for number in range(9_000)))]
        imported = client.import_files(1, files, preannotate=False)  # large enough for a process of its own
        assert imported["added"] == 9_000
        assert client.get("/campaigns/1")["sentences"] == 9_000
    store.close()


def test_an_error_of_ours_is_logged_and_not_shown(
    client: TestClient, store: Store, people: People, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("an inner detail")

    monkeypatch.setattr(campaigns, "list_campaigns", fail)
    answer = client.get(f"{ROOT}/campaigns", headers=bearer(secret_of(store, people["res"])))
    assert answer.status_code == 500 and "inner detail" not in answer.text and "inner detail" in caplog.text
