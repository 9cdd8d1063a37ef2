"""The job table: claim, lease, cancel, give back, retry."""

from __future__ import annotations

import datetime as dt
import os
import socket
import threading
from pathlib import Path

import pytest

from crossner_core.domains import load_domain
from crossner_core.errors import NotAllowed, NotFound
from db import job_rows, worker_rows
from db.engine import Store
from db.training_tables import Job, WorkerRow
from db.types import now
from tests.training_store import meanwhile, own_dataset, person, recipe_here, settings_for, when_asked
from workbench import jobs
from workbench.campaigns import campaigns
from workbench.runs.adaptation import get_run, start_run
from workbench.worker import Worker


def queue(store: Store, *, priority: int = 10, max_attempts: int = 3) -> int:
    with store.write() as session:
        return job_rows.add(session, kind="preannotate", payload={}, priority=priority, max_attempts=max_attempts)


def job(store: Store, job_id: int) -> Job:
    with store.read() as session:
        found = job_rows.get(session, job_id)
        assert found is not None
        return found


def grow_old(store: Store, job_id: int, seconds: float) -> None:
    with store.write() as session:
        row = session.get(Job, job_id)
        assert row is not None
        row.heartbeat_at = now() - dt.timedelta(seconds=seconds)


def test_jobs_go_by_priority_then_age(store: Store) -> None:
    late, first, second = queue(store, priority=20), queue(store), queue(store)
    taken = [jobs.claim(store, worker="w") for _ in range(4)]
    assert [one.id if one else None for one in taken] == [first, second, late, None]
    assert job(store, first).attempts == 1


