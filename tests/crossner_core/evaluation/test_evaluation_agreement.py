from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from crossner_core.errors import BadInput
from crossner_core.evaluation.agreement import Layers, agreement
from crossner_core.schema import Span

A, B = Span(0, 2, "person"), Span(3, 4, "band")


def many(seed: int, count: int = 40) -> list[Layers]:
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        first = (Span(0, 2, "person"), Span(4, 5, "band"))
        second = (
            Span(0, 2, "person" if rng.random() < 0.7 else "band"),
            Span(4, 5 + int(rng.random() < 0.3), "band"),
        )
        made.append(Layers(8, first, second))
    return made


def test_agreement_of_equal_layers_is_one() -> None:
    found = agreement([Layers(5, (A, B), (A, B))] * 3)
    assert [measure.value for measure in found.measures] == [1.0, 1.0, 1.0, 1.0]
    assert found.entity_f1.n == 12 and found.kappa.n == 15 and found.kappa_without_o.n == 9


def test_agreement_span_only_forgives_the_type() -> None:
    found = agreement([Layers(5, (A, B), (A, Span(3, 4, "song")))])
    assert found.entity_f1.value == 0.5 and found.span_f1.value == 1.0
    assert found.entity_f1.low is None, "one sentence gives no interval"


def test_agreement_kappa_equals_sklearn() -> None:
    items = many(1)
    sides: list[list[str]] = [[], []]
    for item in items:
        for side, spans in zip(sides, (item.first, item.second), strict=True):
            tokens = ["O"] * item.length
            for span in spans:
                tokens[span.start : span.end] = [span.type] * (span.end - span.start)
            side.extend(tokens)
    found = agreement(items)
    assert found.kappa.value == pytest.approx(cohen_kappa_score(*sides))
    kept = [(one, two) for one, two in zip(*sides, strict=True) if (one, two) != ("O", "O")]
    assert found.kappa_without_o.value == pytest.approx(cohen_kappa_score(*zip(*kept, strict=True)))
    assert found.kappa_without_o.n == len(kept)


def test_agreement_is_symmetric_and_seeded() -> None:
    items = many(2)
    turned = [Layers(item.length, item.second, item.first) for item in items]
    one, two = agreement(items, rng=np.random.default_rng(5)), agreement(turned, rng=np.random.default_rng(5))
    for left, right in zip(one.measures, two.measures, strict=True):
        assert left.value == pytest.approx(right.value) and left.low == pytest.approx(right.low)
    assert agreement(items, rng=np.random.default_rng(6)).kappa.low != one.kappa.low


def test_agreement_interval_holds_the_value_and_narrows() -> None:
    few, lots = agreement(many(3, 10)).entity_f1, agreement(many(3, 400)).entity_f1
    for measure in (few, lots):
        assert measure.low is not None and measure.high is not None and measure.value is not None
        assert measure.low <= measure.value <= measure.high
    assert lots.high - lots.low < few.high - few.low  # type: ignore[operator]


def test_agreement_of_nothing_is_words() -> None:
    for measure in agreement([]).measures:
        assert measure.value is None and measure.n == 0 and "No sentence" in measure.undefined


def test_agreement_without_entities_is_words() -> None:
    found = agreement([Layers(5, (), ())] * 4)
    assert found.entity_f1.value is None and "Neither layer marks" in found.entity_f1.undefined
    assert found.kappa.value is None and "have the same category" in found.kappa.undefined
    assert found.kappa_without_o.value is None and "no token" in found.kappa_without_o.undefined


def test_agreement_one_category_without_o_is_words() -> None:
    found = agreement([Layers(5, (A,), (A,))] * 4)
    assert found.kappa.value == 1.0
    assert found.kappa_without_o.value is None and "same category" in found.kappa_without_o.undefined


def test_agreement_total_disagreement_is_zero_not_words() -> None:
    found = agreement([Layers(5, (A,), ())] * 4)
    assert found.entity_f1.value == 0.0 and found.entity_f1.undefined == ""


def test_agreement_refuses_spans_outside() -> None:
    with pytest.raises(BadInput, match="Sentence 1 of 1 tokens"):
        agreement([Layers(1, (A,), ())])
