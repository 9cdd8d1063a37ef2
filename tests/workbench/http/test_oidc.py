"""Sign-in with a provider over HTTP: there and back, what strangers may forge, linking, and sign-out on both sides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from argon2 import PasswordHasher
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from db.engine import Store
from tests.support.accounts.provider import CLIENT, SECRET, FakeProvider, fake_provider
from tests.support.serving import form_token, post_sign_in
from workbench.accounts import accounts, identities, passwords
from workbench.accounts.actors import Actor
from workbench.http import cookies
from workbench.http.gate import Gate
from workbench.http.oidc import ProviderSignIn
from workbench.http.routes import Accounts
from workbench.settings import Settings, open_store

PASSWORD = "correct horse battery"


@pytest.fixture(scope="module")
def served() -> Iterator[FakeProvider]:
    with fake_provider() as fake:
        yield fake


class Bench:
    """A browser before the routes behind the gate, the store, and the provider."""

    def __init__(self, home: Path, fake: FakeProvider, template: Path, **settings: str) -> None:
        lines = {"issuer": fake.issuer, "client_id": CLIENT, "address": "http://testserver", "name": "Lab <1>"}
        lines |= {"secret_variable": "LAB_SECRET", "first_sign_in": "annotator"} | settings
        text = "".join(f'{name} = "{value}"\n' for name, value in lines.items() if value not in ("true", "false"))
        text += "".join(f"{name} = {value}\n" for name, value in lines.items() if value in ("true", "false"))
        (home / "oidc.toml").write_text(text)
        (home / "workbench.sqlite3").write_bytes(template.read_bytes())
        self.fake, self.settings = fake, Settings(home=home)
        self.store: Store = open_store(self.settings)
        self.admin: Actor = accounts.create_user(
            self.store, None, name="adm", display_name="Adm", password=PASSWORD, role="admin"
        )
        shared = Accounts(self.settings)
        routes = [*shared.routes(), *ProviderSignIn(shared).routes()]
        routes += [Route("/whoami", _whoami, methods=["GET"]), Route("/account", _whoami, methods=["GET"])]
        app = Starlette(routes=routes, middleware=[Middleware(Gate, settings=self.settings)])
        self.browser = TestClient(app, base_url="http://testserver", follow_redirects=False)

    def depart(self, target: str = "/whoami") -> dict[str, str]:
        """Go to the provider and agree; return what the browser comes back with."""
        answer = self.browser.get("/auth/oidc", params={"next": target})
        assert answer.status_code == 303, answer.text
        return self.fake.agree(answer.headers["location"])

    def arrive(self, **given: str) -> httpx2.Response:
        return self.browser.get("/auth/oidc/callback", params=given)

    def name(self) -> str:
        answer = self.browser.get("/whoami")
        return str(answer.json()["name"]) if answer.status_code == 200 else ""


async def _whoami(request: Request) -> JSONResponse:
    return JSONResponse({"name": request.state.actor.name})


@pytest.fixture
def fake(served: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> FakeProvider:
    monkeypatch.setattr(passwords, "HASHER", PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))
    monkeypatch.setenv("LAB_SECRET", SECRET)
    for name, value in vars(FakeProvider(key=served.key)).items():
        if name not in ("issuer", "key"):
            monkeypatch.setattr(served, name, value)
    return served


@pytest.fixture
def bench(fake: FakeProvider, tmp_path: Path, store_template: Path) -> Iterator[Bench]:
    made = Bench(tmp_path, fake, store_template)
    with made.browser:
        yield made
    made.store.close()


def test_person_signs_in_and_lands_where_they_wanted(bench: Bench) -> None:
    page = bench.browser.get("/auth/login?next=/whoami").text
    assert 'href="/auth/oidc?next=/whoami">Sign in with Lab &lt;1&gt;</a>' in page and 'name="password"' in page
    answer = bench.arrive(**bench.depart())
    assert (answer.status_code, answer.headers["location"]) == (303, "/whoami")
    sent = answer.headers.get_list("set-cookie")
    session = next(cookie for cookie in sent if cookie.startswith("crossner_session="))
    assert "HttpOnly" in session and "SameSite=lax" in session and "Max-Age=43200" in session
    assert any(cookie.startswith('crossner_oidc="";') for cookie in sent)
    assert bench.name() == "pat"


@pytest.mark.parametrize("target", ["https://evil.example", "//evil.example", "/\\evil.example", "/auth/logout", "x"])
def test_nobody_is_led_elsewhere(bench: Bench, target: str) -> None:
    assert bench.arrive(**bench.depart(target)).headers["location"] == "/"


def refused(bench: Bench, answer: httpx2.Response, status: int, words: str) -> None:
    assert answer.status_code == status and words in unescape(answer.text), answer.text
    assert "crossner_session" not in answer.cookies and bench.name() == ""


def test_answer_counts_once_and_for_the_browser_that_asked(bench: Bench) -> None:
    given = bench.depart()
    kept = bench.browser.cookies["crossner_oidc"]
    bench.browser.cookies.clear()
    refused(bench, bench.arrive(**given), 400, "try again")
    bench.browser.cookies.set("crossner_oidc", kept)
    refused(bench, bench.arrive(**(given | {"state": "x" * 43})), 400, "try again")
    bench.browser.cookies.set("crossner_oidc", kept)
    assert bench.arrive(**given).status_code == 303
    bench.browser.cookies.clear()
    bench.browser.cookies.set("crossner_oidc", kept)
    refused(bench, bench.arrive(**given), 403, "try again")  # the provider takes a code once


@pytest.mark.parametrize("cookie", ["", ".", "x.y", "{}." + "0" * 64, "a" * 5000])
def test_cookie_that_is_not_ours_is_refused(bench: Bench, cookie: str) -> None:
    given = bench.depart()
    bench.browser.cookies.clear()
    bench.browser.cookies.set("crossner_oidc", cookie)
    refused(bench, bench.arrive(**given), 400, "try again")


def test_sign_in_that_took_too_long_begins_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    given = bench.depart()
    monkeypatch.setattr(cookies, "FLOW_SECONDS", 0)
    refused(bench, bench.arrive(**given), 400, "open for too long")


def test_strangers_link_shows_nothing_of_its_own(bench: Bench) -> None:
    answer = bench.arrive(error="access_denied", error_description="Call 555-1234", state="x")
    refused(bench, answer, 400, "try again")
    assert "Call" not in answer.text and "access_denied" not in answer.text


@pytest.mark.parametrize(("error", "shown"), [("access_denied", "access_denied"), ("<b>Call 555</b>", "an error")])
def test_error_of_the_provider_is_a_clear_page(bench: Bench, error: str, shown: str) -> None:
    given = bench.depart()
    answer = bench.arrive(error=error, error_description="Call 555-1234", state=given["state"])
    refused(bench, answer, 403, f"Lab <1> did not sign you in ({shown})")
    assert "Call" not in answer.text and 'name="password"' in answer.text


@pytest.mark.parametrize(
    ("spoiled", "words"),
    [
        ({"nonce": "other"}, "nonce"),
        ({"aud": "other"}, "another client"),
        ({"iss": "https://x.example"}, "another issuer"),
        ({"exp": 1}, "expired"),
    ],
)
def test_bad_token_is_a_clear_page(bench: Bench, spoiled: dict[str, Any], words: str) -> None:
    bench.fake.spoiled = spoiled
    refused(bench, bench.arrive(**bench.depart()), 403, words)


def test_answer_of_another_issuer_is_refused(bench: Bench) -> None:
    refused(bench, bench.arrive(**bench.depart(), iss="https://other.example"), 400, "try again")


def test_provider_that_is_down_leaves_local_sign_in(bench: Bench) -> None:
    given = bench.depart()
    bench.fake.down = True
    refused(bench, bench.arrive(**given), 503, "Sign in with name and password, or try later.")
    assert post_sign_in(bench.browser, "adm", PASSWORD).status_code == 303 and bench.name() == "adm"


def test_provider_that_is_down_from_the_start_is_named(
    fake: FakeProvider, tmp_path: Path, store_template: Path
) -> None:
    bench = Bench(tmp_path, fake, store_template, show_local="false")
    with bench.browser as browser:
        assert 'name="password"' not in browser.get("/auth/login").text
        assert 'name="password"' in browser.get("/auth/login?local=1").text
        fake.down = True
        answer = browser.get("/auth/oidc?next=/whoami")
        refused(bench, answer, 503, "Lab <1> cannot be used right now")
        assert 'name="password"' in answer.text
    bench.store.close()


def test_who_is_new_is_told_to_wait(fake: FakeProvider, tmp_path: Path, store_template: Path) -> None:
    bench = Bench(tmp_path, fake, store_template, first_sign_in="wait")
    with bench.browser:
        refused(bench, bench.arrive(**bench.depart()), 403, "an admin has to let you in")
        (waiting,) = identities.list_identities(bench.store, bench.admin)
        identities.let_in(bench.store, bench.admin, waiting.user_id, "expert")
        assert bench.arrive(**bench.depart()).status_code == 303 and bench.name() == "pat"
    bench.store.close()


def test_failures_with_the_provider_are_limited(bench: Bench) -> None:
    bench.fake.spoiled = {"nonce": "other"}
    statuses = [bench.arrive(**bench.depart()).status_code for _ in range(41)]
    assert statuses == [403] * 40 + [429]


def test_another_address_of_this_server_leads_to_the_registered_one(bench: Bench) -> None:
    answer = bench.browser.get("http://127.0.0.1:8501/auth/oidc?next=/whoami%3Fa%3Db")
    assert answer.headers["location"] == "http://testserver/auth/oidc?next=%2Fwhoami%3Fa%3Db&moved=1"
    answer = bench.browser.get("http://internal/auth/oidc?moved=1")  # a proxy that changes the host causes no circle
    assert answer.headers["location"].startswith(bench.fake.issuer)


def leads_to(answer: httpx2.Response) -> str:
    """Return where a page sends the browser."""
    assert answer.status_code == 200, answer.text
    target = re.search(r'http-equiv="refresh" content="0;url=([^"]+)"', answer.text)
    assert target, answer.text
    return unescape(target[1])


def test_sign_out_ends_the_session_here_and_at_the_provider(bench: Bench) -> None:
    bench.arrive(**bench.depart())
    kept = bench.browser.cookies["crossner_session"]
    page = bench.browser.get("/auth/logout")
    there = urlsplit(leads_to(bench.browser.post("/auth/logout", data={"form_token": form_token(page.text)})))
    given = {name: values[0] for name, values in parse_qs(there.query).items()}
    assert f"{there.scheme}://{there.netloc}{there.path}" == f"{bench.fake.issuer}/logout"
    assert given["post_logout_redirect_uri"] == "http://testserver/auth/login" and given["client_id"] == CLIENT
    assert given["id_token_hint"].count(".") == 2
    bench.browser.cookies.set("crossner_session", kept)
    assert bench.name() == ""
    assert "You are signed out." in bench.browser.get("/auth/login?state=out").text


def test_sign_out_works_while_the_provider_is_down(bench: Bench, tmp_path: Path) -> None:
    bench.arrive(**bench.depart())
    page = bench.browser.get("/auth/logout")
    bench.fake.published = {"end_session_endpoint": None}
    fresh = Accounts(bench.settings)  # another process, which has not asked the provider yet
    app = Starlette(routes=fresh.routes(), middleware=[Middleware(Gate, settings=bench.settings)])
    bench.fake.down = True
    with TestClient(app, base_url="http://testserver", cookies=bench.browser.cookies) as other:
        answer = other.post("/auth/logout", data={"form_token": form_token(page.text)})
        assert answer.status_code == 200 and "could not be reached" in answer.text
    assert bench.name() == ""


def test_local_session_signs_out_here_alone(bench: Bench) -> None:
    post_sign_in(bench.browser, "adm", PASSWORD)
    page = bench.browser.get("/auth/logout")
    answer = bench.browser.post("/auth/logout", data={"form_token": form_token(page.text)})
    assert (answer.status_code, answer.headers["location"]) == (303, "/auth/login?out=1")


def test_provider_ends_sessions_with_a_signed_token_alone(bench: Bench) -> None:
    bench.arrive(**bench.depart())
    for token in ("", "x.y.z", bench.fake.signed(bench.fake.claims(sub="p-1"))):
        answer = bench.browser.post("/auth/oidc/logout", data={"logout_token": token})
        assert answer.status_code == 400 and answer.json()["error"] == "invalid_request"
    assert bench.name() == "pat"
    token = bench.fake.logout_token(sub="p-1", sid="s-1")
    assert bench.browser.post("/auth/oidc/logout", data={"logout_token": token}).status_code == 200
    assert bench.name() == ""


def test_person_links_an_identity_after_a_click_of_their_own(bench: Bench) -> None:
    assert bench.browser.get("/auth/oidc/link").status_code == 401
    post_sign_in(bench.browser, "adm", PASSWORD)
    assert bench.browser.post("/auth/oidc/link", data={"form_token": "0" * 64}).status_code == 403
    page = bench.browser.get("/auth/oidc/link").text
    there = leads_to(bench.browser.post("/auth/oidc/link", data={"form_token": form_token(page)}))
    assert "prompt=login" in there
    answer = bench.arrive(**bench.fake.agree(there))
    assert (answer.status_code, answer.headers["location"]) == (303, "/account")
    (own,) = identities.own_ways_in(bench.store, bench.admin).identities
    assert own.subject == "p-1"
    bench.browser.cookies.clear()
    bench.arrive(**bench.depart())
    assert bench.name() == "adm"


def test_link_is_for_the_session_that_asked_for_it(bench: Bench) -> None:
    accounts.create_user(bench.store, bench.admin, name="ann", display_name="", password=PASSWORD, role="expert")
    post_sign_in(bench.browser, "adm", PASSWORD)
    page = bench.browser.get("/auth/oidc/link").text
    there = leads_to(bench.browser.post("/auth/oidc/link", data={"form_token": form_token(page)}))
    del bench.browser.cookies["crossner_session"]
    post_sign_in(bench.browser, "ann", PASSWORD)
    assert bench.arrive(**bench.fake.agree(there)).status_code == 403
    assert identities.list_identities(bench.store, bench.admin) == ()


def test_without_a_provider_there_is_none(tmp_path: Path, store_template: Path, fake: FakeProvider) -> None:
    bench = Bench(tmp_path, fake, store_template)
    (tmp_path / "oidc.toml").unlink()
    shared = Accounts(bench.settings)
    app = Starlette(routes=[*shared.routes(), *ProviderSignIn(shared).routes()])
    with TestClient(app) as browser:
        assert "oidc" not in browser.get("/auth/login").text
        for method, path in (("GET", "/auth/oidc"), ("GET", "/auth/oidc/callback"), ("POST", "/auth/oidc/logout")):
            assert browser.request(method, path).status_code == 404
    bench.store.close()
