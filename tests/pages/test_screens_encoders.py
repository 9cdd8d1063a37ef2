"""The screen of encoders: the list, what a pre-training bought, starting, cancelling and giving up one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from db.engine import Store
from tests.support import corpus_builders
from tests.support.encoders import CHARACTERS, DAPT, options, own_text
from tests.support.screens import healthy, open_screen
from tests.support.training_builders import save_encoder
from tests.support.training_store import own_dataset, person, recipe_here, work
from workbench.accounts.actors import Actor
from workbench.runs import adaptation, encoders


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path))
    save_encoder(tmp_path / "tiny")
    return tmp_path


@pytest.fixture
def actor(store: Store) -> Actor:
    return person(store, "researcher")


def said(test: Any) -> str:
    kinds = ("markdown", "caption", "info", "warning", "error", "success", "text", "code")
    return "\n".join(str(element.value) for kind in kinds for element in getattr(test, kind))


def press(test: Any, label: str) -> Any:
    next(one for one in test.button if one.label == label).click()
    return healthy(test.run())


def form(monkeypatch: pytest.MonkeyPatch, store: Store, actor: Actor) -> Any:
    return view(healthy(open_screen(monkeypatch, store, "encoders", actor)), "Pre-train")


def view(test: Any, name: str) -> Any:
    next(one for one in test.segmented_control if one.key == "encoder:view").set_value(name)
    return healthy(test.run())


def test_encoders_screen_says_that_there_is_none_yet(
    monkeypatch: pytest.MonkeyPatch, store: Store, actor: Actor, home: Path
) -> None:
    test = healthy(open_screen(monkeypatch, store, "encoders", actor))
    assert "No encoder has been pre-trained here yet" in said(test) and "**Pre-train** adapts one" in said(test)
    assert "No worker is alive" in said(view(test, "Pre-train"))
    assert list(view(test, "Encoders").dataframe[0].value["encoder"]) == ["minilm"]


def test_encoders_screen_shows_what_a_pretraining_bought(
    monkeypatch: pytest.MonkeyPatch, store: Store, actor: Actor, home: Path
) -> None:
    encoders.start_on_text(store, actor, kind="dapt", name="dapt-own", options=options(home), text=own_text(home))
    data = own_dataset(store, actor)
    for encoder in ("dapt-own", str(home / "tiny")):
        for seed in (1, 2):
            recipe = recipe_here(home, encoder=encoder, seed=seed, max_epochs=2)
            adaptation.start_run(store, actor, dataset_id=data.id, recipe=recipe)
    assert work(store, home) == 5
    test = healthy(open_screen(monkeypatch, store, "encoders", actor))
    shown = said(test)
    assert "DAPT with span masking on the text own" in shown and "from tiny" in shown
    assert [one.label for one in test.metric] == ["Held-out perplexity"]
    assert "by Researcher · 2 runs name it" in shown
    assert test.metric[0].delta.startswith("-")
    (made,) = (one for one in encoders.list_encoders(store, actor) if one.kind)
    assert made.equal_heads and made.held_out.endswith(" held-out subwords")
    assert "Before and after: each through a fresh head" in shown
    assert f"measured on {made.held_out}" in shown.replace("\\", "")
    gains = test.dataframe[1].value
    assert list(gains["pairs"]) == [2] and list(gains["trained on"]) == ["data set own"]
    assert len(test.get("plotly_chart")) == 1 and "Before: held-out perplexity" in shown
    test = press(test, "Remove it")
    assert "is removed" in said(test) and list(test.dataframe[0].value["encoder"]) == ["minilm"]
    expert = healthy(open_screen(monkeypatch, store, "encoders", person(store, "expert")))
    assert not expert.button and not expert.segmented_control


def test_encoders_screen_starts_dapt_on_a_corpus_and_cancels_it(
    monkeypatch: pytest.MonkeyPatch, store: Store, actor: Actor, home: Path
) -> None:
    corpus_builders.make_corpus(home / "corpora")
    test = form(monkeypatch, store, actor)
    test.text_input(key="pretrain:name-dapt").set_value("dapt-music")
    test.selectbox(key="pretrain:level").set_value("task")
    healthy(test.run())
    test.selectbox(key="pretrain:domain").set_value("music")
    test.number_input(key="pretrain:percent").set_value(50.0)
    test.number_input(key="pretrain-dapt-max_steps").set_value(7)
    test = press(test, "Pre-train")
    assert "is queued" in said(test) and "No worker is alive" in said(test)
    (waiting,) = encoders.list_pretrainings(store, actor)
    assert waiting.how == "DAPT with span masking on 50 % of the corpus invented, task level for music"
    assert waiting.options["max_steps"] == 7
    test = press(test, "Cancel")
    assert encoders.list_pretrainings(store, actor) == ()


def test_encoders_screen_keeps_the_form_and_starts_dapt_on_a_share_of_a_data_set(
    monkeypatch: pytest.MonkeyPatch, store: Store, actor: Actor, home: Path
) -> None:
    own_dataset(store, actor, train=60)
    test = form(monkeypatch, store, actor)
    test.selectbox(key="pretrain:text").set_value("A data set")
    healthy(test.run())
    test.text_input(key="pretrain:name-dapt").set_value("half")
    test.number_input(key="pretrain:percent").set_value(50.0)
    test.number_input(key="pretrain-dapt-max_steps").set_value(7)
    healthy(test.run())
    test = press(view(view(test, "Encoders"), "Pre-train"), "Pre-train")  # what was entered is kept
    (waiting,) = encoders.list_pretrainings(store, actor)
    assert (waiting.name, waiting.how) == ("half", "DAPT with span masking on 50 % of the data set own")
    assert waiting.options["max_steps"] == 7


def test_encoders_screen_starts_entity_tagging_on_a_data_set(
    monkeypatch: pytest.MonkeyPatch, store: Store, actor: Actor, home: Path
) -> None:
    own_dataset(store, actor, name="silver", train=40)
    test = form(monkeypatch, store, actor)
    test.selectbox(key="pretrain:kind").set_value("entity_tagging")
    healthy(test.run())
    assert "workbench corpus entity-tagging" in said(test)
    test.selectbox(key="pretrain:tagged").set_value("A data set")
    healthy(test.run())
    test.text_input(key="pretrain:name-entity_tagging").set_value("et-silver")
    test = press(test, "Pre-train")
    (waiting,) = encoders.list_pretrainings(store, actor)
    assert (waiting.name, waiting.how) == ("et-silver", "entity tagging on the data set silver")


def test_encoders_screen_starts_character_models_and_shows_what_they_learnt(
    monkeypatch: pytest.MonkeyPatch, store: Store, actor: Actor, home: Path
) -> None:
    own_dataset(store, actor)
    encoders.start_on_text(store, actor, kind="character_models", name="chars", options=CHARACTERS, dataset="own")
    assert work(store, home) == 1
    shown = said(healthy(open_screen(monkeypatch, store, "encoders", actor))).replace("\\", "")
    assert "character models on the data set own, from random weights" in shown
    assert "of the models themselves" in shown and "held-out characters" in shown and "Nothing to compare" not in shown
    test = form(monkeypatch, store, actor)
    assert test.selectbox(key="pretrain-dapt-encoder").options == ["minilm"]
    test.selectbox(key="pretrain:kind").set_value("character_models")
    healthy(test.run())
    assert test.selectbox(key="pretrain-character_models-encoder").options == ["new", "chars"]
    labels = {one.label for kind in ("number_input", "selectbox") for one in getattr(test, kind)}
    assert "Size of the states" in labels and not labels & {"Head learning rate", "Refit head", "Precision"}
    test.selectbox(key="pretrain-character_models-encoder").set_value("chars")
    test.selectbox(key="pretrain:text").set_value("A data set")
    test.text_input(key="pretrain:name-character_models").set_value("more")
    healthy(test.run())
    assert "Size of the states" not in {one.label for one in test.number_input}
    test = press(test, "Pre-train")
    (waiting,) = encoders.list_pretrainings(store, actor)
    assert (waiting.name, waiting.base, waiting.options["encoder"]) == ("more", "chars", "chars")
    assert "from chars" in said(test)


def test_encoders_screen_refuses_a_bad_name_and_shows_why_one_failed(
    monkeypatch: pytest.MonkeyPatch, store: Store, actor: Actor, home: Path
) -> None:
    own_dataset(store, actor)
    gone = {**DAPT, "encoder": str(home / "gone")}
    encoders.start_on_text(store, actor, kind="dapt", name="dapt-own", options=gone, text=own_text(home))
    assert work(store, home) == 1
    test = healthy(open_screen(monkeypatch, store, "encoders", actor))
    assert "No encoder folder" in "".join(one.value for one in test.error)
    test = press(test, "Discard")
    assert encoders.list_pretrainings(store, actor) == ()
    test = form(monkeypatch, store, actor)
    test.selectbox(key="pretrain:text").set_value("A data set")
    test.text_input(key="pretrain:name-dapt").set_value("dapt/own")
    test = press(healthy(test.run()), "Pre-train")
    assert any("'dapt/own' cannot be given" in one.value for one in test.error)
