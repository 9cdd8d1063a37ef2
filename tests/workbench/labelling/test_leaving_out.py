"""A repeated sentence is left out: models no longer learn from it, its gold stays, and it can be taken in again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from crossner_core.errors import BadInput, Conflict, NotAllowed, NotFound
from crossner_core.label_review.base import Finding
from crossner_core.schema import Span
from db import annotation_rows, label_review_rows, round_rows, run_rows, task_rows
from db.engine import Store
from tests.support import builders
from tests.support.archives import change, contents
from tests.support.label_review import MARA, POOL, gold_of, look, said
from tests.support.training_store import recipe_here
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns, sentences
from workbench.data import archive, browsing, layers, snapshots
from workbench.data.searching import Search
from workbench.jobs.kinds import second_look as label_review_kind
from workbench.jobs.kinds import turn as round_kind
from workbench.labelling import label_review
from workbench.labelling.label_review import FindingView
from workbench.reports import overview
from workbench.runs import adaptation, rounds, training_data
from workbench.runs.pretraining_sources import campaign_source

TEST, DEV = POOL.replace(" .", " !"), POOL.replace(" .", " ;")


@pytest.fixture
def repeated(store: Store, people: dict[str, Actor], campaign: int) -> int:
    """A campaign of six gold sentences of the pool, and one more that stands in test again; test came first."""
    builders.make_gold(store, people, campaign)
    for split, text in (("test", TEST), ("pool", POOL)):
        sentences.add_sentences(store, people["res"], campaign, [said(text, MARA, id=f"{split}-1")], split=split)
    look(store, campaign, "near_duplicates")
    return campaign


def leak(store: Store, people: dict[str, Actor], campaign: int) -> FindingView:
    return label_review.findings(store, people["eva"], campaign, "near_duplicates")[0]


def frozen(store: Store, people: dict[str, Actor], campaign: int) -> dict[str, set[str]]:
    """Freeze the gold; return the texts of the snapshot by split."""
    made = snapshots.freeze(store, people["res"], campaign)
    with store.read() as session:
        _, parts = snapshots.content_of(session, made.id)
    assert {split: len(items) for split, items in parts.items()} == {s: made.counts[s] for s in parts}
    return {split: {item.sentence.text for item in items} for split, items in parts.items()}


def test_leaving_out_takes_the_copy_outside_test_from_snapshots_and_keeps_its_gold(
    store: Store, people: dict[str, Actor], repeated: int
) -> None:
    before, gold = frozen(store, people, repeated), gold_of(store, repeated)
    first = snapshots.list_snapshots(store, people["res"], repeated)[0]
    one = leak(store, people, repeated)
    assert (one.kind, one.split, one.leaves, one.leaving.text) == ("leak", "test", "pool", POOL)
    label_review.decide(store, people["eva"], one.id, "leave_out")
    after = frozen(store, people, repeated)
    assert after == {**before, "pool": before["pool"] - {POOL}} and POOL in before["pool"] and TEST in after["test"]
    assert gold_of(store, repeated) == gold
    with store.read() as session:
        _, parts = snapshots.content_of(session, first.id)  # what was frozen earlier stays as it is
        tasks = [task_rows.of_sentence(session, id)["adjudicate"] for id in (one.sentence_id, _other_id(one.id, store))]
        assert all(annotation_rows.standing(session, task.id) for task in tasks)
    assert POOL in {item.sentence.text for item in parts["pool"]}


def _other_id(finding_id: int, store: Store) -> int:
    with store.write() as session:
        row = label_review_rows.find(session, finding_id)
        assert row is not None and row.other_id is not None
        return row.other_id


def test_leaving_out_is_kept_with_who_when_and_why_and_does_not_come_back(
    store: Store, people: dict[str, Actor], repeated: int
) -> None:
    label_review.decide(store, people["eva"], leak(store, people, repeated).id, "leave_out")
    (kept,) = label_review.decided(store, people["eva"], repeated)
    assert (kept.state, kept.decided_by, kept.leaving.text) == ("left_out", "Eva", POOL)
    assert kept.decided_at is not None and "in test" in kept.why
    look(store, repeated, "near_duplicates")
    queue = next(one for one in label_review.queues(store, people["eva"], repeated) if one.id == "near_duplicates")
    assert (queue.open, queue.decided) == (0, 1)
    with pytest.raises(Conflict, match="decided already"):
        label_review.decide(store, people["eva"], kept.id, "keep")


def test_sentence_is_taken_in_again_by_any_expert(store: Store, people: dict[str, Actor], repeated: int) -> None:
    before = frozen(store, people, repeated)
    one = leak(store, people, repeated)
    label_review.decide(store, people["eva"], one.id, "leave_out")
    other = builders.make_person(store, "ewa", "expert")
    with pytest.raises(NotFound):
        label_review.revert(store, other, one.id)
    campaigns.add_members(store, people["adm"], repeated, [other.id])
    label_review.revert(store, other, one.id)
    assert frozen(store, people, repeated) == before and label_review.decided(store, other, repeated) == ()
    assert leak(store, people, repeated).id == one.id


@pytest.mark.parametrize("name", ["ann1", "res", "adm"])
def test_leaving_out_and_taking_in_are_for_experts(
    store: Store, people: dict[str, Actor], repeated: int, name: str
) -> None:
    one = leak(store, people, repeated)
    with pytest.raises(NotAllowed):
        label_review.decide(store, people[name], one.id, "leave_out")
    label_review.decide(store, people["eva"], one.id, "leave_out")
    with pytest.raises(NotAllowed):
        label_review.revert(store, people[name], one.id)
    assert POOL not in frozen(store, people, repeated)["pool"]


def test_stranger_leaves_nothing_out(store: Store, people: dict[str, Actor], repeated: int) -> None:
    stranger = builders.make_person(store, "zoe", "expert")
    with pytest.raises(NotFound):
        label_review.decide(store, stranger, leak(store, people, repeated).id, "leave_out")
    assert POOL in frozen(store, people, repeated)["pool"]


def test_only_what_is_repeated_across_splits_is_left_out(store: Store, people: dict[str, Actor], campaign: int) -> None:
    rows = [said(f"{name} was praised .", (0, 2, kind), id=kind) for name, kind in (("Mara Vell", "band"),)]
    rows += [said(f"We like Mara Vell {n} .", (2, 4, "musicalartist"), id=n) for n in ("a", "b")]
    sentences.add_sentences(store, people["res"], campaign, rows)
    look(store, campaign)
    one = label_review.findings(store, people["eva"], campaign, "inconsistent_surfaces")[0]
    with pytest.raises(BadInput, match="repeated across splits"):
        label_review.decide(store, people["eva"], one.id, "leave_out")
    assert label_review.decided(store, people["eva"], campaign) == ()


def test_leaving_out_settles_the_other_leaks_of_that_sentence_alone(
    store: Store, people: dict[str, Actor], repeated: int
) -> None:
    sentences.add_sentences(store, people["res"], repeated, [said(DEV, MARA, id="dev-1")], split="dev")
    look(store, repeated, "near_duplicates")
    open_ = {one.leaves + one.split + one.other_split: one for one in label_review.findings(
        store, people["eva"], repeated, "near_duplicates"
    )}  # fmt: skip
    assert sorted(open_) == ["devtestdev", "poolpooldev", "pooltestpool"]
    label_review.decide(store, people["eva"], open_["pooltestpool"].id, "leave_out")

    def left() -> list[str]:
        return [one.leaves for one in label_review.findings(store, people["eva"], repeated, "near_duplicates")]

    assert left() == ["dev"]
    assert next(q.open for q in label_review.queues(store, people["eva"], repeated) if q.id == "near_duplicates") == 1
    with pytest.raises(Conflict, match="left out meanwhile"):
        label_review.decide(store, people["eva"], open_["poolpooldev"].id, "keep")
    look(store, repeated, "near_duplicates")
    assert left() == ["dev"]
    label_review.revert(store, people["eva"], open_["pooltestpool"].id)
    assert sorted(left()) == ["dev", "pool", "pool"]


def test_left_out_stays_so_and_is_taken_in_again_whatever_becomes_of_its_gold(
    store: Store, people: dict[str, Actor], repeated: int
) -> None:
    one = leak(store, people, repeated)
    label_review.decide(store, people["eva"], one.id, "leave_out")
    with store.read() as session:
        gold, ids = label_review_kind.gold_of(session, repeated)
    at = next(n for n, item in enumerate(gold.items) if item.sentence.text == POOL)
    doubt = Finding(at, "type", 5, 7, (Span(*MARA),), (Span(5, 7, "band"),), 0.9, "Why not.")
    with store.write() as session:
        label_review.keep_findings(session, repeated, "label_errors", [doubt], ids)
    label_review.decide(
        store, people["eva"], label_review.findings(store, people["eva"], repeated, "label_errors")[0].id, "change"
    )
    assert gold_of(store, repeated)[POOL] == (Span(5, 7, "band"),)
    assert POOL not in frozen(store, people, repeated)["pool"]
    label_review.revert(store, people["eva"], one.id)
    assert POOL in frozen(store, people, repeated)["pool"]
    look(store, repeated, "near_duplicates")  # both sides of what is a conflict now
    assert {found.kind for found in label_review.findings(store, people["eva"], repeated, "near_duplicates")} == {
        "conflict"
    }


def test_counts_say_what_is_left_out(store: Store, people: dict[str, Actor], repeated: int) -> None:
    def counts() -> tuple[int, int, int, int]:
        view = campaigns.get_campaign(store, people["res"], repeated)
        stages = overview.overview(store, people["res"], repeated).stages
        queue = rounds.queue_state(store, people["res"], repeated)
        return view.gold, view.left_out, stages[-1].done, queue.gold

    assert counts() == (8, 0, 8, 7)
    label_review.decide(store, people["eva"], leak(store, people, repeated).id, "leave_out")
    assert counts() == (8, 1, 8, 6)
    assert sum(map(len, frozen(store, people, repeated).values())) == 7
    lines = browsing.browse(store, people["res"], repeated, Search(text=POOL)).lines
    assert [(line.place, line.split) for line in lines] == [("gold", "pool")]
    found = browsing.sentence_layers(store, people["res"], repeated, lines[0].id)
    assert found.left_out.startswith("Eva, 20") and "in test" in found.left_out
    other = browsing.browse(store, people["res"], repeated, Search(text=TEST)).lines[0]
    assert browsing.sentence_layers(store, people["res"], repeated, other.id).left_out == ""


def test_automatic_run_does_not_wait_for_gold_that_is_left_out(
    store: Store, people: dict[str, Actor], repeated: int
) -> None:
    label_review.decide(store, people["eva"], leak(store, people, repeated).id, "leave_out")
    rounds.change_round_settings(store, people["res"], repeated, strategy="", retrain_every=1)
    rounds.tick(store)
    with store.read() as session:
        (run,) = run_rows.listed(session, campaign_id=repeated)
        assert run.snapshot is not None and run.snapshot.counts["pool"] == 6
    with store.write() as session:
        row = run_rows.get(session, run.id)
        assert row is not None
        row.state = "done"
    assert rounds.queue_state(store, people["res"], repeated).missing == 1  # it would be due for ever otherwise


def test_nothing_learns_from_the_text_that_is_left_out(
    store: Store, people: dict[str, Actor], repeated: int, tmp_path: Path
) -> None:
    more = [said(f"Sentence {n} of the pool , about nothing much .", id=f"more-{n}") for n in range(20)]
    sentences.add_sentences(store, people["res"], repeated, [one.sentence for one in more])

    def pretrained_on() -> str:
        with store.read() as session:
            return Path(campaign_source(session, people["res"], repeated, tmp_path).path).read_text()

    def learnt_bare(run_id: int) -> set[str]:
        with store.read() as session:
            run = run_rows.get(session, run_id)
            assert run is not None and run.snapshot_id is not None
            _, parts = snapshots.content_of(session, run.snapshot_id)
            return {one.text for one in training_data._unlabelled(session, run, parts["pool"][:3], parts)}

    def start() -> int:
        snapshot = snapshots.freeze(store, people["res"], repeated)
        recipe = recipe_here(tmp_path)
        return adaptation.start_run(store, people["res"], campaign_id=repeated, snapshot_id=snapshot.id, recipe=recipe)

    before = start()
    assert POOL in pretrained_on() and POOL in learnt_bare(before)
    label_review.decide(store, people["eva"], leak(store, people, repeated).id, "leave_out")
    assert POOL not in pretrained_on() and POOL not in learnt_bare(start())
    assert POOL in learnt_bare(before)  # a run that goes on finds what it began with
    with store.read() as session:
        assert POOL not in {one.labelled.sentence.text for one in layers.gold_to_learn_from(session, repeated)}


def test_strategies_take_no_gold_into_account_that_is_left_out(
    store: Store, people: dict[str, Actor], repeated: int
) -> None:
    rounds.change_round_settings(store, people["res"], repeated, strategy="longest")
    rounds.order_now(store, people["res"], repeated)

    def known() -> set[str]:
        with store.read() as session:
            (round_,) = round_rows.listed(session, repeated)
            plan = round_kind._plan(
                cast(Any, None), session, round_.id
            )  # no model, so no folder of checkpoints is asked
            return {item.sentence.text for item in plan.gold}

    before = known()
    label_review.decide(store, people["eva"], leak(store, people, repeated).id, "leave_out")
    assert known() == before - {POOL} and POOL in before


def test_snapshot_of_nothing_but_what_is_left_out_is_refused(
    store: Store, people: dict[str, Actor], campaign: int
) -> None:
    for split, text in (("test", TEST), ("pool", POOL)):
        sentences.add_sentences(store, people["res"], campaign, [said(text, MARA, id=f"{split}-1")], split=split)
    look(store, campaign, "near_duplicates")
    label_review.decide(store, people["eva"], leak(store, people, campaign).id, "leave_out")
    with pytest.raises(BadInput, match="1 gold sentences are left out, 1 are dev and test"):
        snapshots.freeze(store, people["res"], campaign)


def test_archive_carries_what_is_left_out(store: Store, people: dict[str, Actor], repeated: int) -> None:
    label_review.decide(store, people["eva"], leak(store, people, repeated).id, "leave_out")
    data = archive.export_campaign(store, people["adm"], repeated)
    copy = archive.import_campaign(store, people["adm"], data, name="Copy")
    assert frozen(store, people, copy) == frozen(store, people, repeated)
    assert [one.leaving.text for one in label_review.decided(store, people["adm"], copy)] == [POOL]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'"left_out": "other"', b'"left_out": "both"', "left_out is 'both'; allowed are this, other"),
        (b'"left_out": "other"', b'"left_out": null', "leaves out None"),
        (b'"state": "left_out"', b'"state": "kept"', "'kept' leaves out 'other'; allowed is None"),
    ],
)
def test_archive_that_leaves_out_what_it_does_not_say_is_refused(
    store: Store, people: dict[str, Actor], repeated: int, old: bytes, new: bytes, message: str
) -> None:
    label_review.decide(store, people["eva"], leak(store, people, repeated).id, "leave_out")
    files = contents(archive.export_campaign(store, people["adm"], repeated))
    assert old in files["sentences.jsonl"]
    with pytest.raises(BadInput, match=message):
        archive.import_campaign(store, people["adm"], change(files, "sentences.jsonl", old, new), name="Copy")


def test_archive_of_before_sentences_were_left_out_is_read(
    store: Store, people: dict[str, Actor], repeated: int
) -> None:
    label_review.decide(store, people["eva"], leak(store, people, repeated).id, "keep")
    files = contents(archive.export_campaign(store, people["adm"], repeated))
    older = change(files, "sentences.jsonl", b', "left_out": null', b"")
    copy = archive.import_campaign(store, people["adm"], older, name="Copy")
    assert [one.state for one in label_review.decided(store, people["adm"], copy)] == ["kept"]
