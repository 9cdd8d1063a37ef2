"""Units, decisions checked on the server, questions, and sentences set aside."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from crossner_core.domains import load_domain
from crossner_core.errors import BadInput, Conflict, NotAllowed
from crossner_core.schema import LabelledSentence, Span
from db.engine import Store
from db.tables import Annotation, Decision, Task
from db.types import now
from tests.support.builders import Tab, first_choices, make_gold, make_person, make_sentences
from workbench.accounts import accounts
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns, sentences
from workbench.data import archive, layers
from workbench.labelling import adjudication, handout, steps
from workbench.labelling.units import units
from workbench.labelling.work import Flag

People = dict[str, Actor]
A, B = Span(0, 2, "band"), Span(4, 7, "album")


@pytest.mark.parametrize(
    ("first", "second", "flags", "kinds"),
    [
        ([A], [A], [], ["agree"]),
        ([A], [A], [Flag(0, 2, "band", "sure?")], ["flagged"]),
        ([A], [Span(0, 2, "song")], [Flag(0, 2, "band")], ["type"]),
        ([A], [Span(0, 3, "band")], [], ["boundary"]),
        ([A], [Span(1, 3, "song")], [], ["boundary+type"]),
        ([A], [], [Flag(0, 2, "band")], ["extra"]),
        ([], [A], [], ["missing"]),
        ([Span(0, 4, "band")], [Span(0, 1, "song"), Span(1, 4, "band")], [], ["missing", "boundary"]),
        ([B, A], [A, Span(7, 8, "song")], [], ["agree", "extra", "missing"]),
    ],
)
def test_units_name_each_kind(first: list[Span], second: list[Span], flags: list[Flag], kinds: list[str]) -> None:
    found = units(first, second, flags)
    assert sorted(unit.kind for unit in found) == sorted(kinds)
    if flags:
        assert found[0].note == flags[0].note


def test_units_prefer_the_same_place_to_the_larger_overlap() -> None:
    found = units([Span(0, 2, "band"), Span(2, 6, "song")], [Span(0, 2, "song"), Span(2, 3, "band")])
    assert [(unit.kind, unit.first, unit.second) for unit in found] == [
        ("type", Span(0, 2, "band"), Span(0, 2, "song")),
        ("boundary+type", Span(2, 6, "song"), Span(2, 3, "band")),
    ]


@st.composite
def layer(draw: st.DrawFn) -> list[Span]:
    cuts = sorted(draw(st.sets(st.integers(0, 20), max_size=8)))
    kinds = st.sampled_from(["band", "song"])
    return [Span(a, b, draw(kinds)) for a, b in zip(cuts[::2], cuts[1::2], strict=False)]


@given(first=layer(), second=layer())
def test_units_use_every_span_once_in_any_order(first: list[Span], second: list[Span]) -> None:
    found = units(first, second)
    assert sorted(unit.first for unit in found if unit.first) == first
    assert sorted(unit.second for unit in found if unit.second) == second
    assert found == units(reversed(first), reversed(second))
    assert all((unit.kind == "agree") == (unit.first == unit.second) for unit in found)


@pytest.fixture
def expert(store: Store, people: People, campaign: int) -> Tab:
    """The expert's tab; annotator 2 changed one type, dropped one span and added one."""
    one = Tab(store, people["ann1"], campaign, "annotate")
    one.do("submit", one.items(1)[0], [(0, 2, "person"), (4, 7, "band")])
    two = Tab(store, people["ann2"], campaign, "check")
    flags = [{"start": 4, "end": 7, "type": "band", "note": "a band?"}, {"start": 0, "end": 2, "type": "person"}]
    two.do("submit", two.items(1)[0], [(0, 2, "musicalartist"), (8, 9, "location")], parts={"flags": flags})
    return Tab(store, people["eva"], campaign, "adjudicate")


def _decide(tab: Tab, spans: list[tuple[int, int, str]], choices: list[str], **changes: Any) -> list[dict[str, Any]]:
    decisions = [{"unit": number, "choice": choice} for number, choice in enumerate(choices)]
    return tab.do("submit", tab.items(1)[0], spans, parts={"decisions": decisions, **changes}).rejections


