"""A second look in the workbench: the worker fills the queues, the expert works them off, nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossner_core.errors import BadInput, Conflict, NotAllowed, NotFound
from crossner_core.label_review.base import Finding
from crossner_core.schema import Span
from db import annotation_rows, task_rows
from db.engine import Store
from tests.support import builders
from tests.support.archives import change, contents, zipped
from tests.support.label_review import gold_of, look, said
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns, sentences
from workbench.data import archive, snapshots
from workbench.jobs import lease, queue
from workbench.jobs.kinds import second_look as label_review_kind
from workbench.labelling import label_review

WORDS = "Mara Vell left The Tin Gulls for Low Tide last spring ."


@pytest.fixture
def golden(store: Store, people: dict[str, Actor], campaign: int) -> int:
    """A campaign of six sentences taken to gold, and two imported with gold."""
    builders.make_gold(store, people, campaign)
    rows = [
        said("Mara Vell was praised in Norway .", (0, 2, "band"), (5, 6, "country"), id="in-1"),
        said("Fans of Mara Vell came to Oslo .", (2, 4, "musicalartist"), id="in-2"),
    ]
    sentences.add_sentences(store, people["res"], campaign, rows)
    return campaign


def one_of(store: Store, actor: Actor, campaign: int, check: str = "inconsistent_surfaces") -> label_review.FindingView:
    return label_review.findings(store, actor, campaign, check)[0]


def test_look_puts_findings_into_queues(store: Store, people: dict[str, Actor], golden: int) -> None:
    look(store, golden)
    queues = {one.id: one for one in label_review.queues(store, people["eva"], golden)}
    assert queues["inconsistent_surfaces"].open == 1 and queues["inconsistent_surfaces"].decided == 0
    one = one_of(store, people["eva"], golden)
    assert (one.there, one.proposed) == ((Span(0, 2, "band"),), (Span(0, 2, "musicalartist"),))
    assert one.sentence.text.startswith("Mara Vell was") and one.can_change
    assert "imported" not in queues


def test_reason_stored_with_internal_names_is_read_with_titles(
    store: Store, people: dict[str, Actor], golden: int
) -> None:
    with store.read() as session:
        gold, ids = label_review_kind.gold_of(session, golden)
    place = next(number for number, item in enumerate(gold.items) if item.sentence.text.startswith("Mara Vell was"))
    there, proposed = (Span(0, 2, "band"),), (Span(0, 2, "musicalartist"),)
    why = (
        "“Mara Vell (misc)” is musicalartist 3 ×, band 1 × in the gold, mostly musicgenre; musicalartist stays a word."
    )
    with store.write() as session:
        found = [Finding(place, "type", 0, 2, there, proposed, 0.5, why)]
        label_review.keep_findings(session, golden, "inconsistent_surfaces", found, ids)
    read = (
        "“Mara Vell (miscellaneous)” is musical artist 3 ×, band 1 × in the gold, mostly music genre; "
        "musicalartist stays a word."
    )
    one = one_of(store, people["eva"], golden)
    assert one.why == read
    label_review.decide(store, people["eva"], one.id, "keep")
    assert label_review.decided(store, people["eva"], golden)[0].why == read


def test_look_again_replaces_open_findings(store: Store, people: dict[str, Actor], golden: int) -> None:
    look(store, golden)
    look(store, golden)
    assert len(label_review.findings(store, people["eva"], golden, "inconsistent_surfaces")) == 1


def test_keep_is_kept_with_who_and_when_and_does_not_come_back(
    store: Store, people: dict[str, Actor], golden: int
) -> None:
    look(store, golden)
    before = gold_of(store, golden)
    label_review.decide(store, people["eva"], one_of(store, people["eva"], golden).id, "keep")
    look(store, golden)
    assert label_review.findings(store, people["eva"], golden, "inconsistent_surfaces") == ()
    (kept,) = label_review.decided(store, people["eva"], golden)
    assert (kept.state, kept.decided_by) == ("kept", "Eva") and kept.decided_at is not None
    assert gold_of(store, golden) == before


def test_change_makes_new_gold_and_keeps_the_version_before(
    store: Store, people: dict[str, Actor], golden: int
) -> None:
    look(store, golden)
    snapshot = snapshots.freeze(store, people["res"], golden)
    one = one_of(store, people["eva"], golden)
    label_review.decide(store, people["eva"], one.id, "change")
    text = "Mara Vell was praised in Norway ."
    assert gold_of(store, golden)[text] == (Span(0, 2, "musicalartist"), Span(5, 6, "country"))
    with store.read() as session:
        task = task_rows.of_sentence(session, one.sentence_id)["adjudicate"]
        works = {annotation.state: annotation for annotation, _ in annotation_rows.of_task(session, task.id)}
        assert task.state == "done" and task.done_by == people["eva"].id
        assert [span.type for span in works["superseded"].spans] == ["band", "country"]
        assert {span.type: span.origin for span in works["submitted"].spans}["musicalartist"] == "other"
        assert annotation_rows.versions(session, works["submitted"].id)
    again = snapshots.freeze(store, people["res"], golden)
    assert again.is_new and again.hash != snapshot.hash


def test_change_of_adjudicated_gold_decides_its_units_anew(
    store: Store, people: dict[str, Actor], campaign: int
) -> None:
    builders.make_gold(store, people, campaign)
    rows = [said(f"We like Norway {word} .", (2, 3, "location"), id=word) for word in ("a", "b", "c")]
    sentences.add_sentences(store, people["res"], campaign, rows)
    look(store, campaign)
    one = one_of(store, people["eva"], campaign)
    assert one.sentence.text.startswith("The album")
    label_review.decide(store, people["eva"], one.id, "change")
    with store.read() as session:
        task = task_rows.of_sentence(session, one.sentence_id)["adjudicate"]
        work = annotation_rows.standing(session, task.id)
        assert work is not None and {choice.choice for choice in work.decisions} == {"first", "other"}
        assert len(annotation_rows.versions(session, work.id)) == 2


def test_change_may_leave_no_entity(store: Store, people: dict[str, Actor], golden: int) -> None:
    with store.read() as session:
        gold, ids = label_review_kind.gold_of(session, golden)
    at = next(n for n, item in enumerate(gold.items) if item.sentence.text.startswith("Fans of"))
    there = gold.items[at].spans
    with store.write() as session:
        label_review.keep_findings(
            session, golden, "label_errors", [Finding(at, "extra", 2, 4, there, (), 0.9, "Why not.")], ids
        )
    label_review.decide(store, people["eva"], one_of(store, people["eva"], golden, "label_errors").id, "change")
    assert gold_of(store, golden)["Fans of Mara Vell came to Oslo ."] == ()


def test_reopen_takes_the_sentence_back_to_adjudication(store: Store, people: dict[str, Actor], golden: int) -> None:
    look(store, golden)
    one = one_of(store, people["eva"], golden)
    label_review.decide(store, people["eva"], one.id, "reopen")
    tab = builders.Tab(store, people["eva"], golden, "adjudicate")
    assert tab.items(1)[0]["text"] == one.sentence.text
    assert one.sentence.text not in gold_of(store, golden)


def test_decided_comes_back_once_its_gold_has_changed(store: Store, people: dict[str, Actor], golden: int) -> None:
    look(store, golden)
    label_review.decide(store, people["eva"], one_of(store, people["eva"], golden).id, "change")
    rows = [said(f"{word} and Mara Vell", (2, 4, "band"), id=word) for word in ("a", "b", "c", "d")]
    sentences.add_sentences(store, people["res"], golden, rows)
    look(store, golden)
    found = label_review.findings(store, people["eva"], golden, "inconsistent_surfaces")
    assert any(one.sentence.text.startswith("Mara Vell was") for one in found)


def test_finding_is_past_when_gold_changes_under_it(store: Store, people: dict[str, Actor], golden: int) -> None:
    look(store, golden)
    one = one_of(store, people["eva"], golden)
    with store.read() as session:
        task = task_rows.of_sentence(session, one.sentence_id)["adjudicate"].id
    from workbench.labelling.steps import reopen

    reopen(store, people["eva"], task)
    assert label_review.findings(store, people["eva"], golden, "inconsistent_surfaces") == ()
    with pytest.raises(Conflict, match="no longer applies"):
        label_review.decide(store, people["eva"], one.id, "keep")


@pytest.mark.parametrize("decision", ["change", "reopen"])
def test_decision_alters_test_only_when_it_says_so(
    store: Store, people: dict[str, Actor], golden: int, decision: str
) -> None:
    rows = [said("Oda Brandt and Mara Vell .", (3, 5, "band"), id="in-test")]
    sentences.add_sentences(store, people["res"], golden, rows, split="test")
    rows = [said(f"Mara Vell {word} .", (0, 2, "musicalartist"), id=word) for word in ("a", "b")]
    sentences.add_sentences(store, people["res"], golden, rows)
    look(store, golden)
    found = label_review.findings(store, people["eva"], golden, "inconsistent_surfaces")
    finding = next(view for view in found if view.split == "test")
    before = gold_of(store, golden)
    with pytest.raises(NotAllowed, match="is in test"):
        label_review.decide(store, people["eva"], finding.id, decision)
    assert gold_of(store, golden) == before
    label_review.decide(store, people["eva"], finding.id, decision, changes_test=True)
    assert gold_of(store, golden) != before
    decided = label_review.decided(store, people["eva"], golden)[0]
    assert [entry["split"] for entry in decided.history] == ["test"]


def test_decide_twice_is_refused(store: Store, people: dict[str, Actor], golden: int) -> None:
    look(store, golden)
    one = one_of(store, people["eva"], golden)
    label_review.decide(store, people["eva"], one.id, "keep")
    with pytest.raises(Conflict, match="kept"):
        label_review.decide(store, people["eva"], one.id, "change")


@pytest.mark.parametrize("decision", ["keep", "change"])
def test_decision_taken_back_is_open_again_with_the_gold_of_before(
    store: Store, people: dict[str, Actor], golden: int, decision: str
) -> None:
    look(store, golden)
    before, one = gold_of(store, golden), one_of(store, people["eva"], golden)
    label_review.decide(store, people["eva"], one.id, decision)
    label_review.revert(store, people["eva"], one.id)
    assert gold_of(store, golden) == before and label_review.decided(store, people["eva"], golden) == ()
    assert one_of(store, people["eva"], golden).id == one.id
    with pytest.raises(Conflict, match="no decision to revert"):
        label_review.revert(store, people["eva"], one.id)
    label_review.decide(store, people["eva"], one.id, "change")
    assert gold_of(store, golden) != before


def test_decision_is_reverted_by_another_expert_and_history_keeps_both(
    store: Store, people: dict[str, Actor], golden: int
) -> None:
    look(store, golden)
    before, finding = gold_of(store, golden), one_of(store, people["eva"], golden)
    label_review.decide(store, people["eva"], finding.id, "change")
    other = builders.make_person(store, "ewa", "expert")
    with pytest.raises(NotFound):
        label_review.revert(store, other, finding.id)
    campaigns.add_members(store, people["adm"], golden, [other.id])
    label_review.revert(store, other, finding.id)
    assert gold_of(store, golden) == before
    look(store, golden)  # a new review keeps an open finding that has a history
    again = one_of(store, other, golden)
    assert [(entry["state"], entry["by"], entry["split"]) for entry in again.history] == [
        ("changed", "eva", "pool"),
        ("reverted", "ewa", "pool"),
    ]


def test_decision_is_reverted_only_while_the_gold_is_what_it_left(
    store: Store, people: dict[str, Actor], golden: int
) -> None:
    look(store, golden)
    finding = one_of(store, people["eva"], golden)
    label_review.decide(store, people["eva"], finding.id, "change")
    with store.read() as session:
        task = task_rows.of_sentence(session, finding.sentence_id)["adjudicate"].id
    from workbench.labelling.steps import reopen

    reopen(store, people["eva"], task)
    with pytest.raises(Conflict, match="has changed here since"):
        label_review.revert(store, people["eva"], finding.id)
    assert [found.state for found in label_review.decided(store, people["eva"], golden)] == ["changed"]


def test_reopening_is_not_taken_back(store: Store, people: dict[str, Actor], golden: int) -> None:
    look(store, golden)
    one = one_of(store, people["eva"], golden)
    label_review.decide(store, people["eva"], one.id, "reopen")
    with pytest.raises(Conflict, match="already waits under Adjudicate"):
        label_review.revert(store, people["eva"], one.id)


@pytest.fixture
def decided_twice(store: Store, people: dict[str, Actor], golden: int) -> int:
    """The campaign with two decisions, one of them about a pair of sentences."""
    text = "A great crowd sang with Mara Vell in the rain until all the lamps of Oslo went out"
    rows = [said(f"{text} .", (5, 7, "musicalartist"), id="in-3"), said(f"{text} !", (5, 7, "band"), id="in-4")]
    sentences.add_sentences(store, people["res"], golden, rows)
    look(store, golden)
    label_review.decide(store, people["eva"], one_of(store, people["eva"], golden, "near_duplicates").id, "keep")
    label_review.decide(store, people["eva"], one_of(store, people["eva"], golden).id, "change")
    return golden


def test_archive_carries_decisions(store: Store, people: dict[str, Actor], decided_twice: int) -> None:
    data = archive.export_campaign(store, people["adm"], decided_twice)
    copy = archive.import_campaign(store, people["adm"], data, name="Copy")
    before, after = (label_review.decided(store, people["adm"], id) for id in (decided_twice, copy))

    def same(one: label_review.FindingView) -> tuple[object, ...]:
        where = (one.sentence.content_hash, one.check, one.kind, one.start, one.end, one.there, one.proposed, one.why)
        return (*where, one.score, one.state, one.decided_by, one.decided_at)

    assert len(before) == 2 and list(map(same, before)) == list(map(same, after))
    eva = people["eva"]
    campaigns.add_members(store, people["adm"], copy, [eva.id])
    for id in (decided_twice, copy):  # what was kept does not come back there, either
        look(store, id)
    one, two = (len(label_review.findings(store, eva, id, "near_duplicates")) for id in (decided_twice, copy))
    assert one == two


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b'"state": "kept"', b'"state": "open"', "is 'open'; allowed are kept, changed, reopened"),
        (b'"decided_by": "eva"', b'"decided_by": "nobody"', "nobody decided a finding"),
        (
            b'"found_by": "near_duplicates", "kind": "conflict", "start": 5',
            b'"found_by": "near_duplicates", "kind": "conflict", "start": 99',
            "outside its 19 tokens",
        ),
        (b'"other": "', b'"other": "0', "sentences that are not in it"),
        (b'"other": "', b'"another": "', "other is missing"),
        (b'"decided_at": "', b'"decided_at": "never', "decided_at is 'never.*: Input should be a valid datetime"),
    ],
)
def test_archive_with_damaged_decisions_is_refused(
    store: Store, people: dict[str, Actor], decided_twice: int, old: bytes, new: bytes, said: str
) -> None:
    files = contents(archive.export_campaign(store, people["adm"], decided_twice))
    assert old in files["sentences.jsonl"]
    with pytest.raises(BadInput, match=said):
        archive.import_campaign(store, people["adm"], change(files, "sentences.jsonl", old, new), name="Copy")


def test_archive_of_before_there_were_decisions_is_read(store: Store, people: dict[str, Actor], golden: int) -> None:
    files = contents(archive.export_campaign(store, people["adm"], golden))
    older = files["sentences.jsonl"].replace(b', "second_look": []', b"")
    assert older != files["sentences.jsonl"]
    data = zipped({**files, "sentences.jsonl": older})
    assert (
        label_review.decided(store, people["adm"], archive.import_campaign(store, people["adm"], data, name="C")) == ()
    )


@pytest.mark.parametrize("name", ["ann1", "res", "adm"])
def test_decide_is_for_experts(store: Store, people: dict[str, Actor], golden: int, name: str) -> None:
    look(store, golden)
    with pytest.raises(NotAllowed):
        label_review.decide(store, people[name], one_of(store, people["eva"], golden).id, "keep")
    with pytest.raises(NotAllowed):
        label_review.revert(store, people[name], one_of(store, people["eva"], golden).id)


def test_strangers_see_no_queue(store: Store, people: dict[str, Actor], golden: int) -> None:
    stranger = builders.make_person(store, "zoe", "expert")
    look(store, golden)
    finding = one_of(store, people["eva"], golden).id
    for call in (
        lambda: label_review.queues(store, stranger, golden),
        lambda: label_review.findings(store, stranger, golden, "near_duplicates"),
        lambda: label_review.decide(store, stranger, finding, "keep"),
        lambda: label_review.revert(store, stranger, finding),
        lambda: label_review.look_again(store, stranger, golden),
    ):
        with pytest.raises(NotFound):
            call()
    with pytest.raises(NotAllowed):
        label_review.queues(store, people["ann1"], golden)


def test_decisions_unknown_are_refused(store: Store, people: dict[str, Actor], golden: int) -> None:
    with pytest.raises(BadInput, match="keep, change, reopen"):
        label_review.decide(store, people["eva"], 1, "delete")
    with pytest.raises(NotFound):
        label_review.decide(store, people["eva"], 999, "keep")


def test_look_without_gold_is_refused(store: Store, people: dict[str, Actor], campaign: int) -> None:
    with pytest.raises(BadInput, match="no gold to review yet"):
        label_review.look_again(store, people["eva"], campaign)


def test_look_under_way_can_be_cancelled_by_who_may_ask_for_one(
    store: Store, people: dict[str, Actor], golden: int
) -> None:
    with pytest.raises(Conflict, match="nothing to cancel"):
        queue.cancel_in_campaign(store, people["eva"], golden, "second_look")
    label_review.look_again(store, people["eva"], golden)
    with pytest.raises(NotAllowed):
        queue.cancel_in_campaign(store, people["ann1"], golden, "second_look")
    assert queue.cancel_in_campaign(store, people["eva"], golden, "second_look") == ["cancelled"]
    label_review.look_again(store, people["eva"], golden)
    claimed = lease.claim(store, worker="w")
    assert claimed is not None and queue.cancel_in_campaign(store, people["res"], golden, "second_look") == ["running"]
    job = queue.newest_job(store, people["eva"], "second_look", golden)
    assert job is not None and (job.id, job.cancel_requested) == (claimed.id, True)


def test_look_under_way_is_not_queued_twice(store: Store, people: dict[str, Actor], golden: int) -> None:
    label_review.look_again(store, people["eva"], golden)
    with pytest.raises(Conflict, match="queued or running"):
        label_review.look_again(store, people["eva"], golden)


def test_import_of_a_duplicate_with_other_gold_is_a_finding(
    store: Store, people: dict[str, Actor], campaign: int
) -> None:
    first, second = (0, 2, "musicalartist"), (3, 6, "band")
    sentences.add_sentences(store, people["res"], campaign, [said(WORDS, first)])
    report = sentences.add_sentences(store, people["res"], campaign, [said(WORDS, first, second)], split="test")
    assert (report.added, report.duplicates, report.doubts) == (0, 1, 1)
    one = one_of(store, people["eva"], campaign, "imported")
    assert (one.there, one.proposed) == ((), (Span(*second),)) and "as test" in one.why
    label_review.decide(store, people["eva"], one.id, "change")
    assert gold_of(store, campaign)[WORDS] == (Span(*first), Span(*second))
    same = sentences.add_sentences(store, people["res"], campaign, [said(WORDS, first, second)])
    assert same.doubts == 0


def test_import_twice_of_the_same_conflict_is_one_finding(
    store: Store, people: dict[str, Actor], campaign: int
) -> None:
    rows = [said(WORDS), said(WORDS, (0, 2, "person")), said(WORDS, (0, 2, "person"))]
    assert sentences.add_sentences(store, people["res"], campaign, rows[:2]).doubts == 1
    assert sentences.add_sentences(store, people["res"], campaign, rows[2:]).doubts == 0


def test_files_command_finds_conflicts_across_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from workbench.cli import main

    for name, tag in (("train", "B-band"), ("test", "B-song")):
        text = "\n".join(
            f"{word}\t{tag if word == 'Marble' else 'O'}" for word in ["We", "saw", "Marble", "in", "Oslo", "again"]
        )
        (tmp_path / f"{name}.txt").write_text(text + "\n")
    assert main(["second-look", "files", str(tmp_path / "train.txt"), str(tmp_path / "test.txt")]) == 0
    said_there = capsys.readouterr().out
    assert "2 findings." in said_there and "Marble (song)" in said_there
