"""Layers beside one another in an export: whose, since when, and under which names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crossner_core.errors import NotAllowed, NotFound
from crossner_core.schema import Span
from db import layer_rows
from db.engine import Store
from tests.support.builders import Tab, make_gold
from workbench.accounts.actors import Actor
from workbench.data import exchange
from workbench.reports import audit_trail
from workbench.suggestions.by_people import write_suggestions

People = dict[str, Actor]
BESIDES = ("first", "second", "suggestions")


@pytest.fixture
def done(store: Store, people: People, campaign: int) -> int:
    """A campaign with suggestions whose six sentences ann1, ann2 and eva have done."""
    with store.write() as session:
        first, second, *_ = layer_rows.sentences(session, campaign)
        write_suggestions(session, campaign, {first.id: [Span(0, 1, "band")]}, source="model", score=0.5)
        write_suggestions(session, campaign, {second.id: [Span(0, 1, "band")]}, source="import", score=0.9)
    make_gold(store, people, campaign)
    return campaign


def exported(store: Store, actor: Actor, campaign: int, which: str = "gold", **asked: Any) -> dict[str, Any]:
    """The one document of a campaign as Label Studio's task."""
    made = exchange.export_files(store, actor, campaign, which, format="label-studio", **asked)
    ((task,),) = (json.loads(data) for _, data in made.files)
    return dict(task)


def test_people_are_numbers_unless_their_names_are_asked_for(store: Store, people: People, done: int) -> None:
    task = exported(store, people["res"], done, besides=BESIDES)
    said = [(each["layer"], each["created_username"]) for each in task["annotations"]]
    numbers = {name: f"person-{actor.id}" for name, actor in people.items()}
    assert said == [("first", numbers["ann1"]), ("second", numbers["ann2"]), ("gold", numbers["eva"])]
    assert "ann1" not in json.dumps(task) and "Eva" not in json.dumps(task)
    assert [each["model_version"] for each in task["predictions"]] == ["model", "import"]
    assert all(0 < each["score"] < 1 for each in task["predictions"])
    named = exported(store, people["res"], done, besides=("first",), with_names=True)
    said = [(each["layer"], each["created_username"]) for each in named["annotations"]]
    assert said == [("first", "ann1"), ("gold", "eva")] and named["predictions"] == []
    newest = audit_trail.search(store, people["adm"], audit_trail.Asked(action="export_layer")).entries[0]
    assert newest.details["besides"] == ["first"] and newest.details["with_names"] is True


def test_an_export_without_other_layers_says_nothing_of_people(store: Store, people: People, done: int) -> None:
    task = exported(store, people["res"], done)
    assert [set(each) for each in task["annotations"]] == [{"result", "was_cancelled", "ground_truth"}]
    assert "predictions" not in task


def test_sentences_without_gold_keep_their_other_layers(store: Store, people: People, campaign: int) -> None:
    tab = Tab(store, people["ann1"], campaign, "annotate")
    tab.do("submit", tab.items(1)[0], [])
    task = exported(store, people["res"], campaign, "sentences", besides=("first",))
    assert [each["layer"] for each in task["annotations"]] == ["first"]
    lost = exchange.export_files(store, people["res"], campaign, "sentences", format="brat", besides=("first",)).losses
    assert (lost["sentences of the layer first"], lost["people and times of sentences"]) == (1, 1)


@pytest.mark.parametrize("name", ["ann1", "eva"])
def test_who_annotates_does_not_export(store: Store, people: People, done: int, name: str) -> None:
    with pytest.raises(NotAllowed):
        exchange.export_files(store, people[name], done, "gold", besides=BESIDES)


def test_unknown_layers_are_named(store: Store, people: People, done: int) -> None:
    with pytest.raises(NotFound, match="no layer 'third'; layers are first, second, gold, suggestions"):
        exchange.export_files(store, people["res"], done, "gold", besides=("third",))


def test_imported_gold_is_nobodys(store: Store, people: People, campaign: int) -> None:
    line = {"text": "Queen sang .", "gold": [{"start": 0, "end": 5, "type": "band"}]}
    files: exchange.Files = [("a.jsonl", json.dumps(line).encode())]
    exchange.import_files(store, people["res"], campaign, files, annotation="gold", preannotate=False)
    task = exported(store, people["res"], campaign, besides=("first",), with_names=True)
    (gold,) = task["annotations"]
    assert gold["ground_truth"] and gold["created_at"] and "created_username" not in gold
