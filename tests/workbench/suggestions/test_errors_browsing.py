"""The error browser's use cases: errors of runs and of sources of suggestions, filtered, with their sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossner_core.calibration.sources import SourceWeights, Weight
from crossner_core.errors import BadInput, NotAllowed, NotFound
from db import campaign_rows
from db.engine import Store
from tests.support.builders import make_campaign, make_people
from tests.support.campaigns import campaign_with_gold, suggested
from tests.support.training_store import person, recipe_here, work
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.data import snapshots
from workbench.reports import errors_browsing
from workbench.reports.coverage import campaign_coverage
from workbench.reports.errors_browsing import SUGGESTED, Speaker
from workbench.runs import adaptation

Trained = tuple[Actor, int, Speaker]


@pytest.fixture
def trained(store: Store, tmp_path: Path) -> Trained:
    """A campaign with gold and a run on it that still makes mistakes."""
    admin = person(store, "admin")
    campaign_id = campaign_with_gold(store, admin)
    snapshot = snapshots.freeze(store, admin, campaign_id)
    recipe = recipe_here(tmp_path, max_epochs=2)
    run_id = adaptation.start_run(store, admin, campaign_id=campaign_id, snapshot_id=snapshot.id, recipe=recipe)
    work(store, tmp_path)
    return admin, campaign_id, Speaker(run_id=run_id)


def test_errors_of_a_run_add_up_to_its_score(store: Store, trained: Trained) -> None:
    admin, campaign_id, speaker = trained
    assert errors_browsing.speakers(store, admin, campaign_id) == (speaker,)
    assert errors_browsing.splits_of(store, admin, campaign_id, speaker) == ("dev", "test")
    for split in ("dev", "test"):
        found = errors_browsing.errors_of(store, admin, campaign_id, speaker, split=split)
        run = adaptation.get_run(store, admin, speaker.run_id or 0).run
        assert found.score.f1 == getattr(run, f"{split}_f1") and found.sentences == 8
        counts = found.counts
        paired = counts["boundary"] + counts["type"] + counts["boundary+type"]
        assert found.score.support - found.score.correct == counts["missed"] + paired > 0
        assert found.score.predicted - found.score.correct == counts["spurious"] + paired
        assert found.total == sum(counts.values()) == sum(sum(row.values()) for row in found.by_type.values())


def test_errors_are_filtered_by_kind_type_and_text_and_paged(store: Store, trained: Trained) -> None:
    admin, campaign_id, speaker = trained
    every = errors_browsing.errors_of(store, admin, campaign_id, speaker, split="test")
    kind, kind_type = every.lines[0].kind, next(iter((every.lines[0].gold, every.lines[0].predicted)))
    some = errors_browsing.errors_of(store, admin, campaign_id, speaker, split="test", kinds=[kind])
    assert {line.kind for line in some.lines} == {kind} and some.total == every.counts[kind]
    assert some.counts == every.counts
    if kind_type is not None:
        typed = errors_browsing.errors_of(store, admin, campaign_id, speaker, split="test", types=[kind_type.type])
        assert typed.lines and all(
            kind_type.type in {span.type for span in (line.gold, line.predicted) if span} for line in typed.lines
        )
    word = every.lines[0].item.sentence.words[-1]
    named = errors_browsing.errors_of(store, admin, campaign_id, speaker, split="test", text=f" {word.upper()} ")
    assert named.lines and all(word.casefold() in line.item.sentence.text.casefold() for line in named.lines)
    paged = errors_browsing.errors_of(store, admin, campaign_id, speaker, split="test", offset=1, limit=2)
    assert paged.lines == every.lines[1:3] and paged.total == every.total


def test_errors_lead_to_their_sentence_in_the_campaign(store: Store, trained: Trained) -> None:
    from workbench.data.browsing import sentence_layers

    admin, campaign_id, speaker = trained
    line = errors_browsing.errors_of(store, admin, campaign_id, speaker, split="dev").lines[0]
    assert line.sentence_id is not None
    layers = sentence_layers(store, admin, campaign_id, line.sentence_id)
    assert layers.sentence.text == line.item.sentence.text and layers.split == "dev"
    span = line.gold or line.predicted
    assert span is not None and line.surface(span) in line.item.sentence.text and line.surface(None) == ""


def test_errors_lead_experts_to_what_was_suggested_in_gold_and_of_nothing_else(store: Store) -> None:
    from workbench.data.browsing import browse, sentence_layers

    people, campaign_id = suggested(store)
    (source,) = errors_browsing.speakers(store, people["eva"], campaign_id)
    line = errors_browsing.errors_of(store, people["eva"], campaign_id, source, split="pool").lines[0]
    assert line.sentence_id is not None
    layers = sentence_layers(store, people["eva"], campaign_id, line.sentence_id)
    assert layers.place == "gold" and layers.work[-1].layer == "gold"
    other = make_campaign(store, people, name="Unfinished")
    unfinished = browse(store, people["res"], other).lines[0].id
    assert sentence_layers(store, people["res"], other, unfinished).place == "annotate"
    with pytest.raises(NotAllowed, match="once it is gold"):
        sentence_layers(store, people["eva"], other, unfinished)
    with pytest.raises(NotAllowed):
        sentence_layers(store, people["ann1"], campaign_id, line.sentence_id)


def test_errors_of_a_source_of_suggestions(store: Store) -> None:
    people, campaign_id = suggested(store)
    (source,) = errors_browsing.speakers(store, people["eva"], campaign_id)
    assert source == Speaker(source="model:run 7")
    assert errors_browsing.splits_of(store, people["eva"], campaign_id, source) == ("pool",)
    found = errors_browsing.errors_of(store, people["eva"], campaign_id, source, split="pool", types=["song"])
    assert (found.sentences, found.score.correct, found.score.predicted) == (1, 1, 2)
    (line,) = found.lines
    assert (line.kind, line.surface(line.gold), line.gold and line.gold.type) == ("type", "The Tin Gulls", "band")
    whole = errors_browsing.errors_of(
        store, people["eva"], campaign_id, Speaker(source=SUGGESTED), split="pool", types=["song"]
    )
    assert whole.lines == found.lines


def test_suggestions_as_people_see_them_heed_what_gold_taught_and_leave_hints_out(store: Store) -> None:
    people, campaign_id = suggested(store)

    def said() -> tuple[int, int]:
        found = errors_browsing.errors_of(store, people["eva"], campaign_id, Speaker(source=SUGGESTED), split="pool")
        covered = campaign_coverage(store, people["eva"], campaign_id).table.overall.suggested
        assert found.score.predicted == covered
        return found.score.predicted, found.score.correct

    assert said() == (2, 1)
    campaigns.update_settings(store, people["adm"], campaign_id, hint_below=0.85)
    assert said() == (1, 1)  # the wrong one is a hint now
    with store.write() as session:
        row = campaign_rows.find(session, campaign_id)
        assert row is not None
        wrong = {"model": Weight(n=100, correct=1, confidence=0.9, offset=-5.0)}
        row.source_weights = SourceWeights(kinds=wrong, sentences=100).to_dict()
    assert said() == (0, 0)


def test_errors_say_what_cannot_be_shown(store: Store, trained: Trained) -> None:
    admin, campaign_id, speaker = trained
    with pytest.raises(BadInput, match="'typo'; there are missed"):
        errors_browsing.errors_of(store, admin, campaign_id, speaker, split="test", kinds=["typo"])
    with pytest.raises(BadInput, match="'pool'; choose one of test, dev"):
        errors_browsing.errors_of(store, admin, campaign_id, speaker, split="pool")
    with pytest.raises(BadInput, match="Name either a run or a source"):
        Speaker()
    people = make_people(store)
    other = make_campaign(store, people, name="Other")
    assert errors_browsing.speakers(store, admin, other) == ()
    with pytest.raises(NotFound, match="does not belong to this campaign"):
        errors_browsing.errors_of(store, admin, other, speaker, split="test")
    with pytest.raises(NotAllowed):
        errors_browsing.speakers(store, people["ann1"], other)
    stranger = person(store, "expert", "stranger")
    with pytest.raises(NotFound):
        errors_browsing.speakers(store, stranger, campaign_id)