def test_adjudication_item_shows_units_and_notes(expert: Tab) -> None:
    item = expert.items(1)[0]
    assert [(unit["kind"], unit["note"]) for unit in item["units"]] == [
        ("type", ""), ("extra", "a band?"), ("missing", ""),
    ]  # fmt: skip
    assert item["first"] is None and item["suggestions"] == []


def test_adjudication_makes_gold_with_each_choice(store: Store, expert: Tab) -> None:
    spans = [(0, 2, "musicalartist"), (4, 6, "band")]
    assert _decide(expert, spans, ["second", "other", "none"]) == []
    (gold,) = layers.layer(store, expert.actor, expert.campaign_id, "gold")
    assert [(s.start, s.end, s.type) for s in gold[0].spans] == spans
    with store.read() as session:
        rows = session.scalars(sa.select(Decision).order_by(Decision.unit)).all()
        kept = [(row.kind, row.choice, row.first, row.second) for row in rows]
    assert kept[0] == ("type", "second", [0, 2, "person"], [0, 2, "musicalartist"])
    assert kept[2] == ("missing", "none", None, [8, 9, "location"])


def test_adjudication_takes_no_entity_at_all(store: Store, expert: Tab) -> None:
    assert _decide(expert, [], ["none", "none", "none"], no_entities=False) == []
    (gold,) = layers.layer(store, expert.actor, expert.campaign_id, "gold")
    assert gold[0].spans == ()


@pytest.mark.parametrize(
    ("spans", "choices", "message"),
    [
        ([(0, 2, "person")], ["first"], "undecided"),
        ([(0, 2, "person")], ["second", "none", "none"], "spans do not match"),
        ([(0, 2, "person")], ["none", "none", "none"], "spans do not match"),
        ([], ["none", "other", "none"], "spans do not match"),
        ([], ["none", "none", "none", "none"], "no unit 3"),
    ],
)
def test_adjudication_refuses_choices_that_do_not_fit(
    expert: Tab, spans: list[tuple[int, int, str]], choices: list[str], message: str
) -> None:
    (rejection,) = _decide(expert, spans, choices)
    assert rejection["reason"] == "invalid"
    assert any(part in rejection["message"] for part in message.split("|"))


def test_adjudication_lets_the_expert_add_what_both_missed(store: Store, expert: Tab) -> None:
    spans = [(0, 2, "person"), (3, 4, "misc"), (4, 7, "band")]
    assert _decide(expert, spans, ["first", "first", "first"]) == []


def test_adjudication_keeps_half_a_draft(expert: Tab) -> None:
    item = expert.items(1)[0]
    decisions = {"decisions": [{"unit": 1, "choice": "none"}]}
    assert expert.do("draft", item, [(0, 2, "person")], parts=decisions).rejections == []
    assert expert.items(1)[0]["work"]["decisions"] == [{"unit": 1, "choice": "none"}]


def test_questions_wait_for_both_annotators_and_come_last(store: Store, people: People, campaign: int) -> None:
    for name, stage in (("ann1", "annotate"), ("ann2", "check")):
        Tab(store, people[name], campaign, stage).submit_all()
    tab = Tab(store, people["eva"], campaign, "adjudicate")
    order = [item["task"] for item in tab.items(6)]
    question = adjudication.ask(store, people["eva"], order[0], "  A stage name? ")
    assert [item["task"] for item in tab.items(6)] == [*order[1:], order[0]]
    (mine,) = adjudication.my_questions(store, people["ann1"], campaign)
    assert (mine.id, mine.text, mine.mine, mine.my_answer) == (question, "A stage name?", False, None)
    assert mine.first == mine.second == ("Mara Vell (musical artist)", "The Tin Gulls (band)", "Oslo (location)")
    assert adjudication.my_questions(store, people["ann3"], campaign) == ()
    with pytest.raises(NotAllowed, match="two annotators"):
        adjudication.answer(store, people["ann3"], question, "me too")
    adjudication.answer(store, people["ann1"], question, "yes")
    assert tab.items(6)[-1]["task"] == order[0]
    adjudication.answer(store, people["ann2"], question, "no")
    adjudication.answer(store, people["ann2"], question, "well, yes")
    assert [item["task"] for item in tab.items(6)] == order
    notes = [note["text"] for note in tab.items(6)[0]["notes"]]
    assert notes == ["A stage name?", "yes", "well, yes"]
    spans, decisions = first_choices(tab.items(6)[0])
    tab.do("submit", tab.items(6)[0], spans, parts={"decisions": decisions})
    (asked,) = adjudication.my_questions(store, people["eva"], campaign)
    assert asked.closed and asked.mine and [answer.text for answer in asked.answers] == ["yes", "well, yes"]
    with pytest.raises(Conflict, match="closed"):
        adjudication.answer(store, people["ann1"], question, "late")


