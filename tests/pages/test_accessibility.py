"""Every page in a browser, light and dark, wide and narrow: axe finds nothing serious, and the console stays empty."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from db.migrate import migrate
from pages.main import SECTIONS
from tests.support.homes import open_home, unpack_old_store
from tests.support.live import App, browser_of, chromium
from tests.support.serving import CHROMIUM
from workbench.accounts import accounts
from workbench.backups.manifest import STORE
from workbench.campaigns import campaigns

__all__ = ["chromium"]

pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")]
SCREENS = [screen for section in SECTIONS.values() for screen in section]
ROLES = {"eva": "expert", "adm": "admin", "ann1": "annotator"}
# Axe's own `run` sends the whole script each time, and gets back what passed, too.
AXE = Axe().axe_script
RUN = """async (options) => {
  const { violations } = await axe.run(document, { resultTypes: ["violations"], ...options })
  return violations.filter(({ impact }) => ["serious", "critical"].includes(impact))
    .map(({ id, nodes }) => `${id} × ${nodes.length}: ${nodes[0].html.slice(0, 200)}`)
}"""
GROUNDS = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 29)"}
SETTLED = """(ground) => getComputedStyle(document.querySelector(".stApp")).backgroundColor === ground
  && document.getAnimations().every(({ playState }) => playState !== "running")"""
# What the theme changes is contrast alone, and what the width changes is not contrast.
LOOKS: tuple[tuple[int, str, dict[str, Any]], ...] = (
    (1440, "light", {}),
    (1440, "dark", {"runOnly": ["color-contrast"]}),
    (360, "dark", {"runOnly": ["color-contrast"]}),
    (360, "light", {}),
)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """The old store, which has runs, rounds, findings and simulations."""
    home = tmp_path_factory.mktemp("home")
    unpack_old_store(home / STORE)
    store = open_home(home)
    migrate(store)
    people = {
        each.name: actor
        for each in accounts.list_people(store, accounts.operator(store))
        if (actor := accounts.current(store, each.id))
    }
    running = App(home=home, store=store, people=people)
    running.start()
    yield running
    running.kill()
    store.close()


@pytest.mark.parametrize("name", ROLES)
def test_pages_have_no_serious_fault_in_any_theme_or_width(app: App, chromium: Any, name: str) -> None:
    role, faults = ROLES[name], []
    before = [other for known, other in ROLES.items() if list(ROLES).index(known) < list(ROLES).index(name)]
    mine = [screen for screen in SCREENS if role in screen.roles and not {*before} & {*screen.roles}]
    closed = next((screen for screen in SCREENS if role not in screen.roles), SCREENS[0])
    campaign = campaigns.list_campaigns(app.store, app.people[name])[0].id
    with browser_of(chromium, app, name) as context:
        page = context.new_page()
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        for screen in dict.fromkeys([SCREENS[0], *mine, closed]):
            address = "" if screen is SCREENS[0] else screen.file
            page.set_viewport_size({"width": 1440, "height": 900})
            page.emulate_media(color_scheme="light")
            page.goto(f"/{address}?campaign={campaign}")
            _drawn(page)
            faults += [f"{screen.file}, {fault}" for fault in _faults(page)]
    assert not faults, "\n".join(faults)


def _drawn(page: Any) -> None:
    """Wait until the page's script is done and its figures are drawn."""
    page.wait_for_selector('[data-testid="stMain"] [data-testid="stHeading"]', timeout=30_000)
    page.wait_for_selector('[data-test-script-state="notRunning"]', timeout=30_000)


def _faults(page: Any) -> list[str]:
    """Return what axe finds serious or critical in each look, with the first place of each."""
    page.evaluate(AXE)
    faults = []
    for width, theme, options in LOOKS:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme)
        page.wait_for_function(SETTLED, arg=GROUNDS[theme])
        faults += [f"{width} {theme}: {fault}" for fault in page.evaluate(RUN, options)]
    return faults
