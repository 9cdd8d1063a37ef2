"""The few-shot curves as rounds: what their sentences cost, and what their runs mix up."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossner_core.errors import BadInput, NotAllowed
from crossner_core.evaluation.confusion import confusion, summed
from crossner_core.evaluation.learning_curves import axes_of, summarise
from crossner_core.schema import Span
from db.engine import Store
from tests.support.builders import make_campaign, make_gold, make_people
from tests.support.campaigns import campaign_with_gold
from tests.support.training_store import own_dataset, person, recipe_here, work
from workbench.data import snapshots
from workbench.reports import curves, learning
from workbench.runs import adaptation


def test_rounds_count_what_each_runs_own_sentences_cost(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaign_with_gold(store, admin)
    snapshot = snapshots.freeze(store, admin, campaign_id)
    recipe = recipe_here(tmp_path, max_epochs=2)
    target = {"campaign_id": campaign_id, "snapshot_id": snapshot.id}
    adaptation.start_few_shot(store, admin, **target, recipe=recipe, sizes=(5, 20), seeds=(1, 2))
    work(store, tmp_path)
    (line,) = curves.curve(store, admin, campaign_id)
    points = learning.rounds(store, admin, [line])[line.title]
    assert [(point.sentences, point.seed, point.round) for point in points] == [
        (5, 1, 0),
        (5, 2, 0),
        (20, 1, 1),
        (20, 2, 1),
    ]
    assert points[0].tokens < points[2].tokens == points[3].tokens
    assert points[2].entities == dict(snapshot.counts)["entities"] - sum(
        len(item.spans) for item in _held_out(store, snapshot.id)
    )
    # The gold was imported: nobody's seconds were counted.
    assert axes_of(points) == ("sentences", "tokens", "entities")
    runs = {run.id: run for run in adaptation.list_runs(store, admin, campaign_id)}
    assert points[0].f1 == runs[line.points[0].runs[0]].test_f1
    rows = curves.per_type(store, admin, line.points[0].runs[0])
    assert points[0].per_type == {row.type: row.f1 for row in rows}
    assert [row.strategy for row in summarise(points, baseline=line.title)] == [line.title]
    found = learning.confusions(store, admin, line)
    parts = [curves.confusion_of(store, admin, run_id) for run_id in line.points[1].runs]
    assert list(found) == [5, 20]
    assert found[20].missed == {
        name: count for name in found[20].types if (count := sum(part.missed.get(name, 0) for part in parts if part))
    }
    on_dev = learning.rounds(store, admin, curves.curve(store, admin, campaign_id, measure="dev"), measure="dev")
    assert on_dev[line.title][0].f1 == runs[line.points[0].runs[0]].dev_f1


def _held_out(store: Store, snapshot_id: int) -> list:
    from workbench.data.snapshots import content_of

    with store.read() as session:
        _, parts = content_of(session, snapshot_id)
        return [*parts["dev"], *parts["test"]]


def test_rounds_know_the_seconds_of_gold_that_people_made(store: Store, tmp_path: Path) -> None:
    people = make_people(store)
    campaign_id = make_campaign(store, people)
    make_gold(store, people, campaign_id)  # a second a sentence at each of three stages
    snapshot = snapshots.freeze(store, people["res"], campaign_id)
    from db import layer_rows

    with store.read() as session:
        seconds = layer_rows.active_seconds(session, campaign_id)
    assert len(seconds) == snapshot.counts["pool"] == 6 and set(seconds.values()) == {3.0}


def test_rounds_of_a_data_set_have_no_seconds_and_are_not_for_annotators(store: Store, tmp_path: Path) -> None:
    actor = person(store, "researcher")
    data = own_dataset(store, actor)
    adaptation.start_few_shot(
        store, actor, dataset_id=data.id, recipe=recipe_here(tmp_path, max_epochs=1), sizes=(4,), seeds=(1,)
    )
    work(store, tmp_path)
    found = curves.curve(store, actor, dataset_id=data.id)
    (points,) = learning.rounds(store, actor, found).values()
    assert axes_of(points) == ("sentences", "tokens", "entities")
    with pytest.raises(BadInput, match="'train'; choose one of test, dev"):
        learning.rounds(store, actor, found, measure="train")
    with pytest.raises(NotAllowed):
        learning.rounds(store, person(store, "annotator"), found)
    with pytest.raises(NotAllowed):
        learning.confusions(store, person(store, "annotator", "second"), found[0])


def test_confusions_add_up() -> None:
    gold = [(Span(0, 1, "a"), Span(2, 4, "b")), (Span(0, 1, "a"),)]
    said = [(Span(0, 1, "b"), Span(3, 4, "b")), (Span(5, 6, "c"),)]
    whole, parts = confusion(gold, said), [confusion([one], [two]) for one, two in zip(gold, said, strict=True)]
    assert summed(parts) == whole and summed([]).types == ()