def test_questions_need_text_and_a_sentence_under_adjudication(store: Store, people: People, expert: Tab) -> None:
    with store.read() as session:
        annotate = session.scalars(sa.select(Task.id).where(Task.stage == "annotate")).first()
    assert annotate is not None
    with pytest.raises(Conflict, match="under adjudication"):
        adjudication.ask(store, people["eva"], annotate, "why?")
    with pytest.raises(BadInput, match="characters"):
        adjudication.ask(store, people["eva"], expert.items(1)[0]["task"], " ")


def test_question_closed_by_the_expert_frees_the_sentence(store: Store, people: People, expert: Tab) -> None:
    question = adjudication.ask(store, people["eva"], expert.items(1)[0]["task"], "?")
    adjudication.close_question(store, people["eva"], question)
    assert adjudication.my_questions(store, people["eva"], expert.campaign_id)[0].closed


def _ask_and_go_on(store: Store, people: People, campaign: int) -> tuple[Tab, int, int]:
    """Let eva ask about the first sentence and leave her lease behind; return max's tab, her task and her question."""
    for name, stage in (("ann1", "annotate"), ("ann2", "check")):
        Tab(store, people[name], campaign, stage).submit_all()
    max_ = make_person(store, "max", "expert")
    campaigns.add_members(store, people["adm"], campaign, [max_.id])
    task = Tab(store, people["eva"], campaign, "adjudicate").items(1)[0]["task"]
    question = adjudication.ask(store, people["eva"], task, "A stage name?")
    _run_out(store, task)
    return Tab(store, max_, campaign, "adjudicate"), task, question


def _run_out(store: Store, task_id: int) -> None:
    with store.write() as session:
        session.execute(sa.update(Task).where(Task.id == task_id).values(lease_expires=now() - dt.timedelta(days=30)))


@pytest.mark.parametrize("how", ["member", "role", "account"])
def test_question_of_an_expert_who_has_left_blocks_nothing(
    store: Store, people: People, campaign: int, how: str
) -> None:
    tab, task, _ = _ask_and_go_on(store, people, campaign)
    assert task not in [item["task"] for item in tab.items(6)]
    if how == "member":
        rest = [actor.id for name, actor in people.items() if name != "eva"]
        campaigns.set_members(store, people["adm"], campaign, [*rest, tab.actor.id])
    elif how == "role":
        accounts.set_role(store, people["adm"], people["eva"].id, "annotator")
    else:
        accounts.set_active(store, people["adm"], people["eva"].id, False)
    assert task in [item["task"] for item in tab.items(6)]
    assert tab.submit_all() == 6
    assert handout.progress(store, tab.actor, campaign, "adjudicate") == handout.Progress(done=6, left=0)
    assert adjudication.open_questions(store, tab.actor, campaign) == ()


