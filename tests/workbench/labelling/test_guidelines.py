"""The guidelines at hand: examples from gold and no other, decisions with what was said, made anew with new gold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from crossner_core.errors import NotFound
from db.engine import Store
from tests.support.builders import GOLD, SENTENCES, Tab, Triple, make_gold, make_people, make_person
from tests.support.campaigns import LINES, document_campaign
from tests.support.postgres import either_store
from workbench.accounts.actors import Actor
from workbench.data import archive
from workbench.labelling import adjudication, guidelines
from workbench.labelling.guidelines import Guidelines, HardCase, Settled, TypeGuide

__all__ = ["either_store"]

People = dict[str, Actor]


def guide(store: Store, actor: Actor, campaign: int, kind: str) -> TypeGuide:
    types = guidelines.guidelines(store, actor, campaign).types
    assert types is not None
    return next(one for one in types if one.name == kind)


def cases(store: Store, actor: Actor, campaign: int) -> Sequence[HardCase]:
    decisions = guidelines.guidelines(store, actor, campaign).decisions
    assert decisions is not None
    return decisions


def settle(
    store: Store,
    people: People,
    campaign: int,
    first: list[Triple],
    second: list[Triple],
    *,
    choice: str = "first",
    comment: str = "",
    question: str = "",
    example: bool = False,
) -> None:
    """Take the campaign's first sentence to gold, with a disagreement that the expert settles."""
    for name, stage, spans in (("ann1", "annotate", first), ("ann2", "check", second)):
        tab = Tab(store, people[name], campaign, stage)
        tab.do("submit", tab.items(1)[0], spans)
    expert = Tab(store, people["eva"], campaign, "adjudicate")
    item = expert.items(1)[0]
    if question:
        question_id = adjudication.ask(store, people["eva"], item["task"], question)
        adjudication.answer(store, people["ann1"], question_id, "It is her first record.")
    gold = {"first": first, "second": second}[choice]
    parts: dict[str, Any] = {"decisions": [{"unit": 0, "choice": choice}], "comment": comment}
    parts |= {"example": True} if example else {}
    assert not expert.do("submit", item, gold, parts=parts | {"no_entities": not gold}).rejections


def test_types_have_their_guideline_and_examples_from_gold(store: Store, people: People, campaign: int) -> None:
    before = guide(store, people["ann1"], campaign, "band")
    assert before.guideline and before.title == "band" and before.examples == ()
    make_gold(store, people, campaign)
    (example,) = guide(store, people["ann1"], campaign, "band").examples
    assert (example.text, example.name) == (SENTENCES[0][0], "The Tin Gulls")
    assert [(example.text[mark.start : mark.end], mark.type) for mark in example.marks] == [
        ("Mara Vell", "musicalartist"), ("The Tin Gulls", "band"), ("Oslo", "location"),
    ]  # fmt: skip


def test_examples_of_a_type_have_different_names_and_are_few(store: Store, people: People, campaign: int) -> None:
    make_gold(store, people, campaign)
    examples = guide(store, people["eva"], campaign, "musicalartist").examples
    assert [one.name for one in examples] == ["Ada Quill", "Jonas Reik", "Mara Vell"]
    assert sum(kind == "musicalartist" for spans in GOLD for *_, kind in spans) == len(examples)
    assert all(len(one.examples) <= guidelines.EXAMPLES + 1 for one in _types(store, people["eva"], campaign))


def test_a_sentence_is_an_example_of_a_type_once(store: Store, people: People, campaign: int) -> None:
    make_gold(store, people, campaign)
    (example,) = guide(store, people["ann1"], campaign, "musicgenre").examples
    assert [example.text[mark.start : mark.end] for mark in example.marks] == ["bossa nova", "hard bop"]


def _types(store: Store, actor: Actor, campaign: int) -> tuple[TypeGuide, ...]:
    return guidelines.guidelines(store, actor, campaign).types or ()


@pytest.mark.parametrize(("split", "shown"), [("pool", True), ("dev", True), ("test", False)])
def test_gold_of_the_test_split_is_no_example(store: Store, people: People, split: str, shown: bool) -> None:
    campaign = document_campaign(store, people, split=split)
    settle(store, people, campaign, [(0, 2, "musicalartist")], [(0, 2, "person")], comment="She sings.")
    assert bool(guide(store, people["ann1"], campaign, "musicalartist").examples) is shown
    assert bool(cases(store, people["ann1"], campaign)) is shown


