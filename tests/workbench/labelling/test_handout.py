"""Handing out: one person per sentence and stage, nobody at two stages, the same first sentence after a reload."""

from __future__ import annotations

import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import sqlalchemy as sa

from crossner_core.domains import Domain, load_domain
from crossner_core.errors import NotAllowed, NotFound
from db.engine import Store
from db.tables import SentenceRow, SuggestionRow, Task
from db.types import now
from tests.support.builders import Tab, make_campaign, make_person
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.labelling import handout

People = dict[str, Actor]


def _ids(tab: Tab, count: int = 4) -> list[int]:
    return [item["task"] for item in tab.items(count)]


def test_handout_shows_the_same_sentences_after_a_reload(store: Store, people: People, campaign: int) -> None:
    tab = Tab(store, people["ann1"], campaign, "annotate")
    assert _ids(tab) == _ids(tab) and len(_ids(tab)) == 4


def test_handout_keeps_the_order_when_an_earlier_sentence_comes_free(
    store: Store, people: People, campaign: int
) -> None:
    one, two = (Tab(store, people[name], campaign, "annotate") for name in ("ann1", "ann2"))
    first = one.items(1)[0]
    held = _ids(two, 2)
    one.do("skip", first, [], reason="hard")
    assert _ids(two, 3) == [*held, first["task"]]
    two.do("draft", two.items(3)[0])
    assert _ids(two, 3) == [*held, first["task"]]


def test_handout_refills_after_a_submit(store: Store, people: People, campaign: int) -> None:
    tab = Tab(store, people["ann1"], campaign, "annotate")
    before = tab.items()
    tab.do("submit", before[0])
    after = _ids(tab)
    assert after[:3] == [item["task"] for item in before[1:]] and len(after) == 4


def test_handout_gives_a_task_to_one_person_only(store: Store, people: People, campaign: int) -> None:
    one, two = (_ids(Tab(store, people[name], campaign, "annotate")) for name in ("ann1", "ann2"))
    assert (len(one), len(two)) == (4, 2) and not set(one) & set(two)


def test_handout_is_safe_with_concurrent_sessions(store: Store, people: People, campaign: int) -> None:
    with store.read() as session:
        total = session.scalar(sa.select(sa.func.count(Task.id)))
    workers = [make_person(store, f"w{n}", "annotator") for n in range(8)]
    campaigns.add_members(store, people["adm"], campaign, [worker.id for worker in workers])

    def take(worker: Actor) -> list[int]:
        own = Store(store.url.render_as_string(hide_password=False))
        try:
            return [id_ for _ in range(3) for id_ in _ids(Tab(own, worker, campaign, "annotate"), 2)]
        finally:
            own.close()

    with ThreadPoolExecutor(8) as pool:
        taken = [set(ids) for ids in pool.map(take, workers)]
    assert sum(map(len, taken)) == len(set.union(*taken)) == total == 6


def test_handout_gives_nobody_two_stages(store: Store, people: People, campaign: int) -> None:
    Tab(store, people["ann1"], campaign, "annotate").submit_all()
    assert Tab(store, people["ann1"], campaign, "check").items() == ()
    Tab(store, people["eva"], campaign, "check").submit_all()
    assert Tab(store, people["eva"], campaign, "adjudicate").items() == ()


def test_handout_frees_an_expired_lease(store: Store, people: People, campaign: int) -> None:
    one = _ids(Tab(store, people["ann1"], campaign, "annotate"), 6)
    assert Tab(store, people["ann2"], campaign, "annotate").items() == ()
    with store.write() as session:
        session.execute(sa.update(Task).where(Task.id.in_(one)).values(lease_expires=now().replace(year=2020)))
    assert _ids(Tab(store, people["ann2"], campaign, "annotate"), 2) == one[:2]
    assert _ids(Tab(store, people["ann1"], campaign, "annotate"), 6) == one[2:]


def _ends(store: Store, actor: Actor) -> list[dt.datetime]:
    """When the person's leases end, in the order they were handed out."""
    with store.read() as session:
        query = sa.select(Task.lease_expires).where(Task.leased_to == actor.id).order_by(Task.lease_expires)
        return [end for end in session.scalars(query) if end is not None]


