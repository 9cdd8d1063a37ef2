"""Turns: settings, a run after so much gold, a queue in a new order, and nothing taken from anybody's hands."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from crossner_core.acquisition.selecting import Selection
from crossner_core.errors import Conflict, InvalidConfig, NotAllowed, NotFound
from crossner_core.schema import Sentence, Suggestion
from crossner_core.suggest.gazetteer import GAZETTEER
from crossner_core.training.predictor import Predictor
from crossner_core.training.recipe import Recipe
from db import job_rows, layer_rows, round_rows, run_rows, suggestion_rows
from db.engine import Session, Store
from db.tables import Campaign, SentenceRow, Task
from db.training_tables import Job, Round, Run
from db.types import now
from tests.support.campaigns import in_music
from tests.support.rounds import bare, campaign, newest, places, small, with_idle_weight
from tests.support.training_builders import own_sentences
from tests.support.training_store import beat, person, recipe_here, when_asked, work
from workbench.accounts.access import enter
from workbench.accounts.actors import SYSTEM, Actor
from workbench.campaigns import campaigns, round_settings, sentences
from workbench.campaigns.round_settings import on_less_gold, recipe_for
from workbench.data import snapshots
from workbench.jobs import queue
from workbench.jobs.context import JobContext
from workbench.jobs.kinds import turn as round_kind
from workbench.labelling import handout
from workbench.reports import curves, learning
from workbench.runs import adaptation, rounds

UNFIT = {"recipe": {"architecture": "label_aware", "setting": "datnet"}}
"""What no run can train, as can be told when the rounds are set up."""


def test_turn_settings_are_kept_and_checked(store: Store) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin)
    assert rounds.round_settings(store, admin, campaign_id).strategy == ""
    rounds.change_round_settings(
        store, admin, campaign_id, strategy="longest + k_centre", random_share=0.1, retrain_every=5
    )
    found = rounds.round_settings(store, admin, campaign_id)
    assert (found.strategy, found.random_share, found.retrain_every) == ("longest + k_centre", 0.1, 5)
    for wrong in ({"strategy": "wisdom"}, {"random_share": 2}, {"retrain_every": -1}, {"recipe": {"speed": 1}}, UNFIT):
        with pytest.raises(InvalidConfig):
            rounds.change_round_settings(store, admin, campaign_id, **{"strategy": "longest", **wrong})  # type: ignore[arg-type]
    assert rounds.round_settings(store, admin, campaign_id) == found


def test_campaign_with_the_weight_of_a_set_opens_orders_and_retrains_without_it(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = with_idle_weight(store, admin)
    assert rounds.round_settings(store, admin, campaign_id).strategy == "2*longest + bert_km"
    round_id = rounds.order_now(store, admin, campaign_id)
    with store.write() as session:  # as of one that was asked for then, and still waits
        session.get_one(Round, round_id).strategy = "2*longest + 100*bert_km"
    work(store, tmp_path / "home")
    assert newest(store, admin, campaign_id).state == "done"
    assert {why for *_, why in places(store, campaign_id)} <= {"2*longest + bert_km", "chance"}
    with store.write() as session:
        found = session.get_one(Campaign, campaign_id)
        found.retrain_every, found.turn_recipe = 10, small(tmp_path)
    work(store, tmp_path / "home")
    round_ = newest(store, admin, campaign_id)
    assert (round_.state, round_.run_state, round_.strategy) == ("done", "done", "2*longest + bert_km")
    with pytest.raises(InvalidConfig, match="weight of bert_km is 100; it can only be 1"):
        rounds.change_round_settings(store, admin, campaign_id, strategy="2*longest + 100*bert_km")


def test_turns_are_for_researchers_and_admins(store: Store) -> None:
    admin, annotator = person(store, "admin"), person(store, "annotator")
    campaign_id = campaign(store, admin)
    for call in (
        lambda: rounds.change_round_settings(store, annotator, campaign_id, strategy="longest"),
        lambda: rounds.order_now(store, annotator, campaign_id),
        lambda: rounds.cancel_round(store, annotator, campaign_id),
        lambda: rounds.list_rounds(store, annotator, campaign_id),
        lambda: rounds.round_settings(store, annotator, campaign_id),
        lambda: rounds.gold_by_choice(store, annotator, campaign_id),
    ):
        with pytest.raises(NotAllowed):
            call()


def test_turn_is_cancelled_by_those_who_may_begin_one(store: Store) -> None:
    admin, expert = person(store, "admin"), person(store, "expert")
    campaign_id = campaign(store, admin)
    campaigns.add_members(store, admin, campaign_id, [expert.id])
    rounds.change_round_settings(store, admin, campaign_id, strategy="longest")
    rounds.order_now(store, admin, campaign_id)
    with pytest.raises(NotAllowed):
        rounds.cancel_round(store, expert, campaign_id)
    assert rounds.queue_state(store, expert, campaign_id).under_way is not None


def test_turn_orders_the_queue_and_leaves_leased_work_alone(store: Store, tmp_path: Path) -> None:
    admin, annotator = person(store, "admin"), person(store, "annotator")
    campaign_id = campaign(store, admin)
    campaigns.add_members(store, admin, campaign_id, [annotator.id])
    held = [item["task"] for item in handout.items(store, annotator, campaign_id, "annotate", count=3)]
    before = places(store, campaign_id)
    rounds.change_round_settings(store, admin, campaign_id, strategy="longest", random_share=0.0)
    rounds.order_now(store, admin, campaign_id)
    with pytest.raises(Conflict, match="queued or running"):
        rounds.order_now(store, admin, campaign_id)
    assert work(store, tmp_path / "home") == 1
    after = places(store, campaign_id)
    assert sorted(id_ for id_, *_ in after) == sorted(id_ for id_, *_ in before)
    assert [place for _, place, _ in after] == [place for _, place, _ in before]
    assert [id_ for id_, *_ in after] != [id_ for id_, *_ in before]
    assert {why for *_, why in after} == {"longest"}
    with store.read() as session:
        lengths = [len(session.get_one(SentenceRow, id_).tokens) for id_, *_ in after]
        assert all(session.get_one(Task, id_).sentence.chosen_by is None for id_ in held)
    assert lengths[0] == max(lengths)  # sentences that say nearly the same come later
    assert sum(lengths[:4]) > sum(lengths[-4:])
    assert [i["task"] for i in handout.items(store, annotator, campaign_id, "annotate", count=3)] == held
    round_ = newest(store, admin, campaign_id)
    assert (round_.state, round_.ordered, round_.run_id, round_.automatic) == ("done", 9, None, False)


def test_turn_gives_chance_its_share_and_says_which_gold_it_brought(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin)
    rounds.change_round_settings(store, admin, campaign_id, strategy="longest", random_share=0.5)
    rounds.order_now(store, admin, campaign_id)
    work(store, tmp_path / "home")
    found = [why for *_, why in places(store, campaign_id)]
    assert found.count("chance") == found.count("longest") == 6
    assert rounds.gold_by_choice(store, admin, campaign_id) == {"import": 20}


def test_turn_without_gold_or_model_begins_cold_and_says_so(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin, gold=False)
    rounds.change_round_settings(store, admin, campaign_id, strategy="token_entropy")
    assert work(store, tmp_path / "home") == 1  # the worker sees by itself that nothing has been ordered yet
    round_ = newest(store, admin, campaign_id)
    assert round_.state == "done" and round_.automatic and round_.scored == 0
    assert any("token_entropy" in note for note in round_.notes) and any("bert_km" in note for note in round_.notes)


def test_turns_go_by_themselves_from_gold_to_run_to_queue_to_suggestions(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin)
    rounds.change_round_settings(
        store, admin, campaign_id, strategy="token_entropy", retrain_every=10, recipe=small(tmp_path)
    )
    assert work(store, tmp_path / "home") == 3  # run, turn, suggestions
    round_ = newest(store, admin, campaign_id)
    assert (round_.state, round_.automatic, round_.gold, round_.scored, round_.run_state) == (
        "done",
        True,
        20,
        12,
        "done",
    )
    kinds = [job.kind for job in queue.list_jobs(store, admin, campaign_id)]
    assert kinds == ["score_pool", "turn", "run"]
    assert work(store, tmp_path / "home") == 0  # nothing is due before ten more
    sentences.add_sentences(store, admin, campaign_id, bare(9, 200))
    assert work(store, tmp_path / "home") == 0
    sentences.add_sentences(store, admin, campaign_id, bare(1, 300))
    assert rounds.tick(store) == 1 and rounds.tick(store) == 0
    assert len(rounds.list_rounds(store, admin, campaign_id)) == 2
    assert work(store, tmp_path / "home") == 3


@pytest.mark.parametrize("floor", [0.0, 1.0])
def test_new_model_suggests_in_the_next_sentences_before_the_queue_is_ordered(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, floor: float
) -> None:
    admin = person(store, "admin")
    campaign_id, order = campaign(store, admin), round_kind.PoolOrdering.order
    with store.write() as session:
        row = session.get_one(Campaign, campaign_id)
        row.model_floor, row.suggestions_on = floor, True
    rounds.change_round_settings(
        store, admin, campaign_id, strategy="token_entropy", retrain_every=10, recipe=small(tmp_path)
    )
    front, seen = [id_ for id_, *_ in places(store, campaign_id)][:2], list[set[int]]()

    def look(self: round_kind.PoolOrdering, *given: Any, **more: Any) -> Selection:
        with store.read() as session:
            rows = layer_rows.suggestions(session, campaign_id).values()
            seen.append({row.sentence_id for own in rows for row in own if row.run_id})
        return order(self, *given, **more)

    def sure(self: Predictor, items: list[Sentence], batch_size: int = 32) -> list[tuple[Suggestion, ...]]:
        return [(Suggestion(0, 1, "song", "model:run 1", 0.9, None),) for _ in items]

    monkeypatch.setattr(round_kind, "SOON", 2)
    monkeypatch.setattr(round_kind.PoolOrdering, "order", look)
    monkeypatch.setattr(Predictor, "predict", sure)
    assert work(store, tmp_path / "home") == (2 if floor else 3)
    assert seen == [set() if floor else set(front)]
    rounds.order_now(store, admin, campaign_id)  # with the same model, which suggests already
    assert work(store, tmp_path / "home") == (1 if floor else 2)
    assert len(seen) == 2 and len(seen[1]) == (0 if floor else 12)


def test_students_of_rounds_go_on_from_their_teacher_from_forty_gold_sentences_on() -> None:
    text = "longest with self-training"
    usual = recipe_for(text, {}, 40)
    assert (usual.setting, usual.self_training_fresh, usual.self_training_epochs) == ("self_training", False, 5)
    assert recipe_for(text, {}, 39) == Recipe(setting="self_training")
    own = recipe_for(text, {"self_training_fresh": True, "self_training_epochs": 9, "seed": 3}, 40)
    assert (own.self_training_fresh, own.self_training_epochs, own.seed) == (True, 9, 3)
    staged = recipe_for(text, {"setting": "pretrain_finetune"}, 40)
    assert (staged.setting, staged.self_training_epochs) == ("transfer_self_training", 16)
    assert recipe_for("longest", {"seed": 3}, 40) == Recipe(seed=3)


def test_the_first_runs_of_rounds_take_smaller_batches_unless_told() -> None:
    assert [recipe_for("longest", {}, gold).batch_size for gold in (10, 19, 20)] == [4, 4, 8]
    assert recipe_for("", {"batch_size": 16}, 10).batch_size == 16


def test_recipes_on_less_gold_stand_beside_the_number_that_it_stays_below() -> None:
    text = "longest with self-training"
    assert on_less_gold(text, {}) == ((20, Recipe(batch_size=4)), (40, Recipe(setting="self_training")))
    assert on_less_gold("longest", {"batch_size": 16}) == ()
    assert on_less_gold("longest", {"seed": 3}) == ((20, Recipe(batch_size=4, seed=3)),)


def test_the_first_runs_of_rounds_have_no_students_unless_a_gazetteer_teaches_them_or_the_recipe_says_so() -> None:
    text = "longest with self-training"
    assert [recipe_for(text, {}, gold).setting for gold in (10, 19, 20)] == ["direct", "direct", "self_training"]
    assert recipe_for(f"{text} and gazetteer", {}, 10).self_training_gazetteer
    assert recipe_for(text, {"setting": "self_training"}, 10).setting == "self_training"
    with pytest.raises(InvalidConfig, match="not with 'joint'"):
        recipe_for(text, {"setting": "joint"}, 10)


def test_runs_of_a_strategy_with_self_training_learn_from_the_pool(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = person(store, "admin")
    campaign_id, text = campaign(store, admin), "longest with self-training"
    recipe = {**small(tmp_path), "self_training_epochs": 2}
    monkeypatch.setattr(round_settings, "STUDENTS_FROM", 20)
    with pytest.raises(InvalidConfig, match="not with 'joint'"):
        rounds.change_round_settings(store, admin, campaign_id, strategy=text, recipe={**recipe, "setting": "joint"})
    rounds.change_round_settings(store, admin, campaign_id, strategy=text, retrain_every=10, recipe=recipe)
    assert work(store, tmp_path / "home") == 3
    assert newest(store, admin, campaign_id).strategy == text
    found = adaptation.get_run(store, admin, adaptation.list_runs(store, admin, campaign_id)[0].id)
    assert found.run.recipe["setting"] == "self_training" and not found.run.recipe["self_training_fresh"]
    assert any("Students learn from 12 of 12 unlabelled sentences" in reason for reason in found.reasons)
    assert {why for *_, why in places(store, campaign_id)} <= {"longest", "chance"}


def test_runs_whose_teachers_hear_a_gazetteer_are_told_what_was_suggested_in_the_pool(
    store: Store, tmp_path: Path
) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin)
    recipe = {**small(tmp_path), "self_training_epochs": 2}
    text = "longest with self-training and gazetteer"
    rounds.change_round_settings(store, admin, campaign_id, strategy=text, retrain_every=10, recipe=recipe)
    with store.write() as session:  # a name in three sentences; a model's word is not heard
        rows = suggestion_rows.next_to_annotate(session, campaign_id)
        said = [
            {"start": 0, "end": 1, "type": "song", "source": source, "score": 0.9, "entity": None, "run_id": None}
            for source in ("dbpedia", "model:run 1")
        ]
        values = [{"sentence_id": row.id, **one} for row in rows[:3] for one in said]
        suggestion_rows.replace_suggestions(session, [row.id for row in rows[:3]], values, kinds=GAZETTEER.kinds)
        suggestion_rows.mark_preannotated(session, [row.id for row in rows[:9]])
    assert work(store, tmp_path / "home") == 3
    assert newest(store, admin, campaign_id).strategy == text
    found = adaptation.get_run(store, admin, adaptation.list_runs(store, admin, campaign_id)[0].id)
    assert found.run.recipe["self_training_gazetteer"] is True
    assert any("are not used, as no gold sentence has their proposals" in one for one in found.reasons)
    with store.write() as session:
        gold = [row.id for row in layer_rows.sentences(session, campaign_id, preannotated=False)]
        suggestion_rows.mark_preannotated(session, [id for id in gold if id not in {row.id for row in rows}])
    again = adaptation.start_run(
        store, admin, campaign_id=campaign_id, snapshot_id=snapshots.list_snapshots(store, admin, campaign_id)[0].id,
        recipe=found.run.recipe,
    )  # fmt: skip
    work(store, tmp_path / "home")
    reasons = adaptation.get_run(store, admin, again).reasons
    assert any(
        "12 unlabelled sentences too, in 9 of which gazetteer and links propose 3 spans." in one for one in reasons
    )
    with store.write() as session:
        suggestion_rows.mark_preannotated(session, [row.id for row in rows])
    again = adaptation.start_run(
        store, admin, campaign_id=campaign_id, snapshot_id=snapshots.list_snapshots(store, admin, campaign_id)[0].id,
        recipe={**found.run.recipe, "seed": 666},
    )  # fmt: skip
    work(store, tmp_path / "home")
    reasons = adaptation.get_run(store, admin, again).reasons
    assert any("12 unlabelled sentences too, in which gazetteer and links propose 3 spans." in one for one in reasons)


def test_turns_are_one_curve_whatever_their_snapshots(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin)
    recipe = small(tmp_path)
    rounds.change_round_settings(store, admin, campaign_id, strategy="longest", retrain_every=6, recipe=recipe)
    for number in range(3):
        if number:
            more = own_sentences(6, offset=80 + 10 * number)
            sentences.add_sentences(store, admin, campaign_id, in_music(more))
        if number == 2:
            sentences.add_sentences(store, admin, campaign_id, in_music(own_sentences(2, offset=120)), split="test")
            rounds.change_round_settings(store, admin, campaign_id, strategy="k_centre", retrain_every=6, recipe=recipe)
        work(store, tmp_path / "home")
    snapshot_id = snapshots.list_snapshots(store, admin, campaign_id)[0].id
    adaptation.start_run(store, admin, campaign_id=campaign_id, snapshot_id=snapshot_id, recipe={**recipe, "seed": 9})
    work(store, tmp_path / "home")
    drawn, by_rounds = sorted(curves.curve(store, admin, campaign_id), key=lambda one: one.title.endswith("rounds"))
    assert by_rounds.title.endswith("· rounds") and by_rounds.snapshot is None
    assert [point.size for point in by_rounds.points] == [20, 26, 32]
    assert by_rounds.strategies == ("longest", "k_centre") and by_rounds.measured_on == (8, 8, 10)
    assert [point.size for point in drawn.points] == [32] and drawn.strategies == drawn.measured_on == ()
    grown = learning.rounds(store, admin, [by_rounds])[by_rounds.title]
    assert [one.sentences for one in grown] == [20, 26, 32] and grown[0].tokens < grown[1].tokens < grown[2].tokens
    assert list(learning.confusions(store, admin, by_rounds)) == [20, 26, 32]


def test_rounds_on_little_gold_are_on_the_curve_of_later_ones(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id, recipe, text = campaign(store, admin), small(tmp_path), "longest with self-training"
    with store.write() as session:
        owner = enter(session, SYSTEM, campaign_id, SYSTEM.role)[1]
        for gold in (10, 20, 40, 60):
            run_id = adaptation.start_run_on_gold(session, SYSTEM, owner, recipe_for(text, recipe, gold))
            run = run_rows.get(session, run_id)
            assert run is not None
            run.size, run.state, run.test_f1 = gold, "done", 0.5
            round_rows.add(
                session, campaign_id=campaign_id, strategy=text, automatic=True, gold=gold, run_id=run_id, state="done"
            )

    def lines(changes: dict[str, object]) -> list[tuple[list[int], int]]:
        rounds.change_round_settings(store, admin, campaign_id, strategy=text, retrain_every=6, recipe=changes)
        drawn = curves.curve(store, admin, campaign_id)
        return [([point.size for point in line.points], line.recipes) for line in drawn]

    assert lines(recipe) == [([10, 20, 40, 60], 3)]
    changed = {**recipe, "self_training_epochs": 1, "self_training_fresh": False}
    assert sorted(lines(changed)) == [([10, 20], 2), ([40, 60], 1)]  # with these, students learn alike on any gold


def test_turn_says_that_its_run_waits_for_its_encoder(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id, recipe = campaign(store, admin), small(tmp_path)
    rounds.change_round_settings(store, admin, campaign_id, strategy="longest", retrain_every=10, recipe=recipe)
    with store.write() as session:
        job_id = job_rows.add(session, kind="pretrain", payload={"name": recipe["encoder"]}, priority=22)
    rounds.tick(store)
    said = rounds.queue_state(store, admin, campaign_id).under_way
    assert said == f"Round 1 waits for its run 1, which begins when job {job_id} has made its encoder."
    with store.write() as session:
        session.delete(session.get(Job, job_id))
    said = rounds.queue_state(store, admin, campaign_id).under_way
    assert said == "Round 1 waits for its run 1, which is queued."


def overheard(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return the list to which each order of a queue adds what it was asked with."""
    asked, order = [], round_kind.PoolOrdering.order

    def heard(self: round_kind.PoolOrdering, *given: Any, **more: Any) -> Selection:
        asked.append(more)
        return order(self, *given, **more)

    monkeypatch.setattr(round_kind.PoolOrdering, "order", heard)
    return asked


