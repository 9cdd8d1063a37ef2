"""The worker process: trains, is killed, is stopped, and another one goes on."""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path

import pytest

from crossner_core.training.engine import TaskRun
from crossner_core.training.predictor import load_tagger
from db import job_rows
from db.engine import Store
from tests.support.training_store import ended, meanwhile, own_dataset, person, recipe_here, start_worker, work
from tests.support.workers import QUICK_TO_NOTICE, SLOW, finish, steps_done, wait_for
from workbench.jobs import queue
from workbench.runs import adaptation
from workbench.runs.adaptation import get_run, start_run


def test_worker_trains_a_run_and_keeps_its_scores(store: Store, tmp_path: Path) -> None:
    actor = person(store, "researcher")
    data = own_dataset(store, actor)
    run_id = start_run(store, actor, dataset_id=data.id, recipe=recipe_here(tmp_path))
    assert get_run(store, actor, run_id).run.state == "queued"
    assert work(store, tmp_path / "home") == 1
    detail = get_run(store, actor, run_id)
    assert detail.run.state == "done" and detail.run.error is None
    assert detail.run.test_f1 is not None and detail.run.dev_f1 is not None
    assert detail.run.progress == 1.0 and detail.run.has_checkpoint
    assert detail.result is not None and detail.result["test"]["sentences"] == 6
    assert any(event.dev_f1 is not None for event in detail.events)
    assert get_run(store, actor, run_id, after=detail.events[-1].number).events == ()
    assert (tmp_path / "home" / "checkpoints" / f"run-{run_id}" / "tagger").is_dir()
    assert not queue.worker_status(store).alive  # it signed off


@pytest.mark.slow
def test_worker_killed_run_goes_on_in_another_and_ends_the_same(store: Store, tmp_path: Path) -> None:
    actor = person(store, "researcher")
    data = own_dataset(store, actor)
    recipe = recipe_here(tmp_path, max_epochs=6)
    reference = start_run(store, actor, dataset_id=data.id, recipe=recipe)
    assert work(store, tmp_path / "home") == 1

    killed = start_run(store, actor, dataset_id=data.id, recipe=recipe)
    first = start_worker(store, tmp_path / "home", prelude=SLOW)
    state = tmp_path / "home" / "checkpoints" / f"run-{killed}" / "state"
    wait_for(lambda: state.is_dir() and steps_done(store, killed) >= 12, first)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert get_run(store, actor, killed).run.state == "running"

    time.sleep(1.0)
    finish(start_worker(store, tmp_path / "home", prelude=QUICK_TO_NOTICE))
    one, two = get_run(store, actor, reference), get_run(store, actor, killed)
    assert two.run.state == "done", two.run.error
    assert one.result is not None and two.result is not None
    for part in ("test", "dev", "confusion", "predictions", "history", "best_epoch", "steps"):
        assert one.result[part] == two.result[part], part
    assert any("Resumed" in event.message for event in two.events)
    measured = [event.epoch for event in two.events if event.dev_f1 is not None]
    assert len(measured) == len(set(measured))
    with store.read() as session:
        job = job_rows.for_runs(session, [killed])[killed]
        assert job.attempts == 2 and (job.saved_step or 0) >= 12


@pytest.mark.slow
def test_worker_stops_a_cancelled_run_and_gives_one_back_at_sigterm(store: Store, tmp_path: Path) -> None:
    actor = person(store, "researcher")
    data = own_dataset(store, actor)
    endless, kept = (
        start_run(store, actor, dataset_id=data.id, recipe=recipe_here(tmp_path, max_epochs=epochs, patience=500))
        for epochs in (500, 8)
    )
    process = start_worker(store, tmp_path / "home", prelude=SLOW, once=False)
    wait_for(lambda: steps_done(store, endless) >= 6, process)
    assert queue.worker_status(store).alive
    assert adaptation.cancel(store, actor, endless) == "running"
    wait_for(lambda: steps_done(store, kept) >= 6, process)
    cancelled = get_run(store, actor, endless).run
    assert cancelled.state == "cancelled" and cancelled.finished_at is not None
    assert not (tmp_path / "home" / "checkpoints" / f"run-{endless}").exists()

    process.send_signal(signal.SIGTERM)
    finish(process)
    assert get_run(store, actor, kept).run.state == "queued"
    with store.read() as session:
        job = job_rows.for_runs(session, [kept])[kept]
        assert (job.state, job.attempts, job.worker) == ("queued", 0, None)
    assert (tmp_path / "home" / "checkpoints" / f"run-{kept}" / "state").is_dir()
    assert work(store, tmp_path / "home") == 1
    assert get_run(store, actor, kept).run.state == "done"