def test_handout_renews_the_leases_of_people_but_not_of_open_tabs(store: Store, people: People, campaign: int) -> None:
    actor, lease = people["ann1"], dt.timedelta(minutes=30)
    ids = _ids(Tab(store, actor, campaign, "annotate"))
    with store.write() as session:
        for number, task in enumerate(ids):
            soon = now() + dt.timedelta(minutes=10, milliseconds=number)
            session.execute(sa.update(Task).where(Task.id == task).values(lease_expires=soon))
    before = _ends(store, actor)

    def shown(quiet: dt.timedelta) -> list[int]:
        return [item["task"] for item in handout.items(store, actor, campaign, "annotate", quiet=quiet)]

    for quiet in (dt.timedelta(minutes=1), lease / 2, 20 * lease):
        assert shown(quiet) == ids
        assert _ends(store, actor) == before
    assert shown(dt.timedelta(seconds=59)) == ids
    assert _ends(store, actor)[0] > before[-1]


def test_handout_gives_an_open_tab_nothing_in_place_of_what_ran_out(
    store: Store, people: People, campaign: int
) -> None:
    ids = _ids(Tab(store, people["ann1"], campaign, "annotate"), 2)
    with store.write() as session:
        session.execute(sa.update(Task).where(Task.id.in_(ids)).values(lease_expires=now().replace(year=2020)))
    assert _ids(Tab(store, people["ann2"], campaign, "annotate"), 2) == ids

    def shown(minutes: int) -> int:
        quiet = dt.timedelta(minutes=minutes)
        return len(handout.items(store, people["ann1"], campaign, "annotate", quiet=quiet))

    assert [shown(minutes) for minutes in (30, 600)] == [0, 0]
    assert shown(29) == 4, "who waits for sentences is handed what comes, without touching anything"
    assert shown(600) == 4


def test_handout_withholds_suggestions_of_controls_but_not_links(store: Store, people: People) -> None:
    campaign = make_campaign(store, people, name="Control", control_share=1.0)
    with store.write() as session:
        for task in session.scalars(sa.select(Task).where(Task.campaign_id == campaign)):
            session.add(
                SuggestionRow(sentence_id=task.sentence_id, start=0, end=1, type="band", source="dbpedia", score=0.5)
            )
    item = Tab(store, people["ann1"], campaign, "annotate").items(1)[0]
    assert item["suggestions"] == [] and item["links"][0]["target"] == "Mara Vell"
    campaigns.update_settings(store, people["adm"], campaign, control_share=0.0)
    item = Tab(store, people["ann2"], campaign, "annotate").items(1)[0]
    assert item["suggestions"][0]["source"] == "dbpedia"


def _without(domain: Domain, *names: str) -> Domain:
    return replace(domain, types=tuple(kind for kind in domain.types if kind.name not in names))


def test_handout_withholds_suggestions_of_types_the_domain_no_longer_has(
    store: Store, people: People, campaign: int
) -> None:
    with store.write() as session:
        for task in session.scalars(sa.select(Task).where(Task.campaign_id == campaign)):
            for end, kind in ((2, "band"), (1, "musicalartist")):
                session.add(
                    SuggestionRow(
                        sentence_id=task.sentence_id, start=0, end=end, type=kind, source="dbpedia", score=0.5
                    )
                )
    tab = Tab(store, people["ann1"], campaign, "annotate")
    assert {one["type"] for one in tab.items(1)[0]["suggestions"]} == {"band", "musicalartist"}
    campaigns.update_domain(store, people["adm"], campaign, _without(load_domain("music"), "band"))
    (item,) = tab.items(1)
    assert [one["type"] for one in item["suggestions"]] == ["musicalartist"]
    accepted = [(one["start"], one["end"], one["type"]) for one in item["suggestions"]]
    assert tab.do("submit", item, accepted).rejections == []
    assert "band" not in campaigns.get_domain(store, people["ann1"], campaign).type_names


