"""From a real dump to the span editor: gazetteer and corpus by command line, sentences sampled into a campaign."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from crossner_core.schema import Sentence
from crossner_core.wikipedia.corpus import Corpus
from db.engine import Store
from db.migrate import migrate
from db.tables import SentenceRow, SuggestionRow
from tests.support.serving import browser_page, browser_sign_in, serve
from workbench.accounts import accounts
from workbench.campaigns import campaigns
from workbench.cli import main

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(300)]

PASSWORD = "a long pass phrase of our own"


def _run(home: Path, *arguments: object) -> None:
    assert main(["--home", str(home), *map(str, arguments)]) == 0


@pytest.fixture
def sampled(tmp_path: Path, shared: Path) -> Store:
    """A store whose campaign holds sentences of the real sample, brought there by commands alone."""
    home, wikipedia, dbpedia = tmp_path, shared / "data" / "wikipedia", shared / "data" / "dbpedia"
    dump = wikipedia / "enwiki-sample-206-pages.xml.bz2"
    mappings, ontology = dbpedia / "Mapping_en.xml.xz", dbpedia / "ontology.owl.xz"
    store = Store(f"sqlite:///{home / 'workbench.sqlite3'}")
    migrate(store)
    admin = accounts.create_user(store, None, name="ada", display_name="Ada", password=PASSWORD, role="admin")
    ann = accounts.create_user(store, admin, name="ann", display_name="Ann", password=PASSWORD, role="annotator")
    _run(
        home, "gazetteer", "build", "--name", "sample", "--wikipedia", dump, "--mappings", mappings,
        "--ontology", ontology,
    )  # fmt: skip
    _run(home, "corpus", "build", dump, "--name", "sample", "--gazetteer", "sample", "--domain", "politics")
    _run(home, "campaign", "create", "Politics", "--domain", "politics", "--gazetteer", "sample")
    (campaign,) = campaigns.list_campaigns(store, admin)
    campaigns.update_settings(store, admin, campaign.id, control_share=0.0)
    campaigns.set_members(store, admin, campaign.id, [admin.id, ann.id])
    _run(home, "corpus", "sample", "sample", "--campaign", "Politics", "--count", 20, "--seed", 1, "--min-links", 2)
    return store


def _shown(page: Any) -> str:
    return str(
        page.locator("[role=listbox]").first.evaluate(
            """node => {
                const copy = node.cloneNode(true);
                copy.querySelectorAll(".hint, .cap").forEach((extra) => extra.remove());
                return copy.textContent;
            }"""
        )
    )


def _neighbours(order: Sequence[Sentence], id: str) -> tuple[str, str]:
    """Return the texts before and after a sentence on its page, empty at its ends."""
    place = next(number for number, sentence in enumerate(order) if sentence.id == id)
    beside = (order[place - 1] if place else None, order[place + 1] if place + 1 < len(order) else None)
    same = [one is not None and one.meta["page"] == order[place].meta["page"] for one in beside]
    before, after = (one.text if one is not None and is_same else "" for one, is_same in zip(beside, same, strict=True))
    return before, after


def test_sample_of_a_dump_opens_in_the_span_editor(sampled: Store, tmp_path: Path) -> None:
    order = [one.sentence for one in Corpus.open(tmp_path / "corpora" / "sample").sentences()]
    corpus = {sentence.id: sentence for sentence in order}
    with sampled.read() as session:
        rows = {row.text: row for row in session.scalars(sa.select(SentenceRow)).all()}
        suggested = set(session.scalars(sa.select(SuggestionRow.sentence_id)).all())
    assert len(rows) == 20
    assert suggested
    for row in rows.values():
        origin = corpus[row.external_id]
        assert origin.text == row.text
        assert len(origin.links) >= 2
    with serve(tmp_path) as base, browser_page(base, viewport={"width": 1280, "height": 860}) as page:
        browser_sign_in(page, "ann", PASSWORD, path="/annotate")
        page.wait_for_selector("[role=listbox] [role=option]", timeout=30_000)
        seen_suggestion = False
        for _ in range(8):
            text = _shown(page)
            row = rows[text]
            links = corpus[row.external_id].links
            linked = {number for link in links for number in range(link.start, link.end)}
            drawn = page.locator("[role=option].link").evaluate_all("nodes => nodes.map(n => Number(n.dataset.i))")
            assert set(drawn) == linked
            assert (page.locator(".mark.suggestion").count() > 0) == (row.id in suggested)
            page_address = f"https://en.wikipedia.org/w/index.php?oldid={row.meta['revision']}"
            assert page.locator(".origin a").get_attribute("href") == page_address
            before, after = _neighbours(order, row.external_id)
            for place, expected in (("before", before), ("after", after)):
                line = page.locator(f".around.{place} .line")
                if expected:
                    line.wait_for(timeout=15_000)
                    assert line.evaluate("node => node.textContent") == expected
                else:
                    assert line.count() == 0
            seen_suggestion = seen_suggestion or row.id in suggested
            page.keyboard.press("Shift+Space" if row.id in suggested else "0")
            page.keyboard.press("Enter")
            deadline = time.monotonic() + 15
            while _shown(page) == text and time.monotonic() < deadline:
                page.wait_for_timeout(50)
        assert seen_suggestion
