"""Trouble while a model trains: it is said in the run's error, the worker goes on, and nothing annotated is lost."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import torch

from crossner_core.errors import CheckpointError, CheckpointMismatch, Conflict, StorageError
from crossner_core.folders import write_json
from crossner_core.training.checkpoint import FORMAT_VERSION, read_folder, read_json
from crossner_core.training.engine import TaskRun
from crossner_core.training.loop import train
from crossner_core.training.predictor import load_tagger
from db import job_rows, run_rows
from db.engine import Store
from db.tables import Annotation, SpanRow
from pages.components.marked_text import as_text
from tests.support.campaigns import campaign_with_gold
from tests.support.screens import open_screen
from tests.support.training_builders import small_files, tiny_data, tiny_encoder, tiny_recipe
from tests.support.training_store import own_dataset, person, recipe_here, settings_for, start_worker, work
from tests.support.workers import QUICK_TO_NOTICE, SLOW, finish, steps_done, wait_for
from workbench.accounts.actors import Actor
from workbench.data import snapshots
from workbench.jobs import context, lease, queue
from workbench.runs import adaptation, training_data


def _annotated(store: Store) -> tuple[int, int]:
    """Count the work of people and its spans."""
    with store.read() as session:
        counts = (session.scalar(sa.select(sa.func.count()).select_from(table)) for table in (Annotation, SpanRow))
        works, spans = (count or 0 for count in counts)
        return works, spans


@pytest.fixture
def admin(store: Store) -> Actor:
    return person(store, "admin")


@pytest.fixture
def every_step_saves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crossner_core.training.loop.SECONDS_BETWEEN_SAVES", 0.0)


def _start(store: Store, admin: Actor, folder: Path) -> int:
    """Start a run on a campaign's gold."""
    snapshot = snapshots.freeze(store, admin, campaign_with_gold(store, admin))
    recipe = recipe_here(folder, max_epochs=4)
    return adaptation.start_run(store, admin, snapshot_id=snapshot.id, recipe=recipe)


def _at_step(monkeypatch: pytest.MonkeyPatch, number: int, happens: Callable[[], object]) -> None:
    """Let something happen at a training step of this process."""
    learn, done = TaskRun.learn, iter(range(10_000))

    def watched(self: TaskRun[Any], step: int, seed: int) -> float:
        if next(done) == number:
            happens()
        return learn(self, step, seed)

    monkeypatch.setattr(TaskRun, "learn", watched)


