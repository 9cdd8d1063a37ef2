"""When a new model suggests by itself: its dev F1, what suggests now, and what a person reads otherwise."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from crossner_core.schema import Suggestion
from db import campaign_rows, run_rows
from db.engine import Store
from db.training_tables import Job
from tests.support.builders import make_sentences
from tests.support.campaigns import campaign_with_gold
from tests.support.training_store import person, recipe_here, work
from workbench.accounts.actors import SYSTEM, Actor
from workbench.campaigns import campaigns, sentences
from workbench.data import snapshots
from workbench.jobs import queue
from workbench.runs import adaptation, rounds
from workbench.suggestions.feeding import held_back
from workbench.suggestions.preannotating import add_model_suggestions

SEEDS = itertools.count(1)


@pytest.fixture
def admin(store: Store) -> Actor:
    return person(store, "admin", "adm")


def trained(store: Store, admin: Actor, campaign: int, dev_f1: float | None, folder: Path) -> int:
    """Add a run that ended with this dev F1, without training it."""
    snapshot = snapshots.freeze(store, admin, campaign)
    recipe = recipe_here(folder, seed=next(SEEDS))
    run_id = adaptation.start_run(store, admin, snapshot_id=snapshot.id, recipe=recipe)
    with store.write() as session:
        run_rows.update(session, run_id, dev_f1=dev_f1, state="done")
    return run_id


def reason(store: Store, campaign: int, run_id: int) -> str:
    with store.read() as session:
        row, run = campaign_rows.find(session, campaign), run_rows.get(session, run_id)
        assert row is not None and run is not None
        return held_back(session, row, run)


def suggest(store: Store, campaign: int, run_id: int) -> None:
    with store.read() as session:
        ids = [row.id for row in campaign_rows.sentences_not_begun(session, campaign, "annotate")]
    given = {ids[-1]: (Suggestion(0, 1, "song", f"model:run {run_id}", 0.5),)}
    add_model_suggestions(store, SYSTEM, campaign, run_id=run_id, suggestions=given)


def test_a_model_suggests_from_the_floor_and_if_it_is_no_worse(store: Store, admin: Actor, tmp_path: Path) -> None:
    campaign = campaign_with_gold(store, admin)
    sentences.add_sentences(store, admin, campaign, make_sentences())
    weak, fair, better = (trained(store, admin, campaign, f1, tmp_path) for f1 in (0.2, 0.5, 0.52))
    blind = trained(store, admin, campaign, None, tmp_path)
    assert not reason(store, campaign, weak) and not reason(store, campaign, blind)  # the floor is 0
    campaigns.update_settings(store, admin, campaign, model_floor=0.3)
    assert reason(store, campaign, weak) == (
        f"Run {weak} has a dev F1 of 20.0; models of this campaign suggest by themselves from 30.0. "
        "It suggests only when asked to."
    )
    assert "has no dev F1" in reason(store, campaign, blind)
    assert not reason(store, campaign, fair)
    suggest(store, campaign, better)
    assert not reason(store, campaign, better)
    assert f"that of run {better}, which suggests now, is 52.0" in reason(store, campaign, fair)
    suggest(store, campaign, fair)
    assert not reason(store, campaign, better)
    campaigns.update_settings(store, admin, campaign, model_gain=0.05)
    assert "and needs 5.0 more" in reason(store, campaign, better)


def calibrated(store: Store, run_id: int, **changed: object) -> None:
    """Keep a calibration with a run, with a calibration error of 4 % on test."""
    figures = {"spans": 80, "bins": [], "error": 0.04, "error_equal_width": 0.04, "brier": 0.1, "log_loss": 0.3}
    report = {"calibration": {}, "measured_on": "test", "dev_spans": 80, "raw": figures, "calibrated": figures}
    with store.write() as session:
        run_rows.update(session, run_id, result={"calibration": {**report, "losses": {}, **changed}})


def test_a_model_suggests_only_if_its_probabilities_were_calibrated(store: Store, admin: Actor, tmp_path: Path) -> None:
    campaign = campaign_with_gold(store, admin)
    run_id = trained(store, admin, campaign, 0.5, tmp_path)
    assert not reason(store, campaign, run_id)  # any calibration will do
    campaigns.update_settings(store, admin, campaign, model_error=0.15)
    asked = "It suggests only when asked to."
    assert reason(store, campaign, run_id) == (
        f"Run {run_id} has probabilities that were not calibrated: there was no dev to fit them on. {asked}"
    )
    calibrated(store, run_id, dev_spans=0, dev_error=0.0)
    assert "not calibrated: it predicted nothing on dev" in reason(store, campaign, run_id)
    calibrated(store, run_id, dev_error=0.234)
    assert reason(store, campaign, run_id) == (
        f"Run {run_id} has a calibration error of 23.4 on dev, of 80 spans; models of this campaign suggest "
        f"by themselves up to 15.0. {asked}"
    )
    calibrated(store, run_id, dev_error=0.15)
    assert not reason(store, campaign, run_id)
    calibrated(store, run_id)  # an earlier version kept only what it measured on test
    assert not reason(store, campaign, run_id)
    campaigns.update_settings(store, admin, campaign, model_error=0.03)
    assert "calibration error of 4.0 on test" in reason(store, campaign, run_id)
    calibrated(store, run_id, dev_error="unknown")
    assert "not calibrated" in reason(store, campaign, run_id)


def test_what_is_held_back_is_not_queued_and_said(store: Store, admin: Actor, tmp_path: Path) -> None:
    campaign = campaign_with_gold(store, admin)
    campaigns.update_settings(store, admin, campaign, model_floor=0.3)
    weak, fair = (trained(store, admin, campaign, f1, tmp_path) for f1 in (0.2, 0.5))
    with store.write() as session:
        assert "dev F1 of 20.0" in rounds.have_suggested(session, campaign, weak)
        assert not session.query(Job).filter(Job.kind == "score_pool").count()
        assert rounds.have_suggested(session, campaign, fair) == ""
        assert session.query(Job).filter(Job.kind == "score_pool").count() == 1


def test_a_run_that_is_held_back_says_so_in_its_log(store: Store, admin: Actor, tmp_path: Path) -> None:
    campaign = campaign_with_gold(store, admin)
    sentences.add_sentences(store, admin, campaign, make_sentences())
    campaigns.update_settings(store, admin, campaign, suggestions_on=True, model_floor=1.0)
    snapshot = snapshots.freeze(store, admin, campaign)
    run_id = adaptation.start_run(store, admin, snapshot_id=snapshot.id, recipe=recipe_here(tmp_path, max_epochs=1))
    assert work(store, tmp_path / "home") == 1
    log = adaptation.get_run(store, admin, run_id).events
    assert "models of this campaign suggest by themselves from 100.0" in log[-1].message
    assert [job.kind for job in queue.list_jobs(store, admin, campaign)] == ["run"]
    queue.start_job(store, admin, "score_pool", campaign, run_id=run_id)
    assert work(store, tmp_path / "home") == 1
    assert queue.list_jobs(store, admin, campaign)[0].state == "done"  # a person asked for it
