"""What annotation steps cost in this campaign, fitted to its logs, and what suggestions saved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from crossner_core.errors import BadInput
from crossner_core.simulation.annotators import AnnotatorOptions
from crossner_core.simulation.costs import Fitted, Observed, fit_costs
from db import layer_rows
from db.engine import Session, Store
from db.tables import Annotation, SentenceRow
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import OVERSEERS

_KEPT, _CHANGED = ("accepted", "kept", "identical"), ("retyped", "moved")


@dataclass(frozen=True, slots=True)
class Saved:
    """Annotators' active hours on submitted sentences, and what suggestions saved at the campaign's own prices.

    `from_scratch` is what the same entities would have taken without suggestions, `with_them` what they took, both by
    the fitted prices; `spent` is what the clock said.
    """

    spent: float
    with_them: float
    from_scratch: float
    sentences: int
    fitted: Fitted

    @property
    def hours(self) -> float:
        """Hours that suggestions saved; below zero if they cost more than they saved."""
        return self.from_scratch - self.with_them


def fitted_costs(store: Store, actor: Actor, campaign_id: int) -> Fitted:
    """Fit prices of steps to the submitted sentences of annotator 1; raise BadInput where there are too few."""
    return fit_costs(_seen(store, actor, campaign_id))


def saved_by_suggestions(store: Store, actor: Actor, campaign_id: int) -> Saved:
    """Return what suggestions saved annotator 1; raise BadInput if too few sentences show what a step costs."""
    return saved(_seen(store, actor, campaign_id))


def saved(observed: Sequence[Observed]) -> Saved:
    """Return what suggestions saved in these sentences; raise BadInput if they are too few to tell."""
    fit = fit_costs(observed)
    prices = fit.options
    with_them = sum(prices.seconds(**_steps(seen)) for seen in observed)
    bare = sum(prices.seconds(tokens=seen.tokens, added=seen.kept + seen.changed + seen.added) for seen in observed)
    spent = sum(seen.seconds for seen in observed)
    return Saved(spent / 3600, with_them / 3600, bare / 3600, len(observed), fit)


def costs_in(session: Session, campaign_id: int) -> tuple[AnnotatorOptions, int]:
    """Return a campaign's prices and how many sentences they are fitted to; 0 for published ones, if too few tell."""
    try:
        fit = fit_costs(_observations(session, campaign_id))
    except BadInput:
        return AnnotatorOptions(), 0
    return fit.options, fit.seen


def _seen(store: Store, actor: Actor, campaign_id: int) -> list[Observed]:
    require(actor, *OVERSEERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *OVERSEERS)
        return _observations(session, campaign_id)


def _observations(session: Session, campaign_id: int) -> list[Observed]:
    submitted = layer_rows.submitted(session, campaign_id, "annotate")
    return [_observed(row, work) for row, work in submitted if work.origin == "person"]


def _steps(seen: Observed) -> dict[str, int]:
    return {name: getattr(seen, name) for name in ("tokens", "kept", "changed", "added", "deleted")}


def _observed(row: SentenceRow, work: Annotation) -> Observed:
    origins = Counter(span.origin for span in work.spans)
    kept, changed = sum(origins[name] for name in _KEPT), sum(origins[name] for name in _CHANGED)
    added = len(work.spans) - kept - changed
    return Observed(len(row.tokens), kept, changed, added, len(work.rejected), work.active_ms / 1000)
