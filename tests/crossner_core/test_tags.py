from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossner_core.errors import BadInput, InvalidConfig, InvalidSpan
from crossner_core.schema import Span
from crossner_core.tags import SCHEMES, convert_tags, detect_scheme, parse_tag, spans_from_tags, tags_from_spans


@st.composite
def span_lists(draw: st.DrawFn) -> tuple[tuple[Span, ...], int]:
    spans, at = [], 0
    for gap, size, kind in draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.sampled_from(["a", "b-c"])))
    ):
        spans.append(Span(at + gap, at + gap + size, kind))
        at += gap + size
    return tuple(spans), at + draw(st.integers(0, 2))


@pytest.mark.parametrize("scheme", SCHEMES)
@given(case=span_lists())
def test_tags_spans_come_back_from_every_scheme(scheme: str, case: tuple[tuple[Span, ...], int]) -> None:
    spans, length = case
    tags = tags_from_spans(spans, length, scheme)
    assert len(tags) == length
    assert spans_from_tags(tags, scheme) == spans
    assert spans_from_tags(tags, scheme, strict=False) == spans


@pytest.mark.parametrize("source", SCHEMES)
@pytest.mark.parametrize("target", SCHEMES)
@given(case=span_lists())
def test_tags_convert_there_and_back(source: str, target: str, case: tuple[tuple[Span, ...], int]) -> None:
    tags = tags_from_spans(case[0], case[1], source)
    assert convert_tags(convert_tags(tags, source, target), target, source) == tags


@given(st.lists(st.sampled_from(["O", *(f"{prefix}-{kind}" for prefix in "BIESLU" for kind in "ab")])))
def test_tags_lenient_reading_never_fails_and_strict_agrees_where_it_succeeds(tags: list[str]) -> None:
    lenient = spans_from_tags(tags, strict=False)
    ends = [0, *(span.end for span in lenient)]
    assert all(end <= span.start < span.end <= len(tags) for end, span in zip(ends, lenient, strict=False))
    assert {at for span in lenient for at in range(span.start, span.end)} == {i for i, t in enumerate(tags) if t != "O"}
    for scheme in SCHEMES:
        try:
            assert spans_from_tags(tags, scheme) == lenient
        except BadInput:
            continue
        assert tags_from_spans(lenient, len(tags), scheme) == tags


@pytest.mark.parametrize(
    ("tags", "scheme", "position"),
    [
        (["O", "I-a"], "IOB2", 2),
        (["B-a", "I-b"], "IOB2", 2),
        (["B-a"], "IOB1", 1),
        (["I-a", "B-b"], "IOB1", 2),
        (["S-a", "I-a"], "BIOES", 2),
        (["B-a", "O"], "BIOES", 2),
        (["O", "B-a"], "BIOES", 2),
        (["B-a", "E-a"], "IOB2", 2),
        (["B-a", "E-a"], "BILOU", 2),
        (["O", "O", "person"], "IOB2", 3),
        (["B-"], "IOB2", 1),
        (["o"], "IOB2", 1),
        ([""], "IOB2", 1),
    ],
)
def test_tags_strict_names_the_position(tags: list[str], scheme: str, position: int) -> None:
    with pytest.raises(BadInput, match=f"^Token {position} of {len(tags)}:"):
        spans_from_tags(tags, scheme)


def test_tags_lenient_begins_an_entity_at_a_stray_inside() -> None:
    assert spans_from_tags(["O", "I-a", "I-b", "B-b", "I-b"], strict=False) == (
        Span(1, 2, "a"),
        Span(2, 3, "b"),
        Span(3, 5, "b"),
    )


@pytest.mark.parametrize(
    ("sequences", "scheme"),
    [
        ([["B-a", "I-a", "O"], ["B-b"]], "IOB2"),
        ([["I-a", "I-a", "B-a", "O", "I-b"]], "IOB1"),
        ([["B-a", "O", "I-a"]], "IOB2"),
        ([["O"], []], "IOB2"),
        ([["B-a", "E-a"]], "BIOES"),
        ([["S-a"]], "BIOES"),
        ([["B-a", "L-a", "U-b"]], "BILOU"),
    ],
)
def test_tags_detect_scheme(sequences: list[list[str]], scheme: str) -> None:
    assert detect_scheme(sequences) == scheme


@pytest.mark.parametrize(
    "spans", [[Span(0, 3, "a")], [Span(0, 2, "a"), Span(1, 2, "b")], [Span(1, 1, "a")], [Span(-1, 1, "a")]]
)
def test_tags_from_spans_refuses_what_does_not_fit(spans: list[Span]) -> None:
    with pytest.raises(InvalidSpan):
        tags_from_spans(spans, 2)


def test_tags_unknown_scheme_names_the_known() -> None:
    with pytest.raises(InvalidConfig, match="IOB2, IOB1, BIOES, BILOU"):
        spans_from_tags(["O"], "IO")


def test_tags_type_names_may_hold_dashes() -> None:
    assert parse_tag("B-work-of-art") == ("B", "work-of-art")


def test_tags_lenient_reading_equals_seqeval_on_the_golden_sequences(shared: Path) -> None:
    from seqeval.metrics.sequence_labeling import get_entities

    golden = json.loads((shared / "golden" / "conlleval.json").read_text(encoding="utf-8"))
    correct = found = gold_count = 0
    for gold, pred in zip(golden["gold"], golden["pred"], strict=True):
        spans = [spans_from_tags(tags, strict=False) for tags in (gold, pred)]
        for tags, ours in zip((gold, pred), spans, strict=True):
            assert [(span.type, span.start, span.end - 1) for span in ours] == get_entities(tags)
        correct += len(set(spans[0]) & set(spans[1]))
        gold_count, found = gold_count + len(spans[0]), found + len(spans[1])
    precision, recall = correct / found, correct / gold_count
    f1 = 200 * precision * recall / (precision + recall)
    assert f1 == pytest.approx(golden["conlleval_percent"]["f1"], abs=0.01)
