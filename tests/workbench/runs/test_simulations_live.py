"""Simulated campaigns on a campaign's own gold: from the button to what a strategy saved."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from crossner_core.acquisition.selecting import RECOMMENDED, WITHOUT_GAZETTEER
from crossner_core.errors import BadInput, Conflict, InvalidConfig, NotAllowed, NotFound
from crossner_core.evaluation.learning_curves import RoundPoint
from crossner_core.schema import LabelledSentence
from crossner_core.simulation.annotators import AnnotatorOptions
from crossner_core.simulation.config import Simulation
from crossner_core.simulation.costs import Observed
from crossner_core.suggest.gazetteer import GAZETTEER
from db import job_rows, layer_rows, simulation_rows, suggestion_rows
from db.engine import Store
from db.training_tables import Job
from pages.components.marked_text import as_text
from pages.parts.model import played as played_views
from tests.support.campaigns import in_music
from tests.support.rounds import chosen_by_strategies, small
from tests.support.screens import made_reports, open_screen
from tests.support.training_builders import own_sentences
from tests.support.training_store import ended, meanwhile, person, settings_for, work
from workbench import cli
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns, sentences
from workbench.campaigns.round_settings import recipe_for
from workbench.data import snapshots
from workbench.jobs import kind, queue
from workbench.jobs.context import Claimed, JobContext
from workbench.jobs.kind import job_kind
from workbench.jobs.worker import Worker
from workbench.reports import annotator_costs
from workbench.runs import rounds, simulations
from workbench.settings import Settings, open_store
from workbench.time_words import time_words


def campaign(store: Store, admin: Actor, folder: Path, *, pool: int = 30, test: int = 5) -> int:
    from crossner_core.domains import load_domain

    domain = load_domain("music")
    found = campaigns.create_campaign(store, admin, name=f"Played {pool} {test}", domain=domain, model_error=1.0)
    parts: tuple[tuple[str, int, int], ...] = (("pool", pool, 0), ("dev", 4, 100), ("test", test, 200))
    for split, count, offset in parts:
        items: list[LabelledSentence] = in_music(own_sentences(count, offset=offset))
        if items:
            sentences.add_sentences(store, admin, found, items, split=split)
    rounds.change_round_settings(store, admin, found, strategy="token_entropy", recipe=small(folder))
    return found


def told(store: Store, job_id: int) -> list[Simulation]:
    """Return what a job's campaigns were told."""
    with store.read() as session:
        return [Simulation.from_dict(row.settings) for row in simulation_rows.of_job(session, job_id)]


def test_strategies_are_played_on_a_campaigns_gold(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin, tmp_path)
    assert simulations.newest_simulations(store, admin, campaign_id) is None
    simulations.start_simulations(store, admin, campaign_id, ["token_entropy + bert_km"], seeds=(1, 2))
    with pytest.raises(Conflict, match="queued or running"):
        simulations.start_simulations(store, admin, campaign_id, ["longest"])
    work(store, tmp_path / "home")
    found = simulations.newest_simulations(store, admin, campaign_id)
    assert found is not None and (found.done, found.total, found.seeds, found.job.state) == (4, 4, (1, 2), "done")
    assert {(one.strategy, one.seed) for one in found.points} == {
        (name, seed) for name in ("random", "token_entropy + bert_km, 20% by chance") for seed in (1, 2)
    }
    assert sorted({one.sentences for one in found.points}) == [6, 12, 18, 24]
    assert found.snapshot == snapshots.list_snapshots(store, admin, campaign_id)[0].name
    assert found.recipe["max_epochs"] == 2 and not list((tmp_path / "home" / "checkpoints").glob("simulation-*"))


def test_strategies_are_played_with_the_share_of_chance_that_the_queue_has(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin, tmp_path)
    for share, name in ((0.35, "longest, 35% by chance"), (0.0, "longest")):
        rounds.change_round_settings(store, admin, campaign_id, strategy="longest", random_share=share)
        job_id = simulations.start_simulations(store, admin, campaign_id, ["longest"], seeds=(1,))
        found = [one.options for one in told(store, job_id)]
        assert [(one.label, one.random_share) for one in found] == [("random", 0.0), (name, share)]
        queue.cancel_in_campaign(store, admin, campaign_id, "simulation")


