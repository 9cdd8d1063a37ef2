"""Sign-in: tokens, expiry, the limit on tries, and the routes with their form token and redirects."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from argon2 import PasswordHasher
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from crossner_core.errors import RateLimited, SignInRefused, WorkbenchError
from db.engine import Store
from db.tables import LoginAttempt, LoginSession, User
from db.types import now
from tests.support.postgres import either_store
from tests.support.serving import form_token, post_sign_in
from workbench.accounts import accounts, passwords, sign_in
from workbench.http.gate import Gate
from workbench.http.headers import local_path
from workbench.http.routes import Accounts
from workbench.settings import Settings, open_store

__all__ = ["either_store"]
PASSWORD = "correct horse battery"
HOME, AWAY = "192.0.2.1", "198.51.100.7"


@pytest.fixture(autouse=True)
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "HASHER", PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))


def add_people(store: Store) -> None:
    admin = accounts.create_user(store, None, name="adm", display_name="Adm", password=PASSWORD, role="admin")
    for name in ("ann", "bob"):
        accounts.create_user(store, admin, name=name, display_name=name, password=PASSWORD, role="annotator")


@pytest.fixture
def peopled(either_store: Store) -> Store:
    add_people(either_store)
    return either_store


def enter(store: Store, name: str = "ann", password: str = PASSWORD, address: str = HOME) -> sign_in.SignedIn:
    return sign_in.sign_in(store, name=name, password=password, address=address)


def fail(store: Store, name: str = "ann", address: str = HOME, times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises(SignInRefused):
            enter(store, name, "wrong password", address)


def test_sign_in_gives_a_token_that_the_store_does_not_know(peopled: Store) -> None:
    signed_in = enter(peopled)
    assert sign_in.actor_for_token(peopled, signed_in.token) == signed_in.actor
    with peopled.read() as session:
        kept = session.scalars(sa.select(LoginSession)).one()
    assert signed_in.token not in (kept.token_hash, str(kept.id)) and len(kept.token_hash) == 64
    assert abs(signed_in.expires_at - now() - dt.timedelta(hours=12)) < dt.timedelta(minutes=1)


def test_sign_in_says_the_same_for_unknown_name_wrong_password_and_closed_account(peopled: Store) -> None:
    accounts.set_active(peopled, accounts.operator(peopled), enter(peopled, "bob").actor.id, False)
    said = set()
    for name, password in (("nobody", PASSWORD), ("ann", "wrong password"), ("bob", PASSWORD), ("", "")):
        with pytest.raises(SignInRefused) as refused:
            enter(peopled, name, password)
        said.add(str(refused.value))
    assert len(said) == 1


@pytest.mark.parametrize("token", ["", "x", "é", "a" * 43, "\udcff"])
def test_actor_for_token_knows_no_made_up_token(peopled: Store, token: str) -> None:
    enter(peopled)
    assert sign_in.actor_for_token(peopled, token) is None


def test_session_ends_by_time_and_by_sign_out(peopled: Store) -> None:
    first, second = enter(peopled), enter(peopled)
    sign_in.sign_out(peopled, first.token)
    sign_in.sign_out(peopled, "never was")
    assert sign_in.actor_for_token(peopled, first.token) is None
    assert sign_in.actor_for_token(peopled, second.token) is not None
    with peopled.write() as session:
        session.execute(sa.update(LoginSession).values(expires_at=now() - dt.timedelta(seconds=1)))
    assert sign_in.actor_for_token(peopled, second.token) is None


def test_sign_in_revokes_the_browsers_former_session(peopled: Store) -> None:
    former = enter(peopled).token
    new = sign_in.sign_in(peopled, name="ann", password=PASSWORD, address=HOME, old_token=former).token
    assert sign_in.actor_for_token(peopled, former) is None and sign_in.actor_for_token(peopled, new) is not None


def test_sign_in_renews_an_outdated_hash(peopled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def stored() -> str:
        with peopled.read() as session:
            return session.scalars(sa.select(User.password_hash).where(User.name == "ann")).one()

    before = stored()
    enter(peopled)
    assert stored() == before
    monkeypatch.setattr(passwords, "HASHER", PasswordHasher(time_cost=2, memory_cost=64, parallelism=1))
    enter(peopled)
    assert stored() != before and "t=2" in stored()
    enter(peopled)


def test_limit_stops_a_name_from_an_address_and_says_when_to_try_again(peopled: Store) -> None:
    fail(peopled, times=5)
    with pytest.raises(RateLimited, match=r"Try again in 15 minutes \(at \d\d:\d\d UTC\)"):
        enter(peopled)


def test_limit_leaves_others_and_other_addresses_alone(peopled: Store) -> None:
    fail(peopled, times=5)
    assert enter(peopled, "bob").actor.name == "bob"
    assert enter(peopled, "ann", address=AWAY).actor.name == "ann"


def test_limit_is_in_the_store_and_so_survives_a_restart(peopled: Store) -> None:
    fail(peopled, times=5)
    again = Store(peopled.url.render_as_string(hide_password=False))
    try:
        with pytest.raises(RateLimited):
            enter(again)
    finally:
        again.close()


def test_limit_ends_with_its_window(peopled: Store) -> None:
    fail(peopled, times=5)
    with peopled.write() as session:
        session.execute(sa.update(LoginAttempt).values(at=now() - dt.timedelta(minutes=16)))
    assert enter(peopled).actor.name == "ann"


def test_limit_does_not_grow_by_refused_tries(peopled: Store) -> None:
    fail(peopled, times=5)
    for _ in range(10):
        with pytest.raises(RateLimited):
            enter(peopled)
    with peopled.read() as session:
        assert session.scalar(sa.select(sa.func.count()).select_from(LoginAttempt)) == 5


def test_success_forgives_earlier_failures(peopled: Store) -> None:
    fail(peopled, times=4)
    enter(peopled)
    fail(peopled, times=4)
    enter(peopled)


def test_limit_stops_guessing_over_many_names_but_not_who_is_known_there(peopled: Store) -> None:
    enter(peopled, "ann")
    for number in range(40):
        fail(peopled, f"guess{number}")
    with pytest.raises(RateLimited):
        enter(peopled, "bob")
    assert enter(peopled, "ann").actor.name == "ann"


def test_limit_stops_guessing_from_many_addresses_but_not_the_owner(peopled: Store) -> None:
    enter(peopled, "ann", address=HOME)
    for number in range(30):
        fail(peopled, "ann", address=f"203.0.113.{number}")
    with pytest.raises(RateLimited):
        enter(peopled, "ann", address=AWAY)
    assert enter(peopled, "ann", address=HOME).actor.name == "ann"


def test_limit_counts_tries_made_at_once(peopled: Store) -> None:
    def guess(_number: int) -> type[WorkbenchError]:
        try:
            enter(peopled, "ann", "wrong password")
        except WorkbenchError as error:
            return type(error)
        raise AssertionError("a wrong password opened the account")

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(guess, range(16)))
    assert outcomes.count(SignInRefused) == 5 and outcomes.count(RateLimited) == 11


@pytest.mark.parametrize("target", ["/", "/annotate", "/campaign?campaign=3&x=%2F", "/a/b"])
def test_local_path_keeps_paths_of_this_server(target: str) -> None:
    assert local_path(target) == target


@pytest.mark.parametrize(
    "target",
    ["", "https://evil.example", "//evil.example", "/\\evil.example", "\\\\evil", "/\t/evil.example", "/\n/evil",
     "javascript:alert(1)", "evil.example", "/auth/logout", "/auth/login?next=/", "/" + "x" * 3000, " //evil"],
)  # fmt: skip
def test_local_path_refuses_everything_else(target: str) -> None:
    assert local_path(target) == "/"


async def _whoami(request: Request) -> JSONResponse:
    return JSONResponse({"name": request.state.actor.name, "headers": sorted(request.headers)})


@pytest.fixture
def client(store_template: Path, tmp_path: Path) -> Iterator[TestClient]:
    """A browser's view of the routes behind the gate, without Streamlit."""
    settings = Settings(home=tmp_path)
    (tmp_path / "workbench.sqlite3").write_bytes(store_template.read_bytes())
    store = open_store(settings)
    add_people(store)
    routes = [*Accounts(settings).routes(), Route("/whoami", _whoami, methods=["GET", "POST"])]
    app = Starlette(routes=routes, middleware=[Middleware(Gate, settings=settings)])
    with TestClient(app, base_url="http://testserver", follow_redirects=False) as browser:
        yield browser
    store.close()


