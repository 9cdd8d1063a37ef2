"""Learning curves: means over seeds on any axis, areas, and what a strategy saves against random."""

from __future__ import annotations

import pytest

from crossner_core.errors import BadInput
from crossner_core.evaluation.learning_curves import (
    RoundPoint,
    area,
    axes_of,
    common_range,
    mean_curve,
    reaches,
    saved_by_level,
    seconds_saved,
    summarise,
)


def line(
    strategy: str, seed: int, values: list[float], *, step: int = 10, tokens: int | None = None
) -> list[RoundPoint]:
    """Return rounds of so many sentences each with these F1."""
    return [
        RoundPoint(
            strategy,
            seed,
            number,
            step * number,
            f1,
            tokens=None if tokens is None else tokens * number,
            per_type={"band": f1 / 2},
        )
        for number, f1 in enumerate(values, start=1)
    ]


def test_mean_curve_has_mean_and_sample_deviation_of_the_seeds() -> None:
    points = line("random", 1, [0.2, 0.4]) + line("random", 2, [0.4, 0.8])
    first, last = mean_curve(points)
    assert (first.x, first.mean, first.n) == (10, pytest.approx(0.3), 2)
    assert (last.x, last.mean, last.sd) == (20, pytest.approx(0.6), pytest.approx(0.2828, abs=1e-4))
    assert mean_curve(points[:2])[0].sd is None
    assert mean_curve(points, type="band")[1].mean == pytest.approx(0.3)
    assert mean_curve(points, type="person") == () == mean_curve([])


def test_mean_curve_over_costs_that_differ_by_seed_stays_where_all_seeds_are() -> None:
    points = line("random", 1, [0.0, 0.5, 1.0], tokens=100) + line("random", 2, [0.0, 0.5, 1.0], tokens=200)
    curve = mean_curve(points, "tokens")
    assert [point.x for point in curve] == [200, 300]
    assert [point.mean for point in curve] == [pytest.approx((0.5 + 0.0) / 2), pytest.approx((1.0 + 0.25) / 2)]


def test_mean_curve_of_a_seed_with_fewer_rounds_ends_early() -> None:
    points = line("random", 1, [0.1, 0.2, 0.3]) + line("random", 2, [0.1, 0.2])
    assert [point.x for point in mean_curve(points)] == [10, 20]


def test_axes_are_those_that_every_round_has() -> None:
    points = line("random", 1, [0.1, 0.2], tokens=50)
    assert axes_of(points) == ("sentences", "tokens")
    assert axes_of(points + line("random", 2, [0.1])) == ("sentences",) and axes_of([]) == ()
    with pytest.raises(BadInput, match="seconds were not recorded"):
        mean_curve(points, "seconds")
    with pytest.raises(BadInput, match="'words'; choose one of sentences"):
        mean_curve(points, "words")
    with pytest.raises(BadInput, match="decrease"):
        mean_curve([*points[:1], RoundPoint("random", 1, 3, 5, 0.5)])


def test_mean_curve_takes_the_later_of_two_rounds_that_cost_the_same() -> None:
    points = [
        RoundPoint("random", 1, at, 10 * at, f1, entities=cost)
        for at, f1, cost in ((1, 0.2, 5), (2, 0.4, 5), (3, 0.6, 9))
    ]
    assert [(point.x, point.mean) for point in mean_curve(points, "entities")] == [(5, 0.4), (9, 0.6)]


def test_area_is_the_mean_height_over_a_range() -> None:
    points = line("random", 1, [0.0, 1.0])
    assert area(points, 10, 20) == (pytest.approx(0.5), None)
    assert area(points, 15, 20)[0] == pytest.approx(0.75)
    both = points + line("random", 2, [0.5, 0.5])
    assert area(both, 10, 20) == (pytest.approx(0.5), pytest.approx(0.0))
    with pytest.raises(BadInput, match="covers 10 to 20"):
        area(points, 5, 20)
    with pytest.raises(BadInput, match="no area"):
        area(points, 20, 20)


def test_reaches_is_on_the_straight_line_between_rounds() -> None:
    curve = mean_curve(line("random", 1, [0.2, 0.4, 0.3, 0.6]))
    assert reaches(curve, 0.3) == pytest.approx(15)
    assert reaches(curve, 0.6) == pytest.approx(40) and reaches(curve, 0.61) is None
    assert reaches(curve, 0.1) == 10 and reaches((), 0.1) is None
    assert reaches(curve, 0.6 + 1e-15) == pytest.approx(40)  # the same mean, added up in another order


