"""The desk: the next sentence, the numbers that the pages show, questions, outcomes, pace; for admins, the house."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from crossner_core.errors import NotAllowed
from db.engine import Store
from db.training_tables import Run
from tests.support.builders import Tab, make_gold
from workbench.accounts.actors import Actor
from workbench.data import snapshots
from workbench.doctor import examining
from workbench.labelling import adjudication, handout
from workbench.reports.desk import desk, house

People = dict[str, Actor]


def test_desk_shows_the_numbers_and_the_sentence_of_the_page(store: Store, people: People, campaign: int) -> None:
    first, second = (
        Tab(store, people[name], campaign, stage) for name, stage in (("ann1", "annotate"), ("ann2", "check"))
    )
    for item in first.items(3):
        first.do("submit", item, [], parts={"no_entities": True})
    mine = desk(store, people["ann2"], campaign).labelling
    assert mine is not None and mine.progress["check"].left == 3
    for stage, progress in mine.progress.items():
        assert progress == handout.progress(store, people["ann2"], campaign, stage), stage
    assert mine.next is not None and mine.next.stage == "check"
    assert mine.next.text == second.items(1)[0]["text"], "the page opens the sentence that the desk named"


def test_desk_leases_nothing(store: Store, people: People, campaign: int) -> None:
    before = handout.progress(store, people["ann1"], campaign, "annotate")
    desk(store, people["ann2"], campaign)
    with store.read() as session:
        assert session.scalar(sa.text("SELECT count(*) FROM task WHERE state = 'leased'")) == 0
    assert handout.progress(store, people["ann1"], campaign, "annotate") == before


def test_desk_counts_open_questions_for_both_sides(store: Store, people: People, campaign: int) -> None:
    for name, stage in (("ann1", "annotate"), ("ann2", "check")):
        tab = Tab(store, people[name], campaign, stage)
        tab.do("submit", tab.items(1)[0], [], parts={"no_entities": True})
    task = Tab(store, people["eva"], campaign, "adjudicate").items(1)[0]["task"]
    question = adjudication.ask(store, people["eva"], task, "Sure?")
    counts = []
    for answering in (None, "ann1", "ann2"):
        if answering:
            adjudication.answer(store, people[answering], question, "Yes.")
        parts = [desk(store, people[name], campaign).labelling for name in ("ann1", "eva")]
        counts.append([(p.questions.to_answer, p.questions.awaited, p.questions.answered) for p in parts if p])
    assert counts == [[(1, 0, 0), (0, 1, 0)], [(0, 0, 0), (0, 1, 0)], [(0, 0, 0), (0, 0, 1)]]


def test_desk_says_who_changed_my_work_and_my_pace(store: Store, people: People, campaign: int) -> None:
    make_gold(store, people, campaign)
    mine = desk(store, people["ann1"], campaign).labelling
    assert mine is not None and len(mine.work) == 5
    assert {row.by for row in mine.work} == {people["eva"].display_name}
    (pace,) = mine.pace
    assert (pace.stage, pace.sentences) == ("annotate", 6) and pace.seconds == pace.campaign_seconds > 0


def test_desk_gives_each_role_its_parts(store: Store, people: People, campaign: int) -> None:
    parts = {name: desk(store, people[name], campaign) for name in ("ann1", "eva", "res", "adm")}
    assert {name: (made.labelling is not None, made.models is not None) for name, made in parts.items()} == {
        "ann1": (True, False), "eva": (True, True), "res": (False, True), "adm": (False, True),
    }  # fmt: skip


def test_desk_curve_ends_with_the_run_on_all_gold(store: Store, people: People, campaign: int) -> None:
    make_gold(store, people, campaign)
    frozen = snapshots.freeze(store, people["res"], campaign)
    cells = (("new", 2, 0.2), ("new", 2, 0.4), ("new", None, 0.5), ("old", 1, 0.9), (None, None, 0.7))
    with store.write() as session:
        session.add_all(
            Run(campaign_id=campaign, snapshot_id=frozen.id, group_id=group, size=size, recipe={}, recipe_hash="r",
                seed=555, state="done", test_f1=f1)
            for group, size, f1 in reversed(cells)
        )  # fmt: skip
    models = desk(store, people["res"], campaign).models
    assert models is not None
    assert models.curve == ((2, pytest.approx(0.3)), (frozen.counts["pool"], 0.5))


@pytest.mark.parametrize(("name", "most"), [("ann1", 25), ("eva", 40), ("res", 14)])
def test_desk_takes_few_statements(store: Store, people: People, campaign: int, name: str, most: int) -> None:
    make_gold(store, people, campaign)
    seen: list[str] = []
    with store.read() as session:
        engine = session.get_bind()

    def count(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        seen.append(statement)

    sa.event.listen(engine, "before_cursor_execute", count)
    try:
        desk(store, people[name], campaign)
    finally:
        sa.event.remove(engine, "before_cursor_execute", count)
    print(name, len(seen))
    assert len(seen) <= most, "\n".join(seen)


def test_house_is_the_admins_and_repeats_the_doctor(
    store: Store, people: People, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path))
    assert (before := house(store, people["adm"])).doctor is None and not before.trouble
    assert before.people["admin"] == 1 and before.free_bytes > 0
    examining.examine(store, people["adm"])
    after = house(store, people["adm"])
    assert after.doctor is not None and after.doctor == examining.last_examination(store, people["adm"])
    with pytest.raises(NotAllowed):
        house(store, people["res"])
