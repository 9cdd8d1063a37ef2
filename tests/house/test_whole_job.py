"""The whole job in a real browser on real music sentences: annotate, check, adjudicate, retrain, see the point."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from crossner_core.domains import load_domain
from crossner_core.formats import open_file, write
from crossner_core.formats.base import Record
from crossner_core.schema import LabelledSentence, Span
from db.engine import Store
from db.migrate import migrate
from db.tables import Annotation, SentenceRow, Task
from db.training_tables import Run, Snapshot
from tests.support.serving import browser_page, browser_sign_in, serve, worker_process
from workbench.accounts import accounts
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.data import exchange

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(420)]

PASSWORD = "a long pass phrase of our own"
PEOPLE = {"ada": "admin", "ann": "annotator", "ben": "annotator", "eva": "expert", "rosa": "researcher"}
SENTENCES = 4


def _wait(check: Callable[[], Any], what: str, seconds: float = 30) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = check()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"waited {seconds} s for {what}")


class _Campaign:
    """The campaign as the test set it up, and what the database holds of it."""

    def __init__(self, store: Store, people: dict[str, Actor], gold: dict[str, tuple[Span, ...]]) -> None:
        self.store, self.people, self.gold = store, people, gold

    def submitted(self, stage: str) -> dict[str, tuple[tuple[Span, ...], str]]:
        """Text → (spans, who) of what was submitted at a stage by a person."""
        with self.store.read() as session:
            rows = session.scalars(
                sa.select(Annotation)
                .join(Task)
                .where(Task.stage == stage, Annotation.state == "submitted", Annotation.origin == "person")
            ).all()
            return {
                row.task.sentence.text: (
                    tuple(Span(span.start, span.end, span.type) for span in row.spans),
                    row.user.name,
                )
                for row in rows
            }


@pytest.fixture
def job(tmp_path: Path, shared: Path) -> _Campaign:
    store = Store(f"sqlite:///{tmp_path / 'workbench.sqlite3'}")
    migrate(store)
    people: dict[str, Actor] = {}
    for name, role in PEOPLE.items():
        people[name] = accounts.create_user(
            store, people.get("ada"), name=name, display_name=name.title(), password=PASSWORD, role=role
        )
    music = shared / "data" / "ner" / "music"
    campaign_id = campaigns.create_campaign(
        store, people["ada"], name="Music", domain=load_domain("music"), blind_share=0.0, control_share=0.0
    )
    campaigns.set_members(store, people["ada"], campaign_id, [actor.id for actor in people.values()])
    train = [r for r in open_file(music / "train.txt").labelled if 1 < len(r.spans) < 6][:SENTENCES]
    pool = write([Record(one.sentence) for one in train], "plain").encode()
    exchange.import_files(store, people["ada"], campaign_id, [("pool.txt", pool)], format="plain")
    for split in ("dev", "test"):
        some = open_file(music / f"{split}.txt").labelled[:12]
        data = write(list(some), "conll").encode()
        exchange.import_files(
            store, people["ada"], campaign_id, [(f"{split}.conll", data)], split=split, annotation="gold"
        )
    gold = {text: _gold_here(store, one) for one in train if (text := one.sentence.text)}
    return _Campaign(store, people, gold)


def _gold_here(store: Store, one: LabelledSentence) -> tuple[Span, ...]:
    """The released spans in the tokens that the campaign's own tokenizer made."""
    with store.read() as session:
        row = session.scalars(sa.select(SentenceRow).where(SentenceRow.text == one.sentence.text)).one()
        starts = {start: number for number, (start, _end) in enumerate(row.tokens)}
        ends = {end: number + 1 for number, (_start, end) in enumerate(row.tokens)}
    ranges = [(one.sentence.char_range(span.start, span.end), span.type) for span in one.spans]
    return tuple(
        Span(starts[start], ends[end], kind) for (start, end), kind in ranges if start in starts and end in ends
    )


KEYS = {kind.name: kind.key for kind in load_domain("music").types}


_TEXT_OF = """node => {
    const copy = node.cloneNode(true);
    copy.querySelectorAll(".hint, .cap").forEach((extra) => extra.remove());
    return copy.textContent;
}"""


def _shown_text(page: Any) -> str:
    """The text of the sentence on the screen, without hints and captions."""
    return str(page.locator("[role=listbox]").first.evaluate(_TEXT_OF))


