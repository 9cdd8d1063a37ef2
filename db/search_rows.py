"""Rows for searching a campaign's sentences, as far as the person who searches may see the work of others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import aliased

from db.browse_rows import PLACE
from db.engine import Session
from db.tables import Annotation, FlagRow, SentenceRow, SpanRow, SuggestionRow, Task

DISAGREEMENTS = ("any", "type", "boundary", "first", "second", "flagged")
"""How annotators 1 and 2 may differ: at all, other types for the same tokens, overlapping spans with other bounds, a
span that only the first or only the second has, or a span of the first that the second flagged."""
SUGGESTIONS = "suggestions"
_STAGES = {"first": "annotate", "second": "check", "gold": "adjudicate"}
LAYERS = (*_STAGES, SUGGESTIONS)
_CHUNK, _FEW = 500, 5_000


@dataclass(frozen=True, slots=True)
class Sight:
    """Whose eyes look: everything, or only gold, what the expert may settle (`settles`), and the person's own work."""

    user_id: int
    everything: bool = False
    settles: bool = False
    suggestions: bool = True


@dataclass(frozen=True, slots=True)
class Wanted:
    """The conditions of a search; what is empty does not narrow it. `kind` is an entity type."""

    text: str = ""
    place: str | None = None
    split: str | None = None
    kind: str | None = None
    layer: str | None = None
    source: str | None = None
    differ: str | None = None


def count(session: Session, campaign_id: int, wanted: Wanted, sight: Sight) -> int:
    """Return how many sentences match."""
    query = sa.select(sa.func.count()).select_from(SentenceRow)
    return session.scalar(query.where(*_conditions(campaign_id, wanted, sight))) or 0


def ids(
    session: Session, campaign_id: int, wanted: Wanted, sight: Sight, *, offset: int = 0, limit: int | None = None
) -> list[int]:
    """Return the ids of sentences that match, in the order of the queue."""
    query = sa.select(SentenceRow.id).where(*_conditions(campaign_id, wanted, sight))
    return list(session.scalars(query.order_by(SentenceRow.position, SentenceRow.id).offset(offset).limit(limit)))


def ids_among(session: Session, campaign_id: int, wanted: Wanted, sight: Sight, among: Collection[int]) -> list[int]:
    """Like `ids`, of these sentences alone."""
    if len(among) > _FEW:
        return [id_ for id_ in ids(session, campaign_id, wanted, sight) if id_ in among]
    some, places = list(among), list[tuple[float, int]]()
    for first in range(0, len(some), _CHUNK):
        query = sa.select(SentenceRow.position, SentenceRow.id).where(*_conditions(campaign_id, wanted, sight))
        query = query.where(SentenceRow.id.in_(some[first : first + _CHUNK]))
        places += [(position, id_) for position, id_ in session.execute(query)]
    return [id_ for _, id_ in sorted(places)]


def sentences(session: Session, sentence_ids: Sequence[int]) -> list[tuple[SentenceRow, str]]:
    """Return these sentences with the place of each, in the order of the ids."""
    rows: dict[int, tuple[SentenceRow, str]] = {}
    for first in range(0, len(sentence_ids), _CHUNK):
        query = sa.select(SentenceRow, PLACE).where(SentenceRow.id.in_(sentence_ids[first : first + _CHUNK]))
        rows |= {row.id: (row, place) for row, place in session.execute(query)}
    return [rows[id_] for id_ in sentence_ids if id_ in rows]


def text_state(session: Session, campaign_id: int) -> tuple[int, int]:
    """Return the number of sentences and the highest id: as texts never change, they name the campaign's texts."""
    query = sa.select(sa.func.count(), sa.func.coalesce(sa.func.max(SentenceRow.id), 0))
    number, last = session.execute(query.where(SentenceRow.campaign_id == campaign_id)).one()
    return int(number), int(last)


def texts(session: Session, campaign_id: int) -> tuple[list[int], list[str]]:
    """Return the ids and the texts of a campaign's sentences."""
    rows = session.execute(sa.select(SentenceRow.id, SentenceRow.text).where(SentenceRow.campaign_id == campaign_id))
    pairs = [(id_, text) for id_, text in rows]
    return [id_ for id_, _ in pairs], [text for _, text in pairs]


def suggestions(session: Session, sentence_ids: Collection[int]) -> dict[int, list[SuggestionRow]]:
    """Return the suggestions by sentence id."""
    ids_, by_sentence = list(sentence_ids), dict[int, list[SuggestionRow]]()
    for first in range(0, len(ids_), _CHUNK):
        query = sa.select(SuggestionRow).where(SuggestionRow.sentence_id.in_(ids_[first : first + _CHUNK]))
        for row in session.scalars(query):
            by_sentence.setdefault(row.sentence_id, []).append(row)
    return by_sentence


def _conditions(campaign_id: int, wanted: Wanted, sight: Sight) -> list[sa.ColumnElement[bool]]:
    conditions = [SentenceRow.campaign_id == campaign_id]
    if wanted.place is not None:
        conditions.append(PLACE.in_([wanted.place]))
    if wanted.split is not None:
        conditions.append(SentenceRow.split == wanted.split)
    if wanted.text:
        columns = (SentenceRow.text, SentenceRow.external_id)
        conditions.append(sa.or_(*(column.icontains(wanted.text, autoescape=True) for column in columns)))
    if wanted.source is not None:
        of_type = wanted.kind if wanted.layer in (None, SUGGESTIONS) else None
        conditions.append(_suggested(campaign_id, sight, kind=of_type, source=wanted.source))
    if wanted.layer is not None or (wanted.kind is not None and wanted.source is None):
        conditions.append(_marked(campaign_id, wanted, sight))
    if wanted.differ is not None:
        conditions.append(SentenceRow.id.in_(_differing(campaign_id, wanted.differ, sight)))
    return conditions


