"""Campaigns: settings, members, import whole or not at all, and every use case refusing the wrong role."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from crossner_core.domains import load_domain
from crossner_core.errors import BadInput, Conflict, InvalidConfig, InvalidSpan, NotAllowed, NotFound, UnknownType
from crossner_core.schema import LabelledSentence, Sentence, Span, sentence_from_words
from crossner_core.training import recipe
from db.engine import Store
from db.tables import SentenceRow, Task
from tests.support.builders import Tab, make_person, make_sentences
from tests.support.campaigns import campaign_with_gold
from tests.support.training_store import person
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns, sentences
from workbench.data import layers, snapshots
from workbench.labelling import adjudication, handout, outbox, steps
from workbench.reports import my_work, overview
from workbench.runs import adaptation
from workbench.suggestions import preannotating

People = dict[str, Actor]


def _many(number: int) -> list[Sentence]:
    return [sentence_from_words(f"Sentence number {n} .".split(), id=str(n)) for n in range(number)]


def test_campaign_shows_settings_members_and_counts(store: Store, people: People, campaign: int) -> None:
    view = campaigns.get_campaign(store, people["ann1"], campaign)
    assert (view.name, view.sentences, view.gold, view.splits["pool"]) == ("Music", 6, 0, 6)
    assert [member.name for member in view.members] == sorted(people)
    assert view.domain == load_domain("music")
    assert [(stage.stage, stage.open, stage.waiting) for stage in view.stages] == [
        ("annotate", 6, 0), ("check", 0, 6), ("adjudicate", 0, 6),
    ]  # fmt: skip


def test_campaign_refuses_a_taken_name_and_bad_settings(store: Store, people: People, campaign: int) -> None:
    with pytest.raises(Conflict, match="Music"):
        campaigns.create_campaign(store, people["adm"], name=" Music ", domain=load_domain("ai"))
    for bad in ({"blind_share": 1.5}, {"lease_minutes": 0}, {"endpoint": "ftp://x"}, {"name": " "}, {"archived": 1}):
        with pytest.raises(InvalidConfig, match=next(iter(bad))):
            campaigns.update_settings(store, people["adm"], campaign, **bad)
    with pytest.raises(InvalidConfig, match="settings are name"):
        campaigns.update_settings(store, people["adm"], campaign, colour="red")


def test_campaign_is_seen_by_members_and_overseers_only(store: Store, people: People, campaign: int) -> None:
    stranger = make_person(store, "stranger", "expert")
    assert campaigns.list_campaigns(store, stranger) == ()
    with pytest.raises(NotFound):
        campaigns.get_campaign(store, stranger, campaign)
    campaigns.set_members(store, people["adm"], campaign, [stranger.id])
    assert [view.id for view in campaigns.list_campaigns(store, stranger)] == [campaign]
    assert campaigns.list_campaigns(store, people["ann1"]) == ()
    assert len(campaigns.list_campaigns(store, people["res"])) == 1
    with pytest.raises(BadInput, match="999"):
        campaigns.add_members(store, people["adm"], campaign, [999])


def test_archived_campaign_is_hidden_and_can_be_deleted(store: Store, people: People, campaign: int) -> None:
    with pytest.raises(Conflict, match="archive it first"):
        campaigns.delete_campaign(store, people["adm"], campaign)
    campaigns.update_settings(store, people["adm"], campaign, archived=True)
    assert campaigns.list_campaigns(store, people["adm"]) == ()
    assert len(campaigns.list_campaigns(store, people["adm"], archived=True)) == 1
    with pytest.raises(NotAllowed, match="archived"):
        sentences.add_sentences(store, people["res"], campaign, _many(1))
    campaigns.delete_campaign(store, people["adm"], campaign)
    with store.read() as session:
        assert session.scalars(sa.select(SentenceRow)).all() == []


def test_deleted_campaign_takes_its_files_with_it(store: Store, tmp_path: Path) -> None:
    admin = person(store, "admin")
    campaign_id = campaign_with_gold(store, admin)
    snapshot = snapshots.freeze(store, admin, campaign_id)
    run_id = adaptation.start_run(store, admin, snapshot_id=snapshot.id, recipe=recipe.Recipe())
    gone = tmp_path / "signals" / f"campaign-{campaign_id}", tmp_path / "checkpoints" / f"run-{run_id}" / "tagger"
    kept = tmp_path / "signals" / "campaign-99", tmp_path / "checkpoints" / "run-99"
    for folder in (*gone, *kept):
        folder.mkdir(parents=True)
    with pytest.raises(Conflict, match="archive it first"):
        campaigns.delete_campaign(store, admin, campaign_id, home=tmp_path)
    assert all(folder.is_dir() for folder in gone)
    campaigns.update_settings(store, admin, campaign_id, archived=True)
    campaigns.delete_campaign(store, admin, campaign_id, home=tmp_path)
    assert not gone[0].exists() and not gone[1].parent.exists() and all(folder.is_dir() for folder in kept)


def test_import_leaves_duplicates_out(store: Store, people: People, campaign: int) -> None:
    again = [*make_sentences(), *_many(2), *_many(3)]
    report = sentences.add_sentences(store, people["res"], campaign, again, split="test")
    assert (report.added, report.duplicates, report.gold) == (3, 8, 0)
    assert campaigns.get_campaign(store, people["res"], campaign).splits == {"pool": 6, "dev": 0, "test": 3}


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (Sentence("empty", "", ()), BadInput),
        (LabelledSentence(_many(9)[8], (Span(0, 1, "politician"),)), UnknownType),
        (LabelledSentence(_many(9)[8], (Span(0, 2, "band"), Span(1, 3, "band"))), InvalidSpan),
    ],
)
def test_import_is_whole_or_nothing(
    store: Store, people: People, campaign: int, bad: LabelledSentence | Sentence, error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"Sentence (empty|8)"):
        sentences.add_sentences(store, people["res"], campaign, [*_many(3), bad])
    assert campaigns.get_campaign(store, people["res"], campaign).sentences == 6


def test_import_with_gold_needs_no_annotator(store: Store, people: People, campaign: int) -> None:
    gold = LabelledSentence(_many(1)[0], (Span(0, 1, "song"),))
    assert sentences.add_sentences(store, people["res"], campaign, [gold], split="dev").gold == 1
    ((labelled, split),) = layers.layer(store, people["res"], campaign, "gold")
    assert (labelled, split) == (gold, "dev")
    assert campaigns.get_campaign(store, people["res"], campaign).stages[0].open == 6


def test_import_keeps_order_text_and_meta(store: Store, people: People, campaign: int) -> None:
    Tab(store, people["ann1"], campaign, "annotate").submit_all()
    kept = [labelled.sentence for labelled, _ in layers.layer(store, people["res"], campaign, "first")]
    assert kept == make_sentences()


def test_draws_follow_seed_and_share(store: Store, people: People) -> None:
    flags = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        made = campaigns.create_campaign(store, people["adm"], name=name, domain=load_domain("music"), seed=seed)
        sentences.add_sentences(store, people["res"], made, _many(400))
        with store.read() as session:
            query = sa.select(SentenceRow.control, SentenceRow.blind).where(SentenceRow.campaign_id == made)
            flags.append([tuple(row) for row in session.execute(query.order_by(SentenceRow.position))])
    assert flags[0] == flags[1] != flags[2]
    assert all(20 <= sum(row[at] for row in flags[0]) <= 60 for at in (0, 1))


def test_changed_share_spares_sentences_that_have_begun(store: Store, people: People, campaign: int) -> None:
    begun = Tab(store, people["ann1"], campaign, "annotate").items(2)
    campaigns.update_settings(store, people["adm"], campaign, control_share=1.0, blind_share=1.0)
    with store.read() as session:
        rows = session.scalars(sa.select(SentenceRow)).all()
    assert {row.id for row in rows if not row.control} == {item["sentence"] for item in begun}
    assert all(row.blind for row in rows)


def test_domain_may_change_but_not_lose_types_in_use(store: Store, people: People, campaign: int) -> None:
    tab = Tab(store, people["ann1"], campaign, "annotate")
    tab.do("submit", tab.items()[0], [(4, 7, "band")])
    with pytest.raises(UnknownType, match="band"):
        campaigns.update_domain(store, people["adm"], campaign, load_domain("politics"))


def test_task_knows_its_campaign_without_being_told(store: Store, people: People, campaign: int) -> None:
    with store.write() as session:
        row = session.scalars(sa.select(SentenceRow).order_by(SentenceRow.position.desc())).first()
        assert row is not None
        task = Task(sentence_id=row.id, stage="check")
        session.add(task)
        session.flush()
        assert (task.campaign_id, task.position) == (campaign, row.position)


MODULES = (campaigns, sentences, handout, outbox, adjudication, my_work, overview, preannotating, layers, steps)
ALLOWED = {
    "last_campaign": {"annotator", "expert", "researcher", "admin"},
    "choose_campaign": {"annotator", "expert", "researcher", "admin"},
    "create_campaign": {"researcher", "admin"}, "possible_members": {"researcher", "admin"},
    "list_campaigns": {"annotator", "expert", "researcher", "admin"},
    "get_campaign": {"annotator", "expert", "researcher", "admin"}, "update_settings": {"admin"},
    "get_domain": {"annotator", "expert", "researcher", "admin"},
    "update_domain": {"admin"}, "delete_campaign": {"admin"},
    "add_members": {"researcher", "admin"}, "set_members": {"researcher", "admin"},
    "set_guidelines": {"researcher", "admin"},
    "add_sentences": {"researcher", "admin"}, "items": {"annotator", "expert"}, "progress": {"annotator", "expert"},
    "release": {"annotator", "expert"}, "apply": {"annotator", "expert"}, "reopen": {"annotator", "expert"},
    "ask": {"expert"}, "answer": {"annotator", "expert"}, "close_question": {"expert"},
    "my_questions": {"annotator", "expert"}, "open_questions": {"expert"}, "parked": {"expert", "researcher", "admin"},
    "unpark": {"expert", "admin"}, "my_work": {"annotator", "expert"}, "overview": {"expert", "researcher", "admin"},
    "preannotate": {"researcher", "admin"}, "propose": {"researcher", "admin"},
    "add_model_suggestions": {"researcher", "admin"},
    "layer": {"expert", "researcher", "admin"},
    "version": {"expert", "researcher", "admin"},
}  # fmt: skip


def _use_cases() -> list[Callable[..., Any]]:
    """Return every public function of the modules that acts for somebody."""
    found = {}
    for module in MODULES:
        for name, function in inspect.getmembers(module, inspect.isfunction):
            parameters = list(inspect.signature(function).parameters)
            if not name.startswith("_") and parameters[:2] == ["store", "actor"]:
                found[f"{function.__module__}.{name}"] = function
    return list(found.values())


def _call(function: Callable[..., Any], store: Store, actor: Actor, campaign: int) -> Any:
    values = {"campaign_id": campaign, "stage": "annotate", "which": "gold", "name": "New", "text": "text"}
    values |= {
        "domain": load_domain("music"),
        "user_ids": (),
        "guidelines": {},
        "names": ("gold",),
        "labelled": (),
        "outbox": {"client": "c", "events": []},
    }
    values |= {"run_id": 1, "suggestions": {}, "task_id": 1, "question_id": 1, "sentences": ()}
    wanted = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty][2:]
    return function(store, actor, **{p.name: values[p.name] for p in wanted if p.kind is not p.VAR_KEYWORD})


def test_roles_of_every_use_case_are_listed() -> None:
    assert {function.__name__ for function in _use_cases()} == set(ALLOWED)


@pytest.mark.parametrize("function", _use_cases(), ids=lambda function: function.__name__)
@pytest.mark.parametrize("role", ["annotator", "expert", "researcher", "admin", "stranger"])
def test_use_case_refuses_the_wrong_role(
    store: Store, people: People, campaign: int, function: Callable[..., Any], role: str
) -> None:
    by_role = {actor.role: actor for actor in people.values()} | {"stranger": Actor(99, "x", "X", "stranger")}
    try:
        _call(function, store, by_role[role], campaign)
    except NotAllowed as error:
        assert role not in ALLOWED[function.__name__], error
    except (NotFound, Conflict):
        assert role in ALLOWED[function.__name__]
    else:
        assert role in ALLOWED[function.__name__]


@pytest.mark.parametrize("function", _use_cases(), ids=lambda function: function.__name__)
def test_use_case_reads_the_role_afresh(
    store: Store, people: People, campaign: int, function: Callable[..., Any]
) -> None:
    role = min(ALLOWED[function.__name__])
    demoted = people["ann1"].id if "annotator" not in ALLOWED[function.__name__] else 99
    with pytest.raises(NotAllowed):
        _call(function, store, Actor(demoted, "x", "X", role), campaign)
