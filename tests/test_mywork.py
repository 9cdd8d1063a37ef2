"""What became of one's work: waiting, kept, changed; reopening while it is still possible."""

from __future__ import annotations

from db.engine import Store
from tests.builders import Tab, make_gold
from workbench import mywork, outbox
from workbench.actors import Actor

People = dict[str, Actor]


def test_mywork_follows_a_sentence_through_the_stages(store: Store, people: People, campaign: int) -> None:
    one = Tab(store, people["ann1"], campaign, "annotate")
    one.do("submit", one.items(1)[0], [(0, 2, "person"), (4, 7, "band")])
    (row,) = mywork.my_work(store, people["ann1"], campaign).rows
    assert (row.outcome, row.can_reopen, row.gold) == ("waiting for check", True, None)
    two = Tab(store, people["ann2"], campaign, "check")
    two.do("submit", two.items(1)[0], [(0, 2, "musicalartist"), (4, 7, "band")])
    (row,) = mywork.my_work(store, people["ann1"], campaign).rows
    assert (row.outcome, row.can_reopen) == ("waiting for the expert", False)
    expert = Tab(store, people["eva"], campaign, "adjudicate")
    decisions = {"decisions": [{"unit": 0, "choice": "second"}, {"unit": 1, "choice": "first"}]}
    expert.do("submit", expert.items(1)[0], [(0, 2, "musicalartist"), (4, 7, "band")], parts=decisions)
    work = mywork.my_work(store, people["ann1"], campaign)
    assert (work.rows[0].outcome, work.rows[0].kept, work.rows[0].changed) == ("changed", 1, 1)
    assert work.rows[0].gold == ("Mara Vell (musicalartist)", "The Tin Gulls (band)")
    assert [unit.kind for unit in work.rows[0].changes] == ["type", "agree"]
    assert (work.sentences, work.waiting, work.kept, work.changed, work.active_seconds) == (1, 0, 1, 1, 1.0)
    assert mywork.my_work(store, people["ann2"], campaign).rows[0].outcome == "kept"
    assert mywork.my_work(store, people["eva"], campaign).rows[0].outcome == "gold"


def test_mywork_newest_first_and_only_mine(store: Store, people: People, campaign: int) -> None:
    make_gold(store, people, campaign)
    rows = mywork.my_work(store, people["ann1"], campaign).rows
    assert len(rows) == 6 and [r.submitted_at for r in rows] == sorted((r.submitted_at for r in rows), reverse=True)
    assert mywork.my_work(store, people["ann3"], campaign).rows == ()


def test_mywork_reopened_sentence_comes_back_with_its_work(store: Store, people: People, campaign: int) -> None:
    tab = Tab(store, people["ann1"], campaign, "annotate")
    item = tab.items(1)[0]
    tab.do("submit", item, [(4, 7, "band")])
    outbox.reopen(store, people["ann1"], item["task"])
    assert mywork.my_work(store, people["ann1"], campaign).rows == ()
    again = next(one for one in tab.items() if one["task"] == item["task"])
    assert again["revision"] == 2 and again["work"]["spans"][0]["surface"] == "The Tin Gulls"