@pytest.mark.parametrize(("share", "blind"), [(0.0, False), (1.0, True)])
def test_handout_shows_a_check_the_first_spans_unless_blind(
    store: Store, people: People, share: float, blind: bool
) -> None:
    campaign = make_campaign(store, people, name="Blind", blind_share=share)
    one = Tab(store, people["ann1"], campaign, "annotate")
    one.do("submit", one.items(1)[0], [(0, 2, "band")], parts={"comment": "sure"})
    tab = Tab(store, people["ann2"], campaign, "check")
    item = tab.items(1)[0]
    assert item["blind"] is blind and item["suggestions"] == []
    assert item["first"] == (None if blind else [{"start": 0, "end": 2, "type": "band", "entity": None}])
    assert item["notes"] == ([] if blind else [{"who": "annotator 1", "text": "sure"}])
    flag = {"flags": [{"start": 0, "end": 2, "type": "band", "note": "?"}]}
    assert bool(tab.do("submit", item, [(0, 2, "musicalartist")], parts=flag).rejections) is blind


def test_handout_progress_counts_done_and_left(store: Store, people: People, campaign: int) -> None:
    tab = Tab(store, people["ann1"], campaign, "annotate")
    tab.do("submit", tab.items()[0])
    assert handout.progress(store, people["ann1"], campaign, "annotate") == handout.Progress(done=1, left=5)
    assert handout.progress(store, people["ann2"], campaign, "annotate") == handout.Progress(done=0, left=2)
    assert handout.progress(store, people["ann1"], campaign, "check") == handout.Progress(done=0, left=0)
    assert handout.progress(store, people["ann2"], campaign, "check") == handout.Progress(done=0, left=1)


def test_handout_release_gives_back_what_was_not_begun(store: Store, people: People, campaign: int) -> None:
    tab = Tab(store, people["ann1"], campaign, "annotate")
    begun = tab.items()[0]
    tab.do("draft", begun)
    assert handout.release(store, people["ann1"], campaign, "annotate") == 3
    assert begun["task"] not in _ids(Tab(store, people["ann2"], campaign, "annotate"), 6)


def test_handout_hides_campaigns_from_strangers(store: Store, people: People, campaign: int) -> None:
    stranger = make_person(store, "stranger", "annotator")
    with pytest.raises(NotFound):
        handout.items(store, stranger, campaign, "annotate")
    with pytest.raises(NotFound, match="stages are"):
        handout.items(store, people["ann1"], campaign, "gold")
    with pytest.raises(NotAllowed):
        handout.items(store, people["ann1"], campaign, "adjudicate")


def test_handout_names_the_type_suggested_for_a_link_but_to_nobody_who_works_without_help(
    store: Store, people: People
) -> None:
    campaign = make_campaign(store, people, name="Links")
    with store.write() as session:
        for task in session.scalars(sa.select(Task).where(Task.campaign_id == campaign)):
            for kind, score in (("band", 0.4), ("musicalartist", 0.9), ("none of ours", 0.95)):
                session.add(
                    SuggestionRow(sentence_id=task.sentence_id, start=0, end=2, type=kind, source="link", score=score)
                )

    def types(name: str, stage: str) -> list[str | None]:
        return [link["type"] for link in Tab(store, people[name], campaign, stage).items(1)[0]["links"]]

    assert types("ann1", "annotate") == ["musicalartist", None]
    Tab(store, people["ann1"], campaign, "annotate").submit_all()
    assert types("ann2", "check") == ["musicalartist", None]
    assert Tab(store, people["ann2"], campaign, "check").items(1)[0]["suggestions"] == []
    with store.write() as session:
        session.execute(sa.update(SentenceRow).values(blind=True))
    assert types("ann2", "check") == [None, None]
    Tab(store, people["ann2"], campaign, "check").submit_all()
    assert types("eva", "adjudicate") == ["musicalartist", None]
    with store.write() as session:
        session.execute(sa.update(SentenceRow).values(control=True))
    assert types("eva", "adjudicate") == [None, None]
