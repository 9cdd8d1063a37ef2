"""Text that means something to HTML, Markdown or LaTeX reaches every screen as the text it is."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import pandas as pd
import pytest

from crossner_core.domains import load_domain
from crossner_core.schema import Link, sentence_from_words
from pages.components.saved_figure import as_csv
from tests.support.builders import Tab
from tests.support.live import App, app, browser_of, chromium, wait
from workbench.accounts import accounts
from workbench.campaigns import campaigns, sentences
from workbench.labelling import adjudication

__all__ = ["app", "chromium"]

HOSTILE = '<img src=q onerror="pwned=1"> **b** $x$ :red[r] ![i](/q.png)'
LONG = "W" * 6_000
SCREENS = {
    "ann1": ("welcome", "annotate", "check", "my_work", "account"),
    "eva": ("adjudicate", "my_work", "campaign", "adaptation"),
    "adm": ("people", "campaigns", "new_campaign", "campaign", "data", "domains", "adaptation"),
}
# Selectors, which reach into the components too: the editor stands in a shadow root.
TRACES = {
    "a picture": 'img[src$="/q.png"], img[onerror]',
    "LaTeX": ".katex",
    "bold": 'strong:text-is("b")',
    "colour": '.stMarkdownColoredText:text-is("r")',
}
RAN = "() => window.pwned !== undefined"
TOO_WIDE = "() => document.documentElement.scrollWidth > window.innerWidth"


@pytest.fixture(scope="module")
def hostile(app: App) -> int:
    """A campaign in which everything a person can write is hostile: names, sentences, links, comments, questions."""
    store, people = app.store, app.people
    for name in ("ann1", "ann2", "eva"):
        accounts.set_display_name(store, people["adm"], people[name].id, f"{HOSTILE} {name}")
    domain = load_domain("music")
    first = dataclasses.replace(domain.types[0], title=HOSTILE, guideline=HOSTILE)
    campaign = campaigns.create_campaign(
        store, people["adm"], name=HOSTILE, domain=dataclasses.replace(domain, types=(first, *domain.types[1:])),
        member_ids=[one.id for one in people.values()], blind_share=0.0, control_share=0.0,
    )  # fmt: skip
    words = HOSTILE.split()
    rows = [
        sentence_from_words([*words, str(number)], id=f"s{number}", links=[Link(0, 2, HOSTILE)]) for number in range(6)
    ]
    # The fifth: what annotator 1 sees first, once three are submitted and one is skipped.
    rows.insert(4, sentence_from_words(["long", LONG, "\u202edrow", "<script>pwned=2</script>"], id="long"))
    sentences.add_sentences(store, people["res"], campaign, rows)
    _go_on(app, campaign)
    return campaign


def _go_on(app: App, campaign: int) -> None:
    """Take sentences to every stage, with a comment, a flag, a question and skips."""
    ann1, ann2, eva = (
        Tab(app.store, app.people[name], campaign, stage)
        for name, stage in (("ann1", "annotate"), ("ann2", "check"), ("eva", "adjudicate"))
    )
    for item in ann1.items(3):
        ann1.do("submit", item, [(0, 2, "band")], parts={"comment": HOSTILE})
    for item in ann2.items(2):
        flag = {"start": 0, "end": 2, "type": "band", "note": HOSTILE}
        ann2.do("submit", item, [(0, 2, "person")], parts={"comment": HOSTILE, "flags": [flag]})
    adjudication.ask(app.store, app.people["eva"], eva.items(1)[0]["task"], HOSTILE)
    skipped = ann1.items(1)[0]
    for name in ("ann1", "ann3"):
        tab = Tab(app.store, app.people[name], campaign, "annotate")
        again = next(item for item in tab.items(7) if item["sentence"] == skipped["sentence"])
        assert tab.do("skip", again, [], reason=HOSTILE).rejections == []


def _open_all(page: Any) -> bool:
    """Click every closed part once, from below; return True once none is closed. A redraw may close one again."""
    from playwright.sync_api import TimeoutError as TooLate

    closed = page.locator("details:not([open]) > summary").locator("visible=true")
    for place in reversed(range(closed.count())):
        with contextlib.suppress(TooLate):  # redrawn, or open by now
            closed.nth(place).click(timeout=1_000)
    return closed.count() == 0


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", SCREENS)
def test_hostile_text_stays_text(app: App, hostile: int, chromium: Any, name: str) -> None:
    found = []
    with browser_of(chromium, app, name) as context:
        page = context.new_page()
        page.on("dialog", lambda dialog: (found.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        for screen in SCREENS[name]:
            page.goto(f"/{screen}?campaign={hostile}")
            page.wait_for_selector('[data-testid="stMain"] [data-testid="stHeading"]', timeout=30_000)
            wait(lambda: page.locator('[data-testid="stStatusWidget"]').count() == 0, "the screen to be drawn")
            page.wait_for_timeout(400)
            wait(lambda: _open_all(page), "every part of the screen to be open")
            found += [f"{screen}: {what}" for what, selector in TRACES.items() if page.locator(selector).count()]
            found += [f"{screen}: {script}" for script in (RAN, TOO_WIDE) if page.evaluate(script)]
    assert found == []


def test_hostile_text_is_no_formula_in_a_csv() -> None:
    table = pd.DataFrame({"=type": ["=1+1", "+a", "-b", "@c", "person", "minus"], "F1": [-1.5, 2, 3, 4, 5, 6]})
    lines = as_csv(table, index=False).decode().splitlines()
    assert lines[0] == "'=type,F1"
    assert [line.split(",")[0] for line in lines[1:]] == ["'=1+1", "'+a", "'-b", "'@c", "person", "minus"]
    assert lines[1].endswith(",-1.5")
