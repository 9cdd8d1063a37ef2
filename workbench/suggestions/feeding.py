"""When a new model suggests to annotators by itself: by its dev F1, its calibration, and the model before it."""

from __future__ import annotations

from crossner_core.calibration.model_scores import CalibrationReport
from crossner_core.errors import BadInput
from db import suggestion_rows
from db.engine import Session
from db.tables import Campaign
from db.training_tables import Run

_ASK = "It suggests only when asked to."


def held_back(session: Session, campaign: Campaign, run: Run) -> str:
    """Return why a run's suggestions wait until somebody asks for them; empty if they need not."""
    why = _below_floor(campaign, run) or _uncalibrated(campaign, run) or _no_better(session, campaign, run)
    return f"{why} {_ASK}" if why else ""


def _below_floor(campaign: Campaign, run: Run) -> str:
    if run.dev_f1 is None:
        return f"Run {run.id} has no dev F1 to go by." if campaign.model_floor else ""
    if run.dev_f1 >= campaign.model_floor:
        return ""
    return (
        f"Run {run.id} has a dev F1 of {_percent(run.dev_f1)}; models of this campaign suggest by themselves from "
        f"{_percent(campaign.model_floor)}."
    )


def _uncalibrated(campaign: Campaign, run: Run) -> str:
    """Return why a run's probabilities are not to be relied on; a model without them misleads whoever reads them.

    Of few spans the error comes out large even if the probabilities are right: such a model waits, too.
    """
    if campaign.model_error >= 1:
        return ""
    report = _report(run)
    if report is None:
        return f"Run {run.id} has probabilities that were not calibrated: there was no dev to fit them on."
    if not report.dev_spans:
        return f"Run {run.id} has probabilities that were not calibrated: it predicted nothing on dev."
    error, where = (
        (report.dev_error, "dev") if report.dev_error is not None else (report.calibrated.error, report.measured_on)
    )
    if error <= campaign.model_error:
        return ""
    return (
        f"Run {run.id} has a calibration error of {_percent(error)} on {where}, of {report.dev_spans} spans; models "
        f"of this campaign suggest by themselves up to {_percent(campaign.model_error)}."
    )


def _report(run: Run) -> CalibrationReport | None:
    """Return a run's calibration, None if it has none that can be read."""
    kept = (run.result or {}).get("calibration")
    try:
        return CalibrationReport.from_dict(kept) if kept else None
    except BadInput:  # a figure that was no number, or another version's
        return None


def _no_better(session: Session, campaign: Campaign, run: Run) -> str:
    shown = suggestion_rows.run_shown(session, campaign.id)
    if run.dev_f1 is None or shown is None or shown.id == run.id or shown.dev_f1 is None:
        return ""
    if run.dev_f1 >= shown.dev_f1 + campaign.model_gain:
        return ""
    least = f", and needs {_percent(campaign.model_gain)} more" if campaign.model_gain else ""
    return (
        f"Run {run.id} has a dev F1 of {_percent(run.dev_f1)}; that of run {shown.id}, which suggests now, is "
        f"{_percent(shown.dev_f1)}{least}."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