@pytest.mark.usefixtures("every_step_saves")
def test_trouble_deleted_checkpoint_does_not_end_a_run(
    store: Store, admin: Actor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = _start(store, admin, tmp_path)
    before = _annotated(store)
    folder = tmp_path / "home" / "checkpoints" / f"run-{run_id}"
    _at_step(monkeypatch, 5, lambda: shutil.rmtree(folder))
    assert work(store, tmp_path / "home") == 1
    run = adaptation.get_run(store, admin, run_id).run
    assert (run.state, run.error) == ("done", None) and (folder / "tagger").is_dir()
    assert _annotated(store) == before


@contextmanager
def _small_disk(folder: Path, kilobytes: int) -> Iterator[None]:
    """Mount a file system of this size on the folder."""
    folder.mkdir(parents=True)
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or shutil.which("mount") is None or subprocess.run(mounting, capture_output=True).returncode:
        pytest.skip("a small file system can only be mounted by root")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.usefixtures("every_step_saves")
def test_trouble_full_disk_is_said_and_a_new_start_works(
    store: Store, admin: Actor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = _start(store, admin, tmp_path)
    before = _annotated(store)
    monkeypatch.setattr(context, "LEAST_FREE_BYTES", 0)
    with _small_disk(tmp_path / "home" / "checkpoints", 64):
        assert work(store, tmp_path / "home") == 1
    detail = adaptation.get_run(store, admin, run_id)
    assert detail.run.state == "failed" and "No space left" in (detail.run.error or "")
    assert "disk" in (detail.run.error or "") and "No space left" in detail.events[-1].message
    assert _annotated(store) == before
    adaptation.resume(store, admin, run_id)
    assert adaptation.get_run(store, admin, run_id).run.state == "queued"
    assert work(store, tmp_path / "home") == 1
    run = adaptation.get_run(store, admin, run_id).run
    assert (run.state, run.error) == ("done", None) and run.test_f1 is not None
    with pytest.raises(Conflict, match="is done"):
        adaptation.resume(store, admin, run_id)


@pytest.mark.usefixtures("every_step_saves")
def test_trouble_failed_run_goes_on_from_its_last_step(
    store: Store, admin: Actor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = _start(store, admin, tmp_path)

    def break_down() -> None:
        raise OSError("the cable came off")

    with monkeypatch.context() as broken:
        _at_step(broken, 5, break_down)
        assert work(store, tmp_path / "home") == 1
    failed = adaptation.get_run(store, admin, run_id).run
    assert failed.state == "failed" and "the cable came off" in (failed.error or "")
    adaptation.resume(store, admin, run_id)
    assert work(store, tmp_path / "home") == 1
    detail = adaptation.get_run(store, admin, run_id)
    assert detail.run.state == "done" and any("Resumed" in event.message for event in detail.events)


def test_trouble_is_said_on_the_page_with_a_way_on(
    store: Store, admin: Actor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = _start(store, admin, tmp_path)
    (claimed,) = (lease.claim(store, worker="gone"),)
    assert claimed is not None
    with store.write() as session:
        job_rows.finish(session, job_id=claimed.id, worker="gone", state="failed", error="*No* space left.")
        run_rows.finish(session, run_id, "failed", error="*No* space left.")
    screen = open_screen(monkeypatch, store, "adaptation", admin)
    assert "No worker is alive" in screen.warning[0].value
    screen.session_state["model-view"] = "Runs"
    screen.run()
    assert screen.error[0].value == as_text("*No* space left.")
    screen.button(key=f"go-on-{run_id}").click().run()
    assert adaptation.get_run(store, admin, run_id).run.state == "queued"


@pytest.mark.slow
def test_trouble_killed_run_with_a_damaged_state_says_so_or_begins_afresh(store: Store, tmp_path: Path) -> None:
    actor = person(store, "researcher")
    data = own_dataset(store, actor)
    run_id = adaptation.start_run(store, actor, dataset_id=data.id, recipe=recipe_here(tmp_path, max_epochs=3))
    first = start_worker(store, tmp_path / "home", prelude=SLOW)
    state = tmp_path / "home" / "checkpoints" / f"run-{run_id}" / "state"
    wait_for(lambda: state.is_dir() and steps_done(store, run_id) >= 6, first)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    status = queue.worker_status(store)
    assert not status.alive and "No worker is alive" in status.sentence and "last heartbeat" in status.sentence
    (state / "tensors.safetensors").write_bytes(b"\x00" * 100)
    time.sleep(1)
    finish(start_worker(store, tmp_path / "home", prelude=QUICK_TO_NOTICE))
    detail = adaptation.get_run(store, actor, run_id)
    said = [detail.run.error or "", *(event.message for event in detail.events)]
    assert any("damaged" in message for message in said), said
    measured = [event.epoch for event in detail.events if event.dev_f1 is not None]
    assert len(measured) == len(set(measured))


@pytest.mark.usefixtures("every_step_saves")
def test_trouble_state_of_an_older_version_begins_anew(store: Store, admin: Actor, tmp_path: Path) -> None:
    run_id = _start(store, admin, tmp_path)
    with store.read() as session:
        recipe, data = training_data.for_run(session, run_id)
    older, steps = replace(recipe, dropout=0.2), iter(range(10_000))
    folder = settings_for(store, tmp_path).checkpoints / f"run-{run_id}"
    for _event in train(older, data, checkpoint_dir=folder, should_stop=lambda: next(steps) > 2):
        pass
    assert (folder / "state").is_dir()
    assert work(store, tmp_path) == 1
    detail = adaptation.get_run(store, admin, run_id)
    assert (detail.run.state, detail.run.error) == ("done", None)
    assert any("starts over" in event.message for event in detail.events)


@pytest.mark.usefixtures("every_step_saves")
@pytest.mark.parametrize("most", [100, 20_000])  # the description does not fit; the weights do not
def test_trouble_full_disk_leaves_the_last_whole_checkpoint(tmp_path: Path, most: int) -> None:
    recipe, data, whole, broken = tiny_recipe(max_epochs=3), tiny_data(), tmp_path / "whole", tmp_path / "broken"
    *_, last = train(recipe, data, checkpoint_dir=whole, encoder=tiny_encoder())
    events = train(recipe, data, checkpoint_dir=broken, encoder=tiny_encoder())
    next(events)
    before = read_folder(broken / "state")[0]["progress"]["step"]
    with small_files(most), pytest.raises(StorageError, match=r"cannot be written: .*Free some disk and resume"):
        for _event in events:
            pass
    assert [path.name for path in broken.iterdir()] == ["state"]
    assert read_folder(broken / "state")[0]["progress"]["step"] == before
    *_, resumed = train(recipe, data, checkpoint_dir=broken, encoder=tiny_encoder())
    assert resumed.result is not None and last.result is not None
    assert (resumed.result.history, resumed.result.test) == (last.result.history, last.result.test)


def _with_a_bad_word(word: str) -> object:
    """Return the tiny encoder with an infinite vector for a word: the loss is no number wherever it occurs."""
    encoder = tiny_encoder()
    with torch.no_grad():
        encoder.model.embeddings.word_embeddings.weight[encoder.tokenizer.convert_tokens_to_ids(word)] = torch.inf
    return encoder


@pytest.mark.usefixtures("every_step_saves")
@pytest.mark.parametrize("accumulate", [1, 2])
def test_trouble_loss_that_is_no_number_names_step_batch_and_sentences(tmp_path: Path, accumulate: int) -> None:
    data = tiny_data(dev=False)
    guilty = [item.sentence.id for item in data.train if "Porto" in item.sentence.words]
    recipe = tiny_recipe(batch_size=2, accumulate=accumulate)
    encoder = _with_a_bad_word("porto")
    *events, last = train(recipe, data, checkpoint_dir=tmp_path, encoder=encoder)  # type: ignore[arg-type]
    (said,) = [event.message for event in events if event.message.startswith("Stopped")]
    number = int(said.partition("batch ")[2].partition(")")[0])
    assert f"at step {number} (epoch 1, batch {number}) on sentences" in said and "Lower the learning rate" in said
    named = said.partition("on sentences ")[2].partition(";")[0].split(", ")
    assert len(named) == 2 and set(named) & set(guilty)
    assert last.result is not None and last.result.outcome == "not_finite" and last.result.checkpoint is None
    assert not (tmp_path / "tagger").exists() and not (tmp_path / "result.json").exists()
    if number > 1:
        state = read_folder(tmp_path / "state")[1]
        learned = [tensor for name, tensor in state.items() if name.startswith("model/head")]
        assert all(torch.isfinite(tensor).all() for tensor in learned)


def test_trouble_checkpoint_of_another_domain_or_version_is_refused(tmp_path: Path) -> None:
    recipe, data, folder = tiny_recipe(max_epochs=1), tiny_data(), tmp_path / "run"
    for _event in train(recipe, data, checkpoint_dir=folder, encoder=tiny_encoder()):
        pass
    other = replace(data, types=(*data.types, "song"))
    with pytest.raises(CheckpointMismatch, match=r"with other data .* give another folder or start without resuming"):
        next(train(recipe, other, checkpoint_dir=folder, encoder=tiny_encoder()))
    meta = folder / "tagger" / "meta.json"
    write_json(meta, {**read_json(meta), "format": FORMAT_VERSION + 1})
    with pytest.raises(CheckpointError, match=f"has format {FORMAT_VERSION + 1}; supported is {FORMAT_VERSION}"):
        load_tagger(folder)
