"""Sign-in with a provider that runs here, in a browser: wait, be let in, come back, sign out on both sides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from db.engine import Store
from db.migrate import migrate
from tests.support.accounts.mock import add_person, mock_provider, register_client
from tests.support.editor.people import Person
from tests.support.live import chromium
from tests.support.serving import free_port, serve
from workbench.accounts import accounts, identities
from workbench.accounts.actors import Actor
from workbench.doctor.base import Context
from workbench.doctor.checks.sign_in import sign_in_provider
from workbench.settings import Settings

__all__ = ["chromium"]

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(240)]

PASSWORD = "a long pass phrase of our own"


@dataclass(frozen=True)
class House:
    """A workbench at its address, its store and settings, its admin, and the provider."""

    url: str
    issuer: str
    store: Store
    settings: Settings
    admin: Actor


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    store = Store(f"sqlite:///{tmp_path / 'workbench.sqlite3'}")
    migrate(store)
    admin = accounts.create_user(store, None, name="ada", display_name="Ada", password=PASSWORD, role="admin")
    with mock_provider(tmp_path / "provider.log") as issuer:
        client, secret = register_client(issuer, f"{address}/auth/oidc/callback")
        (tmp_path / "secret").write_text(secret)
        (tmp_path / "oidc.toml").write_text(
            f'issuer = "{issuer}"\nclient_id = "{client}"\naddress = "{address}"\nname = "Lab account"\n'
            f'secret_file = "{tmp_path / "secret"}"\n[roles]\nheads = "researcher"\n'
        )
        add_person(issuer, "sub-pat", preferred_username="pat", name="Pat Poe", groups=["staff"])
        with serve(tmp_path, port=port) as url:
            yield House(url, issuer, store, Settings(home=tmp_path), admin)
    store.close()


def test_person_of_the_provider_waits_is_let_in_and_signs_out(house: House, chromium: Any) -> None:
    with house.store.read() as session:
        assert list(sign_in_provider(Context(session, house.settings))) == []
    context = chromium.new_context(base_url=house.url)
    page = context.new_page()
    go_through_the_provider(page, "/account")
    page.get_by_role("alert").get_by_text("an admin has to let you in").wait_for()
    ada = Person.at(chromium, house.url, "ada", PASSWORD)
    let_them_in(ada)
    go_through_the_provider(page, "/account")
    page.get_by_text("pat (sub-pat)").wait_for()
    assert page.url == f"{house.url}/account"
    assert {cookie["name"]: cookie["sameSite"] for cookie in page.context.cookies() if "session" in cookie["name"]} == {
        "crossner_session": "Lax"
    }
    sign_out_on_both_sides(page, house)
    add_person(house.issuer, "sub-pat", preferred_username="pat", name="Pat Poe", groups=["heads"])
    go_through_the_provider(page, "/my_work")
    page.get_by_text("researcher").first.wait_for()
    link_the_admins_own(ada, house)
    for opened in (context, ada.page.context):
        opened.close()


def go_through_the_provider(page: Any, target: str, subject: str = "sub-pat") -> None:
    page.goto(f"/auth/login?next={target}")
    page.get_by_role("link", name="Sign in with Lab account").click()
    agree(page, subject)


def agree(page: Any, subject: str) -> None:
    page.get_by_placeholder("sub").fill(subject)
    page.get_by_role("button", name="Authorize").click()


def let_them_in(ada: Person) -> None:
    """The admin sees who waits, and gives them a role."""
    ada.opens("People")
    ada.reads("Waiting to be let in")
    ada.chooses("Role to give", "expert")
    ada.presses("Let in")
    ada.reads("Pat Poe is let in as expert")


def sign_out_on_both_sides(page: Any, house: House) -> None:
    page.get_by_role("button", name="Sign out", exact=True).click()
    page.get_by_role("button", name="End session").wait_for()
    assert page.url.startswith(f"{house.issuer}/oauth2/end_session") and "id_token_hint=" in page.url
    page.get_by_role("button", name="End session").click()
    page.get_by_text("You are signed out.").wait_for()
    page.goto("/account")
    assert "/auth/login" in page.url


def link_the_admins_own(ada: Person, house: House) -> None:
    """The admin links an identity of their own on My account, and the account opens by it."""
    ada.page.goto("/account")
    ada.page.get_by_role("link", name="Link Lab account").click()
    ada.page.get_by_role("button", name="Go to Lab account").click()
    agree(ada.page, "sub-ada")
    ada.reads("sub-ada")
    own = identities.own_ways_in(house.store, house.admin)
    assert own.has_password and [identity.subject for identity in own.identities] == ["sub-ada"]