def test_question_keeps_its_sentence_for_the_asker_until_both_have_answered_and_the_lease_has_run_out(
    store: Store, people: People, campaign: int
) -> None:
    tab, task, question = _ask_and_go_on(store, people, campaign)
    eva = Tab(store, people["eva"], campaign, "adjudicate")
    adjudication.answer(store, people["ann1"], question, "yes")
    assert tab.submit_all() == 5  # all but hers, whose lease has run out: an answer is missing
    assert eva.items(1)[0]["task"] == task  # renews the lease
    adjudication.answer(store, people["ann2"], question, "no")
    assert tab.items(1) == ()
    _run_out(store, task)
    (item,) = tab.items(1)
    assert item["task"] == task
    assert [note["text"] for note in item["notes"]] == ["A stage name?", "yes", "no"]


def test_every_expert_sees_the_open_questions_of_the_campaign_and_closes_them(
    store: Store, people: People, campaign: int
) -> None:
    tab, task, question = _ask_and_go_on(store, people, campaign)
    (seen,) = adjudication.open_questions(store, tab.actor, campaign)
    assert (seen.id, seen.task_id, seen.asked_by, seen.mine) == (question, task, "Eva", False)
    assert adjudication.my_questions(store, tab.actor, campaign) == ()  # it was not put to him
    (own,) = adjudication.open_questions(store, people["eva"], campaign)
    assert own.mine
    adjudication.close_question(store, tab.actor, question)
    assert adjudication.open_questions(store, tab.actor, campaign) == ()
    assert task in [item["task"] for item in tab.items(6)]


def test_parked_sentences_show_reasons_and_come_back(store: Store, people: People, campaign: int) -> None:
    task = 0
    for name in ("ann1", "ann2"):
        tab = Tab(store, people[name], campaign, "annotate")
        item = tab.items(1)[0]
        task = item["task"]
        tab.do("skip", item, reason=f"{name} cannot")
    (parked,) = adjudication.parked(store, people["eva"], campaign)
    assert parked.task_id == task and parked.reasons == ("ann1 cannot", "ann2 cannot")
    adjudication.unpark(store, people["eva"], task)
    assert adjudication.parked(store, people["eva"], campaign) == ()
    assert task in [item["task"] for item in Tab(store, people["ann1"], campaign, "annotate").items()]
    with pytest.raises(Conflict, match="not parked"):
        adjudication.unpark(store, people["eva"], task)


def test_skip_of_the_only_expert_parks(store: Store, people: People, expert: Tab) -> None:
    expert.do("skip", expert.items(1)[0], reason="ask a musician")
    assert [one.stage for one in adjudication.parked(store, people["eva"], expert.campaign_id)] == ["adjudicate"]


def test_gold_can_be_reopened_and_is_no_gold_meanwhile(store: Store, people: People, campaign: int) -> None:
    make_gold(store, people, campaign)
    with store.read() as session:
        task = session.scalars(sa.select(Task.id).where(Task.stage == "adjudicate")).first()
    assert task is not None
    with pytest.raises(NotAllowed):
        steps.reopen(store, people["ann1"], task)
    steps.reopen(store, people["eva"], task)
    assert len(layers.layer(store, people["res"], campaign, "gold")) == 5
    tab = Tab(store, people["eva"], campaign, "adjudicate")
    (item,) = tab.items()
    assert item["revision"] == 2 and item["work"]["decisions"]
    assert _decide(tab, [], ["none"] * len(item["units"])) == []
    gold = layers.layer(store, people["res"], campaign, "gold")
    assert len(gold) == 6 and gold[-1][0].spans == ()  # the newest gold comes last


def test_imported_gold_can_be_reopened_by_an_expert(store: Store, people: People) -> None:
    campaign = campaigns.create_campaign(
        store, people["adm"], name="G", domain=load_domain("music"), member_ids=[people["eva"].id]
    )
    sentence = make_sentences()[0]
    labelled = LabelledSentence(sentence, (Span(4, 7, "band"),))
    assert sentences.add_sentences(store, people["res"], campaign, [labelled], split="dev").gold == 1
    with store.read() as session:
        task = session.scalars(sa.select(Task.id)).one()
    steps.reopen(store, people["eva"], task)
    tab = Tab(store, people["eva"], campaign, "adjudicate")
    (item,) = tab.items()
    assert [unit["kind"] for unit in item["units"]] == ["agree"]
    assert _decide(tab, [(0, 2, "musicalartist"), (4, 7, "band")], ["first"]) == []
    ((gold, split),) = layers.layer(store, people["res"], campaign, "gold")
    assert len(gold.spans) == 2 and split == "dev" and gold.sentence == sentence
    with store.read() as session:
        states = session.execute(sa.select(Annotation.origin, Annotation.state)).all()
    assert set(map(tuple, states)) == {("import", "superseded"), ("person", "submitted")}