def _marked(campaign_id: int, wanted: Wanted, sight: Sight) -> sa.ColumnElement[bool]:
    """Return the condition that a layer, or any, has a span (of the type, if one is wanted)."""
    ways = []
    if wanted.layer in (None, SUGGESTIONS):
        ways.append(_suggested(campaign_id, sight, kind=wanted.kind))
    if wanted.layer != SUGGESTIONS:
        stages = [_STAGES[wanted.layer]] if wanted.layer else list(_STAGES.values())
        query = sa.select(Task.sentence_id).join(Annotation, Annotation.task_id == Task.id)
        query = query.join(SpanRow, SpanRow.annotation_id == Annotation.id).where(
            Task.campaign_id == campaign_id, Task.stage.in_(stages), *_stands(Task, Annotation), _seen(sight)
        )
        if wanted.kind is not None:
            query = query.where(SpanRow.type == wanted.kind)
        ways.append(SentenceRow.id.in_(query))
    return sa.or_(*ways)


def _suggested(
    campaign_id: int, sight: Sight, *, kind: str | None = None, source: str | None = None
) -> sa.ColumnElement[bool]:
    """Return the condition that there is a suggestion; those withheld from annotators are so here, too."""
    if not (sight.everything or sight.suggestions):
        return sa.false()
    query = sa.select(SuggestionRow.sentence_id).join(SentenceRow, SentenceRow.id == SuggestionRow.sentence_id)
    query = query.where(SentenceRow.campaign_id == campaign_id)
    if kind is not None:
        query = query.where(SuggestionRow.type == kind)
    if source is not None:
        among = SuggestionRow.source.startswith(f"{source}:", autoescape=True)
        query = query.where(sa.or_(SuggestionRow.source == source, among))
    if not sight.everything:
        query = query.where(SentenceRow.control.is_(False))
    return SentenceRow.id.in_(query)


def _stands(task: Any, annotation: Any) -> tuple[sa.ColumnElement[bool], ...]:
    return task.state == "done", annotation.state == "submitted"


def _seen(sight: Sight) -> sa.ColumnElement[bool]:
    """Return the condition that the person may see an annotation, for a query over tasks and annotations."""
    if sight.everything:
        return sa.true()
    ways = [Annotation.user_id == sight.user_id, Task.stage == "adjudicate"]
    if sight.settles:
        ways.append(_to_settle(Task.sentence_id, sight.user_id))
    return sa.or_(*ways)


def _to_settle(sentence_id: Any, user_id: int) -> sa.ColumnElement[bool]:
    """Return the condition that a sentence is gold, or waits for the expert who worked on it at no other stage."""
    last, other, work = aliased(Task), aliased(Task), aliased(Annotation)
    own = sa.exists().where(
        other.sentence_id == last.sentence_id,
        other.stage != "adjudicate",
        work.task_id == other.id,
        work.user_id == user_id,
        work.state != "skipped",
    )
    reached = (last.sentence_id == sentence_id, last.stage == "adjudicate")
    return sa.exists().where(*reached, sa.or_(last.state == "done", ~own))


def _differing(campaign_id: int, differ: str, sight: Sight) -> sa.Select[int]:
    """Return the ids of sentences in which annotators 1 and 2 differ in this way, by their submitted spans."""
    tasks, works = (aliased(Task), aliased(Task)), (aliased(Annotation), aliased(Annotation))
    query = sa.select(tasks[0].sentence_id).join(works[0], works[0].task_id == tasks[0].id)
    query = query.join(tasks[1], tasks[1].sentence_id == tasks[0].sentence_id)
    query = query.join(works[1], works[1].task_id == tasks[1].id)
    query = query.where(
        tasks[0].campaign_id == campaign_id, tasks[0].stage == "annotate", tasks[1].stage == "check",
        *_stands(tasks[0], works[0]), *_stands(tasks[1], works[1]), _difference(differ, works[0].id, works[1].id),
    )  # fmt: skip
    return query if sight.everything else query.where(_to_settle(tasks[0].sentence_id, sight.user_id))


def _difference(differ: str, first_id: Any, second_id: Any) -> sa.ColumnElement[bool]:
    a, b = aliased(SpanRow), aliased(SpanRow)
    same_place = sa.and_(a.start == b.start, a.end == b.end)
    overlap = sa.and_(a.start < b.end, b.start < a.end)
    both = (a.annotation_id == first_id, b.annotation_id == second_id)
    flagged = sa.exists().where(FlagRow.annotation_id == second_id)
    if differ == "type":
        return sa.exists().where(*both, same_place, a.type != b.type)
    if differ == "boundary":
        return sa.exists().where(*both, overlap, ~same_place)
    if differ == "first":
        return _alone(first_id, second_id, a, b, overlap)
    if differ == "second":
        return _alone(second_id, first_id, b, a, overlap)
    if differ == "flagged":
        return flagged
    same = sa.and_(same_place, a.type == b.type)
    return sa.or_(_alone(first_id, second_id, a, b, same), _alone(second_id, first_id, b, a, same), flagged)


def _alone(own_id: Any, other_id: Any, own: Any, other: Any, like: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """Return the condition that one has a span and the other none like it."""
    alike = sa.select(sa.literal(1)).select_from(other).where(other.annotation_id == other_id, like)
    without = ~alike.correlate_except(other).exists()
    return (
        sa.select(sa.literal(1))
        .select_from(own)
        .where(own.annotation_id == own_id, without)
        .correlate_except(own)
        .exists()
    )
