"""The outbox: every acknowledged event is stored, none twice, none over work it has not seen; bad ones are refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossner_core.errors import Conflict, NotAllowed
from db.engine import Store
from db.tables import Annotation, AnnotationVersion, SpanRow, Task, User
from db.types import now
from tests.support.builders import Tab
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.labelling import outbox, steps

People = dict[str, Actor]
SPANS = [(0, 2, "musicalartist"), (4, 7, "band")]


@pytest.fixture
def tab(store: Store, people: People, campaign: int) -> Tab:
    return Tab(store, people["ann1"], campaign, "annotate")


def _stored(store: Store, task: int, actor: Actor) -> tuple[int, str, list[tuple[int, int, str]], int, int]:
    with store.read() as session:
        row = session.scalar(sa.select(Annotation).where(Annotation.task_id == task, Annotation.user_id == actor.id))
        assert row is not None
        spans = [(span.start, span.end, span.type) for span in row.spans]
        return row.revision, row.state, spans, row.active_ms, row.keystrokes


def _task(store: Store, task: int) -> Task:
    with store.read() as session:
        return session.get_one(Task, task)


def _expire(store: Store, *, all_of: Actor) -> None:
    with store.write() as session:
        long_ago = now().replace(year=2020)
        session.execute(sa.update(Task).where(Task.leased_to == all_of.id).values(lease_expires=long_ago))


def test_outbox_keeps_a_draft_and_shows_it_again(store: Store, tab: Tab) -> None:
    item = tab.items()[0]
    assert tab.do("draft", item, SPANS).acks == {tab.client: 1}
    assert _stored(store, item["task"], tab.actor) == (1, "draft", SPANS, 1000, 5)
    again = tab.items()[0]
    assert (again["task"], again["revision"]) == (item["task"], 1)
    assert [span["surface"] for span in again["work"]["spans"]] == ["Mara Vell", "The Tin Gulls"]


def test_outbox_applies_an_event_once(store: Store, tab: Tab) -> None:
    event = tab.event("draft", tab.items()[0], SPANS)
    assert tab.send(event) == tab.send(event) == tab.send(event, event)
    assert _stored(store, event["task"], tab.actor)[3:] == (1000, 5)


def test_outbox_adds_up_effort_and_clamps_it(store: Store, tab: Tab) -> None:
    item = tab.items()[0]
    tab.do("draft", item, SPANS, active_ms=-5, keystrokes="many")
    tab.do("draft", item, SPANS, base=1, active_ms=10**12, keystrokes=3)
    assert _stored(store, item["task"], tab.actor)[3:] == (3_600_000, 3)


def test_outbox_submit_opens_the_check_and_keeps_a_version(store: Store, tab: Tab) -> None:
    item = tab.items()[0]
    tab.do("submit", item, SPANS)
    assert item["task"] not in [one["task"] for one in tab.items()]
    with store.read() as session:
        stages = session.execute(sa.select(Task.stage, Task.state).where(Task.sentence_id == item["sentence"])).all()
        version = session.scalars(sa.select(AnnotationVersion)).one()
    assert set(map(tuple, stages)) == {("annotate", "done"), ("check", "open")}
    assert [span["type"] for span in version.work["spans"]] == ["musicalartist", "band"]


def test_outbox_refuses_a_stale_tab_with_the_newest_work(store: Store, tab: Tab) -> None:
    item = tab.items()[0]
    other = Tab(store, tab.actor, tab.campaign_id, "annotate")
    assert tab.do("draft", item, SPANS).rejections == []
    refused = other.do("draft", item, [(0, 1, "person")])
    (rejection,) = refused.rejections
    assert (refused.acks, rejection["reason"], rejection["seq"]) == ({}, "conflict", 1)
    assert rejection["item"]["revision"] == 1 and len(rejection["item"]["work"]["spans"]) == 2
    kept = other.do("draft", item, [(0, 1, "person")], base=rejection["item"]["revision"])
    assert kept.rejections == []
    assert _stored(store, item["task"], tab.actor)[:3] == (2, "draft", [(0, 1, "person")])


def test_outbox_refuses_what_stands_on_a_refused_event(store: Store, tab: Tab) -> None:
    item = tab.items()[0]
    other = Tab(store, tab.actor, tab.campaign_id, "annotate")
    tab.do("draft", item, SPANS)
    first, second = other.event("draft", item, []), other.event("submit", item, [], base=1)
    refused = other.send(first, second)
    assert [one["reason"] for one in refused.rejections] == ["conflict", "conflict"]
    assert _stored(store, item["task"], tab.actor)[:3] == (1, "draft", SPANS)


def test_outbox_takes_a_later_snapshot_of_the_same_tab(store: Store, tab: Tab) -> None:
    item = tab.items()[0]
    tab.do("draft", item, SPANS)
    assert tab.do("draft", item, [], base=4).rejections == []
    assert _stored(store, item["task"], tab.actor)[:2] == (5, "draft")


def test_outbox_keeps_late_work_beside_what_was_submitted(store: Store, tab: Tab) -> None:
    item = tab.items()[0]
    tab.do("submit", item, SPANS)
    other = Tab(store, tab.actor, tab.campaign_id, "annotate")
    event = other.event("draft", item, [(0, 1, "person")], base=1)
    assert [other.send(event).rejections[0]["reason"] for _ in range(2)] == ["lease", "lease"]
    assert _stored(store, item["task"], tab.actor)[:3] == (1, "submitted", SPANS)
    with store.read() as session:
        late = [v.work for v in session.scalars(sa.select(AnnotationVersion)) if "late" in v.work]
    assert len(late) == 1 and late[0]["spans"][0]["type"] == "person"


def test_outbox_keeps_work_on_a_lost_lease_as_superseded(store: Store, people: People, tab: Tab) -> None:
    item = tab.items(1)[0]
    _expire(store, all_of=tab.actor)
    rival = Tab(store, people["ann2"], tab.campaign_id, "annotate")
    assert rival.items(1)[0]["task"] == item["task"]
    (rejection,) = tab.do("submit", item, SPANS).rejections
    assert rejection["reason"] == "lease" and "kept" in rejection["message"]
    assert _stored(store, item["task"], tab.actor)[:3] == (1, "superseded", SPANS)
    assert rival.do("submit", item, []).rejections == []
    assert _task(store, item["task"]).done_by == rival.actor.id


def test_outbox_renews_the_lease_and_takes_an_expired_one_back(store: Store, tab: Tab) -> None:
    item = tab.items(1)[0]
    _expire(store, all_of=tab.actor)
    assert tab.do("draft", item, SPANS).rejections == []
    expires = _task(store, item["task"]).lease_expires
    assert expires is not None and expires > now()


def test_outbox_skip_passes_the_sentence_on_and_parks_it_after_two(store: Store, people: People, tab: Tab) -> None:
    item = tab.items(1)[0]
    assert tab.do("skip", item, []).rejections[0]["reason"] == "invalid"  # a reason is asked for
    assert tab.do("skip", item, [], reason="two readings").rejections == []
    assert item["task"] not in [one["task"] for one in tab.items()]
    other = Tab(store, people["ann2"], tab.campaign_id, "annotate")
    theirs = other.items(1)[0]
    assert theirs["task"] == item["task"] and theirs["notes"] == [{"who": "skipped", "text": "two readings"}]
    other.do("skip", theirs, [], reason="no idea")
    assert _task(store, item["task"]).state == "parked"


def test_outbox_reopens_submitted_work_until_the_check_begins(store: Store, people: People, tab: Tab) -> None:
    item = tab.items()[0]
    tab.do("submit", item, SPANS)
    assert tab.do("reopen", item, SPANS, base=1).rejections == []
    assert tab.items()[-1]["task"] == item["task"] or tab.items()[0]["task"] == item["task"]
    assert tab.do("submit", item, [(0, 2, "person")], base=2).rejections == []
    Tab(store, people["ann2"], tab.campaign_id, "check").items(1)
    (rejection,) = tab.do("reopen", item, SPANS, base=3).rejections
    assert rejection["reason"] == "lease" and "begun" in rejection["message"]
    with pytest.raises(Conflict, match="begun"):
        steps.reopen(store, tab.actor, item["task"])
    assert _stored(store, item["task"], tab.actor)[:3] == (3, "submitted", [(0, 2, "person")])


def test_outbox_takes_a_skip_back(store: Store, tab: Tab) -> None:
    item = tab.items(1)[0]
    tab.do("skip", item, SPANS, reason="hm")
    assert tab.do("reopen", item, SPANS, base=1).rejections == []
    assert _task(store, item["task"]).leased_to == tab.actor.id


def _broken(event: dict[str, Any], path: tuple[str | int, ...], value: object) -> dict[str, Any]:
    made = copy.deepcopy(event)
    target: Any = made
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    return made


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("seq",), "1", "seq"),
        (("seq",), True, "seq"),
        (("key",), "", "key"),
        (("kind",), "delete", "kind"),
        (("task",), None, "task"),
        (("task",), 99_999, "no task"),
        (("revision",), 0, "revision"),
        (("work",), None, "work"),
        (("work",), [1], "work"),
        (("work", "spans"), {}, "spans"),
        (("work", "spans", 0), 7, "span"),
        (("work", "spans", 0, "start"), -1, "start"),
        (("work", "spans", 0, "end"), 99, "outside"),
        (("work", "spans", 1, "start"), 1, "overlaps|came with the text"),
        (("work", "spans", 0, "type"), "politician", "musicgenre"),
        (("work", "spans", 0, "surface"), "Mara", "Mara Vell"),
        (("work", "spans", 0, "origin"), "magic", "origin"),
        (("work", "no_entities"), True, "no entities"),
        (("work", "no_entities"), "yes", "no_entities"),
        (("work", "comment"), "\ud800", "stored"),
        (("work", "comment"), "x" * 5000, "characters"),
        (("work", "flags"), [{"start": 0, "end": 2, "type": "band", "note": ""}], "Flags"),
        (("work", "decisions"), [{"unit": 0, "choice": "first"}], "Decisions"),
        (("work", "rejected"), [{"start": 0, "end": 1, "type": "band"}], "source"),
    ],
)
def test_outbox_refuses_a_bad_field_and_applies_the_rest(
    store: Store, tab: Tab, path: tuple[str | int, ...], value: object, message: str
) -> None:
    first, second = tab.items(2)
    bad = _broken(tab.event("submit", first, SPANS), path, value)
    applied = tab.send(bad, tab.event("submit", second, []))
    (rejection,) = applied.rejections
    assert rejection["reason"] == "invalid"
    assert any(part in rejection["message"] for part in message.split("|")), rejection["message"]
    assert applied.acks == {tab.client: 2} and _task(store, second["task"]).state == "done"
    assert _task(store, first["task"]).state == "leased"


def test_outbox_refuses_overlapping_spans(tab: Tab) -> None:
    (rejection,) = tab.do("draft", tab.items()[0], [(0, 2, "person"), (1, 3, "band")]).rejections
    assert "overlaps" in rejection["message"]


def test_outbox_refuses_an_undecided_empty_sentence(tab: Tab) -> None:
    item = tab.items()[0]
    (rejection,) = tab.do("submit", item, [], parts={"no_entities": False}).rejections
    assert "no entities" in rejection["message"]
    assert tab.do("submit", item, []).rejections == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["client", "events", "seq", "key", "work", "spans", "kind"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(message=JSON)
def test_outbox_answers_any_json(tab: Tab, message: object) -> None:
    answer = outbox.apply(tab.store, tab.actor, tab.campaign_id, "annotate", message)
    assert answer.acks == {}


def test_outbox_acknowledges_every_client_it_names(tab: Tab) -> None:
    item = tab.items()[0]
    old = {**tab.event("draft", item, SPANS), "client": "old tab", "seq": 7}
    assert tab.send(old, tab.event("draft", item, [], base=1)).acks == {"old tab": 7, tab.client: 2}


def test_outbox_keeps_events_of_a_copied_tab(store: Store, tab: Tab) -> None:
    first, second = tab.items(2)
    copied = Tab(store, tab.actor, tab.campaign_id, "annotate")
    copied.client = tab.client
    assert tab.do("draft", first, SPANS).acks == copied.do("draft", second, []).acks
    assert _stored(store, second["task"], tab.actor)[0] == 1


def test_outbox_refuses_somebody_elses_key(store: Store, people: People, tab: Tab) -> None:
    event = tab.event("draft", tab.items()[0], SPANS)
    tab.send(event)
    other = Tab(store, people["ann2"], tab.campaign_id, "annotate")
    assert (
        other.send({**other.event("draft", other.items()[0]), "key": event["key"]}).rejections[0]["reason"] == "invalid"
    )


def test_outbox_reads_role_and_membership_afresh(store: Store, people: People, tab: Tab) -> None:
    event = tab.event("draft", tab.items()[0], SPANS)
    with store.write() as session:
        session.get_one(User, tab.actor.id).active = False
    with pytest.raises(NotAllowed, match="no longer active"):
        tab.send(event)
    with store.read() as session:
        assert session.scalars(sa.select(SpanRow)).all() == []


def test_outbox_changes_nothing_in_an_archived_campaign(store: Store, people: People, tab: Tab) -> None:
    event = tab.event("draft", tab.items()[0], SPANS)
    campaigns.update_settings(store, people["adm"], tab.campaign_id, archived=True)
    assert tab.send(event).rejections[0]["reason"] == "lease" and tab.items() == ()
