from __future__ import annotations

import pytest

from crossner_core.errors import InvalidConfig
from crossner_core.experiments.few_shot import PAPER_SIZES, aggregate, nested_subsets
from crossner_core.experiments.published import DOMAINS, PUBLISHED, PUBLISHED_TYPES, TRAIN_SENTENCES, published


def test_few_shot_subsets_are_nested_and_seeded() -> None:
    subsets = nested_subsets(120, PAPER_SIZES, 3)
    assert tuple(subsets.indices) == PAPER_SIZES and subsets.notes == ()
    former: set[int] = set()
    for size, indices in subsets.indices.items():
        assert len(set(indices)) == size and former < set(indices) and list(indices) == sorted(indices)
        former = set(indices)
    assert nested_subsets(120, PAPER_SIZES, 3) == subsets
    assert nested_subsets(120, PAPER_SIZES, 4) != subsets


def test_few_shot_sizes_are_capped_with_a_note() -> None:
    subsets = nested_subsets(30, [10, 25, 40, 100], 0)
    assert list(subsets.indices) == [10, 25, 30]
    assert subsets.notes == ("Only 30 training sentences are there: 40, 100 became one point at 30.",)


def test_few_shot_file_order_takes_the_first() -> None:
    assert nested_subsets(9, [2, 4], 0, order="file").indices == {2: (0, 1), 4: (0, 1, 2, 3)}


@pytest.mark.parametrize(
    ("total", "sizes", "order"), [(0, [1], "random"), (5, [], "random"), (5, [0], "file"), (5, [1], "x")]
)
def test_few_shot_refuses_what_makes_no_curve(total: int, sizes: list[int], order: str) -> None:
    with pytest.raises(InvalidConfig):
        nested_subsets(total, sizes, 0, order=order)


def test_few_shot_aggregate_mean_and_deviation() -> None:
    points = aggregate([(25, 0.5), (10, 0.2), (10, 0.4)])
    assert [(point.size, point.n, point.sd is None) for point in points] == [(10, 2, False), (25, 1, True)]
    assert points[0].mean == pytest.approx(0.3) and points[0].sd == pytest.approx(0.1414, abs=1e-4)


def test_published_rows_match_the_papers_averages() -> None:
    for setting, average in (("direct", 61.44), ("pretrain_finetune", 64.89), ("joint", 64.52)):
        rows = published(setting=setting, system="BERT-base")
        assert [row.domain for row in rows] == list(DOMAINS) == list(TRAIN_SENTENCES)
        assert sum(row.f1 for row in rows) / 5 == pytest.approx(average, abs=0.011)
    assert published(domain="music", setting="direct", system="BERT-base")[0].f1 == 66.59
    assert all(row.source and 0 < row.f1 < 100 for row in (*PUBLISHED, *PUBLISHED_TYPES))
