"""A store on a PostgreSQL server, where transactions do run beside each other: leases, submissions, tabs.

Only where CROSSNER_POSTGRES is the URL of a server on which databases may be made; each test makes one and drops it.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from crossner_core.suggest.gazetteer import GAZETTEER
from db import (
    annotation_rows,
    campaign_rows,
    dataset_rows,
    job_rows,
    layer_rows,
    run_rows,
    suggestion_rows,
    task_rows,
)
from db.engine import Store
from db.tables import Annotation, AppliedEvent, Task
from db.types import now
from tests.support.builders import SENTENCES, Tab, make_campaign, make_gold, make_people, make_person
from tests.support.label_review import MARA, look, said
from tests.support.label_review import POOL as REPEATED
from tests.support.postgres import fresh_store, needs_postgres
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.campaigns import sentences as campaign_sentences
from workbench.data import snapshots
from workbench.jobs import lease
from workbench.labelling import handout, label_review, steps
from workbench.runs import rounds, training_data

pytestmark = needs_postgres
People = dict[str, Actor]
BESIDE_S = 0.5
"""Seconds that a thread gets to do its work beside one that pauses in the middle of its own."""


@pytest.fixture
def store() -> Iterator[Store]:
    """A fresh store in a database of its own."""
    with fresh_store() as fresh:
        yield fresh


@pytest.fixture
def people(store: Store) -> People:
    return make_people(store)


@pytest.fixture
def campaign(store: Store, people: People) -> int:
    return make_campaign(store, people)


class Beside:
    """Two things at once: the first pauses after a call of a store function, and the second gets time to run there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch

    def run(
        self, first: Callable[[], Any], second: Callable[[], Any], *, pause: tuple[Any, str], call: int = 1
    ) -> tuple[Any, Any]:
        """Return what both returned; `call` counts the first's calls of the function, and it pauses after that one."""
        module, name = pause
        original = getattr(module, name)
        paused, go_on = threading.Event(), threading.Event()
        calls: list[str] = []
        results: dict[str, Any] = {}

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            found = original(*args, **kwargs)
            if threading.current_thread().name == "first":
                calls.append(name)
                if len(calls) == call:
                    paused.set()
                    assert go_on.wait(20)
            return found

        def do(which: str, work: Callable[[], Any]) -> None:
            try:
                results[which] = work()
            except Exception as error:
                results[which] = error

        with self.monkeypatch.context() as patched:
            patched.setattr(module, name, wrapped)
            threads = {
                which: threading.Thread(name=which, target=do, args=(which, work))
                for which, work in (("first", first), ("second", second))
            }
            threads["first"].start()
            assert paused.wait(20), f"the first never called {name} {call} times: {results}"
            threads["second"].start()
            threads["second"].join(BESIDE_S)
            go_on.set()
            for thread in threads.values():
                thread.join(30)
                assert not thread.is_alive()
        for result in results.values():
            if isinstance(result, Exception):
                raise result
        return results["first"], results["second"]


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> Beside:
    return Beside(monkeypatch)


def _set_leases(store: Store, person: Actor, *, minutes: float) -> None:
    """Let the person's leases end in so many minutes, in the order they have."""
    with store.write() as session:
        held = session.execute(sa.select(Task.id).where(Task.leased_to == person.id).order_by(Task.lease_expires))
        for number, task_id in enumerate(held.scalars()):
            at = now() + dt.timedelta(minutes=minutes, milliseconds=number)
            session.execute(sa.update(Task).where(Task.id == task_id).values(lease_expires=at))


def _task(store: Store, task_id: int) -> Task:
    with store.read() as session:
        task = session.get(Task, task_id)
        assert task is not None
        return task


def _fits_together(store: Store) -> None:
    """Assert that submitted work lies on finished tasks, one a task, and that each such task opened the next stage."""
    with store.read() as session:
        for task in session.scalars(sa.select(Task)):
            work = list(session.scalars(sa.select(Annotation).where(Annotation.task_id == task.id)))
            submitted = [one for one in work if one.state == "submitted"]
            assert len(submitted) == (task.state == "done"), (task.id, task.stage, task.state)
            if task.stage != "adjudicate" and task.state == "done":
                following = {"annotate": "check", "check": "adjudicate"}[task.stage]
                assert following in task_rows.of_sentence(session, task.sentence_id)


def test_the_whole_way_to_gold_and_a_snapshot(store: Store, people: People, campaign: int) -> None:
    make_gold(store, people, campaign)
    snapshots.freeze(store, people["res"], campaign)
    (frozen,) = snapshots.list_snapshots(store, people["res"], campaign)
    assert frozen.counts["pool"] == len(SENTENCES)
    _fits_together(store)


