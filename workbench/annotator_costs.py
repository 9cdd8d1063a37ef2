"""What the steps of this campaign's annotators cost, from their own logs: for simulated campaigns."""

from __future__ import annotations

from collections import Counter

from crossner_core.simulation.costs import Fitted, Observed, fit_costs
from db import layer_rows
from db.engine import Store
from db.tables import Annotation, SentenceRow
from workbench.access import OVERSEERS, enter
from workbench.actors import Actor, require

_KEPT, _CHANGED = ("accepted", "kept"), ("retyped", "moved")


def fitted_costs(store: Store, actor: Actor, campaign_id: int) -> Fitted:
    """Fit prices of steps to the submitted sentences of annotator 1; raise BadInput where there are too few."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *OVERSEERS)
        submitted = layer_rows.submitted(session, campaign_id, "annotate")
        observed = [_observed(row, work) for row, work in submitted if work.origin == "person"]
    return fit_costs(observed)


def _observed(row: SentenceRow, work: Annotation) -> Observed:
    origins = Counter(span.origin for span in work.spans)
    kept, changed = sum(origins[name] for name in _KEPT), sum(origins[name] for name in _CHANGED)
    added = len(work.spans) - kept - changed
    return Observed(len(row.tokens), kept, changed, added, len(work.rejected), work.active_ms / 1000)