def test_work_that_is_not_gold_is_no_example(store: Store, people: People, campaign: int) -> None:
    tab = Tab(store, people["ann1"], campaign, "annotate")
    tab.do("submit", tab.items(1)[0], GOLD[0], parts={"comment": "Surely a band."})
    assert not any(one.examples for one in _types(store, people["ann1"], campaign))
    assert cases(store, people["ann1"], campaign) == ()


def test_a_settled_disagreement_with_a_comment_is_a_decision(either_store: Store) -> None:
    store, people = either_store, make_people(either_store)
    campaign = document_campaign(store, people)
    settle(store, people, campaign, [(0, 2, "musicalartist")], [(0, 2, "person")], comment="She sings.")
    (case,) = cases(store, people["ann3"], campaign)
    assert (case.text, case.comment, case.asked) == (LINES[0], "She sings.", ())
    assert case.settled == (
        Settled("type", "Mara Vell (musical artist)", "Mara Vell (person)", "Mara Vell (musical artist)"),
    )
    assert [(case.text[mark.start : mark.end], mark.type) for mark in case.marks] == [("Mara Vell", "musicalartist")]


def test_a_question_and_its_answers_are_a_decision_without_names(store: Store, people: People) -> None:
    campaign = document_campaign(store, people)
    settle(store, people, campaign, [(0, 2, "band")], [], choice="second", question="Is she a band?")
    (case,) = cases(store, people["ann2"], campaign)
    assert [(one.question, one.answers) for one in case.asked] == [("Is she a band?", ("It is her first record.",))]
    assert case.settled == (Settled("extra", "Mara Vell (band)", "", ""),)
    assert not any(actor.display_name in repr(case) for actor in people.values())


def test_what_an_expert_marked_is_an_example_agreed_or_not(store: Store, people: People) -> None:
    campaign = document_campaign(store, people)
    settle(store, people, campaign, [(0, 2, "band")], [(0, 2, "band")], example=True)
    (case,) = cases(store, people["ann1"], campaign)
    assert (case.example, case.settled, case.comment) == (True, (), "")
    data = archive.export_campaign(store, people["adm"], campaign)
    copy = archive.import_campaign(store, people["adm"], data, name="Copy")
    assert [one.example for one in cases(store, people["adm"], copy)] == [True], "it travels with the archive"


def test_an_example_is_the_experts_to_mark(store: Store, people: People) -> None:
    tab = Tab(store, people["ann1"], document_campaign(store, people), "annotate")
    (rejection,) = tab.do("draft", tab.items(1)[0], [(0, 2, "band")], parts={"example": True}).rejections
    assert "the expert marks" in rejection["message"]


def test_what_nobody_explained_is_no_decision(store: Store, people: People) -> None:
    campaign = document_campaign(store, people)
    settle(store, people, campaign, [(0, 2, "band")], [(0, 2, "person")])
    settle(store, people, campaign, [(4, 6, "album")], [(4, 6, "album")], comment="Agreed by both.")
    assert cases(store, people["ann1"], campaign) == ()


def test_what_is_unchanged_is_not_made_or_sent_again(
    store: Store, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = document_campaign(store, people)
    settle(store, people, campaign, [(0, 2, "band")], [(0, 2, "person")], comment="No.")
    first = guidelines.guidelines(store, people["ann1"], campaign)
    assert guidelines.guidelines(store, people["ann2"], campaign) is first, "made once for all members"
    assert guidelines.guidelines(store, people["ann1"], campaign, version=first.version) == Guidelines(first.version)
    settle(store, people, campaign, [(4, 6, "album")], [(4, 6, "song")], comment="An album.")
    second = guidelines.guidelines(store, people["ann1"], campaign, version=first.version)
    assert second.decisions is not None and len(second.decisions) == 2
    assert second.decisions[0].comment == "An album.", "the newest first"


def test_only_members_and_overseers_see_them(store: Store, people: People, campaign: int) -> None:
    with pytest.raises(NotFound):
        guidelines.guidelines(store, make_person(store, "zoe", "annotator"), campaign)
    assert guidelines.guidelines(store, people["res"], campaign).types