@pytest.mark.parametrize(("asks", "asked", "other"), [("first", "ann1", "ann2"), ("second", "ann2", "ann1")])
def test_question_to_one_annotator_is_theirs_alone_and_waits_for_them_alone(
    store: Store, people: People, campaign: int, asks: str, asked: str, other: str
) -> None:
    for name, stage in (("ann1", "annotate"), ("ann2", "check")):
        Tab(store, people[name], campaign, stage).submit_all()
    tab = Tab(store, people["eva"], campaign, "adjudicate")
    order = [item["task"] for item in tab.items(6)]
    question = adjudication.ask(store, people["eva"], order[0], "A stage name?", asks=asks)
    assert [item["task"] for item in tab.items(6)] == [*order[1:], order[0]]
    assert adjudication.my_questions(store, people[other], campaign) == ()
    assert [view.asks for view in adjudication.my_questions(store, people[asked], campaign)] == [asks]
    with pytest.raises(NotAllowed, match=f"Only annotator {asked[-1]} of the sentence"):
        adjudication.answer(store, people[other], question, "me, too")
    adjudication.answer(store, people[asked], question, "yes")
    assert [item["task"] for item in tab.items(6)] == order


def test_question_waits_for_those_alone_who_can_answer(store: Store, people: People) -> None:
    members = [people[name].id for name in ("ann1", "ann2", "eva")]
    campaign = campaigns.create_campaign(
        store, people["adm"], name="First imported", domain=load_domain("music"), member_ids=members
    )
    rows = [LabelledSentence(sentence, ()) for sentence in make_sentences()[:2]]
    sentences.add_sentences(store, people["res"], campaign, rows, annotation="first")
    Tab(store, people["ann2"], campaign, "check").submit_all()
    tab = Tab(store, people["eva"], campaign, "adjudicate")
    order = [item["task"] for item in tab.items(6)]
    question = adjudication.ask(store, people["eva"], order[0], "A stage name?")
    assert [item["task"] for item in tab.items(6)] == [order[1], order[0]]
    with pytest.raises(Conflict, match="nobody to ask"):  # the first annotation is imported
        adjudication.ask(store, people["eva"], order[1], "A band?", asks="first")
    adjudication.answer(store, people["ann2"], question, "yes")
    assert [item["task"] for item in tab.items(6)] == order
    adjudication.ask(store, people["eva"], order[0], "And this?")
    assert [item["task"] for item in tab.items(6)] == [order[1], order[0]]
    campaigns.set_members(store, people["adm"], campaign, [people["ann1"].id, people["eva"].id])
    assert [item["task"] for item in tab.items(6)] == order


def test_question_asks_nobody_else(store: Store, people: People, expert: Tab) -> None:
    task = expert.items(1)[0]["task"]
    with pytest.raises(BadInput, match="allowed are both, first, second"):
        adjudication.ask(store, people["eva"], task, "?", asks="third")


def test_archive_keeps_whom_a_question_asks(store: Store, people: People, expert: Tab, campaign: int) -> None:
    adjudication.ask(store, people["eva"], expert.items(1)[0]["task"], "A stage name?", asks="second")
    copied = archive.export_campaign(store, people["adm"], campaign)
    again = archive.import_campaign(store, people["adm"], copied, name="Again")
    (put,) = adjudication.my_questions(store, people["ann2"], again)
    assert (put.text, put.asks) == ("A stage name?", "second")
    assert adjudication.my_questions(store, people["ann1"], again) == ()
