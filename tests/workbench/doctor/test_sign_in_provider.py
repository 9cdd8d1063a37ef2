"""The check of the sign-in provider, against one that runs here."""

from __future__ import annotations

from pathlib import Path

import pytest

from db.engine import Store
from tests.support.accounts.provider import CLIENT, fake_provider
from workbench.doctor.base import Context
from workbench.doctor.checks.sign_in import sign_in_provider
from workbench.settings import Settings


def findings(store: Store, home: Path, issuer: str, address: str = "http://127.0.0.1:8501", **more: bool) -> list[str]:
    text = f'issuer = "{issuer}"\nclient_id = "{CLIENT}"\naddress = "{address}"\n'
    (home / "oidc.toml").write_text(text)
    with store.read() as session:
        found = list(sign_in_provider(Context(session, Settings(home=home, **more))))
    return [f"{each.subject}: {each.problem}" for each in found]


def test_provider_is_tried_as_a_browser_would(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_provider() as fake:
        assert findings(store, tmp_path, fake.issuer) == []
        assert set(fake.requests) == {"/.well-known/openid-configuration", "/jwks", "/authorize"}
        monkeypatch.setattr(fake, "knows_address", False)
        (unknown,) = findings(store, tmp_path, fake.issuer)
        assert unknown.startswith("http://127.0.0.1:8501/auth/oidc/callback: the provider refuses it, it answers 400")
        (other,) = findings(store, tmp_path, f"{fake.issuer}/")
        assert "calls itself" in other


def test_way_to_the_workbench_is_encrypted(store: Store, tmp_path: Path) -> None:
    with fake_provider() as fake:
        (plain,) = findings(store, tmp_path, fake.issuer, "http://bench.example")
        assert "unencrypted" in plain
        (cookie,) = findings(store, tmp_path, fake.issuer, "https://bench.example")
        assert "CROSSNER_SECURE_COOKIE" in cookie
        assert findings(store, tmp_path, fake.issuer, "https://bench.example", secure_cookie=True) == []
