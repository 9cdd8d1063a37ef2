"""When a new model suggests to annotators by itself: from a dev F1, and if it is no worse than the one before."""

from __future__ import annotations

from db import suggestion_rows
from db.engine import Session
from db.tables import Campaign
from db.training_tables import Run


def held_back(session: Session, campaign: Campaign, run: Run) -> str:
    """Return why a run's suggestions wait until somebody asks for them; empty if they need not."""
    ask = "It suggests only when asked to."
    if run.dev_f1 is None:
        return f"Run {run.id} has no dev F1 to go by. {ask}" if campaign.model_floor else ""
    if run.dev_f1 < campaign.model_floor:
        return (
            f"Run {run.id} has a dev F1 of {_percent(run.dev_f1)}; models of this campaign suggest by themselves from "
            f"{_percent(campaign.model_floor)}. {ask}"
        )
    shown = suggestion_rows.run_shown(session, campaign.id)
    if shown is None or shown.id == run.id or shown.dev_f1 is None:
        return ""
    if run.dev_f1 >= shown.dev_f1 + campaign.model_gain:
        return ""
    least = f", and needs {_percent(campaign.model_gain)} more" if campaign.model_gain else ""
    return (
        f"Run {run.id} has a dev F1 of {_percent(run.dev_f1)}; that of run {shown.id}, which suggests now, is "
        f"{_percent(shown.dev_f1)}{least}. {ask}"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
