"""How long each page takes until it stands still, from its address to the last change on the screen.

    python -m benchmarks.settle [--home FOLDER] [--times 5] [--only PAGE …] [--bars]

Starts the real server on the store of `--home` (without it, on the tests' store of an earlier version: runs, rounds,
findings and simulations), signs in as an expert, or as an admin where a page is for admins, and opens each page in
headless Chromium, once to warm up and then `--times` times. A page stands still when its script is done and the screen
has not changed for 400 ms; the time counts to the last change. The bar: p95 over all openings under 1.5 s, and no page
over 2 s.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from db.engine import Store
from db.migrate import migrate
from pages.main import SECTIONS
from tests.support.homes import open_home, unpack_old_store
from tests.support.screens import give_session
from tests.support.serving import browser_page, serve
from workbench.accounts import accounts
from workbench.accounts.actors import Actor
from workbench.backups.manifest import STORE
from workbench.campaigns import campaigns

P95, LONGEST = 1.5, 2.0
"""Seconds: the bars."""

_WATCH = """
window.last = 0;
new MutationObserver(() => { window.last = performance.now() })
  .observe(document, {subtree: true, childList: true, characterData: true, attributes: true});
"""
_STILL = """() => document.querySelector('[data-testid="stMain"] [data-testid="stHeading"]')
  && document.querySelector('[data-test-script-state="notRunning"]') && performance.now() - window.last > 400"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, help="folder of the workbench; without it, a store made for this")
    parser.add_argument("--times", type=int, default=5, help="openings of each page that count")
    parser.add_argument("--only", nargs="+", metavar="PAGE", help="pages, by their file")
    parser.add_argument("--bars", action="store_true", help="exit with 1 where a bar is missed")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        home = options.home or Path(folder)
        if options.home is None:
            unpack_old_store(home / STORE)
        store = open_home(home)
        migrate(store)
        try:
            seconds = _measure(store, home, options)
        finally:
            store.close()
    every = sorted(second for measured in seconds.values() for second in measured)
    p95 = every[int(0.95 * (len(every) - 1))]
    longest = max(statistics.median(measured) for measured in seconds.values())
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"\nAll pages: p95 {p95:.2f} s (bar {P95}), slowest page {longest:.2f} s (bar {LONGEST}); load {load}")
    return int(options.bars and (p95 >= P95 or longest >= LONGEST))


def _measure(store: Store, home: Path, options: argparse.Namespace) -> dict[str, list[float]]:
    """Open each page as often as asked; return seconds by the page's file."""
    pages = [page for section in SECTIONS.values() for page in section]
    taken: dict[str, list[float]] = {}
    print("| page | median s | longest s |\n|---|---|---|")
    with serve(home) as address, browser_page(address, viewport={"width": 1440, "height": 900}) as page:
        page.add_init_script(_WATCH)
        people = {role: _one(store, role) for role in ("expert", "admin")}
        for role, actor in people.items():
            page.context.clear_cookies()
            page.context.add_cookies(
                [{"name": "crossner_session", "value": give_session(store, actor), "url": address}]
            )
            campaign = campaigns.list_campaigns(store, actor)[0].id
            for screen in pages:
                if (
                    screen.file in taken
                    or role not in screen.roles
                    or (options.only and screen.file not in options.only)
                ):
                    continue
                path = "" if screen is pages[0] else screen.file
                taken[screen.file] = [_seconds(page, f"/{path}?campaign={campaign}") for _ in range(options.times + 1)][
                    1:
                ]
                median, longest = statistics.median(taken[screen.file]), max(taken[screen.file])
                print(f"| {screen.file} | {median:.2f} | {longest:.2f} |", flush=True)
    return taken


def _seconds(page: Any, path: str) -> float:
    """Return the seconds from the request to the last change of a page's screen."""
    page.goto(path)
    page.wait_for_function(_STILL, timeout=60_000)
    return float(page.evaluate("window.last")) / 1000


def _one(store: Store, role: str) -> Actor:
    """Return somebody with a role who sees the most campaigns."""
    people = [accounts.current(store, each.id) for each in accounts.list_people(store, accounts.operator(store))]
    fitting = [actor for actor in people if actor is not None and actor.role == role]
    if not fitting:
        raise SystemExit(f"Nobody in this store is {role}; give somebody the role, or name another home.")
    return max(fitting, key=lambda actor: len(campaigns.list_campaigns(store, actor)))


if __name__ == "__main__":
    sys.exit(main())