def test_routes_sign_in_and_out_again(client: TestClient) -> None:
    answer = post_sign_in(client, "ann", PASSWORD, next="/whoami")
    assert (answer.status_code, answer.headers["location"]) == (303, "/whoami")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=lax" in cookie and "Path=/" in cookie and "Secure" not in cookie
    assert client.get("/whoami").json()["name"] == "ann"
    assert client.get("/auth/login?next=/whoami").headers["location"] == "/whoami"
    kept = client.cookies["crossner_session"]
    token = form_token(client.get("/auth/logout").text)
    assert client.post("/auth/logout", data={"form_token": "0" * 64}).status_code == 403
    assert client.get("/whoami").status_code == 200
    gone = client.post("/auth/logout", data={"form_token": token})
    assert (gone.status_code, gone.headers["location"]) == (303, "/auth/login?out=1")
    client.cookies.set("crossner_session", kept)
    assert client.get("/whoami").status_code == 401


@pytest.mark.parametrize("spoil", ["no field", "wrong field", "no cookie", "other cookie"])
def test_sign_in_needs_the_form_token_of_this_browser(client: TestClient, spoil: str) -> None:
    token = form_token(client.get("/auth/login").text)
    fields = {"name": "ann", "password": PASSWORD, "form_token": token}
    if spoil == "no field":
        del fields["form_token"]
    elif spoil == "wrong field":
        fields["form_token"] = "0" * 64
    elif spoil == "no cookie":
        client.cookies.clear()
    else:
        client.cookies.clear()
        client.cookies.set("crossner_form", "x" * 43)
    answer = client.post("/auth/login", data=fields)
    assert answer.status_code == 403 and "crossner_session" not in answer.cookies
    assert "try again" in answer.text


