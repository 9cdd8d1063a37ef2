"""Decisions of label review as a browser sends them: applied once, in order, each on its own."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any

import pytest
import sqlalchemy as sa

from crossner_core.errors import BadInput, NotAllowed, NotFound, StorageError
from db.engine import Store
from db.label_review_tables import FindingRow
from db.types import now
from tests.support import builders
from tests.support.label_review import gold_of, look, said
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns, sentences
from workbench.labelling import label_review, reviewing

NAMES = ("Mara Vell", "Tin Gulls", "Oda Brandt", "Paper Harbour")
QUEUE = "inconsistent_surfaces"
numbers = itertools.count(1)


@pytest.fixture
def doubted(store: Store, people: dict[str, Actor], campaign: int) -> int:
    """A campaign whose gold calls each of some names a band once and a musical artist twice."""
    rows = [
        said(f"{name} played {where} .", (0, 2, kind), id=f"{name} {where}")
        for name in NAMES
        for where, kind in (("there", "band"), ("in Oslo", "musicalartist"), ("at home", "musicalartist"))
    ]
    sentences.add_sentences(store, people["res"], campaign, rows)
    look(store, campaign, QUEUE)
    return campaign


def event(task: int, kind: str = "keep", *, test: bool = False) -> dict[str, Any]:
    number = next(numbers)
    return {"seq": number, "key": f"key-{number:08}", "kind": kind, "task": task, "work": {"test": test}}


def send(store: Store, actor: Actor, campaign: int, *events: dict[str, Any], **more: Any) -> reviewing.Answer:
    message = {"client": "tab", "events": list(events), **more}
    return reviewing.answer(store, actor, campaign, QUEUE, message)


def tasks(store: Store, actor: Actor, campaign: int) -> list[int]:
    return [item["task"] for item in reviewing.batch(store, actor, campaign, QUEUE).items]


def test_batch_has_what_the_browser_draws(store: Store, people: dict[str, Actor], doubted: int) -> None:
    batch = reviewing.batch(store, people["eva"], doubted, QUEUE)
    item = batch.items[0]
    assert item["about"].startswith("another type · pool · doubt 0.50")
    assert item["pieces"] == [
        {"type": "band", "parts": [[item["text"][: item["text"].index(" played")], True]]},
        {"type": None, "parts": [[" played there .", False]]},
    ]
    assert [(side["name"], side["spans"][0]["type"]) for side in item["sides"]] == [
        ("Gold", "band"), ("Proposed", "musicalartist")
    ]  # fmt: skip
    assert (item["can"], item["asks"]) == (["keep", "change", "reopen"], [])
    assert (batch.progress, batch.pace) == (reviewing.Progress(0, len(NAMES)), None)


def test_pieces_give_the_text_again_with_the_doubt_where_it_is(
    store: Store, people: dict[str, Actor], doubted: int
) -> None:
    with store.write() as session:
        session.execute(sa.update(FindingRow).values(start=1, end=4))
    for item in reviewing.batch(store, people["eva"], doubted, QUEUE).items:
        parts = [part for piece in item["pieces"] for part in piece["parts"]]
        assert "".join(text for text, _ in parts) == item["text"]
        assert "".join(text for text, is_doubted in parts if is_doubted) == " ".join(item["text"].split()[1:4])


def test_decisions_are_applied_and_the_next_doubts_come(store: Store, people: dict[str, Actor], doubted: int) -> None:
    eva = people["eva"]
    first, second, *rest = tasks(store, eva, doubted)
    answer = send(store, eva, doubted, keep := event(first), change := event(second, "change"), known=rest[:1])
    assert answer.acks == {"tab": change["seq"]} and not answer.rejections and keep["seq"] < change["seq"]
    assert answer.items is not None and answer.items[0] == {"task": rest[0]} and answer.items[1]["text"]
    assert answer.progress is None and send(store, eva, doubted, ask=True).progress == reviewing.Progress(2, 2)
    states = {finding.id: finding.state for finding in label_review.decided(store, eva, doubted)}
    assert states == {first: "kept", second: "changed"}


def test_decision_sent_again_is_acknowledged_and_done_once(
    store: Store, people: dict[str, Actor], doubted: int
) -> None:
    eva = people["eva"]
    task = tasks(store, eva, doubted)[0]
    before = gold_of(store, doubted)
    change, revert = event(task, "change"), event(task, "revert")
    for events in ([change], [change], [change, revert], [revert], [change]):
        answer = send(store, eva, doubted, *events)
        assert answer.acks == {"tab": events[-1]["seq"]} and not answer.rejections
    (finding,) = (one for one in label_review.findings(store, eva, doubted, QUEUE) if one.id == task)
    assert [entry["state"] for entry in finding.history] == ["changed", "reverted"]
    assert gold_of(store, doubted) == before


def test_decision_that_no_longer_fits_is_refused_and_the_others_stand(
    store: Store, people: dict[str, Actor], doubted: int
) -> None:
    eva = people["eva"]
    first, second, *_ = tasks(store, eva, doubted)
    label_review.decide(store, eva, first, "keep")
    answer = send(store, eva, doubted, event(first, "change"), good := event(second), event(9999))
    assert [(each["task"], each["reason"]) for each in answer.rejections] == [(first, "refused"), (9999, "refused")]
    assert "decided already" in answer.rejections[0]["message"] and answer.acks == {"tab": good["seq"]}
    assert answer.progress == reviewing.Progress(2, 2)


def test_test_is_altered_only_when_the_person_confirmed(store: Store, people: dict[str, Actor], doubted: int) -> None:
    eva = people["eva"]
    task = tasks(store, eva, doubted)[0]
    with store.write() as session:
        session.execute(sa.text("UPDATE sentence SET split = 'test'"))
    before = gold_of(store, doubted)
    assert reviewing.batch(store, eva, doubted, QUEUE).items[0]["asks"] == ["change", "reopen"]
    (refused,) = send(store, eva, doubted, event(task, "change")).rejections
    assert "is in test" in refused["message"] and gold_of(store, doubted) == before
    assert not send(store, eva, doubted, event(task, "change", test=True)).rejections
    assert gold_of(store, doubted) != before


def test_what_was_undone_comes_first_and_what_was_put_off_last(
    store: Store, people: dict[str, Actor], doubted: int
) -> None:
    eva = people["eva"]
    first, second, third, fourth = tasks(store, eva, doubted)
    answer = send(store, eva, doubted, later=[second, first], first=[fourth])
    assert answer.items is not None and [item["task"] for item in answer.items] == [fourth, third, second, first]


def test_pace_is_the_median_between_ones_own_decisions(store: Store, people: dict[str, Actor], doubted: int) -> None:
    eva = people["eva"]
    every, began = tasks(store, eva, doubted), now()
    for task in every:
        send(store, eva, doubted, event(task))
    for moments, pace in (((0, 4, 10, 12), 4), ((0, 4, 10, 4_000), None)):  # a pause says nothing about the pace
        with store.write() as session:
            for task, seconds in zip(every, moments, strict=True):
                session.get_one(FindingRow, task).decided_at = began + dt.timedelta(seconds=seconds)
        assert send(store, eva, doubted).pace == pace


def test_store_that_fails_keeps_what_was_applied(
    store: Store, people: dict[str, Actor], doubted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    eva = people["eva"]
    first, second, *_ = tasks(store, eva, doubted)
    events, decide = [event(first), event(second)], label_review.decide

    def fail(store: Store, actor: Actor, finding: int, *rest: Any, **more: Any) -> None:
        if finding == second:
            raise StorageError("The disk is full.")
        decide(store, actor, finding, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(label_review, "decide", fail)
        with pytest.raises(StorageError):
            send(store, eva, doubted, *events)
    assert send(store, eva, doubted, *events).acks == {"tab": events[-1]["seq"]}
    assert [len(finding.history) for finding in label_review.decided(store, eva, doubted)] == [1, 1]


def test_unreadable_decision_is_refused_and_message_is_not(
    store: Store, people: dict[str, Actor], doubted: int
) -> None:
    eva = people["eva"]
    task = tasks(store, eva, doubted)[0]
    bad = [
        {**event(task), "kind": "delete"},
        {**event(task), "key": 7},
        "keep",
        {**event(task), "work": {"test": "yes"}},
    ]
    answer = send(store, eva, doubted, *bad, good := event(task))
    assert len(answer.rejections) == 4 and answer.acks == {"tab": good["seq"]}
    for message in ([], {"events": []}, {"client": "tab", "known": "all"}):
        with pytest.raises(BadInput):
            reviewing.answer(store, eva, doubted, QUEUE, message)


def test_only_experts_of_the_campaign_decide(store: Store, people: dict[str, Actor], doubted: int) -> None:
    stranger = builders.make_person(store, "odd", "expert")
    for person in (people["res"], people["ann1"]):
        with pytest.raises(NotAllowed):
            send(store, person, doubted)
    with pytest.raises(NotFound):
        send(store, stranger, doubted)


def test_archived_campaign_refuses_in_words(store: Store, people: dict[str, Actor], doubted: int) -> None:
    task = tasks(store, people["eva"], doubted)[0]
    campaigns.update_settings(store, people["adm"], doubted, archived=True)
    (refused,) = send(store, people["eva"], doubted, event(task)).rejections
    assert "archived" in refused["message"]