def test_worker_lets_a_run_go_before_the_cells_of_a_curve(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    actor = person(store, "researcher")
    data, recipe = own_dataset(store, actor), recipe_here(tmp_path)
    curve = adaptation.start_few_shot(store, actor, dataset_id=data.id, recipe=recipe, sizes=[12], seeds=[1])
    (cell,) = curve.runs.values()
    runs: list[int] = []
    meanwhile(monkeypatch, "run", lambda: runs.append(start_run(store, actor, dataset_id=data.id, recipe=recipe)))
    assert work(store, tmp_path / "home") == 3
    first, second = get_run(store, actor, runs[0]), get_run(store, actor, cell)
    assert (first.run.state, second.run.state) == ("done", "done")
    assert first.run.finished_at is not None and second.run.finished_at is not None
    assert first.run.finished_at < second.run.finished_at
    assert [attempts for *_, attempts in ended(store)] == [1, 1]
    assert any("Resumed" in event.message for event in second.events)


def test_worker_says_why_a_run_failed(store: Store, tmp_path: Path) -> None:
    actor = person(store, "researcher")
    data = own_dataset(store, actor)
    lost = recipe_here(tmp_path, encoder=str(tmp_path / "nowhere"))
    wild = recipe_here(tmp_path, learning_rate=1e-2, head_learning_rate=1e-1, clip_norm=1e3)
    missing = start_run(store, actor, dataset_id=data.id, recipe=lost)
    fine = start_run(store, actor, dataset_id=data.id, recipe=wild)
    assert work(store, tmp_path / "home") == 2
    failed = get_run(store, actor, missing)
    assert failed.run.state == "failed" and "nowhere" in (failed.run.error or "")
    assert "nowhere" in failed.events[-1].message
    assert get_run(store, actor, fine).run.state == "done"  # the worker went on


def test_worker_not_finite_loss_fails_with_advice(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    actor = person(store, "researcher")
    data = own_dataset(store, actor)
    run_id = start_run(store, actor, dataset_id=data.id, recipe=recipe_here(tmp_path))
    monkeypatch.setattr(TaskRun, "learn", lambda self, step, seed: float("nan"))
    assert work(store, tmp_path / "home") == 1
    run = get_run(store, actor, run_id).run
    assert run.state == "failed" and "learning rate" in (run.error or "")
    assert "at step 1 (epoch 1, batch 1)" in (run.error or "") and "nothing was kept" in (run.error or "")


def test_worker_not_finite_loss_says_where_the_kept_weights_lie(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    actor = person(store, "researcher")
    data = own_dataset(store, actor)
    run_id = start_run(store, actor, dataset_id=data.id, recipe=recipe_here(tmp_path, max_epochs=3))
    right = TaskRun.learn
    monkeypatch.setattr(
        TaskRun,
        "learn",
        lambda self, step, seed: right(self, step, seed) if step < 2 * self.task.epoch_steps else float("nan"),
    )
    assert work(store, tmp_path / "home") == 1
    error = get_run(store, actor, run_id).run.error or ""
    kept = tmp_path / "home" / "checkpoints" / f"run-{run_id}" / "tagger"
    assert "are kept" in error and f"They are in {kept}." in error and load_tagger(kept).types


def test_worker_full_disk_fails_with_advice(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    actor = person(store, "researcher")
    data = own_dataset(store, actor)
    run_id = start_run(store, actor, dataset_id=data.id, recipe=recipe_here(tmp_path))
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: usage._replace(free=1_000_000))
    assert work(store, tmp_path / "home") == 1
    run = get_run(store, actor, run_id).run
    assert run.state == "failed" and "1 MB are free" in (run.error or "")


def test_worker_reads_a_source_corpus_once_for_two_runs(store: Store, tmp_path: Path) -> None:
    actor = person(store, "researcher")
    own_dataset(store, actor, name="conll2003", train=16)
    data = own_dataset(store, actor)
    recipes = [recipe_here(tmp_path, setting="pretrain_finetune", seed=seed) for seed in (1, 2)]
    runs = [start_run(store, actor, dataset_id=data.id, recipe=recipe) for recipe in recipes]
    assert work(store, tmp_path / "home") == 2
    details = [get_run(store, actor, run_id) for run_id in runs]
    assert [detail.run.state for detail in details] == ["done", "done"]
    assert not any("reused" in event.message for event in details[0].events)
    assert any("reused" in event.message for event in details[1].events)
