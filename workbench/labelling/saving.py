"""Write a person's work into the store; surfaces are asserted against the text once more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from crossner_core.errors import BadInput
from crossner_core.schema import Span
from db import annotation_rows
from db.engine import Session
from db.tables import Annotation, Task
from db.types import now
from workbench.labelling.items import layers_of
from workbench.labelling.units import Unit
from workbench.labelling.work import Work


def save(
    session: Session,
    annotation: Annotation,
    work: Work,
    task: Task,
    *,
    revision: int,
    client: str | None,
    filled: annotation_rows.Filled | None = None,
) -> frozenset[tuple[str, str]]:
    """Replace the annotation's content with the work, as a draft at this revision; `filled` as in `replace_parts`.

    Returns words and type of the spans that were proposed elsewhere until now.
    """
    units = layers_of(session, [task.sentence_id])[task.sentence_id].units if task.stage == "adjudicate" else ()
    proposed = annotation_rows.replace_parts(
        session,
        annotation,
        spans=[asdict(span) for span in work.spans],
        flags=[asdict(flag) for flag in work.flags],
        rejected=[asdict(rejected) for rejected in work.rejected],
        decisions=list(_decisions(work, units)),
        filled=filled,
    )
    annotation.no_entities, annotation.comment, annotation.example = work.no_entities, work.comment, work.example
    annotation.revision, annotation.client = revision, client
    annotation.state, annotation.updated_at, annotation.submitted_at = "draft", now(), None
    return proposed


def _listed(span: Span | None) -> list[Any] | None:
    """Return what a decision keeps of a span."""
    return [span.start, span.end, span.type, *([span.entity] if span.entity else [])] if span else None


def _decisions(work: Work, units: tuple[Unit, ...]) -> Iterator[dict[str, Any]]:
    """Return the decisions with the units they are about, as the server sees them."""
    for choice in work.decisions:
        if choice.unit >= len(units):
            raise BadInput(f"There is no unit {choice.unit}; this sentence has {len(units)}. Drop your changes.")
        unit = units[choice.unit]
        first, second = (_listed(span) for span in (unit.first, unit.second))
        yield {"unit": choice.unit, "kind": unit.kind, "choice": choice.choice, "first": first, "second": second}
