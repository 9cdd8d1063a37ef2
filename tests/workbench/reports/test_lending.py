"""How many sentences other campaigns saved, read off the curves of methods without them."""

from __future__ import annotations

import pytest

from crossner_core.evaluation.learning_curves import reaches
from db.training_tables import Run
from workbench.reports.lending import Saved, _curve, _saved

CURVE = _curve({(10, 1): 0.2, (20, 1): 0.4, (20, 2): 0.6, (40, 1): 0.7})


@pytest.mark.parametrize(("goal", "size"), [(0.1, 10), (0.2, 10), (0.35, 15), (0.5, 20), (0.6, 30), (0.71, None)])
def test_a_curve_is_read_between_its_points(goal: float, size: float | None) -> None:
    assert reaches(CURVE, goal) == (None if size is None else pytest.approx(size))


def _run(size: int, f1: float | None, *, source: str = "conll2003", setting: str = "direct") -> Run:
    return Run(size=size, seed=1, test_f1=f1, dev_f1=f1, recipe={"setting": setting, "source": source})


def test_the_best_method_without_other_campaigns_is_what_counts() -> None:
    lending = _run(10, 0.6, source="snapshot:abc", setting="pretrain_finetune")
    plain = [_run(10, 0.2), _run(20, 0.4), _run(40, 0.6)]
    better = [_run(10, 0.3, setting="joint"), _run(20, 0.5, setting="joint"), _run(30, 0.7, setting="joint")]
    assert _saved(lending, [lending, *plain]) == Saved(30)
    assert _saved(lending, [lending, *plain, *better]) == Saved(15)
    assert _saved(lending, [*plain[:2], *better[:2]]) == Saved(10, at_least=True)
    assert _saved(lending, [lending, plain[0], better[0]]) is None
    assert _saved(_run(50, 0.2, source="snapshot:abc"), plain) == Saved(0)
    assert _saved(_run(50, 0.9, source="snapshot:abc"), plain) is None  # no curve is long enough
    zero_shot = [_run(10, 0.9, setting="source_only"), _run(20, 0.9, setting="source_only")]
    assert _saved(lending, [lending, *plain, *zero_shot]) == Saved(30)
    unused = [_run(10, 0.6, source="snapshot:abc"), _run(20, 0.6, source="snapshot:abc")]  # direct reads no source
    assert _saved(lending, unused) == Saved(0)