@pytest.mark.parametrize("by", ["items", "draft"])
def test_renewal_does_not_undo_a_submission_of_another_tab(
    store: Store, people: People, campaign: int, beside: Beside, by: str
) -> None:
    one, two = (Tab(store, people["ann1"], campaign, "annotate") for _ in range(2))
    a, b = one.items(2)
    _set_leases(store, people["ann1"], minutes=5)  # of 30, so that they want renewal

    def renew() -> Any:
        return one.items(2) if by == "items" else one.do("draft", a, [(0, 2, "musicalartist")]).rejections

    beside.run(
        renew,
        lambda: two.do("submit", b, [(2, 4, "album")]),
        pause=(task_rows, "held"),
        call=2 if by == "items" else 1,  # the first call of `items` only reads
    )
    assert _task(store, b["task"]).state == "done"
    assert _task(store, a["task"]).leased_to == people["ann1"].id
    (check,) = Tab(store, people["ann2"], campaign, "check").items(1)
    assert check["sentence"] == b["sentence"]
    _fits_together(store)


@pytest.mark.parametrize("earlier", ["owner", "other"])
def test_renewal_and_the_taking_of_what_has_run_out_never_both_win(
    store: Store, people: People, campaign: int, beside: Beside, earlier: str
) -> None:
    owner, other = (Tab(store, people[name], campaign, "annotate") for name in ("ann1", "ann2"))
    held = {item["task"] for item in owner.items(4)}
    _set_leases(store, people["ann1"], minutes=-5)
    if earlier == "owner":
        kept, taken = beside.run(lambda: owner.items(4), lambda: other.items(4), pause=(task_rows, "held"), call=2)
    else:
        taken, kept = beside.run(lambda: other.items(4), lambda: owner.items(4), pause=(task_rows, "lease"), call=1)
    mine, theirs = ({item["task"] for item in items} for items in (kept, taken))
    assert not mine & theirs and held <= mine | theirs
    assert mine == held if earlier == "owner" else not mine & held
    for tab, items in ((owner, kept), (other, taken)):
        for item in items:
            assert tab.do("draft", item).rejections == []


def test_an_event_that_arrives_twice_at_once_is_applied_once(
    store: Store, people: People, campaign: int, beside: Beside
) -> None:
    tab = Tab(store, people["ann1"], campaign, "annotate")
    event = tab.event("draft", tab.items(1)[0], [(0, 1, "person")])
    answers = beside.run(lambda: tab.send(event), lambda: tab.send(event), pause=(annotation_rows, "seen"))
    assert [answer.rejections for answer in answers] == [[], []]
    assert [answer.acks for answer in answers] == [{tab.client: event["seq"]}] * 2
    with store.read() as session:
        assert session.scalars(sa.select(AppliedEvent.key)).all() == [event["key"]]
        (work,) = session.scalars(sa.select(Annotation))
        assert (work.revision, work.active_ms) == (1, 1000)


@pytest.mark.parametrize("kind", ["draft", "submit", "reopen"])
def test_two_tabs_that_save_at_once_do_not_wait_for_each_other_for_ever(
    store: Store, people: People, campaign: int, beside: Beside, kind: str
) -> None:
    one, two = (Tab(store, people["ann1"], campaign, "annotate") for _ in range(2))
    a, b, c = one.items(3)
    if kind == "reopen":
        two.do("submit", c, [(0, 1, "person")])

    def second() -> Any:
        if kind == "reopen":
            return steps.reopen(store, people["ann1"], c["task"])
        return two.do(kind, b, [(2, 4, "album")]).rejections

    rejections, answer = beside.run(
        lambda: one.do("draft", a, [(0, 2, "musicalartist")]).rejections, second, pause=(task_rows, "with_sentence")
    )
    assert rejections == [] and not answer
    _fits_together(store)


def test_a_submission_does_not_wait_for_who_holds_the_campaign(store: Store, people: People, campaign: int) -> None:
    tab = Tab(store, people["ann1"], campaign, "annotate")
    (item,) = tab.items(1)
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(tab.do("submit", item, [(0, 2, "musicalartist")])))
    with store.write() as session:
        campaign_rows.hold(session, campaign)  # as a turn does while it puts the queue into order
        thread.start()
        thread.join(20)
        assert len(answers) == 1
    assert answers[0].rejections == [] and _task(store, item["task"]).state == "done"


def test_handing_out_at_once_gives_each_task_to_one_person(store: Store, people: People, campaign: int) -> None:
    workers = [make_person(store, f"w{number}", "annotator") for number in range(8)]
    campaigns.add_members(store, people["adm"], campaign, [worker.id for worker in workers])
    taken: dict[int, set[int]] = {}

    def take(worker: Actor) -> None:
        tab = Tab(store, worker, campaign, "annotate")
        taken[worker.id] = {item["task"] for _ in range(3) for item in tab.items(2)}

    _at_once([lambda worker=worker: take(worker) for worker in workers])
    assert len(taken) == 8
    assert sum(map(len, taken.values())) == len(set.union(*taken.values())) == len(SENTENCES)


def test_a_campaign_worked_off_in_many_tabs_at_once_loses_nothing(store: Store, people: People) -> None:
    campaign = make_campaign(store, people, name="Busy", lease_minutes=1)
    sentences = len(SENTENCES)
    for stage, names in (("annotate", ("ann1", "ann2")), ("check", ("ann1", "ann2", "ann3")), ("adjudicate", ("eva",))):
        tabs = [Tab(store, people[name], campaign, stage) for name in names for _ in range(2)]
        _at_once([lambda tab=tab: _work_off(tab) for tab in tabs])
        with store.read() as session:
            done = sa.select(sa.func.count()).where(Task.stage == stage, Task.state == "done")
            assert session.scalar(done) == sentences
    _fits_together(store)