def _mark(page: Any, span: Span) -> None:
    """Mark a span with four keystrokes: jump, first token, last token, type."""
    page.keyboard.press(";")
    page.wait_for_selector(f"#token-{span.start} .hint")
    first = page.locator(f"#token-{span.start} .hint").inner_text()
    last = page.locator(f"#token-{span.end - 1} .hint").inner_text()
    for key in (first, last, KEYS[span.type]):
        page.keyboard.press(key)


def _open(page: Any, name: str, path: str) -> None:
    browser_sign_in(page, name, PASSWORD, path=path)
    page.wait_for_selector("[role=listbox] [role=option]", timeout=30_000)


def _annotate(base: str, job: _Campaign) -> None:
    with browser_page(base, viewport={"width": 1280, "height": 860}) as page:
        _open(page, "ann", "/annotate")
        for done in range(SENTENCES):
            text = _shown_text(page)
            for _ in range(page.locator(".mark.suggestion").count()):
                page.keyboard.press("Backspace")
            for span in job.gold[text]:
                _mark(page, span)
            page.wait_for_timeout(350)
            page.keyboard.press("Enter")
            _wait(lambda text=text: text in job.submitted("annotate"), f"sentence {done + 1} in the database")
            assert job.submitted("annotate")[text] == (job.gold[text], "ann")


def _check(base: str, job: _Campaign) -> str:
    """Retype the first span of one sentence and confirm what is asked for; return the changed text."""
    with browser_page(base, color_scheme="dark") as page:
        _open(page, "ben", "/check")
        changed = _shown_text(page)
        page.keyboard.press("Tab") if not page.locator(".mark.focused").count() else None
        page.keyboard.press(KEYS["misc"] if job.gold[changed][0].type != "misc" else KEYS["event"])
        for done in range(SENTENCES):
            text = _shown_text(page)
            for _ in range(page.locator(".mark.wanted").count()):
                page.keyboard.press("Space")
            page.wait_for_timeout(350)  # a second Enter within 300 ms does nothing
            page.keyboard.press("Enter")
            _wait(lambda text=text: text in job.submitted("check"), f"check {done + 1} in the database")
    spans, who = job.submitted("check")[changed]
    assert who == "ben"
    assert spans[0].type != job.gold[changed][0].type
    assert spans[1:] == job.gold[changed][1:]
    return changed


def _adjudicate(base: str, job: _Campaign, changed: str) -> None:
    with browser_page(base) as page:
        _open(page, "eva", "/adjudicate")
        for done in range(SENTENCES):
            text = _shown_text(page)
            page.wait_for_timeout(350)
            if text == changed:
                page.keyboard.press("Enter")
                time.sleep(1)
                assert text not in job.submitted("adjudicate"), "an undecided disagreement became gold"
                page.keyboard.press("1")
            page.keyboard.press("Enter")
            _wait(lambda text=text: text in job.submitted("adjudicate"), f"gold {done + 1} in the database")
            assert job.submitted("adjudicate")[text] == (job.gold[text], "eva")


def _retrain(base: str, job: _Campaign) -> None:
    with browser_page(base, viewport={"width": 1280, "height": 1000}) as page:
        browser_sign_in(page, "rosa", PASSWORD, path="/adaptation")
        page.get_by_text("Train", exact=True).click()
        page.get_by_role("button", name="Freeze the gold now").click()
        page.get_by_text("Snapshot", exact=False).first.wait_for()
        _wait(lambda: _rows(job.store, Snapshot), "a snapshot in the database")
        (snapshot,) = _rows(job.store, Snapshot)
        assert snapshot.counts["pool"] == SENTENCES
        page.get_by_role("spinbutton", name="max epochs").fill("2")
        page.keyboard.press("Tab")
        page.get_by_role("button", name="Start one run").click()
        _wait(lambda: _rows(job.store, Run), "a run in the database")
        _wait(lambda: _rows(job.store, Run)[0].state in ("done", "failed"), "the run to end", 180)
        (run,) = _rows(job.store, Run)
        assert (run.state, run.error) == ("done", None)
        assert run.snapshot_id == snapshot.id and run.test_f1 is not None
        page.get_by_text("Curve", exact=True).click()
        page.wait_for_selector(".js-plotly-plot .scatterlayer .point", timeout=30_000)


def _rows(store: Store, table: type[Any]) -> list[Any]:
    with store.read() as session:
        return list(session.scalars(sa.select(table)).all())


def test_whole_job_in_a_browser(job: _Campaign, tmp_path: Path) -> None:
    with serve(tmp_path) as base, worker_process(tmp_path):
        _annotate(base, job)
        changed = _check(base, job)
        _adjudicate(base, job, changed)
        _retrain(base, job)
