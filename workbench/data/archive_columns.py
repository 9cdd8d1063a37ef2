"""Which columns of a campaign an archive carries, and how moments are written."""

from __future__ import annotations

import datetime as dt
from typing import Any

from workbench.campaigns.settings import names

FORMAT, VERSION = "crossner-campaign", 1
QUEUE = ("strategy", "random_share", "retrain_every", "turn_recipe")
SETTINGS = ("name", "domain_name", *names("rules", "new"), *QUEUE, "archived")
SENTENCE = (
    "external_id", "text", "tokens", "meta", "split", "position", "control", "blind", "chosen_by",
    "preannotated_at", "created_at",
)  # fmt: skip
TASK = ("stage", "state", "done_at", "created_at")
ANNOTATION = (
    "origin", "revision", "state", "no_entities", "comment", "skip_reason", "active_ms", "keystrokes", "created_at",
    "updated_at", "submitted_at",
)  # fmt: skip
PARTS: dict[str, tuple[str, ...]] = {
    "links": ("start", "end", "target"),
    "suggestions": ("start", "end", "type", "source", "score", "entity"),
    "spans": ("start", "end", "type", "surface", "origin"),
    "flags": ("start", "end", "type", "note"),
    "rejected": ("start", "end", "type", "source"),
    "decisions": ("unit", "kind", "choice", "first", "second"),
    "versions": ("revision", "work", "submitted_at"),
    "second_look": (
        "found_by", "kind", "start", "end", "there", "proposed", "score", "why", "other_there", "state", "decided_at",
    ),
}  # fmt: skip
MOMENTS = (
    "created_at",
    "updated_at",
    "submitted_at",
    "done_at",
    "preannotated_at",
    "asked_at",
    "closed_at",
    "answered_at",
    "decided_at",
)


def iso(moment: dt.datetime | None) -> str | None:
    """Write a moment as ISO 8601 in UTC."""
    return moment.astimezone(dt.UTC).isoformat() if moment is not None else None


def with_moments(values: dict[str, Any]) -> dict[str, Any]:
    """Read back the moments of a mapping; raise ValueError for one that is none."""
    return {key: _moment(value) if key in MOMENTS else value for key, value in values.items()}


def _moment(value: Any) -> dt.datetime | None:
    if value is None:
        return None
    moment = dt.datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError(f"the moment {value!r} has no zone")
    return moment