def _work_off(tab: Tab) -> None:
    """Save and submit in this tab whatever it is shown; a sentence another tab has meanwhile is left to that one."""
    while items := tab.items(3):
        item = items[len(items) // 2]
        spans, parts = [(0, 1, "person")], {}
        if tab.stage == "adjudicate":
            parts["decisions"] = [{"unit": number, "choice": "first"} for number in range(len(item["units"]))]
        draft = tab.event("draft", item, spans, parts=parts)
        submit = tab.event("submit", item, spans, parts=parts, base=draft["revision"])
        for refused in tab.send(draft, submit).rejections:
            assert refused["reason"] in ("lease", "conflict"), refused


def _at_once(works: list[Callable[[], None]]) -> None:
    """Run these in threads of their own; the first error of one of them is raised."""
    errors: list[Exception] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def test_the_run_for_the_pool_is_of_the_newest_snapshot(store: Store, people: People, campaign: int) -> None:
    make_gold(store, people, campaign)
    frozen = snapshots.freeze(store, people["res"], campaign)
    shared: dict[str, Any] = {
        "campaign_id": campaign, "state": "done", "checkpoint": "x", "recipe": {}, "recipe_hash": "h", "seed": 1,
    }  # fmt: skip
    with store.write() as session:
        other = dataset_rows.add(session, name="other", domain_name=None, types=[], created_by=None, splits=[])
        of_snapshot = run_rows.add(session, {**shared, "snapshot_id": frozen.id, "dev_f1": 0.5})
        run_rows.add(session, {**shared, "dataset_id": other, "dev_f1": 0.9})
    with store.read() as session:
        best = run_rows.best_done(session, campaign_id=campaign)
        assert best is not None and best.id == of_snapshot


def test_what_is_left_out_is_in_no_snapshot_until_it_is_taken_in_again(
    store: Store, people: People, campaign: int
) -> None:
    make_gold(store, people, campaign)
    for split, text in (("pool", REPEATED), ("test", REPEATED.replace(" .", " !"))):
        campaign_sentences.add_sentences(store, people["res"], campaign, [said(text, MARA, id=split)], split=split)
    look(store, campaign, "near_duplicates")
    (one,) = label_review.findings(store, people["eva"], campaign, "near_duplicates")
    label_review.decide(store, people["eva"], one.id, "leave_out")
    assert snapshots.freeze(store, people["res"], campaign).counts["pool"] == 6
    assert campaigns.get_campaign(store, people["res"], campaign).left_out == 1
    assert rounds.queue_state(store, people["res"], campaign).gold == 6
    label_review.revert(store, people["eva"], one.id)
    assert snapshots.freeze(store, people["res"], campaign).counts["pool"] == 7


def test_release_leaves_what_was_submitted_meanwhile(
    store: Store, people: People, campaign: int, beside: Beside
) -> None:
    one, two = (Tab(store, people["ann1"], campaign, "annotate") for _ in range(2))
    _, b = one.items(2)
    beside.run(
        lambda: handout.release(store, people["ann1"], campaign, "annotate"),
        lambda: two.do("submit", b, [(2, 4, "album")]),
        pause=(task_rows, "held"),
    )
    assert _task(store, b["task"]).state == "done"
    _fits_together(store)


def test_sentences_that_are_preannotated_while_a_run_reads_them_count_as_not_asked(
    store: Store, people: People, campaign: int, beside: Beside
) -> None:
    with store.read() as session:
        ids = [row.id for row in layer_rows.sentences(session, campaign)]
    said = {"start": 0, "end": 1, "type": "song", "source": "dbpedia", "score": 0.9, "entity": None, "run_id": None}

    def read() -> dict[str, Any]:
        with store.read() as session:
            return dict(training_data.suggested_by_names(session, campaign, splits=("pool",)))

    def preannotate() -> None:
        with store.write() as session:
            suggestion_rows.replace_suggestions(
                session, ids, [{"sentence_id": id, **said} for id in ids], kinds=GAZETTEER.kinds
            )
            suggestion_rows.mark_preannotated(session, ids)

    found, _ = beside.run(read, preannotate, pause=(layer_rows, "suggestions"))
    assert found == {}
    assert len(read()) == len(ids) and all(read().values())


def test_a_job_is_not_passed_over_while_another_is_added_that_waits_for_it(store: Store, people: People) -> None:
    with store.write() as session:
        first = job_rows.add(session, kind="pretrain", payload={"name": "x"}, priority=5)
        job_rows.add(session, kind="preannotate", payload={}, priority=30)
    with store.write() as session:
        job_rows.add(session, kind="preannotate", payload={}, priority=5, after_id=first)
        claimed = lease.claim(store, worker="w")
        assert claimed is not None and claimed.id == first
