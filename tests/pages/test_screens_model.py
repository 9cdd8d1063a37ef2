"""The model and campaign screens with real runs and real work behind them."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from streamlit.testing.v1 import AppTest

from crossner_core.domains import load_domain
from crossner_core.schema import Suggestion
from crossner_core.training.recipe import Recipe
from db.engine import Store
from db.training_tables import Job
from pages import shell
from pages.components.marked_text import as_text
from tests.support.builders import Tab, make_campaign, make_gold, make_people, make_sentences
from tests.support.campaigns import campaign_with_gold, in_music
from tests.support.rounds import chosen_by_strategies, small
from tests.support.screens import made_reports, open_screen, part
from tests.support.training_builders import own_sentences
from tests.support.training_store import own_dataset, person, recipe_here, work
from workbench.accounts.actors import SYSTEM, Actor
from workbench.campaigns import campaigns, sentences
from workbench.data import snapshots
from workbench.jobs import queue
from workbench.labelling import handout
from workbench.runs import adaptation, rounds
from workbench.suggestions import preannotating

ADAPTATION_VIEWS = ("Curve", "As gold grows", "By type", "Calibration", "Train", "Runs")
OVERVIEW_VIEWS = ("Progress", "Comparison with the paper", "Agreement", "Suggestions", "Effort")


def _said(test: Any) -> str:
    """All words on the screen that came through text elements."""
    kinds = ("markdown", "caption", "info", "warning", "error", "success", "text")
    return "\n".join(element.value for kind in kinds for element in getattr(test, kind))


def _field(test: Any, label: str) -> Any:
    return next(one for kind in ("text_input", "number_input") for one in getattr(test, kind) if one.label == label)


def _show(test: Any, key: str, view: str) -> Any:
    test.button_group(key=key).set_value(view).run()
    assert not test.exception, test.exception
    return test


@pytest.fixture
def trained(store: Store, tmp_path: Path) -> tuple[Actor, int]:
    """A campaign with gold and a curve of two sizes and two seeds, trained with a tiny encoder."""
    admin = person(store, "admin")
    campaign_id = campaign_with_gold(store, admin)
    snapshot = snapshots.freeze(store, admin, campaign_id)
    adaptation.start_few_shot(
        store,
        admin,
        campaign_id=campaign_id,
        snapshot_id=snapshot.id,
        recipe=recipe_here(tmp_path, max_epochs=2),
        sizes=(5, 20),
        seeds=(1, 2),
    )
    assert work(store, tmp_path) == 4
    return admin, campaign_id


def test_adaptation_screen_shows_every_view_of_finished_runs(
    monkeypatch: pytest.MonkeyPatch, store: Store, trained: tuple[Actor, int]
) -> None:
    admin, campaign_id = trained
    test = open_screen(monkeypatch, store, "adaptation", admin, campaign=campaign_id)
    assert not test.exception
    assert "Mean over seeds" in _said(test)
    assert len(test.get("plotly_chart")) == 1
    assert "area" in test.dataframe[0].value.columns
    test.button_group(key="curve-axis").set_value("tokens").run()
    assert "Seeds differ in their tokens" in _said(test) and not test.exception
    assert "not a random sample of the pool" not in _said(test)
    chosen_by_strategies(store, campaign_id, 3)
    assert "Strategies chose 3 of the" in _said(test.run()) and "not a random sample of the pool" in _said(test)
    grown = _said(_show(test, "model-view", "As gold grows"))
    assert "Outcome of the gold entities" in grown and len(test.get("plotly_chart")) == 2
    by_type = _said(_show(test, "model-view", "By type"))
    assert "Measured on test" in by_type and "strict IOB2" in by_type
    trust = _said(_show(test, "model-view", "Calibration"))
    assert "spans of test; correct means start, end and type" in trust and len(test.get("plotly_chart")) == 1
    assert "No sentence with suggestions outside test is gold yet" in trust
    _show(test, "model-view", "Runs")
    assert list(test.dataframe[0].value["state"]) == ["done"] * 4
    assert "No worker is alive" in _said(test)


def test_adaptation_screen_shows_turns_as_one_curve_and_says_who_chose(
    monkeypatch: pytest.MonkeyPatch, store: Store, tmp_path: Path
) -> None:
    admin = person(store, "admin")
    campaign_id = campaign_with_gold(store, admin)
    recipe = small(tmp_path)
    rounds.change_round_settings(
        store, admin, campaign_id, strategy="2*longest + k_centre", retrain_every=5, recipe=recipe
    )
    work(store, tmp_path / "home")
    sentences.add_sentences(store, admin, campaign_id, in_music(own_sentences(5, offset=90)))
    sentences.add_sentences(store, admin, campaign_id, in_music(own_sentences(1, offset=99)), split="test")
    work(store, tmp_path / "home")
    test = open_screen(monkeypatch, store, "adaptation", admin, campaign=campaign_id)
    assert not test.exception
    assert as_text("chosen by the queue (by 2*longest + k_centre), not drawn at random") in _said(test)
    assert as_text("Measured on the gold at the time: 8 → 9 sentences") in _said(test)
    assert "random order" not in _said(test) and "No area" not in _said(test)
    assert list(test.dataframe[0].value["seeds"]) == [1]
    grown = _said(_show(test, "model-view", "As gold grows"))
    assert "chosen by the queue" in grown and not test.exception


def test_report_of_calibration_holds_what_the_page_shows(
    monkeypatch: pytest.MonkeyPatch, store: Store, trained: tuple[Actor, int]
) -> None:
    made = made_reports(monkeypatch, "pages.parts.model.calibration")
    admin, campaign_id = trained
    test = open_screen(monkeypatch, store, "adaptation", admin, campaign=campaign_id)
    _show(test, "model-view", "Calibration")
    (said,) = made.values()
    assert "spans of test; correct means start, end and type" in said and said.count("Plotly.newPlot(") >= 1
    assert "No sentence with suggestions outside test is gold yet" in said


def test_adaptation_screen_shows_what_gold_says_of_the_sources(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    people = make_people(store)
    campaign_id = make_campaign(store, people)
    with store.read() as session:
        ids = [id_ for id_, _ in preannotating.unlabelled_pool(session, campaign_id)]
    suggestions = {id_: [Suggestion(0, 1, "award", "model:run 1", 0.8)] for id_ in ids}
    preannotating.add_model_suggestions(store, SYSTEM, campaign_id, run_id=1, suggestions=suggestions)
    make_gold(store, people, campaign_id)
    test = open_screen(monkeypatch, store, "adaptation", people["res"], campaign=campaign_id)
    said = _said(_show(test, "model-view", "Calibration"))
    assert "No finished run yet" in said and "gold sentences outside test had suggestions" in said
    table = test.dataframe[0].value
    assert list(table["type"]) == ["all types", "award"] and list(table["correct"]) == [0.0, 0.0]
    assert all(abs(value - 80) < 1e-6 for value in table["confidence"]) and table["now"].max() < 80


def test_adaptation_screen_starts_a_run_from_its_form(
    monkeypatch: pytest.MonkeyPatch, store: Store, trained: tuple[Actor, int]
) -> None:
    admin, campaign_id = trained
    test = _show(open_screen(monkeypatch, store, "adaptation", admin, campaign=campaign_id), "model-view", "Train")
    test.number_input(key=f"recipe-{campaign_id}-max_epochs").set_value(3)
    before = {run.id for run in adaptation.list_runs(store, admin, campaign_id)}
    next(button for button in test.button if button.label == "Start one run").click().run()
    assert not test.exception
    (new,) = [run for run in adaptation.list_runs(store, admin, campaign_id) if run.id not in before]
    assert (new.state, new.recipe["max_epochs"]) == ("queued", 3)
    with store.write() as session:
        session.execute(sa.update(Job).where(Job.run_id == new.id).values(message="The worker was stopped."))
    assert f"\n{as_text('The worker was stopped.')}\n" in _said(_show(test, "model-view", "Runs"))


def test_adaptation_screen_trains_on_a_data_set_and_shows_what_came_of_it(
    monkeypatch: pytest.MonkeyPatch, store: Store, tmp_path: Path, trained: tuple[Actor, int]
) -> None:
    admin, campaign_id = trained
    data = own_dataset(store, admin)
    test = _show(open_screen(monkeypatch, store, "adaptation", admin, campaign=campaign_id), "model-view", "Train")
    where = next(one for one in test.selectbox if one.label == "Train on")
    assert where.options[0].startswith("Snapshot ")
    assert where.index == 0
    where.select_index(
        next(at for at, name in enumerate(where.options) if name.startswith(f"Data set {data.name} · 24 to train on"))
    ).run()
    assert _field(test, "Sizes").value == "10, 24"
    test.number_input(key=f"recipe-{campaign_id}-max_epochs").set_value(2)
    next(button for button in test.button if button.label == "Start one run").click().run()
    assert not test.exception
    (asked,) = adaptation.list_runs(store, admin, dataset_id=data.id)
    assert (asked.campaign_id, asked.recipe["max_epochs"], asked.size) == (None, 2, 24)
    adaptation.cancel(store, admin, asked.id)
    run_id = adaptation.start_run(store, admin, dataset_id=data.id, recipe=recipe_here(tmp_path))
    work(store, tmp_path)
    _show(test, "model-view", "Runs")
    assert len(test.dataframe[0].value) == 4
    sentences.add_sentences(store, admin, campaign_id, make_sentences())
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path))  # where the checkpoints lie
    _suggest_after_a_preview(test, store, admin, campaign_id)
    test.selectbox(key=f"runs-on-{campaign_id}").set_value(data.name).run()
    assert sorted(test.dataframe[0].value["run"]) == [asked.id, run_id]
    assert f"Trained on 24 gold sentences of data set {data.name}" in _said(test)
    assert "Suggest with this model" not in [one.label for one in test.button]
    for view in ("Curve", "As gold grows", "By type"):
        _show(test, "model-view", view)
        assert test.selectbox(key=f"runs-on-{campaign_id}").value == data.name
        assert test.get("plotly_chart")


def _suggest_after_a_preview(test: AppTest, store: Store, admin: Actor, campaign_id: int) -> None:
    """Have the chosen run suggest; the page shows ten sentences first, and queues nothing until it is told."""
    next(button for button in test.button if button.label == "Suggest with this model").click().run()
    end = time.monotonic() + 60
    while "reads ten open sentences" in _said(test) and time.monotonic() < end:
        time.sleep(0.2)
        test.run()
    assert "would suggest" in _said(test) and queue.newest_job(store, admin, "score_pool", campaign_id) is None
    next(button for button in test.button if button.label.startswith("Suggest in ")).click().run()
    job = queue.newest_job(store, admin, "score_pool", campaign_id)
    assert not test.exception and job is not None and job.state == "queued"


def test_adaptation_screen_keeps_sizes_and_seeds_while_another_view_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, store: Store, trained: tuple[Actor, int]
) -> None:
    admin, campaign_id = trained
    test = _show(open_screen(monkeypatch, store, "adaptation", admin, campaign=campaign_id), "model-view", "Train")
    _field(test, "Sizes").set_value("5, 9")
    _field(test, "Seeds").set_value("7").run()
    _show(_show(test, "model-view", "Runs"), "model-view", "Train")
    assert (_field(test, "Sizes").value, _field(test, "Seeds").value) == ("5, 9", "7")


def test_adaptation_screen_keeps_the_chosen_run_when_another_is_queued(
    monkeypatch: pytest.MonkeyPatch, store: Store, tmp_path: Path, trained: tuple[Actor, int]
) -> None:
    admin, campaign_id = trained
    other = campaign_with_gold(store, admin, name="Other")

    def start(where: int) -> int:
        snapshot = snapshots.freeze(store, admin, where)
        recipe = recipe_here(tmp_path, max_epochs=5)
        return adaptation.start_run(store, admin, campaign_id=where, snapshot_id=snapshot.id, recipe=recipe)

    def titles() -> str:
        return next(one.value for one in test.markdown if " — " in one.value)

    test = _show(open_screen(monkeypatch, store, "adaptation", admin, campaign=campaign_id), "model-view", "Runs")
    chosen = int(test.dataframe[0].value["run"].iloc[1])
    test.session_state[test.dataframe[0].key] = {"selection": {"rows": [1], "columns": [], "cells": []}}
    test.run()
    said = titles()
    assert said.endswith("done") and str(chosen) in said
    newer = start(campaign_id)
    test.run()
    assert list(test.dataframe[0].value["run"])[:3] == [newer, chosen + 1, chosen]
    assert titles() == said and not [one for one in test.button if one.label == "Cancel this run"]
    elsewhere = start(other)
    test.session_state["campaign"] = other
    test.run()
    assert not test.exception and str(elsewhere) in titles() and titles().endswith("queued")


def test_adaptation_screen_refuses_sizes_that_are_no_numbers(
    monkeypatch: pytest.MonkeyPatch, store: Store, trained: tuple[Actor, int]
) -> None:
    admin, campaign_id = trained
    test = _show(open_screen(monkeypatch, store, "adaptation", admin, campaign=campaign_id), "model-view", "Train")
    _field(test, "Sizes").set_value("ten")
    next(button for button in test.button if button.label == "Start the curve").click().run()
    assert not test.exception
    assert any("'ten'" in error.value for error in test.error)
    assert len(adaptation.list_runs(store, admin, campaign_id)) == 4


def test_adaptation_screen_says_what_became_of_sizes_above_all_there_is(
    monkeypatch: pytest.MonkeyPatch, store: Store, trained: tuple[Actor, int]
) -> None:
    admin, campaign_id = trained
    test = _show(open_screen(monkeypatch, store, "adaptation", admin, campaign=campaign_id), "model-view", "Train")
    _field(test, "Sizes").set_value("5, 900")
    next(button for button in test.button if button.label == "Start the curve").click().run()
    assert not test.exception
    assert any("900 became 20, all there is." in one.value for one in test.success)


def test_adaptation_screen_asks_sizes_and_recipe_of_each_campaign(
    monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    admin = person(store, "admin")
    one, other = (campaign_with_gold(store, admin, name=name) for name in ("One", "Other"))
    sentences.add_sentences(store, admin, other, in_music(own_sentences(8, offset=36)))
    for campaign_id in (one, other):
        snapshots.freeze(store, admin, campaign_id)
    test = _show(open_screen(monkeypatch, store, "adaptation", admin, campaign=one), "model-view", "Train")

    def turn_to(campaign_id: int) -> None:
        test.session_state["campaign"] = campaign_id
        test.run()
        assert not test.exception

    assert _field(test, "Sizes").value == "10, 20"
    _field(test, "Sizes").set_value("5, 12")
    _field(test, "Seeds").set_value("9")
    _field(test, "Max epochs").set_value(3).run()
    turn_to(other)
    assert _field(test, "Sizes").value == "10, 25, 28" and _field(test, "Seeds").value != "9"
    assert _field(test, "Max epochs").value == Recipe().max_epochs
    turn_to(one)
    assert _field(test, "Max epochs").value == 3  # what was typed is kept for its own campaign
    sentences.add_sentences(store, admin, one, in_music(own_sentences(3, offset=36)))
    _field(test, "Sizes").set_value("5, 12").run()
    next(button for button in test.button if button.label.startswith("Freeze the gold now")).click().run()
    assert _field(test, "Sizes").value == "10, 23"  # the newer snapshot's


def test_adaptation_screen_chooses_methods_in_each_campaign(
    monkeypatch: pytest.MonkeyPatch, store: Store, tmp_path: Path, trained: tuple[Actor, int]
) -> None:
    admin, campaign_id = trained
    other = campaign_with_gold(store, admin, name="Other")
    adaptation.start_run(
        store,
        admin,
        campaign_id=other,
        snapshot_id=snapshots.freeze(store, admin, other).id,
        recipe=recipe_here(tmp_path, max_epochs=1, architecture="crf"),
    )
    assert work(store, tmp_path) == 1
    test = open_screen(monkeypatch, store, "adaptation", admin, campaign=campaign_id)
    test.multiselect[0].set_value(test.multiselect[0].value).run()
    test.session_state["campaign"] = other
    test.run()
    assert not test.exception and "Choose a method" not in _said(test)
    assert len(test.multiselect[0].value) == 1 and len(test.get("plotly_chart")) == 1


def test_overview_screen_shows_every_view(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    people = make_people(store)
    campaign_id = make_campaign(store, people, blind_share=1.0)
    make_gold(store, people, campaign_id)
    test = open_screen(monkeypatch, store, "campaign", people["res"], campaign=campaign_id)
    assert not test.exception
    assert "6 of 6 sentences are gold" in test.get("progress")[0].proto.text
    shares = _said(_show(test, "campaign-view", "Comparison with the paper"))
    assert all(paper in shares for paper in ("63.64 %", "73.33 %", "8.59 %", "8.57 %"))
    _show(test, "campaign-view", "Agreement")
    assert next(iter(test.dataframe[0].value["measure"])).startswith("entity F1")
    for view in OVERVIEW_VIEWS:
        _show(test, "campaign-view", view)


def test_my_work_screen_says_what_became_of_a_sentence(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    people = make_people(store)
    campaign_id = make_campaign(store, people)
    test = open_screen(monkeypatch, store, "my_work", people["ann1"], campaign=campaign_id)
    assert "You have not sent a sentence yet" in _said(test)
    make_gold(store, people, campaign_id)
    test = open_screen(monkeypatch, store, "my_work", people["ann1"], campaign=campaign_id)
    assert not test.exception
    assert "6 sentences sent · 0 on their way to gold" in _said(test)
    assert not test.button


def test_my_work_screen_reopens_what_nobody_has_gone_on_with(monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    people = make_people(store)
    campaign_id = make_campaign(store, people)
    tab = Tab(store, people["ann1"], campaign_id, "annotate")
    first, second = tab.items(2)
    for item in (first, second):
        tab.do("submit", item, [(0, 1, "person")])
    test = open_screen(monkeypatch, store, "my_work", people["ann1"], campaign=campaign_id)
    assert second["text"] in _said(test)
    test.button(key=f"my-work-reopen-{second['task']}").click().run()
    assert not test.exception
    assert "it is the next one under Annotate" in _said(test) and "1 sentences sent" in _said(test)
    again = tab.items()[0]
    assert again["task"] == second["task"] and again["work"]["spans"][0]["type"] == "person"
    Tab(store, people["ann2"], campaign_id, "check").items(1)
    test.button(key=f"my-work-reopen-{first['task']}").click().run()
    assert "The next stage of this sentence has begun" in "\n".join(error.value for error in test.error)
    assert not test.exception


@pytest.mark.parametrize(("screen", "name", "stage"), [("annotate", "ann1", "annotate"), ("check", "ann2", "check")])
def test_labelling_screens_hand_the_editor_the_next_sentences(
    monkeypatch: pytest.MonkeyPatch, store: Store, screen: str, name: str, stage: str
) -> None:
    people = make_people(store)
    campaign_id = make_campaign(store, people)
    test = open_screen(monkeypatch, store, screen, people[name], campaign=campaign_id)
    assert not test.exception
    payload = json.loads(test.get("bidi_component")[0].proto.json)
    expected = [item["task"] for item in handout.items(store, people[name], campaign_id, stage)]
    assert [item["task"] for item in payload["items"]] == expected
    assert payload["mode"] == stage
    assert len(payload["types"]) == 13


def test_labelling_screen_follows_a_domain_that_is_taken_over_while_it_is_open(
    monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    people = make_people(store)
    campaign_id = make_campaign(store, people)
    monkeypatch.setattr(shell, "store", lambda: store)
    test = part(_annotate)
    test.session_state["scene"] = people["ann1"], campaigns.get_campaign(store, people["ann1"], campaign_id)
    test.run()
    assert "band" in _type_names(test)
    music = load_domain("music")
    fewer = replace(music, types=tuple(kind for kind in music.types if kind.name != "band"))
    campaigns.update_domain(store, people["adm"], campaign_id, fewer)
    assert "band" not in _type_names(test.run())
    assert not test.exception


def _annotate() -> None:
    """Draw the editor as its fragment does: with the campaign as it was when the page was opened."""
    import streamlit as st

    from pages.parts.work.editing import labelling_screen

    actor, campaign = st.session_state["scene"]
    labelling_screen(actor, campaign, stage="annotate", empty="")


def _type_names(test: Any) -> set[str]:
    payload = json.loads(test.get("bidi_component")[0].proto.json)
    return {kind["name"] for kind in payload["types"]}
