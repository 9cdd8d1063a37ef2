"""What the span editor shows of a task: the sentence, suggestions, the work of others, and the actor's own so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crossner_core.records import to_json
from crossner_core.schema import Span
from db import annotation_rows, question_rows
from db.engine import Session
from db.tables import Annotation, Campaign, LinkRow, SentenceRow, SuggestionRow
from workbench.accounts.actors import Actor
from workbench.campaigns.domains import domain_of
from workbench.data.values import spans_of
from workbench.labelling import confirming
from workbench.labelling.context import origin_of
from workbench.labelling.units import Unit, units
from workbench.labelling.work import Flag, work_of
from workbench.suggestions.proposing import proposals_json, weights_of


@dataclass(frozen=True, slots=True)
class Layers:
    """Work of annotators 1 and 2 submitted for a sentence; imported gold stands in for both if nobody annotated."""

    first: Annotation | None
    second: Annotation | None
    imported: Annotation | None

    @property
    def spans(self) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
        if self.first is None and self.second is None:
            gold = spans_of(self.imported)
            return gold, gold
        return spans_of(self.first), spans_of(self.second)

    @property
    def units(self) -> tuple[Unit, ...]:
        """What the expert decides, one by one."""
        flags = [Flag(row.start, row.end, row.type, row.note) for row in self.second.flags] if self.second else []
        return units(*self.spans, flags)


def layers_of(session: Session, sentence_ids: Sequence[int]) -> dict[int, Layers]:
    """Return the annotators' layers by sentence id."""
    first = annotation_rows.submitted(session, sentence_ids, "annotate")
    second = annotation_rows.submitted(session, sentence_ids, "check")
    imported = annotation_rows.imported(session, [id_ for id_ in sentence_ids if id_ not in first])
    return {id_: Layers(first.get(id_), second.get(id_), imported.get(id_)) for id_ in sentence_ids}


def build(
    session: Session, actor: Actor, campaign: Campaign, stage: str, task_ids: Sequence[int]
) -> tuple[dict[str, Any], ...]:
    """Return the items of these tasks, in their order, as the editor's JSON."""
    if not task_ids:
        return ()
    sentences = annotation_rows.sentences_of_tasks(session, task_ids)
    ids = [sentences[task_id].id for task_id in task_ids]
    links = annotation_rows.links_of(session, ids)
    shown = {row.id for row in sentences.values() if campaign.suggestions_on and not _shows_none(stage, row)}
    wanted = [id_ for id_ in ids if stage != "annotate" or id_ in shown]
    suggestions = annotation_rows.suggestions_of(session, wanted) if wanted else {}
    weights, types = weights_of(campaign), set(domain_of(campaign).type_names)
    layers = layers_of(session, ids) if stage != "annotate" else {}
    mine = annotation_rows.mine(session, task_ids, user_id=actor.id)
    notes = _notes(session, stage, task_ids, sentences, layers)
    made = []
    for task_id in task_ids:
        row, work = sentences[task_id], mine.get(task_id)
        # A changed domain may lack the type of an older suggestion: if accepted, it could not be saved.
        behind = suggestions.get(row.id, ())
        known = [suggestion for suggestion in behind if suggestion.type in types] if row.id in shown else []
        proposed = proposals_json(known, weights, campaign.hint_below)
        item = _sentence_json(task_id, row, links.get(row.id, []), proposed)
        item["suggestions"] = proposed if stage == "annotate" else []
        item |= _stage_json(stage, row, layers.get(row.id))
        if stage == "adjudicate" or item["first"] is not None:
            item["provenance"] = _provenance(session, campaign, stage, row, layers[row.id], behind)
        item |= {"revision": work.revision if work else 0, "work": to_json(work_of(work)) if work else None}
        made.append(item | {"notes": notes[task_id]})
    return tuple(made)


def _shows_none(stage: str, row: SentenceRow) -> bool:
    """Tell whether a sentence is labelled without help from machines: a control, or a blind check."""
    return row.control or (stage == "check" and row.blind)


def _sentence_json(
    task_id: int, row: SentenceRow, links: Sequence[LinkRow], proposed: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return a sentence with its links, each with the type that is likeliest for exactly its tokens, or None.

    Of the proposals for the same tokens the likeliest is first.
    """
    types = {(proposal["start"], proposal["end"]): proposal["type"] for proposal in reversed(proposed)}
    return {
        "task": task_id,
        "sentence": row.id,
        "text": row.text,
        "tokens": row.tokens,
        "links": [
            {"start": link.start, "end": link.end, "target": link.target, "type": types.get((link.start, link.end))}
            for link in links
        ],
        "origin": to_json(origin_of(row)),
    }


def _stage_json(stage: str, row: SentenceRow, layers: Layers | None) -> dict[str, Any]:
    """Return the work of others, as far as this stage may see it: a blind check sees nothing."""
    blind = stage == "check" and row.blind
    seen: dict[str, Any] = {"first": None, "units": None, "blind": blind}
    if stage == "check" and layers and not blind:
        seen["first"] = to_json(layers.spans[0])
    if stage == "adjudicate" and layers:
        seen["units"] = to_json(layers.units)
    return seen


def _provenance(
    session: Session,
    campaign: Campaign,
    stage: str,
    row: SentenceRow,
    layers: Layers,
    suggestions: Sequence[SuggestionRow],
) -> list[dict[str, Any]]:
    """Return how the annotators' spans came about, and why annotator 2 has to confirm some."""
    proposals = confirming.proposals_of(campaign, suggestions)
    reasons = {} if row.blind else confirming.to_confirm(session, campaign, row, layers.first, proposals)
    shown = campaign.suggestions_on and not row.control
    seen = ((1, layers.first), (2, layers.second if stage == "adjudicate" else None))
    return confirming.provenance(row, seen, proposals, reasons, shown=shown)


def _notes(
    session: Session,
    stage: str,
    task_ids: Sequence[int],
    sentences: dict[int, SentenceRow],
    layers: dict[int, Layers],
) -> dict[int, list[dict[str, str]]]:
    """Return comments, reasons of skips, questions and answers to show read-only, by task id."""
    notes: dict[int, list[dict[str, str]]] = {task_id: [] for task_id in task_ids}
    for task_id in task_ids:
        row = sentences[task_id]
        layer = layers.get(row.id)
        if layer is not None and not (stage == "check" and row.blind):
            for who, annotation in (("annotator 1", layer.first), ("annotator 2", layer.second)):
                if annotation is not None and annotation.comment and (stage, who) != ("check", "annotator 2"):
                    notes[task_id].append({"who": who, "text": annotation.comment})
    for task_id, _, reason in annotation_rows.skips(session, task_ids):
        notes[task_id].append({"who": "skipped", "text": reason})
    if stage == "adjudicate":
        for question, asker, answers in question_rows.of_tasks(session, task_ids):
            notes[question.task_id].append({"who": f"question of {asker.display_name}", "text": question.text})
            for answer, person in answers:
                notes[question.task_id].append({"who": f"answer of {person.display_name}", "text": answer.text})
    return notes
