"""Replace the spans of gold, the way every adjudication does: the previous version is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from crossner_core.errors import UnknownType
from crossner_core.schema import Span, check_spans
from db import annotation_rows
from db.engine import Session
from db.tables import Campaign, Task
from workbench.accounts.actors import Actor
from workbench.campaigns.domains import domain_of
from workbench.data.values import sentence_of
from workbench.labelling.items import layers_of
from workbench.labelling.saving import save
from workbench.labelling.steps import check_work, submit, take_up
from workbench.labelling.units import Unit, holds, linked
from workbench.labelling.work import Choice, WorkSpan, work_of


def change_gold(session: Session, campaign: Campaign, actor: Actor, task: Task, spans: Iterable[Span]) -> None:
    """Resubmit an adjudication with these spans; the caller has authorised the actor.

    Raises InvalidSpan or UnknownType for spans that the sentence or the campaign's domain does not allow.
    """
    row = annotation_rows.sentences_of_tasks(session, [task.id])[task.id]
    sentence = sentence_of(row)
    wanted = check_spans(sentence, spans)
    known = domain_of(campaign).type_names
    for span in wanted:
        if span.type not in known:
            raise UnknownType(f"The type {span.type!r} is not one of this campaign: {', '.join(known)}.")
    annotation = take_up(session, campaign, actor, task)
    before = work_of(annotation)
    kept = {item.span: item for item in before.spans}
    marked = tuple(
        kept.get(span) or WorkSpan(span.start, span.end, span.type, sentence.surface(span.start, span.end), "other")
        for span in wanted
    )
    work = replace(
        before,
        spans=marked,
        decisions=decisions(layers_of(session, [row.id])[row.id].units, [item.span for item in marked]),
        no_entities=not wanted,
    )
    check_work(session, task, work, submitting=True)
    save(session, annotation, work, task, revision=annotation.revision + 1, client=None)
    submit(session, campaign, actor, task, annotation, work)


def decisions(units: Sequence[Unit], spans: Sequence[Span]) -> tuple[Choice, ...]:
    """Return the choices about the annotators' units that these spans imply."""
    given = linked(spans)
    return tuple(Choice(number, _choice(unit, given)) for number, unit in enumerate(units))


def _choice(unit: Unit, given: Mapping[Span, str | None]) -> str:
    start, end = unit.extent
    for name, span in (("first", unit.first), ("second", unit.second)):
        if holds(given, span):
            return name
    touched = any(span.start < end and start < span.end for span in given)
    return "other" if touched else "none"
