"""The registry of kinds of jobs: a kind of its own, made here alone, goes all the way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from crossner_core.domains import load_domain
from crossner_core.errors import BadInput, Conflict, InvalidConfig, NotAllowed, NotFound
from db import job_rows
from db.engine import Store
from tests.support.training_store import beat, person, when_asked, work
from workbench.accounts.actors import Actor
from workbench.accounts.roles import OVERSEERS
from workbench.campaigns import campaigns
from workbench.jobs import lease, queue
from workbench.jobs.context import JobContext
from workbench.jobs.kind import KINDS, Fields, JobKind, job_kinds, register


class Counting(Fields):
    """How far to count, and at which number to stumble."""

    to: int
    stumbles: int = 0


def count(context: JobContext, asked: Counting) -> str:
    """Count, keeping each number so that a resumed job counts on."""
    kept = context.settings.home / "counting.json"
    begun = json.loads(kept.read_text()) if kept.exists() else 0
    for number in range(begun + 1, asked.to + 1):
        if context.should_stop():
            break
        if number == asked.stumbles and not (context.settings.home / "mended").exists():
            raise BadInput(f"{number} is one too many.")
        kept.write_text(json.dumps(number))
        context.say(f"counted {number}")
        context.report(number / asked.to, f"{number} of {asked.to}")
    return f"Counted to {asked.to}."


def _no_second(_job: object, _payload: object) -> bool:
    raise Conflict("Somebody counts already.")


@pytest.fixture
def counting() -> Iterator[JobKind[Counting]]:
    """Register the kind for one test."""
    job_kinds()  # those of the package come first
    yield register(
        JobKind(
            name="count",
            title="count",
            priority=15,
            payload=Counting,
            handle=count,
            roles=OVERSEERS,
            meets=_no_second,
            can_resume=lambda settings, job: (settings.home / "counting.json").exists(),
            forget=lambda settings, job: (settings.home / "counting.json").unlink(missing_ok=True),
        )
    )
    del KINDS["count"]


@pytest.fixture
def admin(store: Store) -> Actor:
    return person(store, "admin")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("CROSSNER_HOME", str(folder))
    return folder


def _log(store: Store, actor: Actor, job_id: int) -> list[str]:
    return [line.text for line in queue.job_log(store, actor, job_id)]


@pytest.mark.usefixtures("counting")
def test_job_kind_goes_from_the_queue_to_its_end(
    store: Store, admin: Actor, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expert, stranger = person(store, "expert"), person(store, "expert", "stranger")
    campaign_id = campaigns.create_campaign(store, admin, name="Ours", domain=load_domain("music"))
    campaigns.add_members(store, admin, campaign_id, [expert.id])
    job_id = queue.start_job(store, expert, "count", campaign_id, to=3)
    with store.read() as session:
        row = job_rows.get(session, job_id)
        assert row is not None and (row.payload, row.priority, row.created_by) == ({"to": 3}, 15, expert.id)
    with pytest.raises(Conflict, match="counts already"):
        queue.start_job(store, admin, "count", campaign_id, to=2)
    with pytest.raises(NotFound):
        queue.start_job(store, stranger, "count", campaign_id, to=2)
    half: list[tuple[float, str]] = []

    def look(context: JobContext) -> None:
        beat(store, context)
        shown = queue.get_job(store, expert, job_id)
        half.append((shown.progress, shown.message))

    when_asked(monkeypatch, "count", look, step=3)
    assert work(store, home) == 1
    assert half == [(2 / 3, "2 of 3")]
    (done,) = queue.list_jobs(store, expert, campaign_id)
    assert (done.kind, done.state, done.progress, done.message) == ("count", "done", 1.0, "Counted to 3.")
    assert queue.newest_job(store, expert, "count", campaign_id) == done
    assert _log(store, expert, job_id) == ["counted 1", "counted 2", "counted 3"]
    with pytest.raises(NotFound):
        queue.job_log(store, stranger, job_id)
    with pytest.raises(NotAllowed):
        queue.start_job(store, person(store, "annotator"), "count", campaign_id, to=1)


@pytest.mark.usefixtures("counting")
def test_job_kind_that_failed_is_resumed_once_and_counts_on(store: Store, admin: Actor, home: Path) -> None:
    first = queue.start_job(store, admin, "count", to=3, stumbles=2)
    assert work(store, home) == 1
    failed = queue.get_job(store, admin, first)
    assert (failed.state, failed.error, failed.can_resume) == ("failed", "2 is one too many.", True)
    assert _log(store, admin, first) == ["counted 1", "Failed: 2 is one too many."]
    (home / "mended").touch()
    again = queue.resume_job(store, admin, first)
    with pytest.raises(Conflict, match="resumed or removed already"):
        queue.resume_job(store, admin, first)
    assert work(store, home) == 1
    assert queue.get_job(store, admin, again).state == "done"
    assert _log(store, admin, again) == ["counted 2", "counted 3"]
    with pytest.raises(Conflict, match=r"Job \d is done; only a failed count can be resumed"):
        queue.resume_job(store, admin, again)


@pytest.mark.usefixtures("counting")
def test_job_kind_gives_way_and_is_cancelled(
    store: Store, admin: Actor, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = queue.start_job(store, admin, "count", to=5)
    with monkeypatch.context() as patched:
        when_asked(patched, "count", lambda context: context.gave_way.set(), step=3)
        assert work(store, home) == 2  # given back, then taken again
    assert queue.get_job(store, admin, job_id).message == "Counted to 5."
    assert _log(store, admin, job_id) == [f"counted {number}" for number in range(1, 6)]
    (home / "counting.json").unlink()
    second = queue.start_job(store, admin, "count", to=5)

    def cancel(context: JobContext) -> None:
        assert queue.cancel_job(store, admin, second) == "running"
        beat(store, context)

    when_asked(monkeypatch, "count", cancel, step=2)
    assert work(store, home) == 1
    cancelled = queue.get_job(store, admin, second)
    assert (cancelled.state, cancelled.message) == ("cancelled", "Cancelled; work done so far is kept.")
    assert not (home / "counting.json").exists()
    with pytest.raises(Conflict, match="what a cancelled one had saved is removed"):
        queue.resume_job(store, admin, second)
    third = queue.start_job(store, admin, "count", to=5)
    assert queue.cancel_job(store, admin, third) == "cancelled" and work(store, home) == 0


def test_job_kinds_are_known_by_their_files() -> None:
    stored = {"preannotate", "pretrain", "run", "score_pool", "second_look", "simulation", "study", "turn"}
    assert set(job_kinds()) == set(KINDS.modules()) >= stored


def test_job_of_an_unknown_kind_or_payload_is_refused(store: Store, admin: Actor) -> None:
    with pytest.raises(InvalidConfig, match=r"Unknown job kind 'dance'; choose one of .*preannotate, pretrain"):
        queue.start_job(store, admin, "dance")
    campaign_id = campaigns.create_campaign(store, admin, name="Ours", domain=load_domain("music"))
    with pytest.raises(InvalidConfig, match=r"wrong 'model'.*run_id"):
        queue.start_job(store, admin, "score_pool", campaign_id, model=3)


def test_job_of_another_version_waits_and_says_for_what(store: Store, admin: Actor, home: Path) -> None:
    with store.write() as session:
        job_id = job_rows.add(session, kind="dance", payload={}, priority=1)
    assert not lease.held_up(store, 25)  # nobody here gives way to what nobody here can do
    assert work(store, home) == 0
    shown = queue.get_job(store, admin, job_id)
    assert shown.state == "queued" and "No worker here supports this kind of job" in shown.message
    assert queue.cancel_job(store, admin, job_id) == "cancelled"