def test_jobs_are_claimed_by_one_worker_each(store: Store) -> None:
    wanted = {queue(store) for _ in range(12)}
    got: list[tuple[str, int]] = []

    def work(name: str) -> None:
        while (claimed := jobs.claim(store, worker=name)) is not None:
            got.append((name, claimed.id))

    threads = [threading.Thread(target=work, args=(f"w{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(job_id for _, job_id in got) == sorted(wanted)


def test_jobs_heartbeat_tells_of_cancel_and_of_a_lost_lease(store: Store) -> None:
    job_id = queue(store)
    jobs.claim(store, worker="w")

    def beat(name: str) -> bool | None:
        with store.write() as session:
            return job_rows.beat(session, job_id=job_id, worker=name, progress=0.5, message="half")

    assert beat("w") is False and job(store, job_id).progress == 0.5
    assert beat("other") is None
    assert jobs.cancel_job(store, person(store, "researcher"), job_id) == "running"
    assert beat("w") is True


def test_jobs_of_a_silent_worker_are_queued_again_until_attempts_are_used_up(store: Store) -> None:
    job_id = queue(store, max_attempts=2)
    assert jobs.claim(store, worker="w1") is not None
    assert jobs.reclaim_stale(store) == ()
    grow_old(store, job_id, jobs.STALE_SECONDS + 1)
    assert jobs.reclaim_stale(store) == (job_id,)
    assert job(store, job_id).state == "queued"
    assert jobs.claim(store, worker="w2") is not None
    with store.write() as session:  # the worker thought dead comes back: it may not write any more
        assert not job_rows.finish(session, job_id=job_id, worker="w1", state="done")
    grow_old(store, job_id, jobs.STALE_SECONDS + 1)
    assert jobs.reclaim_stale(store) == (job_id,)
    ended = job(store, job_id)
    assert ended.state == "failed" and "died 2 times" in (ended.error or "")


def test_jobs_of_a_process_that_is_gone_are_taken_back_soon(store: Store) -> None:
    job_id = queue(store)
    with store.write() as session:
        worker_rows.beat(session, name="w", host=socket.gethostname(), pid=2**22 + 12345, device="cpu")
    jobs.claim(store, worker="w")
    grow_old(store, job_id, jobs.GONE_SECONDS + 1)
    assert jobs.reclaim_stale(store) == (job_id,)


def test_jobs_of_dead_workers_are_queued_again_while_another_job_is_at_work(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    actor = person(store, "researcher")
    data = own_dataset(store, actor)
    run_id = start_run(store, actor, dataset_id=data.id, recipe=recipe_here(tmp_path))
    own = next(one.id for one in jobs.list_jobs(store, actor))
    left = queue(store)
    seen: list[str] = []

    def die() -> None:
        assert jobs.claim(store, worker="dead", job_ids=[left]) is not None
        grow_old(store, left, jobs.STALE_SECONDS + 1)
        grow_old(store, own, jobs.STALE_SECONDS + 1)  # a worker that looks is alive, however late its pulse

    meanwhile(monkeypatch, "run", die, step=3)
    when_asked(monkeypatch, "run", lambda _lease: seen.append(job(store, left).state), step=4)
    assert Worker(store, settings_for(store, tmp_path / "home"), run_ids=[run_id]).run(once=True) == 1
    assert seen == ["queued"]
    assert (job(store, own).state, job(store, own).attempts) == ("done", 1)


def test_jobs_cancelled_while_the_worker_was_dead_stay_cancelled(store: Store) -> None:
    job_id = queue(store)
    jobs.claim(store, worker="w")
    jobs.cancel_job(store, person(store, "admin"), job_id)
    grow_old(store, job_id, 1000)
    jobs.reclaim_stale(store)
    assert job(store, job_id).state == "cancelled"


def test_jobs_cancel_takes_the_run_with_it(store: Store, tmp_path: Path) -> None:
    actor = person(store, "researcher")
    data = own_dataset(store, actor)
    run_id = start_run(store, actor, dataset_id=data.id, recipe=recipe_here(tmp_path))
    with store.read() as session:
        job_id = job_rows.for_runs(session, [run_id])[run_id].id
    assert jobs.cancel_job(store, actor, job_id) == "cancelled"
    assert get_run(store, actor, run_id).run.state == "cancelled"
    assert jobs.claim(store, worker="w") is None


def test_jobs_worker_status_knows_the_dead_from_the_living(store: Store) -> None:
    assert "No worker is alive" in jobs.worker_status(store).sentence
    with store.write() as session:
        worker_rows.beat(session, name="w", host=socket.gethostname(), pid=os.getpid(), device="CPU")
    status = jobs.worker_status(store)
    assert status.alive and status.device == "CPU" and "running on CPU" in status.sentence
    with store.write() as session:
        row = session.get(WorkerRow, "w")
        assert row is not None
        row.heartbeat_at = now() - dt.timedelta(seconds=jobs.ALIVE_SECONDS + 1)
    assert not jobs.worker_status(store).alive


def test_jobs_are_for_those_who_may(store: Store) -> None:
    job_id = queue(store)
    annotator, expert = person(store, "annotator"), person(store, "expert")
    with pytest.raises(NotAllowed):
        jobs.list_jobs(store, annotator)
    with pytest.raises(NotAllowed):
        jobs.cancel_job(store, expert, job_id)
    assert [one.id for one in jobs.list_jobs(store, expert)] == [job_id]
    with pytest.raises(NotFound):
        jobs.cancel_job(store, person(store, "admin"), 999)
    with pytest.raises(NotFound):
        jobs.queue_preannotation(store, person(store, "researcher"), 999)


def test_jobs_of_a_campaign_are_for_its_people(store: Store) -> None:
    admin, ours, stranger = person(store, "admin"), person(store, "expert"), person(store, "expert", "stranger")
    campaign_id = campaigns.create_campaign(store, admin, name="Ours", domain=load_domain("music"))
    campaigns.add_members(store, admin, campaign_id, [ours.id])
    of_nobody, job_id = queue(store), jobs.queue_preannotation(store, ours, campaign_id)
    assert [one.id for one in jobs.list_jobs(store, ours)] == [job_id, of_nobody]
    assert [one.id for one in jobs.list_jobs(store, stranger)] == [of_nobody]
    assert jobs.get_job(store, ours, job_id).id == job_id
    for refused in (
        lambda: jobs.queue_preannotation(store, stranger, campaign_id),
        lambda: jobs.queue_pool_scoring(store, stranger, campaign_id),
        lambda: jobs.list_jobs(store, stranger, campaign_id),
        lambda: jobs.get_job(store, stranger, job_id),
    ):
        with pytest.raises(NotFound):
            refused()
    campaigns.update_settings(store, admin, campaign_id, archived=True)
    with pytest.raises(NotAllowed, match="archived"):
        jobs.queue_pool_scoring(store, admin, campaign_id)


def test_jobs_that_come_before_another_hold_it_up_once_no_idle_worker_took_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue(store, priority=20)
    assert not jobs.held_up(store, 25)  # it has just come: an idle worker may take it
    monkeypatch.setattr(jobs, "TAKEN_SECONDS", 0.0)
    assert jobs.held_up(store, 25) and not jobs.held_up(store, 20)
    jobs.claim(store, worker="w")
    assert not jobs.held_up(store, 25)


@pytest.mark.parametrize("state", ["done", "failed", "cancelled"])
def test_jobs_that_wait_for_another_begin_when_it_has_ended_however_that_was(
    store: Store, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr(jobs, "TAKEN_SECONDS", 0.0)
    first = queue(store, priority=20)
    with store.write() as session:
        after = job_rows.add(session, kind="preannotate", payload={}, priority=5, after_id=first)
    claimed = jobs.claim(store, worker="w")
    assert claimed is not None and claimed.id == first
    assert jobs.claim(store, worker="another") is None and not jobs.held_up(store, 20)
    with store.write() as session:
        assert job_rows.finish(session, job_id=first, worker="w", state=state)
    claimed = jobs.claim(store, worker="another")
    assert claimed is not None and claimed.id == after
