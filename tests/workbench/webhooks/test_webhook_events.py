"""What happens in a campaign becomes an event in the same transaction: gold, the end, runs and rounds."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from db.engine import Store
from db.programs.webhook_tables import Delivery
from db.tables import SentenceRow, Task
from db.training_tables import Job
from db.types import now
from tests.support import rounds as round_builders
from tests.support.builders import SENTENCES, Tab, make_campaign, make_people
from tests.support.paths import ROOT
from tests.support.postgres import counted, either_store
from tests.support.training_store import recipe_here, work
from tests.support.webhooks import ALL, receiving, send_all, settings_here
from workbench.accounts.actors import Actor
from workbench.data import snapshots
from workbench.jobs import queue
from workbench.labelling.steps import reopen
from workbench.runs import adaptation, rounds
from workbench.settings import Settings
from workbench.webhooks import events, managing

__all__ = ["either_store"]
People = dict[str, Actor]


@pytest.fixture
def url(settings: Settings) -> str:
    """An address that is never sent to in these tests."""
    return "http://localhost:9/hooks"


def hook(store: Store, actor: Actor, campaign: int, url: str, *wanted: str) -> int:
    return managing.make_webhook(store, actor, campaign, url=url, events=wanted or ALL).webhook.id


def payloads(store: Store, actor: Actor, campaign: int, type: str) -> list[dict[str, Any]]:
    """Return the data of a campaign's events of a type, oldest first."""
    lines = reversed(managing.list_deliveries(store, actor, campaign))
    return [dict(line.payload["data"]) for line in lines if line.type == type]


def adjudicate_all(store: Store, people: People, campaign: int) -> None:
    for name, stage in (("ann1", "annotate"), ("ann2", "check"), ("eva", "adjudicate")):
        assert Tab(store, people[name], campaign, stage).submit_all() == len(SENTENCES)


def test_gold_of_a_minute_is_one_event_and_the_last_task_finishes_the_campaign(
    store: Store, people: People, campaign: int, url: str
) -> None:
    hook(store, people["res"], campaign, url)
    adjudicate_all(store, people, campaign)
    (gold,) = payloads(store, people["res"], campaign, events.GOLD)
    with store.read() as session:
        ids = set(session.scalars(sa.select(SentenceRow.id)))
    assert set(gold["sentences"]) == ids and gold["count"] == len(SENTENCES) and gold["campaign"] == campaign
    assert payloads(store, people["res"], campaign, events.FINISHED) == [{"campaign": campaign, "gold": len(ids)}]


def test_no_event_holds_text(store: Store, people: People, campaign: int, url: str) -> None:
    hook(store, people["res"], campaign, url)
    adjudicate_all(store, people, campaign)
    with store.read() as session:
        kept = " ".join(str(payload) for payload in session.scalars(sa.select(Delivery.payload)))
    assert "Mara" not in kept and "Music" not in kept and str(campaign) in kept


