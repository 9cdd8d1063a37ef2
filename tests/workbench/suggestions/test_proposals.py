"""Proposals: sources that agree, contradict, or are wrong for a type; what gold teaches; hints."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from crossner_core.calibration.proposals import best_of, learn, propose
from crossner_core.calibration.sources import NO_GOLD, PRIOR, SourceWeights, log_odds, share_of, weigh
from crossner_core.errors import NotAllowed
from crossner_core.schema import Span, Suggestion
from crossner_core.suggest.base import kind_of
from db import suggestion_rows
from db.engine import Store
from db.tables import Campaign, SentenceRow
from tests.support.builders import Tab, make_gold
from workbench.accounts.actors import SYSTEM, Actor
from workbench.campaigns import campaigns
from workbench.suggestions import preannotating, proposing

People = dict[str, Actor]
RUN = "model:run 3"


def said(start: int, end: int, type: str, source: str, score: float) -> Suggestion:
    return Suggestion(start, end, type, source, score)


def test_propose_merges_what_sources_agree_on_and_names_them_best_first() -> None:
    (one,) = propose([said(0, 2, "band", "dbpedia", 0.6), said(0, 2, "band", RUN, 0.8)], SourceWeights())
    assert one.sources == (RUN, "dbpedia") and one.score == pytest.approx(1 - 0.4 * 0.2)
    assert one.group == "dbpedia and model"


def test_propose_takes_two_runs_for_one_witness() -> None:
    (one,) = propose([said(0, 2, "band", "model:run 1", 0.6), said(0, 2, "band", RUN, 0.8)], SourceWeights())
    assert one.score == pytest.approx(0.8) and one.sources == (RUN, "model:run 1")


def test_propose_believes_rivals_less_for_only_one_can_be_right() -> None:
    found = propose([said(0, 2, "band", "dbpedia", 0.8), said(1, 3, "song", RUN, 0.5)], SourceWeights())
    assert [(one.type, round(one.score, 3)) for one in found] == [("band", round(4 / 6, 3)), ("song", round(1 / 6, 3))]
    assert sum(one.score for one in found) < 1 and [one.span for one in best_of(found)] == [Span(0, 2, "band")]
    assert found[0].group == "dbpedia against model"


def test_propose_alone_without_gold_keeps_a_sources_own_score() -> None:
    suggestions = [said(0, 1, "band", "link", 0.95), said(3, 4, "song", "dbpedia", 1.0)]
    assert [one.score for one in propose(suggestions, SourceWeights())] == [1.0, 0.95]
    assert propose([], SourceWeights()) == ()


def known(kind: str, type: str, right: int, wrong: int, score: float = 0.9) -> list[tuple[list[Suggestion], set[Span]]]:
    """Return sentences with one suggestion each, right in some of them."""
    one = said(0, 1, type, kind, score)
    return [([one], {one.span} if at < right else set()) for at in range(right + wrong)]


def test_learn_lets_the_weight_of_a_source_fall_for_the_type_it_is_wrong_about() -> None:
    weights = learn(
        [*known("dbpedia", "person", 2, 38), *known("dbpedia", "band", 38, 2), *known("link", "band", 5, 0)]
    )
    person, band = (weights.believed(said(0, 1, name, "dbpedia", 0.9)) for name in ("person", "band"))
    assert person < 0.5 < 0.75 < band
    assert weights.types["dbpedia", "person"].n == 40 and weights.types["dbpedia", "person"].correct == 2
    assert weights.believed(said(0, 1, "person", RUN, 0.9)) == 0.9, "no gold about the model yet: its own score"
    (one,) = propose([said(0, 1, "person", "dbpedia", 0.9)], weights)
    assert one.score < 0.5


def test_learn_counts_one_sentence_for_little() -> None:
    weights = learn(known("link", "song", 0, 1))
    assert 0.8 < weights.believed(said(0, 1, "song", "link", 0.9)) < 0.9


def test_learn_of_a_single_type_and_of_nothing() -> None:
    assert learn([]) == SourceWeights()
    weights = learn(known(RUN, "band", 15, 15))
    assert set(weights.types) == {("model", "band")} and 0.5 < weights.believed(said(0, 1, "band", RUN, 0.9)) < 0.75


def test_weigh_brings_the_mean_to_the_smoothed_share() -> None:
    rows = [(log_odds(score), at % 4 == 0) for at, score in enumerate([0.9, 0.6, 0.99, 0.3] * 10)]
    weight = weigh(rows)
    share = (10 + PRIOR * weight.confidence) / (40 + PRIOR)
    assert sum(share_of(odds + weight.offset) for odds, _ in rows) / 40 == pytest.approx(share, abs=1e-6)
    assert kind_of(RUN) == "model" and NO_GOLD.offset == 0


def test_weights_survive_being_stored() -> None:
    weights = learn([*known("dbpedia", "person", 3, 7), *known(RUN, "band", 4, 1)])
    assert SourceWeights.from_dict(weights.to_dict()) == weights


def _ids(store: Store) -> list[int]:
    with store.read() as session:
        return list(session.scalars(sa.select(SentenceRow.id).order_by(SentenceRow.position)))


def _suggest(store: Store, campaign: int, score: float, type: str = "band") -> None:
    one = said(0, 1, type, RUN, score)
    preannotating.add_model_suggestions(
        store, SYSTEM, campaign, run_id=3, suggestions={id_: [one] for id_ in _ids(store)}
    )


def test_handout_shows_unlikely_proposals_as_hints_and_names_sources(
    store: Store, people: People, campaign: int
) -> None:
    _suggest(store, campaign, 0.39)
    (shown,) = Tab(store, people["ann1"], campaign, "annotate").items(1)[0]["suggestions"]
    assert shown["hint"] and shown["sources"] == [RUN] and shown["score"] == 0.39
    campaigns.update_settings(store, people["adm"], campaign, hint_below=0.2)
    (shown,) = Tab(store, people["ann1"], campaign, "annotate").items(1)[0]["suggestions"]
    assert not shown["hint"]


def test_gold_makes_a_wrong_source_fall_at_the_next_handout(store: Store, people: People, campaign: int) -> None:
    _suggest(store, campaign, 0.9, "award")  # no sentence has an award there
    before = Tab(store, people["ann1"], campaign, "annotate").items(1)[0]["suggestions"][0]["score"]
    make_gold(store, people, campaign)
    weights = proposing.source_weights(store, people["res"], campaign)
    award = weights.types["model", "award"]
    assert award.n == weights.sentences >= 5 and award.correct == 0
    with store.read() as session:
        row = session.get(Campaign, campaign)
        assert row is not None and proposing.weights_of(row).sentences >= proposing.RELEARN_EVERY
        believed = proposing.weights_of(row).believed(said(0, 1, "award", RUN, 0.9))
    assert before == 0.9 and believed < 0.75


def test_weights_are_not_learnt_from_gold_of_test(store: Store, people: People, campaign: int) -> None:
    _suggest(store, campaign, 0.9, "award")
    make_gold(store, people, campaign)
    whole = proposing.source_weights(store, people["res"], campaign)
    first, *rest = _ids(store)
    with store.write() as session:
        session.execute(sa.update(SentenceRow).where(SentenceRow.id == first).values(split="test"))
    without = proposing.source_weights(store, people["res"], campaign)
    assert (without.sentences, without.types["model", "award"].n) == (whole.sentences - 1, len(rest))
    with store.write() as session:
        session.execute(sa.update(SentenceRow).values(split="test"))
        proposing.relearn(session, campaign)
    assert proposing.source_weights(store, people["res"], campaign) == SourceWeights()


def test_gold_of_test_does_not_have_the_weights_counted_again(
    store: Store, people: People, campaign: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []
    monkeypatch.setattr(proposing, "relearn", lambda session, campaign_id: counted.append(campaign_id))
    with store.write() as session:
        session.execute(sa.update(SentenceRow).values(split="test"))
    make_gold(store, people, campaign)
    with store.read() as session:
        assert suggestion_rows.ids_with_gold(session, campaign) == _ids(store)
    assert counted == []


def test_weights_of_sources_are_for_those_who_oversee(store: Store, people: People, campaign: int) -> None:
    assert proposing.source_weights(store, people["res"], campaign) == SourceWeights()
    with pytest.raises(NotAllowed):
        proposing.source_weights(store, people["ann1"], campaign)
