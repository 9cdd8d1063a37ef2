"""What became of one's work: waiting, kept, changed; reopening while it is still possible."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy as sa

from crossner_core.errors import WorkbenchError
from db.engine import Store
from db.tables import User
from tests.support.builders import Tab, make_gold
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.labelling import steps
from workbench.reports import my_work

People = dict[str, Actor]


def test_mywork_follows_a_sentence_through_the_stages(store: Store, people: People, campaign: int) -> None:
    one = Tab(store, people["ann1"], campaign, "annotate")
    one.do("submit", one.items(1)[0], [(0, 2, "person"), (4, 7, "band")])
    (row,) = my_work.my_work(store, people["ann1"], campaign).rows
    assert (row.outcome, row.can_reopen, row.gold) == ("waiting for check", True, None)
    two = Tab(store, people["ann2"], campaign, "check")
    two.do("submit", two.items(1)[0], [(0, 2, "musicalartist"), (4, 7, "band")])
    (row,) = my_work.my_work(store, people["ann1"], campaign).rows
    assert (row.outcome, row.can_reopen) == ("waiting for the expert", False)
    expert = Tab(store, people["eva"], campaign, "adjudicate")
    decisions = {"decisions": [{"unit": 0, "choice": "second"}, {"unit": 1, "choice": "first"}]}
    expert.do("submit", expert.items(1)[0], [(0, 2, "musicalartist"), (4, 7, "band")], parts=decisions)
    work = my_work.my_work(store, people["ann1"], campaign)
    assert (work.rows[0].outcome, work.rows[0].kept, work.rows[0].changed) == ("changed", 1, 1)
    assert work.rows[0].gold == ("Mara Vell (musical artist)", "The Tin Gulls (band)")
    assert [unit.kind for unit in work.rows[0].changes] == ["type", "agree"]
    assert (work.sentences, work.waiting, work.kept, work.changed, work.active_seconds) == (1, 0, 1, 1, 1.0)
    assert my_work.my_work(store, people["ann2"], campaign).rows[0].outcome == "kept"
    assert my_work.my_work(store, people["eva"], campaign).rows[0].outcome == "gold"


def test_mywork_newest_first_and_only_mine(store: Store, people: People, campaign: int) -> None:
    make_gold(store, people, campaign)
    rows = my_work.my_work(store, people["ann1"], campaign).rows
    assert len(rows) == 6 and [r.submitted_at for r in rows] == sorted((r.submitted_at for r in rows), reverse=True)
    assert my_work.my_work(store, people["ann3"], campaign).rows == ()


def test_mywork_reopened_sentence_comes_back_with_its_work(store: Store, people: People, campaign: int) -> None:
    tab = Tab(store, people["ann1"], campaign, "annotate")
    item = tab.items(1)[0]
    tab.do("submit", item, [(4, 7, "band")])
    steps.reopen(store, people["ann1"], item["task"])
    assert my_work.my_work(store, people["ann1"], campaign).rows == ()
    again = next(one for one in tab.items() if one["task"] == item["task"])
    assert again["revision"] == 2 and again["work"]["spans"][0]["surface"] == "The Tin Gulls"


@contextmanager
def _statements(store: Store) -> Iterator[list[str]]:
    """Collect what is sent to the database."""
    sent: list[str] = []

    def note(connection: object, cursor: object, statement: str, *rest: object) -> None:
        sent.append(statement)

    sa.event.listen(store.engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        sa.event.remove(store.engine, "before_cursor_execute", note)


def test_mywork_asks_no_more_of_the_store_for_more_sentences(store: Store, people: People, campaign: int) -> None:
    tab = Tab(store, people["ann1"], campaign, "annotate")
    counts = []
    for _ in range(2):
        tab.do("submit", tab.items()[0], [(0, 1, "person")])
        tab.do("submit", tab.items()[0], [(0, 1, "person")])
        with _statements(store) as sent:
            rows = my_work.my_work(store, people["ann1"], campaign).rows
        assert all(row.can_reopen for row in rows)
        counts.append((len(rows), len(sent)))
    assert [number for number, _ in counts] == [2, 4]
    assert counts[0][1] == counts[1][1] < 15


def _offered(store: Store, actor: Actor, campaign: int) -> dict[int, bool]:
    """Whether My work offers each of my sentences for reopening, and that the promise holds, by task id."""
    offered = {row.task_id: row.can_reopen for row in my_work.my_work(store, actor, campaign).rows}
    for task, promised in offered.items():
        if promised:
            steps.reopen(store, actor, task)
        else:
            with pytest.raises(WorkbenchError):
                steps.reopen(store, actor, task)
    return offered


def test_mywork_offers_what_nobody_has_gone_on_with_and_keeps_its_promise(
    store: Store, people: People, campaign: int
) -> None:
    one, two, expert = (
        Tab(store, people[name], campaign, stage)
        for name, stage in (("ann1", "annotate"), ("ann2", "check"), ("eva", "adjudicate"))
    )
    tasks = []
    for item in one.items(4):
        tasks.append(item["task"])
        one.do("submit", item, [(0, 1, "person")])
    checks = two.items(3)
    two.do("submit", checks[0], [(0, 1, "person")])
    two.do("draft", checks[1], [(0, 1, "person")])
    assert _offered(store, people["ann1"], campaign) == dict(zip(tasks, [False, False, False, True], strict=True))
    (gold,) = expert.items(1)
    decisions = {"decisions": [{"unit": 0, "choice": "first"}]}
    expert.do("submit", gold, [(0, 1, "person")], parts=decisions)
    assert _offered(store, people["ann2"], campaign) == {checks[0]["task"]: False}
    assert _offered(store, people["eva"], campaign) == {gold["task"]: True}


def test_mywork_offers_nothing_in_an_archive_nor_gold_to_who_is_no_expert_any_more(
    store: Store, people: People, campaign: int
) -> None:
    make_gold(store, people, campaign)
    mine = my_work.my_work(store, people["eva"], campaign).rows
    assert len(mine) == 6 and all(row.can_reopen for row in mine)
    with store.write() as session:
        session.execute(sa.update(User).where(User.id == people["eva"].id).values(role="annotator"))
    assert not any(_offered(store, people["eva"], campaign).values())
    with store.write() as session:
        session.execute(sa.update(User).where(User.id == people["eva"].id).values(role="expert"))
    campaigns.update_settings(store, people["adm"], campaign, archived=True)
    assert not any(_offered(store, people["eva"], campaign).values())