@pytest.mark.parametrize(
    "headers",
    [{"origin": "https://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"},
     {"sec-fetch-site": "same-site"}, {"origin": "http://testserver.evil.example"}],
)  # fmt: skip
def test_sign_in_from_another_site_is_refused(client: TestClient, headers: dict[str, str]) -> None:
    fields = {"name": "ann", "password": PASSWORD, "form_token": form_token(client.get("/auth/login").text)}
    assert client.post("/auth/login", data=fields, headers=headers).status_code == 403
    assert client.post("/auth/login", data=fields, headers={"origin": "http://testserver"}).status_code == 303


def test_sign_in_says_why_it_refused_and_keeps_the_name(client: TestClient) -> None:
    wrong = post_sign_in(client, "ann", "wrong password")
    assert wrong.status_code == 401 and 'role="alert"' in wrong.text and 'value="ann"' in wrong.text
    for _ in range(4):
        post_sign_in(client, "ann", "wrong password")
    stopped = post_sign_in(client, "ann", PASSWORD)
    assert stopped.status_code == 429 and "Try again in 15 minutes" in stopped.text
    assert post_sign_in(client, "bob", PASSWORD).status_code == 303


def test_sign_in_page_escapes_what_it_repeats(client: TestClient) -> None:
    answer = post_sign_in(client, '"><script>alert(1)</script>', "wrong password", next='/"><script>')
    assert "<script" not in answer.text
    assert "script-src" not in answer.headers["content-security-policy"]
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_sign_in_goes_nowhere_else(client: TestClient) -> None:
    assert post_sign_in(client, "ann", PASSWORD, next="https://evil.example/").headers["location"] == "/"


@pytest.mark.parametrize("body", [b"x" * 20_000, b"%ff=%fe&" * 50, b"{}", b"\x00\xff"])
def test_sign_in_survives_a_strange_body(client: TestClient, body: bytes) -> None:
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert client.post("/auth/login", content=body, headers=headers).status_code == 403
    assert client.post("/auth/login", content=body).status_code == 403


def test_gate_drops_headers_that_claim_an_identity(client: TestClient) -> None:
    claims = {"x-crossner-user": "adm", "x-forwarded-user": "adm", "remote-user": "adm", "x-auth-request-email": "adm"}
    assert client.get("/whoami", headers=claims).status_code == 401
    post_sign_in(client, "ann", PASSWORD)
    seen = client.get("/whoami", headers=claims).json()
    assert seen["name"] == "ann" and not set(claims) & set(seen["headers"])


def test_gate_refuses_foreign_writes_even_when_signed_in(client: TestClient) -> None:
    post_sign_in(client, "ann", PASSWORD)
    assert client.post("/whoami").status_code == 200
    assert client.post("/whoami", headers={"origin": "https://evil.example"}).status_code == 403


def test_secure_cookie_has_its_prefix_and_attribute(tmp_path: Path, store_template: Path) -> None:
    settings = Settings(home=tmp_path, secure_cookie=True)
    (tmp_path / "workbench.sqlite3").write_bytes(store_template.read_bytes())
    store = open_store(settings)
    add_people(store)
    app = Starlette(routes=Accounts(settings).routes(), middleware=[Middleware(Gate, settings=settings)])
    with TestClient(app, base_url="https://testserver", follow_redirects=False) as browser:
        cookie = post_sign_in(browser, "ann", PASSWORD).headers["set-cookie"]
    store.close()
    assert cookie.startswith("__Host-crossner_session=") and "Secure" in cookie
