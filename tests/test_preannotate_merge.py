"""Layers of suggestions joined: all kept, the best marked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crossner_core.gazetteer import merge
from crossner_core.schema import Suggestion


def suggestion(start: int, end: int, source: str, score: float = 0.5, kind: str = "band") -> Suggestion:
    """Build a suggestion."""
    return Suggestion(start, end, kind, source, score)


def test_preannotate_merge_keeps_all_sources_and_marks_the_best() -> None:
    link, model, scan = suggestion(0, 2, "link"), suggestion(0, 2, "model", 0.9), suggestion(0, 2, "dbpedia", 0.8)
    merged = merge([scan], [model], [link])
    assert merged.suggestions == (scan, link, model) and merged.best == (link,)
    assert merged.is_best(link) and not merged.is_best(model)


def test_preannotate_merge_link_wins_over_a_longer_scan_and_longer_over_shorter() -> None:
    link, scan = suggestion(1, 2, "link", 0.1), suggestion(0, 4, "dbpedia", 0.9)
    assert merge([scan], [link]).best == (link,)
    long, short = suggestion(0, 3, "dbpedia", 0.2), suggestion(2, 4, "dbpedia", 0.9)
    assert merge([short, long]).best == (long,)


def test_preannotate_merge_priority_is_a_choice_and_strangers_come_last() -> None:
    model, scan, other = suggestion(0, 1, "model"), suggestion(0, 1, "dbpedia"), suggestion(0, 1, "other", 1.0)
    assert merge([model, scan, other]).best == (model,)
    assert merge([model, scan, other], priority=("dbpedia",)).best == (scan,)


def test_preannotate_merge_says_the_same_thing_once() -> None:
    weak, strong = suggestion(0, 1, "model", 0.2), suggestion(0, 1, "model", 0.7)
    assert merge([weak], [strong]).suggestions == (strong,)
    assert merge().best == ()


LAYER = st.lists(
    st.builds(
        lambda start, length, source, score, kind: suggestion(start, start + length, source, score, kind),
        st.integers(0, 6),
        st.integers(1, 4),
        st.sampled_from(["link", "model", "dbpedia", "other"]),
        st.sampled_from([0.1, 0.5, 0.9]),
        st.sampled_from(["band", "song"]),
    ),
    max_size=8,
)


@given(LAYER, LAYER)
def test_preannotate_merge_never_overlaps_and_knows_no_order(first: list[Suggestion], second: list[Suggestion]) -> None:
    merged = merge(first, second)
    assert merged == merge(second[::-1], first[::-1])
    assert set(merged.best) <= set(merged.suggestions) <= {*first, *second}
    for one, next_one in zip(merged.best, merged.best[1:], strict=False):
        assert one.end <= next_one.start
    for item in merged.suggestions:  # each place is spoken for
        assert any(item.start < best.end and best.start < item.end for best in merged.best)