def test_gold_event_waits_while_it_collects_and_a_later_one_begins_anew(
    store: Store, people: People, campaign: int, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MOST_SENTENCES", 4)
    with receiving() as receiver:
        hook(store, people["res"], campaign, receiver.url, events.GOLD)
        adjudicate_all(store, people, campaign)
        assert send_all(store, settings) == 1, "the full one is due, the other collects"
        with store.write() as session:
            session.execute(sa.update(Delivery).where(Delivery.state == "waiting").values(next_at=now()))
            task = session.scalar(sa.select(Task.id).where(Task.stage == "adjudicate"))
        assert task is not None
        reopen(store, people["eva"], task)
        Tab(store, people["eva"], campaign, "adjudicate").submit_all()
        send_all(store, settings)
    assert [gold["count"] for gold in payloads(store, people["res"], campaign, events.GOLD)] == [4, 2, 1]
    assert len(receiver.requests) == 2


def test_sentence_that_is_gold_again_is_named_once(store: Store, people: People, campaign: int, url: str) -> None:
    hook(store, people["res"], campaign, url, events.GOLD)
    adjudicate_all(store, people, campaign)
    with store.read() as session:
        task = session.scalar(sa.select(Task.id).where(Task.stage == "adjudicate"))
    assert task is not None
    reopen(store, people["eva"], task)
    Tab(store, people["eva"], campaign, "adjudicate").submit_all()
    (gold,) = payloads(store, people["res"], campaign, events.GOLD)
    assert gold["count"] == len(set(gold["sentences"])) == len(SENTENCES)


def test_webhook_gets_only_what_it_wants_while_it_is_on_in_its_campaign(
    store: Store, people: People, campaign: int, url: str
) -> None:
    other = make_campaign(store, people, name="Other")
    wanting = hook(store, people["res"], campaign, url, events.FINISHED)
    off = hook(store, people["res"], campaign, url)
    managing.change_webhook(store, people["res"], campaign, off, active=False)
    hook(store, people["res"], other, url)
    adjudicate_all(store, people, campaign)
    lines = managing.list_deliveries(store, people["res"], campaign)
    assert [(line.webhook_id, line.type) for line in lines] == [(wanting, events.FINISHED)]
    assert not managing.list_deliveries(store, people["res"], other)


def test_event_is_rolled_back_with_what_it_is_about(
    store: Store, people: People, campaign: int, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook(store, people["res"], campaign, url)
    for name, stage in (("ann1", "annotate"), ("ann2", "check")):
        Tab(store, people[name], campaign, stage).submit_all()
    real = events.gold_made

    def then_fail(*args: Any) -> None:
        real(*args)
        raise RuntimeError("the power went out")

    monkeypatch.setattr(events, "gold_made", then_fail)
    tab = Tab(store, people["eva"], campaign, "adjudicate")
    with pytest.raises(AssertionError, match="The server failed on this change"):
        tab.submit_all()
    assert not managing.list_deliveries(store, people["res"], campaign)
    with store.read() as session:
        assert not session.scalars(sa.select(Task).where(Task.stage == "adjudicate", Task.state == "done")).all()


def test_event_is_kept_when_the_process_is_killed_after_the_commit(
    store: Store, people: People, campaign: int, settings: Settings
) -> None:
    code = (
        "import os, signal, sys\n"
        "from db.engine import Store\n"
        "from tests.support.builders import Tab\n"
        "from workbench.accounts.actors import Actor\n"
        "store = Store(sys.argv[1])\n"
        "people = {'ann1': 'annotate', 'ann2': 'check', 'eva': 'adjudicate'}\n"
        "for number, (name, stage) in zip((1, 2, 4), people.items()):\n"
        "    role = 'expert' if name == 'eva' else 'annotator'\n"
        f"    Tab(store, Actor(number, name, name.title(), role), {campaign}, stage).submit_all()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with receiving() as receiver:
        made = managing.make_webhook(store, people["res"], campaign, url=receiver.url, events=ALL)
        ended = subprocess.run([sys.executable, "-c", code, str(store.url)], cwd=ROOT, capture_output=True, text=True)
        assert ended.returncode == -9, ended.stderr
        send_all(store, settings)
    (request,) = receiver.requests
    assert request.verified(made.secret)["type"] == events.FINISHED
    assert len(payloads(store, people["res"], campaign, events.GOLD)) == 1


def test_campaign_without_webhooks_pays_one_statement_for_gold(store: Store, people: People, campaign: int) -> None:
    with store.write() as session, counted(store) as statements:
        events.gold_made(session, campaign, 1)
        assert len(statements) == 1


def test_run_that_ends_is_an_event_once(store: Store, people: People, tmp_path: Path, settings: Settings) -> None:
    adm = people["adm"]
    campaign = round_builders.campaign(store, adm)
    hook(store, adm, campaign, "http://localhost:9/", events.RUN)
    snapshot = snapshots.freeze(store, adm, campaign)
    done = adaptation.start_run(store, adm, snapshot_id=snapshot.id, recipe=recipe_here(tmp_path, max_epochs=1))
    gone = adaptation.start_run(store, adm, snapshot_id=snapshot.id, recipe=recipe_here(tmp_path, seed=9))
    with store.read() as session:
        job = session.scalar(sa.select(Job.id).where(Job.run_id == gone))
    assert job is not None
    queue.cancel_job(store, adm, job)
    work(store, tmp_path / "home")
    assert payloads(store, adm, campaign, events.RUN) == [
        {"campaign": campaign, "run": gone, "state": "cancelled"},
        {"campaign": campaign, "run": done, "state": "done"},
    ]


def test_round_that_ends_is_an_event(store: Store, people: People, tmp_path: Path, settings: Settings) -> None:
    adm = people["adm"]
    campaign = round_builders.campaign(store, adm)
    hook(store, adm, campaign, "http://localhost:9/", events.ROUND)
    rounds.change_round_settings(store, adm, campaign, strategy="longest")
    first = rounds.order_now(store, adm, campaign)
    work(store, tmp_path / "home")
    second = rounds.order_now(store, adm, campaign)
    rounds.cancel_round(store, adm, campaign)
    done, cancelled = payloads(store, adm, campaign, events.ROUND)
    assert (done["round"], done["state"]) == (first, "done") and done["ordered"] > 0
    assert (cancelled["round"], cancelled["state"], cancelled["ordered"]) == (second, "cancelled", None)


def test_two_who_finish_the_last_tasks_together_finish_the_campaign_once(
    either_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sees its own task done and, until it has waited for the other, the other's not."""
    store = either_store
    for name, value in settings_here(store, tmp_path / "home").environment().items():
        monkeypatch.setenv(name, value)
    people = make_people(store)
    campaign = make_campaign(store, people)
    hook(store, people["res"], campaign, "http://localhost:9/", events.GOLD, events.FINISHED)
    with store.write() as session:
        session.execute(sa.update(Task).values(state="done", stage="adjudicate"))
        last = list(session.scalars(sa.select(Task.id).order_by(Task.id).limit(2)))
        session.execute(sa.update(Task).where(Task.id.in_(last)).values(state="open"))
    both = threading.Barrier(2)

    def finish(task_id: int) -> None:
        with store.write() as session:
            task = session.get_one(Task, task_id)
            task.state = "done"
            session.flush()
            with contextlib.suppress(threading.BrokenBarrierError):  # SQLite has one writer
                both.wait(1)
            events.gold_made(session, campaign, task.sentence_id)

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(finish, last))
    assert len(payloads(store, people["res"], campaign, events.FINISHED)) == 1
    (gold,) = payloads(store, people["res"], campaign, events.GOLD)
    assert gold["count"] == 2