def test_summary_says_what_a_strategy_saves_at_the_same_f1() -> None:
    points = line("random", 1, [0.2, 0.3, 0.4, 0.5]) + line("entropy", 1, [0.2, 0.5, 0.6, 0.7])
    best, usual = summarise(points)
    assert (best.strategy, best.f1, best.needs, best.saved) == ("entropy", 0.5, 20, 20)
    assert (usual.strategy, usual.needs, usual.saved) == ("random", 40, 0)
    assert best.area > usual.area == pytest.approx(0.35)
    (of_type, _) = summarise(points, type="band")
    assert (of_type.f1, of_type.saved, of_type.area) == (0.25, 20, pytest.approx(best.area / 2))
    with pytest.raises(BadInput, match="no scores of type 'person'"):
        summarise(points, type="person")
    saved = saved_by_level(mean_curve(points[4:]), mean_curve(points[:4]), levels=4)
    assert [round(f1, 2) for f1, _ in saved] == [0.2, 0.3, 0.4, 0.5]
    assert saved[-1][1] == pytest.approx(20) and all(value >= 0 for _, value in saved)
    assert saved_by_level((), mean_curve(points[:4])) == ()


def test_summary_of_a_strategy_that_never_gets_there_saves_nothing() -> None:
    rows = summarise(line("random", 1, [0.2, 0.5]) + line("length", 1, [0.1, 0.2]))
    assert [(row.strategy, row.needs, row.saved) for row in rows] == [("random", 20, 0), ("length", None, None)]


def test_summary_wants_the_baseline_and_a_range_in_common() -> None:
    with pytest.raises(BadInput, match=r"no strategy 'random'.*entropy"):
        summarise(line("entropy", 1, [0.1, 0.2]))
    apart = line("random", 1, [0.1, 0.2]) + line("entropy", 1, [0.1, 0.2], step=100)
    with pytest.raises(BadInput, match="no range of sentences in common"):
        summarise(apart)


def timed(strategy: str, price: float, values: list[float]) -> list[RoundPoint]:
    """Return rounds of twenty sentences each for two seeds; the second one's annotators need half the time."""
    return [
        RoundPoint(strategy, seed, at, 20 * at, f1, seconds=20 * at * price * pace)
        for seed, pace in ((1, 1.0), (2, 0.5))
        for at, f1 in enumerate(values, start=1)
    ]


def test_seconds_saved_are_for_the_f1_that_is_asked_over_sentences() -> None:
    points = timed("random", 10, [0.40, 0.50, 0.58, 0.60]) + timed("longest", 11, [0.47, 0.56, 0.59, 0.62])
    row = next(one for one in summarise(points) if one.strategy == "longest")
    assert (row.f1, row.needs) == (pytest.approx(0.6), pytest.approx(200 / 3))
    found = seconds_saved(points)
    assert found["longest"] == pytest.approx(80 * 7.5 - 200 / 3 * 8.25) == pytest.approx(50) and found["random"] == 0
    (of_seconds,) = (one for one in summarise(points, "seconds") if one.strategy == "longest")
    assert of_seconds.f1 == pytest.approx(0.55)  # the curves over seconds end where the quick seed does


def test_seconds_saved_are_below_zero_where_a_strategy_takes_longer_and_none_where_it_never_gets_there() -> None:
    usual = timed("random", 10, [0.40, 0.60])
    found = seconds_saved(usual + timed("dear", 20, [0.40, 0.60]) + timed("worse", 1, [0.10, 0.20]))
    assert found == {"random": 0, "dear": pytest.approx(-300), "worse": None}
    assert seconds_saved(line("random", 1, [0.2, 0.5]) + line("longest", 1, [0.2, 0.6]))["longest"] is None
    with pytest.raises(BadInput, match="no strategy 'random'"):
        seconds_saved(timed("longest", 1, [0.1, 0.2]))


def test_common_range_is_what_all_seeds_of_all_strategies_cover() -> None:
    points = line("random", 1, [0.1, 0.2, 0.3], tokens=5) + line("random", 2, [0.1, 0.2], tokens=7)
    points += line("longest", 1, [0.1, 0.2, 0.3, 0.4], tokens=4)
    assert common_range(points) == (10, 20) and common_range(points, "tokens") == (7, 14)
    with pytest.raises(BadInput, match="only 10 sentences in common, and an area needs a range"):
        common_range([*points, *line("once", 1, [0.5])])
    with pytest.raises(BadInput, match="no range of tokens in common: one begins at 50, one ends at 14"):
        common_range([*points, *line("dear", 1, [0.5, 0.6], tokens=50)], "tokens")
    with pytest.raises(BadInput, match="no curves over sentences"):
        common_range([])
