from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from seqeval.metrics import f1_score
from seqeval.scheme import IOB2

from crossner_core.errors import BadInput
from crossner_core.evaluation.confusion import Confusion, confusion
from crossner_core.evaluation.scores import Scores, score_spans, score_tags, strict_spans
from crossner_core.schema import Span
from crossner_core.tags import spans_from_tags


def strict_f1(gold: list[list[str]], predicted: list[list[str]]) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(f1_score(gold, predicted, mode="strict", scheme=IOB2))


def default_f1(gold: list[list[str]], predicted: list[list[str]]) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(f1_score(gold, predicted))


def test_evaluation_scores_equal_conlleval_golden(shared: Path) -> None:
    golden = json.loads((shared / "golden" / "conlleval.json").read_text())
    scores = score_tags(golden["gold"], golden["pred"])
    assert 100 * scores.f1 == pytest.approx(golden["conlleval_percent"]["f1"], abs=1e-9)
    assert scores.strict_iob2.f1 == pytest.approx(strict_f1(golden["gold"], golden["pred"]))
    assert round(100 * scores.strict_iob2.f1, 2) == 73.94


def test_evaluation_scores_equal_seqeval_on_random_tags() -> None:
    rng = np.random.default_rng(4)
    tags = ["O", "B-a", "I-a", "B-b", "I-b"]
    for _ in range(50):
        gold = [[tags[at] for at in rng.integers(0, 5, 9)] for _ in range(6)]
        predicted = [[tags[at] for at in rng.integers(0, 5, 9)] for _ in range(6)]
        gold = [_valid(row) for row in gold]
        scores = score_tags(gold, predicted)
        assert scores.f1 == pytest.approx(default_f1(gold, predicted))
        assert scores.strict_iob2.f1 == pytest.approx(strict_f1(gold, predicted))


def _valid(tags: list[str]) -> list[str]:
    made = ["O"] * len(tags)
    for span in spans_from_tags(tags, strict=False):
        made[span.start : span.end] = [f"B-{span.type}"] + [f"I-{span.type}"] * (span.end - span.start - 1)
    return made


def test_evaluation_scores_per_type_with_support() -> None:
    gold = [["B-a", "I-a", "O", "B-b"], ["B-b", "O"]]
    predicted = [["B-a", "I-a", "O", "B-a"], ["B-b", "B-a"]]
    scores = score_tags(gold, predicted, types=("b", "c"))
    assert list(scores.per_type) == ["b", "c", "a"]
    assert (scores.per_type["b"].support, scores.per_type["b"].predicted, scores.per_type["b"].correct) == (2, 1, 1)
    assert scores.per_type["a"].precision == pytest.approx(1 / 3) and scores.per_type["a"].recall == 1.0
    assert scores.per_type["c"].f1 == 0.0
    assert (scores.precision, scores.recall) == (2 / 4, 2 / 3)
    assert Scores.from_dict(json.loads(json.dumps(scores.to_dict()))) == scores


def test_evaluation_scores_readings_differ_where_they_should() -> None:
    gold, predicted = [["B-a", "O"]], [["I-a", "O"]]
    scores = score_tags(gold, predicted)
    assert scores.f1 == 1.0 and scores.strict_iob2.f1 == 0.0
    assert strict_spans(["O", "I-a", "I-a", "B-a", "I-b"]) == (Span(3, 4, "a"),)


def test_evaluation_scores_of_nothing_are_zero() -> None:
    assert score_tags([], []).f1 == 0.0
    assert score_spans([()], [()]).f1 == 0.0


def test_evaluation_scores_refuse_unequal_lengths() -> None:
    with pytest.raises(BadInput, match="1 gold sentences but 2"):
        score_tags([["O"]], [["O"], ["O"]])
    with pytest.raises(BadInput, match="Sentence 1 has 1 gold tags but 2"):
        score_tags([["O"]], [["O", "O"]])


def test_evaluation_confusion_counts_each_kind() -> None:
    gold = [(Span(0, 2, "person"), Span(3, 5, "band"), Span(6, 7, "song"), Span(8, 9, "song"))]
    predicted = [(Span(0, 2, "artist"), Span(3, 4, "band"), Span(8, 9, "song"), Span(10, 11, "band"))]
    found = confusion(gold, predicted, types=("person", "artist"))
    assert found.types == ("person", "artist", "band", "song")
    assert found.count("person", "artist") == 1 and found.count("song", "song") == 1
    assert (found.boundary, found.missed, found.spurious) == ({"band": 1}, {"song": 1}, {"band": 1})
    assert found.worst() == [("person", "artist", 1)]
    assert Confusion.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    renamed = found.renamed({"artist": "musical artist"})
    assert renamed.types == tuple("musical artist" if name == "artist" else name for name in found.types)
    assert renamed.count("person", "musical artist") == found.count("person", "artist")
    assert renamed.renamed({"musical artist": "artist"}) == found


def test_evaluation_confusion_rows_add_up_to_support() -> None:
    rng = np.random.default_rng(2)
    rows = [[_spans(rng) for _ in range(30)] for _ in range(2)]
    found = confusion(*rows)
    for name in found.types:
        support = sum(span.type == name for spans in rows[0] for span in spans)
        row = sum(found.matrix.get(name, {}).values()) + found.boundary.get(name, 0) + found.missed.get(name, 0)
        assert row == support


def _spans(rng: np.random.Generator) -> tuple[Span, ...]:
    cuts = sorted(rng.choice(20, size=6, replace=False).tolist())
    return tuple(Span(cuts[at], cuts[at + 1], "abc"[int(rng.integers(3))]) for at in (0, 2, 4))
