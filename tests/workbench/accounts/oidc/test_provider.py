"""The provider's settings, what it publishes, and its tokens: each thing that can be wrong with one is refused."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from crossner_core.errors import InvalidConfig, ProviderUnavailable, SignInRefused
from tests.support.accounts.provider import CLIENT, LOGOUT_EVENT, SECRET, FakeProvider, fake_provider, new_key
from workbench.accounts.oidc.arrivals import arrival_of
from workbench.accounts.oidc.id_tokens import check_id_token, check_logout_token
from workbench.accounts.oidc.provider import Provider
from workbench.accounts.oidc.provider_settings import ProviderSettings, read_provider

NONCE, VERIFIER = "n" * 43, "v" * 43
PLAIN = 'issuer = "https://login.example"\nclient_id = "workbench"\naddress = "https://bench.example"\n'


@pytest.fixture(scope="module")
def served() -> Iterator[FakeProvider]:
    with fake_provider() as fake:
        yield fake


@pytest.fixture
def fake(served: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> FakeProvider:
    """The provider as it is when nothing is spoiled; its first key is kept, as making one is slow."""
    monkeypatch.setenv("LAB_SECRET", SECRET)
    fresh = FakeProvider(key=served.key)
    for name, value in vars(fresh).items():
        if name not in ("issuer", "key"):
            monkeypatch.setattr(served, name, value)
    monkeypatch.setattr(served, "key", served.key)
    return served


def provider_at(fake: FakeProvider, **settings: Any) -> Provider:
    values = {"client_id": CLIENT, "address": "http://127.0.0.1:8501", "secret_variable": "LAB_SECRET", "name": "Lab"}
    return Provider(ProviderSettings(issuer=fake.issuer, **(values | settings)))


def test_settings_are_read_and_state_the_addresses_to_register(tmp_path: Path) -> None:
    file = tmp_path / "oidc.toml"
    assert read_provider(file) is None
    file.write_text(PLAIN + '[roles]\nstaff = "expert"\nheads = "admin"\n')
    settings = read_provider(file)
    assert settings is not None and settings.first_sign_in == "wait" and settings.show_local
    assert settings.redirect_uri == "https://bench.example/auth/oidc/callback"
    assert settings.role_of(["staff", "heads", "x"]) == "admin" and settings.role_of(["x"]) is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("client_secret = 'x'", "secret_variable"),
        ("issuer = 'https://x', ", "not TOML"),
        ("colour = 'red'", "colour is no key"),
        ("first_sign_in = 'boss'", "wait or one of annotator"),
        ("scopes = ['profile']", "openid must be among them"),
        ("name = ''", "1 to 40"),
        ("secret_variable = 'not a name'", "names the variable"),
        ("secret_variable = 'A'\nsecret_file = '/b'", "keep one of them"),
        ("[roles]\nstaff = 'boss'", "roles are annotator"),
        ("show_local = 'sometimes'", "true or false"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_with_their_names(tmp_path: Path, line: str, words: str) -> None:
    (tmp_path / "oidc.toml").write_text(PLAIN + line + "\n")
    with pytest.raises(InvalidConfig, match=words) as caught:
        read_provider(tmp_path / "oidc.toml")
    assert "oidc.toml, the file of the sign-in provider" in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("https://login", "http://login", "must begin with https"),
        ("https://login", "ftp://login", "http or https URL"),
        ("https://bench.example", "https://bench.example/path", "scheme, host and port alone"),
        ('"workbench"', '""', "client_id is empty"),
        ('client_id = "workbench"\n', "", "client_id is missing"),
    ],
)
def test_settings_need_an_issuer_an_address_and_a_client(tmp_path: Path, old: str, new: str, words: str) -> None:
    (tmp_path / "oidc.toml").write_text(PLAIN.replace(old, new))
    with pytest.raises(InvalidConfig, match=words):
        read_provider(tmp_path / "oidc.toml")


def test_secret_comes_from_its_variable_or_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"issuer": "https://a.example", "client_id": "c", "address": "https://b.example"}
    assert ProviderSettings(**values).secret() == ""
    monkeypatch.delenv("NO_SUCH_SECRET", raising=False)
    with pytest.raises(InvalidConfig, match="NO_SUCH_SECRET"):
        ProviderSettings(**values, secret_variable="NO_SUCH_SECRET").secret()
    kept = tmp_path / "secret"
    with pytest.raises(InvalidConfig, match="cannot be read"):
        ProviderSettings(**values, secret_file=str(kept)).secret()
    kept.write_text("abc\n")
    assert ProviderSettings(**values, secret_file=str(kept)).secret() == "abc"


def test_metadata_is_asked_for_once_and_checked(fake: FakeProvider) -> None:
    provider = provider_at(fake)
    assert provider.published() is provider.published()
    assert fake.requests == ["/.well-known/openid-configuration"]
    for published, words in (
        ({"issuer": fake.issuer + "/"}, "calls itself"),
        ({"token_endpoint": None}, "token_endpoint"),
        ({"token_endpoint": "http://elsewhere.example/token"}, "token_endpoint"),
        ({"jwks_uri": "file:///etc/passwd"}, "jwks_uri"),
    ):
        fake.published = published
        with pytest.raises(ProviderUnavailable, match=words):
            provider_at(fake).published()


def test_a_provider_that_is_down_is_named(fake: FakeProvider) -> None:
    fake.down = True
    with pytest.raises(ProviderUnavailable, match=r"Lab cannot be used right now: it answers 503"):
        provider_at(fake).published()
    silent = Provider(ProviderSettings(issuer="http://127.0.0.1:9", client_id="c", address="http://127.0.0.1:8501"))
    with pytest.raises(ProviderUnavailable, match="connection failed"):
        silent.published()


def arrive(fake: FakeProvider, provider: Provider) -> Any:
    url = provider.authorization_url(state="s", nonce=NONCE, verifier=VERIFIER)
    return arrival_of(provider, fake.agree(url)["code"], verifier=VERIFIER, nonce=NONCE)


def test_code_gives_the_person_with_groups_from_either_place(fake: FakeProvider) -> None:
    fake.userinfo = {"groups": ["staff", 7], "name": "of userinfo"}
    arrival = arrive(fake, provider_at(fake, roles={"staff": "expert"}))
    assert (arrival.issuer, arrival.subject, arrival.name) == (fake.issuer, "p-1", "Pat")
    assert (arrival.display_name, arrival.groups, arrival.sid) == ("Pat P.", ("staff",), "s-1")
    fake.userinfo = {"sub": "somebody else"}
    with pytest.raises(SignInRefused, match="somebody else"):
        arrive(fake, provider_at(fake, roles={"staff": "expert"}))


def test_code_counts_once_with_its_verifier_and_secret(fake: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = provider_at(fake)
    url = provider.authorization_url(state="s", nonce=NONCE, verifier=VERIFIER)
    code = fake.agree(url)["code"]
    assert provider.exchange(code, VERIFIER).access_token == "access"
    for wrong_code, verifier in ((code, VERIFIER), (fake.agree(url)["code"], "w" * 43)):
        with pytest.raises(SignInRefused, match="try again"):
            provider.exchange(wrong_code, verifier)
    monkeypatch.setenv("LAB_SECRET", "another")
    with pytest.raises(ProviderUnavailable, match="401"):
        provider.exchange(fake.agree(url)["code"], VERIFIER)
    monkeypatch.delenv("LAB_SECRET")
    with pytest.raises(ProviderUnavailable, match="lacks its client secret"):
        provider.exchange(fake.agree(url)["code"], VERIFIER)


NOW = int(time.time())


@pytest.mark.parametrize(
    ("spoiled", "words"),
    [
        ({"iss": "https://other.example"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"aud": "other"}, "another client"),
        ({"aud": []}, "another client"),
        ({"aud": {"workbench": 1}}, "another client"),
        ({"aud": [CLIENT, "other"]}, "given to another client"),
        ({"aud": [CLIENT, "other"], "azp": "other"}, "given to another client"),
        ({"azp": "other"}, "given to another client"),
        ({"nonce": "m" * 43}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"exp": NOW - 3600}, "expired"),
        ({"exp": None}, "expired"),
        ({"exp": "tomorrow"}, "expired"),
        ({"exp": True}, "expired"),
        ({"iat": NOW + 3600}, "clocks"),
        ({"iat": None}, "clocks"),
        ({"nbf": NOW + 3600}, "clocks"),
        ({"sub": ""}, "subject"),
        ({"sub": 7}, "subject"),
        ({"sub": "x" * 256}, "subject"),
        ({"sub": "a\x00b"}, "subject"),
    ],
)
def test_id_token_with_a_wrong_claim_is_refused(fake: FakeProvider, spoiled: dict[str, Any], words: str) -> None:
    provider, claims = provider_at(fake), fake.claims(nonce=NONCE, sub="p-1")
    assert check_id_token(fake.signed(claims), provider, nonce=NONCE)["sub"] == "p-1"
    with pytest.raises(SignInRefused, match=words):
        check_id_token(fake.signed(claims | spoiled), provider, nonce=NONCE)


def test_id_token_for_several_clients_names_this_one(fake: FakeProvider) -> None:
    token = fake.signed(fake.claims(nonce=NONCE, sub="p-1", aud=["other", CLIENT], azp=CLIENT))
    assert check_id_token(token, provider_at(fake), nonce=NONCE)["azp"] == CLIENT


def base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def unsigned(claims: dict[str, Any], header: dict[str, Any]) -> str:
    return ".".join((*(base64url(json.dumps(part).encode()) for part in (header, claims)), ""))


def with_hmac(claims: dict[str, Any], secret: bytes) -> str:
    """Sign with a secret; joserfc itself takes no public key for one."""
    head = unsigned(claims, {"alg": "HS256", "kid": "first"})
    return head + base64url(hmac.new(secret, head[:-1].encode(), hashlib.sha256).digest())


def test_id_token_that_the_provider_did_not_sign_is_refused(fake: FakeProvider) -> None:
    provider, claims = provider_at(fake), fake.claims(nonce=NONCE, sub="p-1")
    good = fake.signed(claims)
    head, body, signature = good.split(".")
    stranger, shared = new_key("first"), OctKey.import_key(SECRET.ljust(40, "x"))
    public = fake.key.as_pem(private=False)
    changed = base64url(json.dumps(claims | {"sub": "p-2"}).encode())
    wrong = {
        "none": unsigned(claims, {"alg": "none"}),
        "none with its key": unsigned(claims, {"alg": "none", "kid": "first"}),
        "client secret": jwt.encode({"alg": "HS256", "kid": "first"}, claims, shared, algorithms=["HS256"]),
        "public key as secret": with_hmac(claims, public),
        "another key of that name": fake.signed(claims, key=stranger),
        "changed": f"{head}.{changed}.{signature}",
        "cut": f"{head}.{body}.",
        "nothing": "",
        "no token": "a.b.c",
        "not text": "\ud800.b.c",
        "five parts": "a.b.c.d.e",
    }
    for name, token in wrong.items():
        with pytest.raises(SignInRefused, match="signature"):
            pytest.fail(f"{name}: {check_id_token(token, provider, nonce=NONCE)}")
    assert check_id_token(good, provider, nonce=NONCE)["sub"] == "p-1"


def test_new_key_of_the_provider_is_fetched_once(fake: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    provider, claims = provider_at(fake), fake.claims(nonce=NONCE, sub="p-1")
    check_id_token(fake.signed(claims), provider, nonce=NONCE)
    clock = time.monotonic()
    monkeypatch.setattr("workbench.accounts.oidc.provider.time.monotonic", lambda: clock + 60)
    fake.key = new_key("second")
    assert check_id_token(fake.signed(claims), provider, nonce=NONCE)["sub"] == "p-1"
    assert fake.requests.count("/jwks") == 2
    stranger = new_key("third")
    for _ in range(5):  # keys that are fresh are not fetched for whoever sends a token
        with pytest.raises(SignInRefused):
            check_id_token(fake.signed(claims, key=stranger), provider, nonce=NONCE)
    assert fake.requests.count("/jwks") == 2


@pytest.mark.parametrize(
    ("spoiled", "words"),
    [
        ({"events": None}, "no logout token"),
        ({"events": {LOGOUT_EVENT: 1}}, "no logout token"),
        ({"nonce": NONCE}, "no nonce"),
        ({"sub": 7}, "neither"),
        ({"sub": None}, "neither"),
        ({"exp": NOW - 3600}, "expired"),
        ({"aud": "other"}, "another client"),
    ],
)
def test_logout_token_is_checked_as_an_id_token_is(fake: FakeProvider, spoiled: dict[str, Any], words: str) -> None:
    provider = provider_at(fake)
    notice = check_logout_token(fake.logout_token(sub="p-1", sid="s-1"), provider)
    assert (notice.issuer, notice.subject, notice.sid) == (fake.issuer, "p-1", "s-1")
    with pytest.raises(SignInRefused, match=words):
        check_logout_token(fake.logout_token(**{"sub": "p-1"} | spoiled), provider)


def test_sign_out_at_the_provider_takes_the_browser_back(fake: FakeProvider) -> None:
    url = provider_at(fake).logout_url("an.id.token", state="out")
    assert url is not None and url.startswith(f"{fake.issuer}/logout?client_id={CLIENT}&")
    assert "id_token_hint=an.id.token" in url and "8501%2Fauth%2Flogin" in url
    fake.published = {"end_session_endpoint": None}
    assert provider_at(fake).logout_url("an.id.token", state="out") is None
