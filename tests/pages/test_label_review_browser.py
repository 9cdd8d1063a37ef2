"""Label review in a real browser: a key held down decides one doubt, not those that come after it unseen."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support import builders
from tests.support.label_review import look, said
from tests.support.live import App, app, browser_of, chromium, wait
from workbench.campaigns import sentences
from workbench.labelling import label_review

__all__ = ["app", "chromium"]

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(120)]

NAMES = ("Mara Vell", "Tin Gulls", "Oda Brandt", "Paper Harbour")


@pytest.fixture
def doubted(app: App) -> int:
    """A campaign whose gold calls each of some names a band once and a musical artist twice."""
    campaign = builders.make_campaign(app.store, app.people, name="Doubted")
    rows = [
        said(f"{name} played {where} .", (0, 2, kind), id=f"{name} {where}")
        for name in NAMES
        for where, kind in (("there", "band"), ("in Oslo", "musicalartist"), ("at home", "musicalartist"))
    ]
    sentences.add_sentences(app.store, app.people["res"], campaign, rows)
    look(app.store, campaign, "inconsistent_surfaces")
    return campaign


def test_a_key_held_down_decides_one_doubt(app: App, doubted: int, chromium: Any) -> None:
    def decided() -> int:
        (queue,) = (
            one for one in label_review.queues(app.store, app.people["eva"], doubted) if one.decided or one.open
        )
        assert queue.decided + queue.open == len(NAMES)
        return queue.decided

    with browser_of(chromium, app, "eva") as context:
        page = context.new_page()
        page.goto(f"/label_review?campaign={doubted}")
        page.get_by_role("button", name="Keep").wait_for(timeout=30_000)
        for _ in range(8):  # without a release all but the first are repeats
            page.keyboard.down("1")
            time.sleep(0.3)
        page.keyboard.up("1")
        wait(lambda: decided() == 1, "the decision")
        page.get_by_text(f"1 of {len(NAMES)} decided").wait_for()
        page.keyboard.press("1")
        wait(lambda: decided() == 2, "the second decision")