def test_strategy_with_self_training_is_played_beside_random_sentences_without(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin, tmp_path)
    simulations.start_simulations(store, admin, campaign_id, ["longest with self-training"], seeds=(1,))
    work(store, tmp_path / "home")
    found = simulations.newest_simulations(store, admin, campaign_id)
    name = "longest, 20% by chance, self-training"
    assert found is not None and {one.strategy for one in found.points} == {"random", name}


def test_models_are_trained_as_those_of_rounds_on_so_much_gold(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id, text = campaign(store, admin, tmp_path), "longest with self-training"
    recipe = {name: value for name, value in small(tmp_path).items() if name != "batch_size"}
    rounds.change_round_settings(store, admin, campaign_id, strategy="longest", recipe=recipe)
    job_id = simulations.start_simulations(store, admin, campaign_id, [text], seeds=(7,))
    changes = {**recipe, "seed": 7}
    random, chosen = told(store, job_id)
    for simulation, strategy in ((random, "random"), (chosen, text)):
        for gold in (*simulation.options.at, 19, 20, 39, 40, 100):
            assert simulation.recipe_at(gold) == recipe_for(strategy, changes, gold), (strategy, gold)
    assert (random.recipe_at(19).setting, chosen.recipe_at(19).setting) == ("direct", "direct")
    assert (random.recipe_at(20).setting, chosen.recipe_at(20).setting) == ("direct", "self_training")


def asked(store: Store, campaign_id: int) -> int:
    """Ask a gazetteer in all sentences in which it was not asked, begun ones too: the first token is a song."""
    with store.write() as session:
        ids = [row.id for row in layer_rows.sentences(session, campaign_id, preannotated=False)]
        said = {"start": 0, "end": 1, "type": "song", "source": "dbpedia", "score": 0.9, "entity": None, "run_id": None}
        suggestion_rows.replace_suggestions(
            session, ids, [{"sentence_id": id, **said} for id in ids], kinds=GAZETTEER.kinds
        )
        suggestion_rows.mark_preannotated(session, ids)
    return len(ids)


def test_strategy_that_hears_a_gazetteer_is_refused_where_nobody_was_asked(store: Store, tmp_path: Path) -> None:
    admin, text = person(store, "admin"), "longest with self-training and gazetteer"
    campaign_id = campaign(store, admin, tmp_path)
    with pytest.raises(BadInput, match=f"{text}.*no gold sentence was pre-annotated with them; pre-annotate"):
        simulations.start_simulations(store, admin, campaign_id, [text], seeds=(1,))
    assert simulations.newest_simulations(store, admin, campaign_id) is None
    assert simulations.usual_strategy(store, admin, campaign_id) == WITHOUT_GAZETTEER
    assert asked(store, campaign_id) == 39
    assert simulations.usual_strategy(store, admin, campaign_id) == RECOMMENDED
    simulations.start_simulations(store, admin, campaign_id, [text], seeds=(1,))
    found = simulations.newest_simulations(store, admin, campaign_id)
    assert found is not None and found.total == 2


def test_played_campaign_that_hears_a_gazetteer_goes_on_though_more_is_suggested_meanwhile(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, home = person(store, "admin"), tmp_path / "home"
    campaign_id = campaign(store, admin, tmp_path)
    asked(store, campaign_id)
    text = "longest with self-training and gazetteer"
    rounds.change_round_settings(
        store, admin, campaign_id, strategy=text, recipe={**small(tmp_path), "self_training_epochs": 2}
    )
    job_id = simulations.start_simulations(store, admin, campaign_id, [text], seeds=(1,))
    looked: list[int] = []

    def stop(self: JobContext) -> bool:
        looked.append("longest" in self.message)
        return sum(looked) == 20  # in the midst of a training

    with monkeypatch.context() as patched:
        patched.setattr(JobContext, "should_stop", stop)
        work(store, home)
    with store.write() as session:
        suggestion_rows.replace_suggestions(
            session, [row.id for row in layer_rows.sentences(session, campaign_id)], [], kinds=GAZETTEER.kinds
        )
        job = job_rows.get(session, job_id)
        assert job is not None and job.state != "failed"
        job.state = "queued"
    work(store, home)
    found = simulations.newest_simulations(store, admin, campaign_id)
    assert found is not None and (found.job.state, found.done) == ("done", 2), found.job.error


def test_played_campaigns_go_on_where_they_were_stopped(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin, tmp_path)
    job_id = simulations.start_simulations(store, admin, campaign_id, ["longest"], seeds=(1,))
    with monkeypatch.context() as patched:
        patched.setattr(JobContext, "should_stop", lambda self: "longest" in self.message)
        work(store, tmp_path / "home")
    found = simulations.newest_simulations(store, admin, campaign_id)
    assert found is not None and found.done == 1
    first = found.points
    with store.write() as session:
        job = job_rows.get(session, job_id)
        assert job is not None
        job.state = "queued"
    work(store, tmp_path / "home")
    found = simulations.newest_simulations(store, admin, campaign_id)
    assert found is not None and found.done == 2 and found.points[: len(first)] == first


def test_played_campaigns_give_way_to_a_turn_that_is_due_and_lose_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = person(store, "admin")
    campaign_id, home = campaign(store, admin, tmp_path), tmp_path / "home"
    simulations.start_simulations(store, admin, campaign_id, ["longest"], seeds=(1,))
    work(store, home)
    undisturbed = simulations.newest_simulations(store, admin, campaign_id)
    rounds.change_round_settings(
        store, admin, campaign_id, strategy="token_entropy", retrain_every=10, recipe=small(tmp_path)
    )
    assert work(store, home) == 3  # run, turn, suggestions
    before = len(ended(store))
    simulations.start_simulations(store, admin, campaign_id, ["longest"], seeds=(1,))
    new = in_music(own_sentences(10, offset=300))
    meanwhile(monkeypatch, "simulation", lambda: sentences.add_sentences(store, admin, campaign_id, new))
    assert work(store, home) == 5
    assert ended(store)[before:] == [
        ("run", "done", 1), ("turn", "done", 1), ("score_pool", "done", 1), ("simulation", "done", 1),
    ]  # fmt: skip
    found = simulations.newest_simulations(store, admin, campaign_id)
    assert found is not None and undisturbed is not None and found.done == 2
    assert found.points == undisturbed.points and found.snapshot == undisturbed.snapshot


def test_campaigns_that_are_played_by_a_worker_of_their_own_give_no_way(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin, tmp_path)
    job_id = simulations.start_simulations(store, admin, campaign_id, ["longest"], seeds=(1,))
    meanwhile(monkeypatch, "simulation", lambda: rounds.order_now(store, admin, campaign_id))
    assert Worker(store, settings_for(store, tmp_path / "home"), job_ids=[job_id]).run(once=True) == 1
    assert ended(store) == [("simulation", "done", 1)]


def test_played_campaign_that_is_cancelled_while_it_waits_leaves_no_folder_for_long(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = person(store, "admin")
    campaign_id, home = campaign(store, admin, tmp_path), tmp_path / "home"
    simulations.start_simulations(store, admin, campaign_id, ["longest"], seeds=(1,))

    def cancel_it(context: JobContext, payload: Any) -> str:
        found = simulations.newest_simulations(store, admin, campaign_id)
        assert found is not None and "Other work goes first" in found.job.message
        with store.read() as session:
            left = job_rows.get(session, found.job.id)
            assert left is not None
            assert job_kind("simulation").saved_step(session, context.settings, Claimed.of(left)) > 0
        assert queue.cancel_in_campaign(store, admin, campaign_id, "simulation") == ["cancelled"]
        return order_queue(context, payload)

    order_queue = job_kind("turn").handle
    rounds.order_now(store, admin, campaign_id)
    work_one = Worker(store, settings_for(store, home), job_ids=[queue.list_jobs(store, admin, campaign_id)[0].id])
    work_one.run(once=True)
    with monkeypatch.context() as patched:
        meanwhile(patched, "simulation", lambda: rounds.order_now(store, admin, campaign_id))
        patched.setitem(kind.KINDS, "turn", replace(job_kind("turn"), handle=cancel_it))
        assert work(store, home) == 2
    assert len(list((home / "checkpoints").glob("simulation-*"))) == 1
    simulations.start_simulations(store, admin, campaign_id, ["longest"], seeds=(1,))
    assert work(store, home) == 1
    assert not list((home / "checkpoints").glob("simulation-*"))


def test_cancelled_simulations_keep_what_was_played_and_no_folder(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workbench.jobs.context import JobContext

    admin = person(store, "admin")
    campaign_id = campaign(store, admin, tmp_path)
    with pytest.raises(Conflict, match="No simulated campaigns are queued or running"):
        queue.cancel_in_campaign(store, admin, campaign_id, "simulation")
    simulations.start_simulations(store, admin, campaign_id, ["longest"], seeds=(1,))

    def should_stop(context: JobContext) -> bool:
        if "longest" in context.message and not context.cancelled.is_set():
            assert queue.cancel_in_campaign(store, admin, campaign_id, "simulation") == ["running"]
            context.cancelled.set()  # what the next heartbeat does
        return context.cancelled.is_set()

    with monkeypatch.context() as patched:
        patched.setattr(JobContext, "should_stop", should_stop)
        work(store, tmp_path / "home")
    found = simulations.newest_simulations(store, admin, campaign_id)
    assert found is not None and (found.done, found.job.state) == (1, "cancelled")
    assert {one.strategy for one in found.points} == {"random"}
    assert not list((tmp_path / "home" / "checkpoints").glob("simulation-*"))
    simulations.start_simulations(store, admin, campaign_id, ["longest"], seeds=(1,))
    before = simulations.newest_simulations(store, admin, campaign_id, with_points=True)
    assert before is not None and before.points == found.points
    assert queue.cancel_in_campaign(store, admin, campaign_id, "simulation") == ["cancelled"]
    assert simulations.newest_simulations(store, admin, campaign_id, with_points=True) == before


def test_simulation_of_too_little_gold_is_refused(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    few = campaign(store, admin, tmp_path, pool=24)
    with pytest.raises(BadInput, match="24 sentences of the pool are gold; 25"):
        simulations.start_simulations(store, admin, few, ["longest"])
    with pytest.raises(InvalidConfig, match="0 strategies beside random"):
        simulations.start_simulations(store, admin, few, ["random"])
    with pytest.raises(InvalidConfig, match="Unknown acquisition function"):
        simulations.start_simulations(store, admin, few, ["wisdom"])
    assert queue.list_jobs(store, admin, few) == ()


def test_simulation_without_test_gold_is_refused(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    with pytest.raises(BadInput, match="no test gold"):
        simulations.start_simulations(store, admin, campaign(store, admin, tmp_path, test=0), ["longest"])


def test_simulations_are_for_those_who_keep_campaigns(store: Store, tmp_path: Path) -> None:
    admin, expert = person(store, "admin"), person(store, "expert")
    campaign_id = campaign(store, admin, tmp_path)
    campaigns.add_members(store, admin, campaign_id, [expert.id])
    assert simulations.newest_simulations(store, expert, campaign_id) is None
    with pytest.raises(NotAllowed):
        simulations.start_simulations(store, expert, campaign_id, ["longest"])
    with pytest.raises(NotAllowed):
        queue.cancel_in_campaign(store, expert, campaign_id, "simulation")
    annotator = person(store, "annotator")
    campaigns.add_members(store, admin, campaign_id, [annotator.id])
    with pytest.raises(NotAllowed):
        simulations.newest_simulations(store, annotator, campaign_id)
    with pytest.raises(NotAllowed):
        annotator_costs.saved_by_suggestions(store, annotator, campaign_id)


def test_queue_screen_plays_strategies_and_says_what_they_saved(
    monkeypatch: pytest.MonkeyPatch, store: Store, tmp_path: Path
) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin, tmp_path)
    test = open_screen(monkeypatch, store, "queue", admin, campaign=campaign_id)
    test.segmented_control[0].set_value("Savings").run()
    assert not test.exception, test.exception
    said = " ".join(one.value for kind in ("caption", "info") for one in getattr(test, kind))
    assert "0 sentences have active time" in said and "No strategy has been simulated" in said
    assert test.text_area[0].value == "token_entropy"
    test.text_area[0].set_value("longest\ntoken_entropy + bert_km").run()
    test.number_input[0].set_value(1).run()
    next(one for one in test.button if one.label == "Simulate").click().run()
    assert not test.exception and "0 of 3 campaigns simulated" in " ".join(one.value for one in test.caption)
    next(one for one in test.button if one.label == "Cancel these campaigns").click().run()
    assert not test.exception and "0 of 3 campaigns are done" in " ".join(one.value for one in test.warning)
    next(one for one in test.button if one.label == "Simulate").click().run()
    assert not test.exception and "0 of 3 campaigns simulated" in " ".join(one.value for one in test.caption)
    work(store, tmp_path / "home")
    test = open_screen(monkeypatch, store, "queue", admin, campaign=campaign_id)
    test.segmented_control[0].set_value("Savings").run()
    assert not test.exception, test.exception
    next(one for one in test.button if one.label == "Simulate").click().run()
    said = " ".join(one.value for one in test.caption)
    assert "0 of 6 campaigns simulated" in said
    listed = test.selectbox(key=f"saved:play-chosen:{campaign_id}")
    waiting, before, cancelled = listed.options  # newest first; what was found before stays
    assert "queued, 0 of 6 simulated" in waiting and "cancelled, 0 of 3 simulated" in cancelled
    assert "simulated" not in before and "longest, 20% by chance; token_entropy + bert_km" in before
    assert "seed 555 · gold" in before and "seeds 555, 666, 777" in waiting
    lines = [one.value for one in test.markdown if "the best of random" in one.value]
    assert len(lines) == 2 and lines[0].startswith(("longest", "token"))
    table = next(one.value for one in test.dataframe if "area" in one.value.columns)
    shared = {"longest, 20% by chance", "token_entropy + bert_km, 20% by chance"}
    assert set(table["curve"]) == {"random", *shared}
    assert any("20% of its sentences by chance" in one.value for one in test.caption)
    assert any("555" in one.value and "An entity takes 7" in one.value for one in test.caption)
    newest, _, dropped = simulations.list_plays(store, admin, campaign_id)
    listed.set_value(dropped.job.id).run()
    assert not test.exception and any("0 of 3 campaigns are done" in one.value for one in test.warning)
    assert not [one for one in test.dataframe if "area" in one.value.columns]
    work(store, tmp_path / "home")
    test.run()
    assert test.selectbox(key=listed.key).value == dropped.job.id  # what a person chose stays
    test = open_screen(monkeypatch, store, "queue", admin, campaign=campaign_id)
    test.segmented_control[0].set_value("Savings").run()
    assert test.selectbox(key=listed.key).value == newest.job.id
    assert not any("campaigns are done" in one.value for one in test.warning)
    assert any("Mean over 3 seeds" in one.value for one in test.caption)


def test_annotators_are_this_campaigns_own_but_for_what_is_said(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, annotator = person(store, "admin"), person(store, "annotator")
    campaign_id = campaign(store, admin, tmp_path)
    campaigns.add_members(store, admin, campaign_id, [annotator.id])
    own = AnnotatorOptions(seconds_added=11.5, seconds_token=0.2)
    monkeypatch.setattr(simulations, "costs_in", lambda session, campaign_id: (own, 40))
    assert simulations.usual_annotator(store, admin, campaign_id) == own
    with pytest.raises(NotAllowed):
        simulations.usual_annotator(store, annotator, campaign_id)
    for wrong, says in (({"speed": 1}, "no option speed"), ({"missed": 7}, "missed is 7.0; it must lie in")):
        with pytest.raises(InvalidConfig, match=says):
            simulations.start_simulations(store, admin, campaign_id, ["longest"], annotators=[{}, wrong])
    wanted: tuple[tuple[list[dict[str, float]], tuple[AnnotatorOptions, ...]], ...] = (
        ([], (own,)),
        ([{"led": 0.5}], (replace(own, led=0.5),)),
        ([{}, {"missed": 0.1, "seconds_added": 3}], (own, replace(own, missed=0.1, seconds_added=3.0))),
    )
    for changes, expected in wanted:
        job_id = simulations.start_simulations(store, admin, campaign_id, ["longest"], annotators=changes)
        assert {one.annotators for one in told(store, job_id)} == {expected}
        assert simulations.get_play(store, admin, campaign_id, job_id).annotators == expected
        queue.cancel_in_campaign(store, admin, campaign_id, "simulation")


def test_saved_screen_asks_what_annotators_are_like_and_tells_it(
    monkeypatch: pytest.MonkeyPatch, store: Store, tmp_path: Path
) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin, tmp_path)
    own = AnnotatorOptions(seconds_added=11.5)
    monkeypatch.setattr(simulations, "costs_in", lambda session, campaign_id: (own, 40))
    test = open_screen(monkeypatch, store, "queue", admin, campaign=campaign_id)
    test.segmented_control[0].set_value("Savings").run()
    test.text_area[0].set_value("longest").run()
    key = f"saved:annotators:{campaign_id}"
    test.checkbox(key=key).set_value(True).run()
    test.number_input(key=f"{key}:count").set_value(2).run()
    first, second = (f"{key}:{number}:{hash(own)}" for number in (1, 2))
    assert test.number_input(key=f"{first}-seconds_added").value == 11.5
    assert "without a suggestion" in test.number_input(key=f"{first}-missed").help
    test.number_input(key=f"{second}-missed").set_value(0.1).run()
    next(one for one in test.button if one.label == "Simulate").click().run()
    assert not test.exception, test.exception
    (play,) = simulations.list_plays(store, admin, campaign_id)
    assert play.annotators == (own, replace(own, missed=0.1))
    found = [asdict(one) for one in grown("random", 555, [0.4, 0.6], {})]
    with store.write() as session:
        simulation_rows.save_points(session, simulation_rows.of_job(session, play.job.id)[0].id, found)
    test.run()
    said = " ".join(one.value for one in test.caption).replace("\\", "")
    assert "2 annotators shared the sentences. Annotator 1: An entity takes 11.5 s" in said
    assert "Annotator 2:" in said and "10% of the entities are missed." in said
    assert "Usual costs: fitted to 40 sentences annotated here." in said


def test_saved_screen_draws_the_curves_of_one_entity_type_beside_random_sentences(
    monkeypatch: pytest.MonkeyPatch, store: Store, tmp_path: Path
) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin, tmp_path)
    job_id = simulations.start_simulations(store, admin, campaign_id, ["longest"], seeds=(1, 2))
    assert simulations.get_play(store, admin, campaign_id, job_id).gold_by_choice == {"import": 30}
    points = [
        [asdict(one) for one in lines]
        for seed in (1, 2)
        for lines in (
            grown("random", seed, [0.4, 0.6], {"band": [0.2, 0.5], "song": [0.6, 0.7]}),
            grown("longest", seed, [0.5, 0.7], {"band": [0.5, 0.6], "song": [0.3, 0.4]}),
        )
    ]
    with store.write() as session:
        for row, found in zip(simulation_rows.of_job(session, job_id), points, strict=True):
            simulation_rows.save_points(session, row.id, found)
    reports = made_reports(monkeypatch, "pages.parts.model.played")
    test = open_screen(monkeypatch, store, "queue", admin, campaign=campaign_id)
    test.segmented_control[0].set_value("Savings").run()
    assert not test.exception, test.exception
    areas = test.dataframe[-1].value.set_index("type")
    assert areas["longest"].to_dict() == {"band": 55.0, "song": 35.0}
    assert areas["random"].to_dict() == {"band": 35.0, "song": 65.0}
    test.button_group(key="saved-axis").set_value("seconds").run()
    test.selectbox(key="saved-type").set_value("band").run()
    assert not test.exception, test.exception
    (drawn,) = (json.loads(one.proto.spec) for one in test.get("plotly_chart"))
    named = {trace["name"]: trace for trace in drawn["data"] if "name" in trace}
    assert drawn["layout"]["yaxis"]["title"]["text"] == "F1 of band on test, %"
    assert {name: values(one["x"]) for name, one in named.items()} == {"random": [70, 140], "longest": [70, 140]}
    assert {name: values(one["y"]) for name, one in named.items()} == {"random": [20, 50], "longest": [50, 60]}
    said = "longest: 10 sentences for F1 of band 50.0, the best of random sentences; 10 fewer, and 1 minute less"
    assert any(as_text(said) in one.value for one in test.markdown)
    (report,) = reports.values()
    assert "F1 of band on test, %" in report and said in report
    assert "not a random sample of the pool" not in report  # all of the gold was imported
    chosen_by_strategies(store, campaign_id, 12)
    test.run()
    # When it was simulated, none was.
    assert not any("not a random sample of the pool" in one.value for one in test.caption)
    with store.write() as session:  # as a play was kept that did not tell
        session.execute(sa.update(Job).where(Job.id == job_id).values(payload={}))
    test.run()
    caveat = "Strategies chose 12 of the 30 gold sentences from this campaign's pool, so a random sample"
    (report,) = reports.values()
    assert any(as_text(caveat) in one.value for one in test.caption) and escape(caveat) in report


def grown(strategy: str, seed: int, f1: list[float], types: dict[str, list[float]]) -> list[RoundPoint]:
    """Return rounds of ten sentences each, with F1 overall and by type."""
    return [
        RoundPoint(
            strategy,
            seed,
            at + 1,
            10 * (at + 1),
            one,
            100 * (at + 1),
            10 * (at + 1),
            70.0 * (at + 1),
            {name: found[at] for name, found in types.items()},
        )
        for at, one in enumerate(f1)
    ]


def values(data: Any) -> list[float]:
    """Return a trace's numbers, which plotly may have packed."""
    if isinstance(data, dict):
        data = np.frombuffer(base64.b64decode(data["bdata"]), dtype=data["dtype"])
    return [pytest.approx(float(one)) for one in data]


def test_plays_are_listed_newest_first_with_what_they_were_told(store: Store, tmp_path: Path) -> None:
    admin, annotator = person(store, "admin"), person(store, "annotator")
    campaign_id, other = campaign(store, admin, tmp_path), campaign(store, admin, tmp_path, pool=25)
    campaigns.add_members(store, admin, campaign_id, [annotator.id])
    first = simulations.start_simulations(store, admin, campaign_id, ["longest"], seeds=(1,))
    work(store, tmp_path / "home")
    second = simulations.start_simulations(store, admin, campaign_id, ["token_entropy", "longest"], seeds=(2, 3))
    queue.cancel_in_campaign(store, admin, campaign_id, "simulation")
    newest, before = simulations.list_plays(store, admin, campaign_id)
    assert (newest.job.id, newest.job.state, newest.done, newest.total) == (second, "cancelled", 0, 6)
    assert newest.seeds == (2, 3) and newest.recipe["max_epochs"] == 2
    assert newest.strategies == ("random", "token_entropy, 20% by chance", "longest, 20% by chance")
    assert (before.job.id, before.job.state, before.done, before.total) == (first, "done", 2, 2)
    found = simulations.get_play(store, admin, campaign_id, first)
    assert {one.seed for one in found.points} == {1} and found.snapshot == before.snapshot
    assert simulations.get_play(store, admin, campaign_id, second).points == ()
    assert simulations.list_plays(store, admin, other) == ()
    round_job = rounds.job_of_round(store, admin, campaign_id, rounds.order_now(store, admin, campaign_id))
    for job_id, place in ((first, other), (9999, campaign_id), (round_job, campaign_id)):
        with pytest.raises(NotFound, match="simulated nothing"):
            simulations.get_play(store, admin, place, job_id)
    for call in (simulations.list_plays, lambda *who: simulations.get_play(*who, first)):
        with pytest.raises(NotAllowed):
            call(store, annotator, campaign_id)


def test_commands_set_rules_play_strategies_and_print_what_they_saved(
    store_template: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "workbench.sqlite3").write_bytes(store_template.read_bytes())
    settings = Settings(home=tmp_path, database_url=f"sqlite:///{tmp_path / 'workbench.sqlite3'}", worker_threads=1)
    for name in ("CROSSNER_AS", "CROSSNER_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path))
    monkeypatch.setenv("CROSSNER_WORKER_THREADS", "1")
    store = open_store(settings)
    place = campaigns.get_campaign(store, admin := person(store, "admin"), campaign(store, admin, tmp_path))
    name = place.name

    def call(*arguments: str) -> tuple[int, str]:
        capfd.readouterr()
        code = cli.main(["round", arguments[0], "-c", name, *arguments[1:]])
        return code, capfd.readouterr().out

    code, said = call("rules", "--strategy", "longest + bert_km", "--retrain-every", "10")
    assert code == 0 and "longest + bert_km" in said and "retrain every  10" in said
    assert call("saved")[0] == 2
    assert call("order")[0] == 0 and "Round 1 is queued." in call("list")[1]
    assert call("cancel") == (0, "Cancelled.\n") and call("cancel")[0] == 2
    code, said = call("simulate", "longest", "--seeds", "1")
    assert code == 0 and "No worker is alive" in said
    code, said = call("saved")
    assert code == 2 and "0 of 2 campaigns simulated, queued" in said
    assert call("cancel-simulations") == (0, "Cancelled.\n") and call("cancel-simulations")[0] == 2
    code, said = call("simulate", "longest", "--seeds", "1", "--wait")
    assert code == 0 and "2 of 2 campaigns simulated, done" in said and "time saved" in said
    assert [line.split()[0] for line in said.splitlines()[2:]].count("random") == 1
    assert call("simulate", "longest", "--seeds", "1")[0] == 0
    code, again = call("saved")
    assert code == 0 and "0 of 2 campaigns simulated, queued" in again and "Previous ones, of" in again
    assert again.splitlines()[-2:] == said.splitlines()[-2:]
    newest, before, *_ = simulations.list_plays(store, admin, place.id)
    code, chosen = call("saved", "--job", str(before.job.id))
    assert (
        code == 0
        and "2 of 2 campaigns simulated, done" in chosen
        and chosen.splitlines()[-2:] == said.splitlines()[-2:]
    )
    assert call("saved", "--job", str(newest.job.id))[0] == 2 and call("saved", "--job", "999")[0] == 2
    assert call("cancel-simulations")[0] == 0
    for wrong in ("missed", '{"slow": 1}', "[]"):
        assert call("simulate", "longest", "--annotator", wrong)[0] == 2
    people = ("--annotator", '{"missed": 0.2, "seconds_added": 4}', "--annotator", "{}")
    assert call("simulate", "longest", "--seeds", "1", *people)[0] == 0
    assert [one.missed for one in simulations.list_plays(store, admin, place.id)[0].annotators] == [0.2, 0.0]
    store.close()


def test_hours_saved_are_those_of_the_entities_that_were_suggested() -> None:
    prices = AnnotatorOptions(seconds_token=0.5, seconds_added=8, seconds_kept=2, seconds_changed=4, seconds_deleted=1)
    rng = np.random.default_rng(0)
    observed = []
    for _ in range(60):
        tokens, kept, changed, added, deleted = (int(n) for n in (rng.integers(5, 40), *rng.integers(0, 5, 4)))
        took = prices.seconds(tokens=tokens, kept=kept, changed=changed, added=added, deleted=deleted)
        observed.append(Observed(tokens, kept, changed, added, deleted, took))
    found = annotator_costs.saved(observed)
    spared = sum(6 * one.kept + 4 * one.changed - one.deleted for one in observed)
    assert found.hours == pytest.approx(spared / 3600, rel=0.02)
    assert found.spent == pytest.approx(found.with_them, rel=0.01) and found.sentences == 60
    with pytest.raises(BadInput, match="0 sentences"):
        annotator_costs.saved([])


def test_time_that_a_strategy_saves_is_said_of_the_f1_that_the_sentence_names() -> None:
    def played(strategy: str, price: float, values: list[float]) -> list[RoundPoint]:
        return [
            RoundPoint(strategy, seed, at, 20 * at, f1, seconds=20 * at * price * pace)
            for seed, pace in ((1, 1.0), (2, 0.5))
            for at, f1 in enumerate(values, start=1)
        ]

    points = played("random", 10, [0.40, 0.50, 0.58, 0.60])
    points += played("longest", 11, [0.47, 0.56, 0.59, 0.62]) + played("dear", 60, [0.40, 0.50, 0.55, 0.60])
    points += played("worse", 1, [0.10, 0.20, 0.30, 0.40]) + played("late", 1, [0.30, 0.40, 0.50, 0.59, 0.61])
    assert played_views._sentences(points, {}) == [
        "longest: 67 sentences for F1 60.0, the best of random sentences; 13 fewer, and 50 seconds less of annotators' "
        "time.",
        "dear: 80 sentences for F1 60.0, the best of random sentences; as many, and 50 minutes more of annotators' "
        "time.",
        "late: 90 sentences for F1 60.0, the best of random sentences; 10 more, and 9 minutes less of annotators' "
        "time.",
        "worse: never reached F1 60.0, the best of random sentences.",
    ]
    assert played_views._sentences(points[:8], {}) == [] == played_views._sentences(points[8:], {})


@pytest.mark.parametrize(
    ("seconds", "says"),
    [
        (0.0, "0 seconds"), (-0.2, "0 seconds"), (1, "1 second"), (59.6, "1 minute"), (754, "13 minutes"),
        (-754, "-13 minutes"), (3599, "1.0 hours"), (5000, "1.4 hours"),
    ],
)  # fmt: skip
def test_length_of_time_is_said_in_words(seconds: float, says: str) -> None:
    assert time_words(seconds) == says
