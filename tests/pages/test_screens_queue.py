"""The page Queue: what comes next, the turns, the rules and who may change them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crossner_core.acquisition.selecting import RECOMMENDED
from crossner_core.acquisition.selecting import strategy as read_strategy
from crossner_core.training.recipe import Recipe
from db import job_rows
from db.engine import Store
from pages.components.marked_text import as_text
from tests.support.rounds import campaign, with_idle_weight
from tests.support.screens import open_screen
from tests.support.training_store import person, work
from workbench.campaigns import campaigns
from workbench.jobs import lease
from workbench.runs import rounds


def _open(monkeypatch: pytest.MonkeyPatch, store: Store, role: str, campaign_id: int, view: str = "") -> Any:
    actor = person(store, role, f"{role}-{len(view)}")
    if role == "expert":
        campaigns.add_members(store, person(store, "admin", f"boss-{len(view)}"), campaign_id, [actor.id])
    test = open_screen(monkeypatch, store, "queue", actor, campaign=campaign_id)
    assert not test.exception, test.exception
    if view:
        test.segmented_control[0].set_value(view).run()
        assert not test.exception, test.exception
    return test


def _said(test: Any) -> str:
    return "\n".join(one.value for kind in ("caption", "info", "warning", "error") for one in getattr(test, kind))


def test_queue_screen_shows_what_comes_next_and_why(
    monkeypatch: pytest.MonkeyPatch, store: Store, tmp_path: Path
) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin)
    test = _open(monkeypatch, store, "researcher", campaign_id)
    assert "12 sentences wait" in _said(test) and "as imported" in _said(test)
    assert set(test.dataframe[0].value["Chosen by"]) == {"import"} and not test.button
    rounds.change_round_settings(store, admin, campaign_id, strategy="longest", random_share=0.25, retrain_every=50)
    test = _open(monkeypatch, store, "researcher", campaign_id, "Next")
    assert "ordered by Longest sentences, 25% by chance" in _said(test) and "after 30 more gold sentences" in _said(
        test
    )
    next(one for one in test.button if one.label == "Order the queue now").click().run()
    assert not test.exception and "Round 1 is queued" in _said(test)
    work(store, tmp_path / "home")
    test = _open(monkeypatch, store, "expert", campaign_id)
    assert set(test.dataframe[0].value["Chosen by"]) == {"Longest sentences", "chance"} and not test.button


def test_queue_screen_says_how_far_a_turn_is_and_cancels_it(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin)
    rounds.change_round_settings(store, admin, campaign_id, strategy="longest")
    rounds.order_now(store, admin, campaign_id)
    claimed = lease.claim(store, worker="w")
    assert claimed is not None
    told = "the model has read 5 of 12 sentences new to it"
    with store.write() as session:
        job_rows.beat(session, job_id=claimed.id, worker="w", progress=0.4, message=told)
    test = _open(monkeypatch, store, "expert", campaign_id)
    assert as_text(f"Round 1 is being made: {told}.") in _said(test) and not test.button
    test = _open(monkeypatch, store, "researcher", campaign_id)
    next(one for one in test.button if one.label == "Cancel this round").click().run()
    assert not test.exception
    (button,) = [one for one in test.button if one.key == "queue:cancel:1"]
    assert button.label == "Cancelling …" and button.disabled
    with store.write() as session:
        job_rows.finish(session, job_id=claimed.id, worker="w", state="cancelled")
    rounds.tick(store)
    test.run()
    assert not test.exception and "Round 1" not in _said(test)
    assert not [one for one in test.button if one.key == "queue:cancel:1"]


def test_queue_screen_lists_turns(monkeypatch: pytest.MonkeyPatch, store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin)
    assert "No round yet" in _said(_open(monkeypatch, store, "researcher", campaign_id, "Rounds"))
    rounds.change_round_settings(store, admin, campaign_id, strategy="token_entropy")
    rounds.order_now(store, admin, campaign_id)
    work(store, tmp_path / "home")
    test = _open(monkeypatch, store, "expert", campaign_id, "Rounds")
    row = test.dataframe[0].value.iloc[0]
    assert (row["State"], row["Ordered"], row["Started"]) == ("done", 12, "by a person")
    assert "Left out because their signals are missing" in _said(test)


@pytest.mark.parametrize("view", ["Next", "Rounds", "Rules", "Savings"])
def test_queue_screen_opens_with_a_strategy_kept_with_the_weight_of_a_set(
    monkeypatch: pytest.MonkeyPatch, store: Store, view: str
) -> None:
    campaign_id = with_idle_weight(store, person(store, "admin"))
    test = _open(monkeypatch, store, "researcher", campaign_id, view)
    assert not test.error and as_text(
        "ordered by 2 × Longest sentences + Clusters of sentences (BERT-KM), 20% by chance"
    ) in _said(test)
    if view == "Rules":
        assert test.text_input(key=f"queue:mixture:{campaign_id}").value == "2*longest + bert_km"
        next(one for one in test.button if one.label == "Save the rules").click().run()
        assert not test.exception and not test.error
        test.text_input(key=f"queue:mixture:{campaign_id}").set_value("2*longest + 3*bert_km").run()
        next(one for one in test.button if one.label == "Save the rules").click().run()
        assert as_text("The weight of bert_km is 3; it can only be 1") in _said(test)


def test_queue_screen_changes_rules_for_researchers_alone(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin)
    test = _open(monkeypatch, store, "researcher", campaign_id, "Rules")
    test.selectbox(key=f"queue:strategy:{campaign_id}").set_value("own mixture").run()
    test.text_input(key=f"queue:mixture:{campaign_id}").set_value("wisdom").run()
    next(one for one in test.button if one.label == "Save the rules").click().run()
    assert "Unknown acquisition function" in _said(test)
    test.text_input(key=f"queue:mixture:{campaign_id}").set_value("2*longest + k_centre").run()
    test.number_input(key=f"queue:every:{campaign_id}").set_value(15).run()
    next(one for one in test.button if one.label == "Save the rules").click().run()
    assert not test.exception
    found = rounds.round_settings(store, admin, campaign_id)
    mixture = "2*longest + k_centre with self-training and gazetteer"  # as recommended, where nothing was chosen before
    assert (found.strategy, found.retrain_every, found.recipe) == (mixture, 15, None)
    usual = read_strategy(RECOMMENDED)
    test.selectbox(key=f"queue:strategy:{campaign_id}").set_value(usual.functions).run()
    taught = f"{usual.functions} with self-training"
    for learns, told, text in (
        (False, None, usual.functions),
        (True, True, f"{taught} and gazetteer"),
        (True, False, taught),
    ):
        test.checkbox(key=f"queue:students:{campaign_id}").set_value(learns).run()
        boxes = [one for one in test.checkbox if one.key == f"queue:told:{campaign_id}"]
        assert bool(boxes) is learns
        if boxes:
            boxes[0].set_value(told).run()
        next(one for one in test.button if one.label == "Save the rules").click().run()
        assert not test.exception and rounds.round_settings(store, admin, campaign_id).strategy == text
    test = _open(monkeypatch, store, "expert", campaign_id, "Rules")
    assert test.selectbox(key=f"queue:strategy:{campaign_id}").value == usual.functions
    assert test.checkbox(key=f"queue:students:{campaign_id}").value is True
    assert "Researchers and admins change these" in _said(test) and not test.button


def test_rules_take_what_models_learn_from_as_it_is_typed(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    admin = person(store, "admin")
    campaign_id = campaign(store, admin)
    test = _open(monkeypatch, store, "researcher", campaign_id, "Rules")
    test.selectbox(key=f"queue:strategy:{campaign_id}").set_value("own mixture").run()
    for text in ("longest with self-training", "longest with self-training and gazetteer"):
        test.text_input(key=f"queue:mixture:{campaign_id}").set_value(text).run()
        assert not test.checkbox and "after the functions say what models learn from" in _said(test)
        next(one for one in test.button if one.label == "Save the rules").click().run()
        assert not test.exception and rounds.round_settings(store, admin, campaign_id).strategy == text


def test_queue_screen_shows_each_campaigns_own_rules(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    admin = person(store, "admin")
    one, other = campaign(store, admin), campaign(store, admin, gold=False)
    rounds.change_round_settings(store, admin, one, strategy="longest with self-training")
    rounds.change_round_settings(store, admin, other, strategy="2*longest + k_centre")
    test = _open(monkeypatch, store, "researcher", one, "Rules")
    assert (test.selectbox[0].value, test.checkbox[0].value) == ("longest", True)
    test.selectbox[0].set_value("random").run()  # looked at, not saved
    test.session_state["campaign"] = other
    test.run()
    assert not test.exception and (test.selectbox[0].value, test.checkbox[0].value) == ("own mixture", False)
    assert test.text_input[0].value == "2*longest + k_centre"
    next(each for each in test.button if each.label == "Save the rules").click().run()
    assert rounds.round_settings(store, admin, other).strategy == "2*longest + k_centre"


def test_queue_screen_changes_the_recipe_from_what_is_set(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    admin = person(store, "admin")
    one, other = campaign(store, admin), campaign(store, admin, gold=False)
    recipe = {"max_epochs": 7, "encoder": "bert-base-cased", "architecture": "crf", "constrained": False}
    recipe |= {"setting": "pretrain_finetune", "source": "old-news", "source_epochs": 9, "learning_rate": 1e-4}
    rounds.change_round_settings(store, admin, one, strategy="longest", retrain_every=5, recipe=recipe)
    rounds.change_round_settings(store, admin, other, strategy="longest", retrain_every=5)

    def press(label: str) -> None:
        next(each for each in test.button if each.label == label).click().run()
        assert not test.exception and not test.error

    def box() -> Any:
        return next(each for each in test.checkbox if each.label == "Change the recipe")

    def epochs() -> Any:
        return next(each for each in test.number_input if each.label == "Max epochs")

    test = _open(monkeypatch, store, "researcher", one, "Rules")
    assert box().value is False
    box().check().run()
    assert epochs().value == 7
    press("Save the rules")
    assert rounds.round_settings(store, admin, one).recipe == recipe  # nothing was changed
    assert box().value is False
    box().check().run()
    epochs().set_value(5).run()
    test.session_state["campaign"] = other
    test.run()
    assert box().value is False
    box().check().run()
    assert epochs().value == Recipe().max_epochs
    press("Save the rules")
    assert rounds.round_settings(store, admin, other).recipe is None
    test.session_state["campaign"] = one
    test.run()
    box().check().run()
    epochs().set_value(6).run()
    press("Save the rules")
    assert rounds.round_settings(store, admin, one).recipe == recipe | {"max_epochs": 6}
    rounds.change_round_settings(store, admin, one, strategy="longest", retrain_every=5, recipe={"max_epochs": 4})
    test.run()
    box().check().run()
    assert epochs().value == 4  # what somebody else saved meanwhile
