"""Errors of a prediction: their kinds, their partners, and that every span is in at most one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossner_core.errors import BadInput
from crossner_core.evaluation.errors import KINDS, count_errors, find_errors
from crossner_core.schema import Span


def spans(*triples: tuple[int, int, str]) -> tuple[Span, ...]:
    return tuple(Span(*one) for one in triples)


@pytest.mark.parametrize(
    ("gold", "said", "kinds"),
    [
        ([(0, 2, "a")], [(0, 2, "a")], []),
        ([(0, 2, "a")], [], ["missed"]),
        ([], [(0, 2, "a")], ["spurious"]),
        ([(0, 2, "a")], [(0, 2, "b")], ["type"]),
        ([(0, 2, "a")], [(0, 3, "a")], ["boundary"]),
        ([(0, 2, "a")], [(1, 3, "b")], ["boundary+type"]),
        ([(0, 2, "a")], [(2, 3, "a")], ["missed", "spurious"]),
        ([(0, 4, "a")], [(0, 1, "a"), (1, 4, "a")], ["spurious", "boundary"]),
        ([(0, 1, "a"), (1, 4, "a")], [(0, 4, "a")], ["missed", "boundary"]),
        # The right answer beside a wrong one is taken out first.
        ([(0, 2, "a")], [(0, 2, "a"), (3, 4, "b")], ["spurious"]),
        # The same type comes before the larger overlap.
        ([(0, 4, "a")], [(0, 3, "b"), (3, 4, "a")], ["spurious", "boundary"]),
    ],
)
def test_find_errors_names_each_kind(
    gold: list[tuple[int, int, str]], said: list[tuple[int, int, str]], kinds: list[str]
) -> None:
    found = find_errors([spans(*gold)], [spans(*said)])
    assert [error.kind for error in found] == kinds


def test_find_errors_are_in_the_order_of_the_text() -> None:
    found = find_errors([(), spans((4, 5, "a"), (0, 1, "b"))], [spans((2, 3, "c")), ()])
    assert [(error.sentence, error.place[1], error.kind) for error in found] == [
        (0, 2, "spurious"),
        (1, 0, "missed"),
        (1, 4, "missed"),
    ]
    assert found[0].types == {"c"}
    assert count_errors(found) == {"missed": 2, "spurious": 1, "boundary": 0, "type": 0, "boundary+type": 0}
    with pytest.raises(BadInput, match="1 gold sentences but 2"):
        find_errors([()], [(), ()])


@st.composite
def sentence_spans(draw: st.DrawFn) -> tuple[Span, ...]:
    cuts = sorted(draw(st.sets(st.integers(0, 12), max_size=8)))
    types = st.sampled_from(["a", "b"])
    return tuple(Span(start, end, draw(types)) for start, end in zip(cuts[::2], cuts[1::2], strict=False))


@settings(max_examples=200, deadline=None)
@given(sentence_spans(), sentence_spans())
def test_find_errors_leaves_no_wrong_span_out_and_takes_none_twice(
    gold: tuple[Span, ...], said: tuple[Span, ...]
) -> None:
    found = find_errors([gold], [said])
    assert sorted(error.gold for error in found if error.gold) == sorted(set(gold) - set(said))
    assert sorted(error.predicted for error in found if error.predicted) == sorted(set(said) - set(gold))
    assert all(error.kind in KINDS for error in found)
    lonely = [error.gold or error.predicted for error in found if error.kind in ("missed", "spurious")]
    assert len(lonely) == len(set(gold) ^ set(said)) - 2 * (len(found) - len(lonely))