def test_turn_learns_from_the_gold_of_the_pool_and_never_from_that_of_dev_or_test(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, admin = overheard(monkeypatch), person(store, "admin")
    campaign_id = campaign(store, admin)
    rounds.change_round_settings(store, admin, campaign_id, strategy="longest")
    rounds.order_now(store, admin, campaign_id)
    work(store, tmp_path / "home")
    pool = {item.sentence.content_hash for item in in_music(own_sentences(20))}
    assert {item.sentence.content_hash for item in asked[0]["gold"]} == pool


def test_people_can_save_while_a_turn_reads_its_pool(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, gold = person(store, "admin"), round_kind.layers.gold
    saved: list[Actor] = []
    while_reading: list[int] = []
    campaign_id = campaign(store, admin)

    def while_somebody_saves(session: Session, campaign_id: int) -> object:
        added = threading.Thread(target=lambda: saved.append(person(store, "annotator")))
        added.start()
        added.join(timeout=5)
        while_reading.append(len(saved))
        return gold(session, campaign_id)

    monkeypatch.setattr(round_kind.layers, "gold", while_somebody_saves)
    rounds.change_round_settings(store, admin, campaign_id, strategy="longest")
    rounds.order_now(store, admin, campaign_id)
    work(store, tmp_path / "home")
    assert while_reading == [1]


def test_scores_of_another_model_with_the_same_number_are_not_taken_for_its_own(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin)
    rounds.change_round_settings(
        store, admin, campaign_id, strategy="token_entropy", retrain_every=10, recipe=small(tmp_path)
    )
    work(store, tmp_path / "home")
    rounds.order_now(store, admin, campaign_id)
    work(store, tmp_path / "home")
    assert [one.scored for one in rounds.list_rounds(store, admin, campaign_id)] == [0, 12]
    with store.write() as session:  # as in a store that was emptied or restored, and gives its numbers out again
        session.execute(sa.update(Run).values(created_at=now()))
    rounds.order_now(store, admin, campaign_id)
    work(store, tmp_path / "home")
    assert newest(store, admin, campaign_id).scored == 12
    assert len(list((tmp_path / "home" / "signals" / f"campaign-{campaign_id}").glob("model-*"))) == 1


def test_asking_for_an_order_does_not_put_off_the_next_run(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin)
    rounds.change_round_settings(
        store, admin, campaign_id, strategy="longest", retrain_every=10, recipe=small(tmp_path)
    )
    work(store, tmp_path / "home")
    sentences.add_sentences(store, admin, campaign_id, bare(9, 200))
    assert rounds.queue_state(store, admin, campaign_id).missing == 1
    rounds.order_now(store, admin, campaign_id)
    work(store, tmp_path / "home")
    assert rounds.queue_state(store, admin, campaign_id).missing == 1
    sentences.add_sentences(store, admin, campaign_id, bare(1, 300))
    assert rounds.tick(store) == 1 and newest(store, admin, campaign_id).run_state == "queued"


@pytest.mark.parametrize("archived", [False, True])
def test_turn_whose_campaign_wants_no_turns_any_more_comes_to_an_end(
    store: Store, tmp_path: Path, archived: bool
) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin)
    rounds.change_round_settings(
        store, admin, campaign_id, strategy="longest", retrain_every=10, recipe=small(tmp_path)
    )
    assert rounds.tick(store) == 1
    rounds.change_round_settings(store, admin, campaign_id, strategy="", retrain_every=0)
    if archived:
        campaigns.update_settings(store, admin, campaign_id, archived=True)
    before = places(store, campaign_id)
    work(store, tmp_path / "home")
    assert rounds.queue_state(store, admin, campaign_id).under_way is None
    round_ = newest(store, admin, campaign_id)
    assert (round_.state, round_.run_state) == (("cancelled" if archived else "done"), "done")
    assert places(store, campaign_id) == before
    suggested = "score_pool" in [job.kind for job in queue.list_jobs(store, admin, campaign_id)]
    assert suggested is not archived


@pytest.mark.parametrize(("every", "batch"), [(0, 25), (7, 7)])
def test_turn_asks_for_what_is_annotated_until_the_next_one(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int, batch: int
) -> None:
    asked, admin = overheard(monkeypatch), person(store, "admin")
    campaign_id = campaign(store, admin, gold=False)
    rounds.change_round_settings(store, admin, campaign_id, strategy="bert_km", retrain_every=every)
    rounds.order_now(store, admin, campaign_id)
    work(store, tmp_path / "home")
    assert [one["batch"] for one in asked] == [batch]


def test_two_workers_that_both_see_a_run_due_start_one(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin)
    rounds.change_round_settings(
        store, admin, campaign_id, strategy="longest", retrain_every=10, recipe=small(tmp_path)
    )
    both, seen, asked = threading.Barrier(2), rounds._is_due, threading.local()

    def wait_for_the_other(session: Session, found: Campaign) -> bool:
        due = seen(session, found)
        if not hasattr(asked, "once"):  # each thread's first look, before it writes
            asked.once = True
            both.wait(timeout=20)
        return due

    monkeypatch.setattr(rounds, "_is_due", wait_for_the_other)
    with ThreadPoolExecutor(2) as pool:
        steps = list(pool.map(lambda _: rounds.tick(store), range(2)))
    assert sorted(steps) == [0, 1]
    assert (
        len(rounds.list_rounds(store, admin, campaign_id)) == len(adaptation.list_runs(store, admin, campaign_id)) == 1
    )


def test_run_that_cannot_have_its_turn_is_not_left_behind(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin)
    rounds.change_round_settings(
        store, admin, campaign_id, strategy="longest", retrain_every=10, recipe=small(tmp_path)
    )

    def broken(*args: object, **more: object) -> int:
        raise RuntimeError("the power is gone")

    with monkeypatch.context() as patched:
        patched.setattr(round_rows, "add", broken)
        with pytest.raises(RuntimeError):
            rounds.tick(store)
    assert not adaptation.list_runs(store, admin, campaign_id)
    assert rounds.tick(store) == 1 and len(adaptation.list_runs(store, admin, campaign_id)) == 1


def test_turn_whose_run_fails_ends_and_is_not_tried_for_ever(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin)
    recipe = {**small(tmp_path), "encoder": str(tmp_path / "nowhere")}
    rounds.change_round_settings(store, admin, campaign_id, strategy="longest", retrain_every=10, recipe=recipe)
    work(store, tmp_path / "home")
    round_ = newest(store, admin, campaign_id)
    assert (round_.state, round_.run_state) == ("failed", "failed") and "failed" in round_.notes[-1]
    assert rounds.tick(store) == 0


def test_turn_whose_recipe_cannot_be_begun_says_why_and_the_worker_goes_on(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin)
    recipe = {"setting": "pretrain_finetune", "source": "nowhere"}
    rounds.change_round_settings(store, admin, campaign_id, strategy="longest", retrain_every=10, recipe=recipe)
    assert work(store, tmp_path / "home") == 0
    round_ = newest(store, admin, campaign_id)
    assert round_.state == "failed" and "nowhere" in round_.notes[0]
    assert rounds.tick(store) == 0 and len(rounds.list_rounds(store, admin, campaign_id)) == 1


def test_turn_that_two_workers_cannot_begin_fails_once(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin)
    recipe = {"setting": "pretrain_finetune", "source": "nowhere"}
    rounds.change_round_settings(store, admin, campaign_id, strategy="longest", retrain_every=10, recipe=recipe)
    alone = rounds._tick_one

    def while_another_does(store: Store, campaign_id: int) -> bool:
        monkeypatch.setattr(rounds, "_tick_one", alone)
        assert rounds.tick(store) == 1
        raise NotFound("There is no data set 'nowhere'.")

    monkeypatch.setattr(rounds, "_tick_one", while_another_does)
    assert rounds.tick(store) == 0 and len(rounds.list_rounds(store, admin, campaign_id)) == 1


def test_turn_whose_checkpoint_is_gone_orders_without_a_model(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin)
    snapshot = snapshots.freeze(store, admin, campaign_id)
    recipe = recipe_here(tmp_path, max_epochs=2)
    run_id = adaptation.start_run(store, admin, snapshot_id=snapshot.id, recipe=recipe)
    work(store, tmp_path / "home")
    shutil.rmtree(tmp_path / "home" / "checkpoints" / f"run-{run_id}")
    rounds.change_round_settings(store, admin, campaign_id, strategy="token_entropy", random_share=0.0)
    rounds.order_now(store, admin, campaign_id)
    work(store, tmp_path / "home")
    round_ = newest(store, admin, campaign_id)
    assert round_.state == "done" and round_.ordered == 12
    assert any("is gone" in note and "without a model" in note for note in round_.notes)
    assert "score_pool" not in [job.kind for job in queue.list_jobs(store, admin, campaign_id)]


def test_turn_with_every_sentence_leased_moves_nothing(store: Store, tmp_path: Path) -> None:
    admin, annotator = person(store, "admin"), person(store, "annotator")
    campaign_id = campaign(store, admin, pool=3)
    campaigns.add_members(store, admin, campaign_id, [annotator.id])
    handout.items(store, annotator, campaign_id, "annotate", count=3)
    rounds.change_round_settings(store, admin, campaign_id, strategy="longest")
    rounds.order_now(store, admin, campaign_id)
    work(store, tmp_path / "home")
    round_ = newest(store, admin, campaign_id)
    assert (round_.state, round_.ordered) == ("done", 0) and "The pool is empty." in round_.notes


def test_turn_that_is_cancelled_keeps_the_order(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin)
    rounds.change_round_settings(store, admin, campaign_id, strategy="longest")
    before = places(store, campaign_id)
    rounds.order_now(store, admin, campaign_id)
    queue.cancel_job(store, admin, queue.list_jobs(store, admin, campaign_id)[0].id)
    rounds.tick(store)
    assert newest(store, admin, campaign_id).state == "cancelled"
    assert places(store, campaign_id) == before


def test_turn_that_waits_is_cancelled_at_once(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin)
    rounds.change_round_settings(store, admin, campaign_id, strategy="longest")
    with pytest.raises(Conflict, match="No round is queued or running"):
        rounds.cancel_round(store, admin, campaign_id)
    before, round_id = places(store, campaign_id), rounds.order_now(store, admin, campaign_id)
    with pytest.raises(Conflict, match=f"Round {round_id} is queued or running; wait for it, or cancel it."):
        rounds.order_now(store, admin, campaign_id)
    state = rounds.queue_state(store, admin, campaign_id)
    assert (state.round_id, state.under_way) == (round_id, f"Round {round_id} is queued.")
    assert rounds.cancel_round(store, admin, campaign_id) == "cancelled"
    round_ = newest(store, admin, campaign_id)
    assert (round_.state, round_.notes) == ("cancelled", ("It was cancelled.",)) and round_.finished_at is not None
    assert rounds.queue_state(store, admin, campaign_id).under_way is None
    assert work(store, tmp_path / "home") == 0 and places(store, campaign_id) == before
    assert rounds.order_now(store, admin, campaign_id) > round_id


def test_turn_that_is_being_made_says_how_far_it_is_and_stops_when_told(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin)
    rounds.change_round_settings(store, admin, campaign_id, strategy="longest")
    before, seen = places(store, campaign_id), []

    def cancel_it(context: JobContext) -> None:
        context.message = "the model has read 5 of 12 sentences new to it"
        beat(store, context)
        seen.append(rounds.queue_state(store, admin, campaign_id))
        assert rounds.cancel_round(store, admin, campaign_id) == "running"
        seen.append(rounds.queue_state(store, admin, campaign_id))
        beat(store, context)

    round_id = rounds.order_now(store, admin, campaign_id)
    with pytest.MonkeyPatch.context() as patched:
        when_asked(patched, "turn", cancel_it)
        assert work(store, tmp_path / "home") == 1
    assert seen[0].under_way == f"Round {round_id} is being made: the model has read 5 of 12 sentences new to it."
    assert [one.cancelling for one in seen] == [False, True]
    assert queue.list_jobs(store, admin, campaign_id)[0].state == "cancelled"
    assert newest(store, admin, campaign_id).state == "cancelled" and places(store, campaign_id) == before
    assert rounds.order_now(store, admin, campaign_id) and work(store, tmp_path / "home") == 1
    assert newest(store, admin, campaign_id).state == "done" and places(store, campaign_id) != before


@pytest.mark.parametrize("begun", [False, True])
def test_turn_that_waits_for_its_run_is_cancelled_with_it(store: Store, tmp_path: Path, begun: bool) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin)
    rounds.change_round_settings(
        store, admin, campaign_id, strategy="longest", retrain_every=10, recipe=small(tmp_path)
    )
    before, said = places(store, campaign_id), []
    assert rounds.tick(store) == 1
    said.append(rounds.queue_state(store, admin, campaign_id).under_way)

    def cancel_it(context: JobContext) -> None:
        context.message, context.progress = "target · epoch 1", 0.25
        beat(store, context)
        said.append(rounds.queue_state(store, admin, campaign_id).under_way)
        assert rounds.cancel_round(store, admin, campaign_id) == "running"
        beat(store, context)

    if begun:
        with pytest.MonkeyPatch.context() as patched:
            when_asked(patched, "run", cancel_it)
            assert work(store, tmp_path / "home") == 1
        assert said[1] == f"Round 1 waits for its run {said[0].split()[6][:-1]}, 25%: target · epoch 1."
    else:
        assert rounds.cancel_round(store, admin, campaign_id) == "cancelled"
    round_ = newest(store, admin, campaign_id)
    assert said[0] == f"Round {round_.id} waits for its run {round_.run_id}, which is queued."
    assert (round_.state, round_.run_state) == ("cancelled", "cancelled") and "cancelled" in round_.notes[-1]
    assert rounds.tick(store) == 0 and work(store, tmp_path / "home") == 0  # as much gold has to come in again
    assert places(store, campaign_id) == before


def test_turn_of_retraining_alone_keeps_the_order_and_suggests(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin)
    before = places(store, campaign_id)
    rounds.change_round_settings(store, admin, campaign_id, strategy="", retrain_every=10, recipe=small(tmp_path))
    assert work(store, tmp_path / "home") == 2
    assert places(store, campaign_id) == before
    assert newest(store, admin, campaign_id).state == "done"
    assert queue.list_jobs(store, admin, campaign_id)[0].kind == "score_pool"
