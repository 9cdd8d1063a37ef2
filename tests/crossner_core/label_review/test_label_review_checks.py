"""The checks of a second look that train nothing: surfaces, repeats, near-duplicates; and planting errors."""

from __future__ import annotations

import numpy as np
import pytest

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.label_review.base import Desk, Finding, Gold, check, check_ids
from crossner_core.label_review.planting import KINDS, plant
from crossner_core.options.label_review import LabelReviewOptions
from crossner_core.schema import LabelledSentence, Span
from tests.support.training_builders import TYPES, labelled, own_sentences


def gold(*items: LabelledSentence, splits: str = "") -> Gold:
    names = {"p": "pool", "d": "dev", "t": "test"}
    return Gold(items, tuple(names[one] for one in splits or "p" * len(items)), TYPES)


def found(id: str, look: Gold, **options: object) -> list[Finding]:
    answer = check(id).find(look, LabelReviewOptions(**options), Desk())  # type: ignore[arg-type]
    assert answer is not None
    return answer


def said(text: str, *spans: tuple[int, int, str], id: str = "s") -> LabelledSentence:
    return labelled(text.split(), list(spans), id=id)


def test_checks_are_the_files_of_their_folder() -> None:
    assert set(check_ids()) >= {"inconsistent_surfaces", "label_errors", "near_duplicates", "unlabelled_repeats"}
    for id in check_ids():
        assert check(id).id == id and check(id).line.endswith(".")


def test_check_unknown_names_the_known() -> None:
    with pytest.raises(InvalidConfig, match="near_duplicates"):
        check("spelling")


def test_gold_without_sentences_is_refused() -> None:
    with pytest.raises(BadInput, match="no gold yet"):
        gold()


def test_surfaces_with_two_types_doubt_the_rarer_one() -> None:
    look = gold(
        said("Marble sang .", (0, 1, "band")),
        said("I saw Marble there", (2, 3, "band")),
        said("Marble is cold", (0, 1, "location")),
    )
    (one,) = found("inconsistent_surfaces", look)
    assert (one.item, one.there, one.proposed) == (2, (Span(0, 1, "location"),), (Span(0, 1, "band"),))
    assert one.score == pytest.approx(2 / 4)
    assert "band 2 ×, location 1 ×" in one.why


def test_surfaces_one_against_one_doubt_both() -> None:
    look = gold(said("Ines left", (0, 1, "person")), said("Ines won", (0, 1, "band")))
    both = found("inconsistent_surfaces", look)
    assert [one.item for one in both] == [0, 1]
    assert {(one.proposed_probability, one.present_probability) for one in both} == {(0.5, 0.5)}


@pytest.mark.parametrize("id", ["inconsistent_surfaces", "unlabelled_repeats", "near_duplicates"])
def test_checks_find_nothing_in_one_sentence_of_one_type(id: str) -> None:
    look = Gold((said("Oslo is far from Leeds", (0, 1, "location"), (4, 5, "location")),), ("pool",), ("location",))
    assert found(id, look) == []


def test_repeats_find_the_longest_surface_outside_of_entities() -> None:
    look = gold(
        said("New Haven and Haven", (0, 2, "location"), (3, 4, "location")),
        said("Then New Haven sang", id="t"),
        said("New Haven Trio sang", (0, 3, "band"), id="u"),
    )
    (one,) = found("unlabelled_repeats", look)
    assert (one.item, one.start, one.end, one.there, one.proposed) == (1, 1, 3, (), (Span(1, 3, "location"),))
    assert one.score == pytest.approx(1 / 3)


def test_repeats_hold_back_what_gold_labels_at_fewer_than_half_of_its_places() -> None:
    labelled, bare = said("It was Marble", (2, 3, "band")), [said(f"Marble is {word}", id=word) for word in ("a", "b")]
    assert found("unlabelled_repeats", gold(labelled, *bare)) == []
    (one,) = found("unlabelled_repeats", gold(labelled, said("On Marble", (1, 2, "band"), id="c"), bare[0]))
    assert (one.proposed_probability, one.present_probability) == (pytest.approx(2 / 3), pytest.approx(1 / 3))
    split = gold(labelled, said("On Marble", (1, 2, "person"), id="c"), said("See Marble", id="d"))
    assert found("unlabelled_repeats", split) == []  # no type has half of the places


def test_repeats_mind_case() -> None:
    look = gold(said("It was Marble", (2, 3, "band")), said("made of marble"))
    assert found("unlabelled_repeats", look) == []


def test_duplicates_with_other_labels_doubt_both_sides() -> None:
    words = "Ada Brook sang with Marble in Oslo last year"
    look = gold(
        said(words, (0, 2, "person"), (6, 7, "location")),
        said(words, (0, 2, "person"), (4, 5, "band"), (6, 7, "location")),
        splits="pt",
    )
    here, there = found("near_duplicates", look)
    assert (here.item, here.kind, here.there, here.proposed) == (0, "conflict", (), (Span(4, 5, "band"),))
    assert (there.item, there.there, there.proposed) == (1, (Span(4, 5, "band"),), ())
    assert here.other == 1 and here.other_there == look.items[1].spans and "of test that says the same" in here.why


def test_duplicates_move_labels_over_an_inserted_word() -> None:
    one = said("In Oslo , Ada Brook left the band Marble last year for good", (3, 5, "person"))
    two = said("In Oslo , Ada Brook left the band Marble last year for good again", (3, 4, "person"))
    findings = found("near_duplicates", gold(one, two), alike=0.7)
    assert [(f.item, f.start, f.end, f.proposed) for f in findings] == [
        (0, 3, 5, (Span(3, 4, "person"),)),
        (1, 3, 5, (Span(3, 5, "person"),)),
    ]


def test_duplicates_that_agree_are_named_across_splits_alone() -> None:
    item = said("Ada Brook sang in Oslo", (0, 2, "person"))
    assert found("near_duplicates", gold(item, item, splits="pp")) == []
    (one,) = found("near_duplicates", gold(item, item, splits="pd"))
    assert (one.kind, one.proposed, one.score) == ("leak", one.there, 0.5)


def test_near_duplicates_of_unlike_sentences_are_none() -> None:
    assert found("near_duplicates", gold(said("Ada Brook sang in Oslo"), said("Marble toured Porto last year"))) == []


def test_plant_spoils_a_share_of_each_kind_and_can_be_undone() -> None:
    items = own_sentences(40)
    spoilt, planted = plant(items, TYPES, 0.2, np.random.default_rng(1))
    entities = sum(len(item.spans) for item in items)
    assert len(planted) == round(0.2 * entities) and {one.kind for one in planted} == set(KINDS)
    back = [set(item.spans) for item in spoilt]
    for one in planted:
        back[one.item] -= {one.given}
        back[one.item] |= {one.true} - {None}
    assert back == [set(item.spans) for item in items]


def test_plant_is_the_same_for_a_seed() -> None:
    items = own_sentences(12)
    first, second = (plant(items, TYPES, 0.3, np.random.default_rng(7)) for _ in range(2))
    assert first == second


def test_plant_needs_two_types() -> None:
    with pytest.raises(InvalidConfig, match="two or more"):
        plant(own_sentences(4), ("person",), 0.1, np.random.default_rng(0))
