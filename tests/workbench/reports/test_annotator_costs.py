"""Prices of an annotator's steps, fitted to seconds: made ones, and those of a campaign's logs."""

from __future__ import annotations

import numpy as np
import pytest

from crossner_core.errors import BadInput, NotAllowed
from crossner_core.simulation.costs import Observed, fit_costs
from db.engine import Store
from tests.support.builders import make_campaign, make_gold, make_people
from workbench.reports.annotator_costs import fitted_costs


def made(count: int, *, deleted: bool = True) -> list[Observed]:
    rng = np.random.default_rng(3)
    found = []
    for _ in range(count):
        tokens, kept, changed, added = (int(rng.integers(high)) for high in (40, 4, 3, 5))
        gone = int(rng.integers(3)) if deleted else 0
        seconds = 0.2 * tokens + 2 * kept + 4 * changed + 6 * added + 1 * gone
        found.append(Observed(tokens + 1, kept, changed, added, gone, seconds + 0.2 + float(rng.normal()) * 0.1))
    return found


def test_costs_are_found_again() -> None:
    fitted = fit_costs(made(200))
    prices = [getattr(fitted.options, f"seconds_{name}") for name in ("token", "kept", "changed", "added", "deleted")]
    assert prices == pytest.approx([0.2, 2, 4, 6, 1], abs=0.1)
    assert fitted.explained > 0.99 and fitted.seen == 200 and fitted.unseen == ()


def test_costs_of_what_never_happened_stay_as_published() -> None:
    fitted = fit_costs(made(100, deleted=False))
    assert fitted.unseen == ("seconds_deleted",) and fitted.options.seconds_deleted == 2.0


def test_costs_leave_out_sentences_that_lay_open() -> None:
    lay_open = [Observed(10, 0, 0, 1, 0, 10_000.0)] * 5
    assert fit_costs([*made(200), *lay_open]).seen == 200


def test_costs_need_enough_sentences_with_time() -> None:
    with pytest.raises(BadInput, match="3 sentences have active time; 20 are needed"):
        fit_costs([*made(3), *[Observed(9, 0, 0, 0, 0, 0.0)] * 50])


def test_costs_of_a_campaign_come_from_its_logs(store: Store) -> None:
    people = make_people(store)
    campaign_id = make_campaign(store, people)
    make_gold(store, people, campaign_id)
    with pytest.raises(BadInput, match="20 are needed"):
        fitted_costs(store, people["res"], campaign_id)
    with pytest.raises(NotAllowed):
        fitted_costs(store, people["ann1"], campaign_id)
