"""Open a hit in the editor of the layer that a person may edit, or hear why there is none."""

from __future__ import annotations

import pytest

from crossner_core.errors import Conflict, NotAllowed, NotFound
from db.engine import Store
from tests.support import builders
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.data import browsing
from workbench.labelling import adjudication, handout
from workbench.labelling.opening import open_in_editor, opening

People = dict[str, Actor]


def sentence_ids(store: Store, people: People, campaign: int) -> list[int]:
    return [line.id for line in browsing.browse(store, people["res"], campaign).lines]


def shown_first(store: Store, actor: Actor, campaign: int, stage: str) -> int:
    return int(handout.items(store, actor, campaign, stage)[0]["sentence"])


def test_opening_brings_own_sent_work_back_to_the_front(store: Store, people: People, campaign: int) -> None:
    ids, ann = sentence_ids(store, people, campaign), people["ann1"]
    tab = builders.Tab(store, ann, campaign, "annotate")
    for item in tab.items(3):
        tab.do("submit", item, [(0, 1, "song")])
    made = opening(store, ann, campaign, ids[1])
    assert (made.stage, made.is_gold) == ("annotate", False)
    assert [span.type for span in made.own["annotate"]] == ["song"]
    assert open_in_editor(store, ann, campaign, ids[1]) == "annotate"
    item = handout.items(store, ann, campaign, "annotate")[0]
    assert item["sentence"] == ids[1] and item["work"]["spans"][0]["type"] == "song"


def test_opening_brings_what_one_holds_to_the_front(store: Store, people: People, campaign: int) -> None:
    ids, ann = sentence_ids(store, people, campaign), people["ann1"]
    builders.Tab(store, ann, campaign, "annotate").items(4)
    assert shown_first(store, ann, campaign, "annotate") == ids[0]
    assert open_in_editor(store, ann, campaign, ids[2]) == "annotate"
    assert shown_first(store, ann, campaign, "annotate") == ids[2]


def test_opening_says_why_a_sentence_is_not_ones_own(store: Store, people: People, campaign: int) -> None:
    ids = sentence_ids(store, people, campaign)

    def reason(name: str, id_: int) -> str:
        made = opening(store, people[name], campaign, id_)
        assert made.stage is None
        with pytest.raises((Conflict, NotAllowed)):
            open_in_editor(store, people[name], campaign, id_)
        return made.reason

    assert "in the order of the queue" in reason("ann1", ids[5])
    tab = builders.Tab(store, people["ann1"], campaign, "annotate")
    first, *_ = tab.items(4)
    assert "Somebody else is working" in reason("ann2", ids[1])
    tab.do("submit", first, [(0, 2, "song")])
    assert "an expert the gold" in reason("res", ids[0])
    checker = builders.Tab(store, people["ann2"], campaign, "check")
    checker.do("submit", checker.items(1)[0], [(0, 2, "song")])
    assert "next stage of this sentence has begun" in reason("ann1", ids[0])
    assert "waits for the expert" in reason("ann3", ids[0])
    builders.Tab(store, people["eva"], campaign, "adjudicate").submit_all()
    assert "only an expert can reopen" in reason("ann3", ids[0])


def test_opening_gives_an_expert_gold_and_what_waits_for_a_decision(
    store: Store, people: People, campaign: int
) -> None:
    ids, eva = sentence_ids(store, people, campaign), people["eva"]
    for name, stage in (("ann1", "annotate"), ("ann2", "check")):
        builders.Tab(store, people[name], campaign, stage).submit_all()
    assert opening(store, eva, campaign, ids[3]).stage == "adjudicate"
    assert open_in_editor(store, eva, campaign, ids[3]) == "adjudicate"
    assert shown_first(store, eva, campaign, "adjudicate") == ids[3]
    builders.Tab(store, eva, campaign, "adjudicate").submit_all()
    made = opening(store, eva, campaign, ids[4])
    assert (made.stage, made.is_gold, made.place) == ("adjudicate", True, "gold")
    assert open_in_editor(store, eva, campaign, ids[4]) == "adjudicate"
    assert shown_first(store, eva, campaign, "adjudicate") == ids[4]
    assert opening(store, eva, campaign, ids[4]).place == "adjudicate"


def test_opening_leaves_a_sentence_to_the_expert_who_asked_about_it(
    store: Store, people: People, campaign: int
) -> None:
    other = builders.make_person(store, "otto", "expert")
    campaigns.add_members(store, people["adm"], campaign, [other.id])
    ids = sentence_ids(store, people, campaign)
    for name, stage in (("ann1", "annotate"), ("ann2", "check")):
        builders.Tab(store, people[name], campaign, stage).submit_all()
    item = builders.Tab(store, other, campaign, "adjudicate").items(1)[0]
    adjudication.ask(store, other, item["task"], "Sure?")
    handout.release(store, other, campaign, "adjudicate")
    made = opening(store, people["eva"], campaign, item["sentence"])
    assert made.stage is None and "waits for answers" in made.reason
    assert opening(store, other, campaign, item["sentence"]).stage == "adjudicate"
    assert item["sentence"] in ids


def test_opening_an_experts_own_check_never_lets_them_adjudicate_it(
    store: Store, people: People, campaign: int
) -> None:
    ids, eva = sentence_ids(store, people, campaign), people["eva"]
    builders.Tab(store, people["ann1"], campaign, "annotate").submit_all()
    tab = builders.Tab(store, eva, campaign, "check")
    tab.do("submit", tab.items(1)[0], [(0, 2, "song")])
    assert opening(store, eva, campaign, ids[0]).stage == "check"


def test_opening_finds_no_sentence_of_another_campaign(store: Store, people: People, campaign: int) -> None:
    other = builders.make_campaign(store, people, name="Other")
    foreign = sentence_ids(store, people, other)[0]
    for call in (opening, open_in_editor):
        with pytest.raises(NotFound, match="no sentence"):
            call(store, people["eva"], campaign, foreign)


def test_opening_changes_nothing_in_an_archived_campaign(store: Store, people: People, campaign: int) -> None:
    builders.make_gold(store, people, campaign)
    id_ = sentence_ids(store, people, campaign)[0]
    campaigns.update_settings(store, people["adm"], campaign, archived=True)
    assert opening(store, people["eva"], campaign, id_).reason == "The campaign is archived."
    with pytest.raises(NotAllowed, match="archived"):
        open_in_editor(store, people["eva"], campaign, id_)
