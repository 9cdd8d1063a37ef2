"""The job table: claim, lease, cancel, give back, retry."""

from __future__ import annotations

import datetime as dt
import os
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from crossner_core.domains import load_domain
from crossner_core.errors import NotAllowed, NotFound
from crossner_core.folders import write_json
from db import job_rows, worker_rows
from db.engine import Store
from db.training_tables import Job, WorkerRow
from db.types import now
from tests.support.training_store import meanwhile, own_dataset, person, recipe_here, settings_for, when_asked
from workbench.campaigns import campaigns
from workbench.jobs import lease, queue
from workbench.jobs.context import Claimed
from workbench.jobs.kind import job_kind
from workbench.jobs.worker import Worker
from workbench.runs.adaptation import get_run, start_run
from workbench.runs.encoder_library import work_folder


def add_job(store: Store, *, priority: int = 10, max_attempts: int = 3) -> int:
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
    late, first, second = add_job(store, priority=20), add_job(store), add_job(store)
    taken = [lease.claim(store, worker="w") for _ in range(4)]
    assert [one.id if one else None for one in taken] == [first, second, late, None]
    assert job(store, first).attempts == 1


def test_jobs_are_claimed_by_one_worker_each(store: Store) -> None:
    wanted = {add_job(store) for _ in range(12)}
    got: list[tuple[str, int]] = []

    def work(name: str) -> None:
        while (claimed := lease.claim(store, worker=name)) is not None:
            got.append((name, claimed.id))

    threads = [threading.Thread(target=work, args=(f"w{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(job_id for _, job_id in got) == sorted(wanted)


def test_jobs_heartbeat_tells_of_cancel_and_of_a_lost_lease(store: Store) -> None:
    job_id = add_job(store)
    lease.claim(store, worker="w")

    def beat(name: str) -> bool | None:
        with store.write() as session:
            return job_rows.beat(session, job_id=job_id, worker=name, progress=0.5, message="half")

    assert beat("w") is False and job(store, job_id).progress == 0.5
    assert beat("other") is None
    assert queue.cancel_job(store, person(store, "researcher"), job_id) == "running"
    assert beat("w") is True


def test_jobs_of_a_silent_worker_are_queued_again_until_attempts_are_used_up(store: Store) -> None:
    job_id = add_job(store, max_attempts=2)
    assert lease.claim(store, worker="w1") is not None
    assert lease.reclaim_stale(store) == ()
    grow_old(store, job_id, lease.STALE_SECONDS + 1)
    assert lease.reclaim_stale(store) == (job_id,)
    assert job(store, job_id).state == "queued"
    assert lease.claim(store, worker="w2") is not None
    with store.write() as session:  # the worker thought dead comes back: it may not write any more
        assert not job_rows.finish(session, job_id=job_id, worker="w1", state="done")
    grow_old(store, job_id, lease.STALE_SECONDS + 1)
    assert lease.reclaim_stale(store) == (job_id,)
    ended = job(store, job_id)
    assert ended.state == "failed" and "died 2 times" in (ended.error or "")


def test_jobs_that_save_something_between_deaths_are_not_given_up(store: Store, tmp_path: Path) -> None:
    settings = settings_for(store, tmp_path)
    with store.write() as session:
        job_id = job_rows.add(session, kind="study", payload={})

    def die() -> Job:
        assert lease.claim(store, worker="w") is not None
        grow_old(store, job_id, lease.STALE_SECONDS + 1)
        assert lease.reclaim_stale(store, settings=settings) == (job_id,)
        return job(store, job_id)

    for number in range(5):
        write_json(settings.experiments / "cells" / f"{number}.json", {})
        assert [die().state, die().attempts] == ["queued", 2]
    assert die().state == "failed"


def test_jobs_know_how_far_their_saved_state_has_come(store: Store, tmp_path: Path) -> None:
    settings = settings_for(store, tmp_path)
    run = Claimed(1, "run", 10, {}, 7, None, None, 1, 3)
    pretraining = replace(run, kind="pretrain", payload={"key": "abc"})
    run_meta = settings.checkpoints / "run-7" / "state" / "meta.json"
    pretraining_meta = work_folder(settings.encoders, "abc") / "state" / "meta.json"

    def saved(claimed: Claimed) -> int:
        with store.read() as session:
            return job_kind(claimed.kind).saved_step(session, settings, claimed)

    assert saved(run) == saved(pretraining) == saved(replace(run, kind="preannotate")) == 0
    write_json(run_meta, {"before": {"steps": 30}, "progress": {"step": 12}})
    write_json(pretraining_meta, {"progress": {"head_step": 5, "step": 12}})
    assert [saved(run), saved(pretraining)] == [42, 17]
    run_meta.write_text("{")
    assert saved(run) == 0


def test_jobs_of_a_process_that_is_gone_are_taken_back_soon(store: Store) -> None:
    job_id = add_job(store)
    with store.write() as session:
        worker_rows.beat(session, name="w", host=socket.gethostname(), pid=2**22 + 12345, device="cpu")
    lease.claim(store, worker="w")
    grow_old(store, job_id, lease.GONE_SECONDS + 1)
    assert lease.reclaim_stale(store) == (job_id,)


def test_jobs_of_dead_workers_are_queued_again_while_another_job_is_at_work(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    actor = person(store, "researcher")
    data = own_dataset(store, actor)
    run_id = start_run(store, actor, dataset_id=data.id, recipe=recipe_here(tmp_path))
    own = next(one.id for one in queue.list_jobs(store, actor))
    left = add_job(store)
    seen: list[str] = []

    def die() -> None:
        assert lease.claim(store, worker="dead", job_ids=[left]) is not None
        grow_old(store, left, lease.STALE_SECONDS + 1)
        grow_old(store, own, lease.STALE_SECONDS + 1)  # a worker that looks is alive, however late its pulse

    meanwhile(monkeypatch, "run", die, step=3)
    when_asked(monkeypatch, "run", lambda _lease: seen.append(job(store, left).state), step=4)
    assert Worker(store, settings_for(store, tmp_path / "home"), run_ids=[run_id]).run(once=True) == 1
    assert seen == ["queued"]
    assert (job(store, own).state, job(store, own).attempts) == ("done", 1)


def test_jobs_cancelled_while_the_worker_was_dead_stay_cancelled(store: Store) -> None:
    job_id = add_job(store)
    lease.claim(store, worker="w")
    queue.cancel_job(store, person(store, "admin"), job_id)
    grow_old(store, job_id, 1000)
    lease.reclaim_stale(store)
    assert job(store, job_id).state == "cancelled"


def test_jobs_cancel_takes_the_run_with_it(store: Store, tmp_path: Path) -> None:
    actor = person(store, "researcher")
    data = own_dataset(store, actor)
    run_id = start_run(store, actor, dataset_id=data.id, recipe=recipe_here(tmp_path))
    with store.read() as session:
        job_id = job_rows.for_runs(session, [run_id])[run_id].id
    assert queue.cancel_job(store, actor, job_id) == "cancelled"
    assert get_run(store, actor, run_id).run.state == "cancelled"
    assert lease.claim(store, worker="w") is None


def test_jobs_worker_status_knows_the_dead_from_the_living(store: Store) -> None:
    assert "No worker is alive" in queue.worker_status(store).sentence
    with store.write() as session:
        worker_rows.beat(session, name="w", host=socket.gethostname(), pid=os.getpid(), device="CPU")
    status = queue.worker_status(store)
    assert status.alive and status.device == "CPU" and "running on CPU" in status.sentence
    with store.write() as session:
        row = session.get(WorkerRow, "w")
        assert row is not None
        row.heartbeat_at = now() - dt.timedelta(seconds=queue.ALIVE_SECONDS + 1)
    assert not queue.worker_status(store).alive


def test_jobs_are_for_those_who_may(store: Store) -> None:
    job_id = add_job(store)
    annotator, expert = person(store, "annotator"), person(store, "expert")
    with pytest.raises(NotAllowed):
        queue.list_jobs(store, annotator)
    with pytest.raises(NotAllowed):
        queue.cancel_job(store, expert, job_id)
    assert [one.id for one in queue.list_jobs(store, expert)] == [job_id]
    with pytest.raises(NotFound):
        queue.cancel_job(store, person(store, "admin"), 999)
    with pytest.raises(NotFound):
        queue.start_job(store, person(store, "researcher"), "preannotate", 999)


def test_jobs_of_a_campaign_are_for_its_people(store: Store) -> None:
    admin, ours, stranger = person(store, "admin"), person(store, "expert"), person(store, "expert", "stranger")
    campaign_id = campaigns.create_campaign(store, admin, name="Ours", domain=load_domain("music"))
    campaigns.add_members(store, admin, campaign_id, [ours.id])
    of_nobody, job_id = add_job(store), queue.start_job(store, ours, "preannotate", campaign_id)
    assert [one.id for one in queue.list_jobs(store, ours)] == [job_id, of_nobody]
    assert [one.id for one in queue.list_jobs(store, stranger)] == [of_nobody]
    assert queue.get_job(store, ours, job_id).id == job_id
    for refused in (
        lambda: queue.start_job(store, stranger, "preannotate", campaign_id),
        lambda: queue.start_job(store, stranger, "score_pool", campaign_id),
        lambda: queue.list_jobs(store, stranger, campaign_id),
        lambda: queue.get_job(store, stranger, job_id),
    ):
        with pytest.raises(NotFound):
            refused()
    campaigns.update_settings(store, admin, campaign_id, archived=True)
    with pytest.raises(NotAllowed, match="archived"):
        queue.start_job(store, admin, "score_pool", campaign_id)


def test_jobs_that_come_before_another_hold_it_up_once_no_idle_worker_took_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_job(store, priority=20)
    assert not lease.held_up(store, 25)  # it has just come: an idle worker may take it
    monkeypatch.setattr(lease, "TAKEN_SECONDS", 0.0)
    assert lease.held_up(store, 25) and not lease.held_up(store, 20)
    lease.claim(store, worker="w")
    assert not lease.held_up(store, 25)


@pytest.mark.parametrize("state", ["done", "failed", "cancelled"])
def test_jobs_that_wait_for_another_begin_when_it_has_ended_however_that_was(
    store: Store, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr(lease, "TAKEN_SECONDS", 0.0)
    first = add_job(store, priority=20)
    with store.write() as session:
        after = job_rows.add(session, kind="preannotate", payload={}, priority=5, after_id=first)
    claimed = lease.claim(store, worker="w")
    assert claimed is not None and claimed.id == first
    assert lease.claim(store, worker="another") is None and not lease.held_up(store, 20)
    with store.write() as session:
        assert job_rows.finish(session, job_id=first, worker="w", state=state)
    claimed = lease.claim(store, worker="another")
    assert claimed is not None and claimed.id == after


def test_jobs_whose_heartbeat_lies_ahead_of_a_clock_set_back_are_taken_back(store: Store) -> None:
    job_id = add_job(store)
    assert lease.claim(store, worker="w") is not None
    grow_old(store, job_id, -lease.STALE_SECONDS / 2)
    assert lease.reclaim_stale(store) == ()
    grow_old(store, job_id, -lease.STALE_SECONDS - 60)
    assert lease.reclaim_stale(store) == (job_id,)
