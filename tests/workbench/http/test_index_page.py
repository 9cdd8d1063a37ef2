"""The page of the app names the server's address, so that its script asks for nothing that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from db.engine import Store
from tests.support.builders import make_people
from tests.support.serving import browser_page, browser_sign_in, post_sign_in, serve
from workbench.accounts import accounts

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PASSWORD = "correct horse battery"


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours as the browser writes them, `rgb(…)`."""

    def luminance(colour: str) -> float:
        parts = [int(number) / 255 for number in re.findall(r"\d+", colour)[:3]]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.fixture
def served(tmp_path: Path, store: Store) -> Path:
    for person in make_people(store).values():
        if person.role == "admin":
            accounts.set_password(store, person, person.id, PASSWORD)
    store.close()
    (tmp_path / "home").mkdir()
    file = store.url.database
    assert file is not None
    Path(file).rename(tmp_path / "home" / "workbench.sqlite3")
    return tmp_path / "home"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_console_is_clean_and_captions_and_buttons_are_legible(served: Path, theme: str) -> None:
    errors: list[str] = []
    with serve(served) as base, browser_page(base, color_scheme=theme) as page:
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("response", lambda answer: errors.append(answer.url) if answer.status >= 400 else None)
        browser_sign_in(page, "adm", PASSWORD, path="/people")
        page.wait_for_selector("[data-testid^=stBaseButton-primary]")
        # Colours fade in.
        page.wait_for_function("document.getAnimations().every(({ playState }) => playState !== 'running')")
        shown = page.evaluate(
            """() => ["stCaptionContainer", "stBaseButton-primary"].map(name => {
                const part = document.querySelector(`[data-testid="stMain"] [data-testid^=${name}]`)
                const words = getComputedStyle(part.querySelector("p") ?? part).color
                const paper = getComputedStyle(part).backgroundColor
                const below = getComputedStyle(document.querySelector(".stApp")).backgroundColor
                return [words, paper.endsWith(", 0)") ? below : paper]
            })"""
        )
    assert not errors
    assert all(contrast(*pair) >= 4.5 for pair in shown), shown


def test_page_keeps_its_length_right(served: Path) -> None:
    with serve(served) as base, httpx.Client(base_url=base) as client:
        post_sign_in(client, "adm", PASSWORD)
        answer = client.get("/people", headers={"accept": "text/html"})
        assert b"BACKEND_BASE_URL" in answer.content and int(answer.headers["content-length"]) == len(answer.content)
