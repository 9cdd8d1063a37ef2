"""Likely label errors: out-of-sample shares by both judges, the ranking, and gold that does not allow it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from crossner_core.encoders.base import Encoder
from crossner_core.errors import BadInput
from crossner_core.label_review.base import Desk, Gold, check
from crossner_core.label_review.checks.label_errors import proposals, rank
from crossner_core.label_review.cross_validation import folds_of, out_of_sample
from crossner_core.label_review.evidence import TagProbabilities, places_of
from crossner_core.label_review.planting import plant
from crossner_core.label_review.weighing import RULE, Rule, Weights, weigh
from crossner_core.options.label_review import LabelReviewOptions
from crossner_core.schema import LabelledSentence, Span
from tests.support.training_builders import TYPES, labelled, own_sentences, tiny_encoder

QUICK = LabelReviewOptions(folds=3, repeats=1, epochs=1, device="cpu")


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return tiny_encoder()


def pool(items: tuple[LabelledSentence, ...], types: tuple[str, ...] = TYPES) -> Gold:
    return Gold(items, ("pool",) * len(items), types)


def find(gold: Gold, encoder: Encoder, options: LabelReviewOptions = QUICK):  # type: ignore[no-untyped-def]
    return check("label_errors").find(gold, options, Desk(encoder))


def test_folds_hold_everything_once() -> None:
    folds = folds_of(11, 3, np.random.default_rng(0))
    assert sorted(at for fold in folds for at in fold) == list(range(11))
    assert sorted(map(len, folds)) == [3, 4, 4]


@pytest.mark.parametrize("judge", ["probe", "tagger"])
def test_out_of_sample_gives_each_token_shares_of_all_tags(encoder: Encoder, judge: str) -> None:
    items, done = own_sentences(9), []
    probabilities = out_of_sample(items, TYPES, replace(QUICK, judge=judge), Desk(encoder, report=done.append))
    assert probabilities is not None
    assert [one.shape for one in probabilities] == [(len(item.sentence.tokens), 7) for item in items]
    assert all(np.allclose(one.sum(1), 1.0, atol=1e-5) for one in probabilities)
    assert done == [pytest.approx(share) for share in (1 / 3, 2 / 3, 1.0)]


@pytest.mark.parametrize("judge", ["probe", "tagger"])
def test_out_of_sample_stops_when_told(encoder: Encoder, judge: str) -> None:
    desk = Desk(encoder, should_stop=lambda: True)
    assert out_of_sample(own_sentences(6), TYPES, replace(QUICK, judge=judge), desk) is None


def test_out_of_sample_is_the_same_for_a_seed(encoder: Encoder) -> None:
    first, second = (out_of_sample(own_sentences(9), TYPES, QUICK, Desk(encoder)) for _ in range(2))
    assert first is not None and second is not None
    assert all(np.array_equal(one, other) for one, other in zip(first, second, strict=True))


def test_label_errors_planted_come_first(encoder: Encoder) -> None:
    spoilt, planted = plant(own_sentences(60), TYPES, 0.05, np.random.default_rng(3))
    probabilities = out_of_sample(spoilt, TYPES, replace(QUICK, folds=5), Desk(encoder))
    assert probabilities is not None
    queue = rank(spoilt, probabilities, TYPES)
    head = {place.item for place, _ in queue[: round(0.15 * len(queue))]}
    assert len([one for one in planted if one.item in head]) / len(planted) >= 0.75


@pytest.fixture
def nothing_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """List all doubts: the tiny encoder is too unsure for the rule, and the ranking is what is tested."""
    monkeypatch.setattr("crossner_core.label_review.checks.label_errors.RULE", Rule(floor=0.0, margin=-1.0))


@pytest.mark.usefixtures("nothing_held_back")
def test_label_errors_doubt_a_wrong_type_first(encoder: Encoder) -> None:
    items = list(own_sentences(40))
    wrong = next(at for at, item in enumerate(items) if any(span.type == "location" for span in item.spans))
    place = next(span for span in items[wrong].spans if span.type == "location")
    rest = tuple(span for span in items[wrong].spans if span != place)
    items[wrong] = replace(items[wrong], spans=tuple(sorted((*rest, Span(place.start, place.end, "person")))))
    first = find(pool(tuple(items)), encoder)[0]
    assert first.item == wrong and Span(place.start, place.end, "person") in first.there
    assert first.proposed != first.there and first.why.startswith("Models")


@pytest.mark.parametrize(
    ("gold", "kind", "proposed", "why"),
    [
        (
            [(0, 2, "band")],
            "type",
            [(0, 2, "person")],
            "the gold, Ada Brook (band), 5 %.",
        ),
        (
            [(0, 1, "person")],
            "boundary",
            [(0, 2, "person")],
            "the gold, Ada (person), 1 %.",
        ),
        ([(0, 1, "band")], "boundary+type", [(0, 2, "person")], "Models"),
        ([], "missing", [(0, 2, "person")], "the gold, no entity, 1 %."),
        ([(0, 2, "person"), (3, 4, "location")], "extra", [], "the gold, far (location), 1 %."),
    ],
)
def test_label_errors_say_what_models_see(
    monkeypatch: pytest.MonkeyPatch, gold: list[tuple[int, int, str]], kind: str, proposed: list[object], why: str
) -> None:
    from crossner_core.label_review.checks import label_errors

    # O, B-person, I-person, B-band, I-band, B-location, I-location
    rows = [[0.01, 0.91, 0.01, 0.05, 0.0, 0.02, 0.0], [0.01, 0.01, 0.91, 0.0, 0.05, 0.0, 0.02]]
    rows += [[0.97, 0.005, 0.005, 0.005, 0.005, 0.005, 0.005]] * 2
    monkeypatch.setattr(label_errors, "out_of_sample", lambda *given: [np.array(rows)])
    item = labelled(["Ada", "Brook", "left", "far"], gold)
    first = label_errors.find(pool((item,)), QUICK, Desk())
    if not gold:  # without any entity there is nothing to learn from
        assert first == []
        item = labelled(["Ada", "Brook", "left", "far"], [(3, 4, "location")])
        first = label_errors.find(pool((item,)), replace(QUICK, share=1.0), Desk())
    assert first is not None
    one = next(found for found in first if found.kind == kind)
    assert one.proposed == tuple(Span(*span) for span in proposed) and why in one.why


@pytest.mark.usefixtures("nothing_held_back")
def test_label_errors_take_no_more_than_their_share(encoder: Encoder) -> None:
    gold = pool(own_sentences(24))
    few = find(gold, encoder, replace(QUICK, share=0.05))
    many = find(gold, encoder, replace(QUICK, share=0.5))
    assert 0 < len(few) < len(many)


def test_label_errors_need_as_many_sentences_as_folds(encoder: Encoder) -> None:
    with pytest.raises(BadInput, match="2 gold sentences, fewer than the 3 folds"):
        find(pool(own_sentences(2)), encoder)


def test_label_errors_of_gold_without_entities_are_none(encoder: Encoder) -> None:
    items = tuple(labelled(["Nothing", "here", "."], [], id=str(at)) for at in range(6))
    assert find(pool(items), encoder) == []


@pytest.mark.usefixtures("nothing_held_back")
def test_label_errors_of_one_type_never_propose_another(encoder: Encoder) -> None:
    items = tuple(
        replace(item, spans=tuple(span for span in item.spans if span.type == "location")) for item in own_sentences(12)
    )
    found = find(pool(items, ("location",)), encoder)
    assert found and all(span.type == "location" for one in found for span in one.proposed)


def test_label_errors_leave_out_sentences_without_tokens(encoder: Encoder) -> None:
    gold = pool((labelled([], [], id="empty"), *own_sentences(9)))
    assert all(one.item > 0 for one in find(gold, encoder))


def test_places_are_the_entities_and_what_models_see_beside_them() -> None:
    item = labelled(["Ada", "met", "Ines", "."], [(0, 1, "person")])
    probabilities = np.full((4, 7), 0.01)
    probabilities[[0, 2], 1] = probabilities[[1, 3], 0] = 0.94
    given, missing = places_of(0, item, probabilities, TYPES)
    assert given.given == Span(0, 1, "person") and given.proposed is None
    assert missing.given is None and missing.proposed == Span(2, 3, "person")
    assert TagProbabilities(probabilities, TYPES).spans() == (Span(0, 1, "person"), Span(2, 3, "person"))


def test_rule_holds_back_what_is_weaker_than_the_gold_or_too_weak() -> None:
    assert RULE.lets(Weights(proposed=0.9, present=0.05))
    assert not RULE.lets(Weights(proposed=0.01, present=0.41))
    assert not RULE.lets(Weights(proposed=0.6, present=0.1))  # below the floor
    assert not Rule(floor=0.4, margin=0.2).lets(Weights(proposed=0.5, present=0.4))  # not far enough above the gold


def test_weigh_compares_only_the_tokens_that_differ() -> None:
    person, organisation, place = TYPES[:3]
    probabilities = np.full((3, 7), 0.01)
    probabilities[0, 1 + 2 * 0], probabilities[0, 1 + 2 * 1] = 0.2, 0.6  # B- of the first type, and of the second
    probabilities[2, 1 + 2 * 2] = 0.9
    tags = TagProbabilities(probabilities, TYPES)
    present, proposed = ((Span(0, 1, kind), Span(2, 3, place)) for kind in (person, organisation))
    weights = weigh(tags, present, proposed)
    assert weights is not None
    assert (weights.present, weights.proposed) == (pytest.approx(0.2), pytest.approx(0.6))
    assert weigh(tags, present, present) is None


def test_label_errors_never_propose_less_than_the_gold(encoder: Encoder) -> None:
    spoilt, _ = plant(own_sentences(60), TYPES, 0.1, np.random.default_rng(5))
    probabilities = out_of_sample(spoilt, TYPES, QUICK, Desk(encoder))
    assert probabilities is not None
    everything = proposals(spoilt, probabilities, TYPES, 1.0, Rule(floor=0.0, margin=-1.0))
    assert any(
        finding.proposed_probability is not None
        and finding.present_probability is not None
        and finding.proposed_probability < finding.present_probability
        for finding in everything
    )
    rule = Rule(floor=0.3, margin=0.1)
    listed = proposals(spoilt, probabilities, TYPES, 1.0, rule)
    assert listed
    for finding in listed:
        assert finding.proposed_probability is not None and finding.present_probability is not None
        assert finding.proposed_probability >= rule.floor
        assert finding.proposed_probability - finding.present_probability >= rule.margin
        assert f"{100 * finding.proposed_probability:.0f} %" in finding.why
