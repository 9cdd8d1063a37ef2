"""Rows of suggestions, of cached answers of endpoints, and of what may be spent at outside models."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa

from db.campaign_rows import ids_not_begun, sentences_not_begun
from db.engine import Session, upsert
from db.tables import Annotation, Campaign, OutsideAllowance, SentenceRow, SpanRow, SparqlCache, SuggestionRow, Task
from db.training_tables import Run
from db.types import now

_CHUNK = 400
_Query = TypeVar("_Query", bound=sa.Select[*tuple[Any, ...]])


def not_preannotated(session: Session, campaign_id: int) -> list[SentenceRow]:
    """Return the sentences to pre-annotate: not fully pre-annotated yet, and begun by nobody."""
    rows = [row for row in sentences_not_begun(session, campaign_id, "annotate") if row.preannotated_at is None]
    return sorted(rows, key=lambda row: (row.position, row.id))


def next_to_annotate(session: Session, campaign_id: int) -> list[SentenceRow]:
    """Return the sentences that nobody has begun to annotate and that have no gold, in the order of the queue."""
    gold = set(ids_with_gold(session, campaign_id))
    rows = [row for row in sentences_not_begun(session, campaign_id, "annotate") if row.id not in gold]
    return sorted(rows, key=lambda row: (row.position, row.id))


def awaits_model(session: Session, campaign_id: int) -> bool:
    """Return whether anybody would see a model's suggestions: the campaign is open and has sentences to annotate."""
    campaign = session.get(Campaign, campaign_id)
    wants = campaign is not None and campaign.suggestions_on and not campaign.archived
    return wants and bool(next_to_annotate(session, campaign_id))


def still_open(session: Session, campaign_id: int, sentence_ids: Collection[int]) -> set[int]:
    """Return the ids of those sentences that nobody has begun to annotate."""
    return ids_not_begun(session, campaign_id, "annotate", sentence_ids)


def run_shown(session: Session, campaign_id: int) -> Run | None:
    """Return the newest run whose suggestions lie in sentences of the campaign."""
    query = sa.select(sa.func.max(SuggestionRow.run_id)).join(SentenceRow, SentenceRow.id == SuggestionRow.sentence_id)
    run_id = session.scalar(query.where(SentenceRow.campaign_id == campaign_id))
    return None if run_id is None else session.get(Run, run_id)


def ids_with_gold(session: Session, campaign_id: int) -> list[int]:
    """Return the ids of a campaign's sentences with gold."""
    return list(session.scalars(_with_gold(sa.select(Task.sentence_id), campaign_id)))


def ids_to_learn_from(session: Session, campaign_id: int) -> list[int]:
    """Return the ids of the sentences with gold outside test."""
    return list(session.scalars(_but_test(_with_gold(sa.select(Task.sentence_id), campaign_id))))


def gold_spans(session: Session, campaign_id: int) -> list[tuple[int, int, int, str]]:
    """Return sentence, start, end and type of every span of a campaign's gold outside test."""
    columns = (SpanRow.start, SpanRow.end, SpanRow.type)
    query = _but_test(_with_gold(sa.select(Task.sentence_id, *columns), campaign_id))
    query = query.join(SpanRow, SpanRow.annotation_id == Annotation.id)
    return [(id_, start, end, kind) for id_, start, end, kind in session.execute(query)]


def suggested_in_gold(session: Session, campaign_id: int) -> list[tuple[int, int, int, str, str, float]]:
    """Return sentence, start, end, type, source and score of every suggestion in a sentence with gold outside test."""
    columns = (SuggestionRow.start, SuggestionRow.end, SuggestionRow.type, SuggestionRow.source, SuggestionRow.score)
    query = _but_test(_with_gold(sa.select(Task.sentence_id, *columns), campaign_id))
    query = query.join(SuggestionRow, SuggestionRow.sentence_id == Task.sentence_id)
    return [(id_, a, b, kind, source, score) for id_, a, b, kind, source, score in session.execute(query)]


def _with_gold(query: _Query, campaign_id: int) -> _Query:
    """Restrict a query over tasks to those whose adjudication is gold."""
    return query.join(Annotation, Annotation.task_id == Task.id).where(
        Task.campaign_id == campaign_id,
        Task.stage == "adjudicate",
        Task.state == "done",
        Annotation.state == "submitted",
    )


def _but_test(query: _Query) -> _Query:
    """Restrict a query over tasks to sentences outside test."""
    return query.join(SentenceRow, SentenceRow.id == Task.sentence_id).where(SentenceRow.split != "test")


def replace_suggestions(
    session: Session, sentence_ids: Collection[int], rows: Sequence[Mapping[str, Any]], *, kinds: Collection[str]
) -> None:
    """Replace these sentences' suggestions of some kinds (`source` up to a `:`) or whole sources with these rows."""
    ids = list(sentence_ids)
    theirs = sa.or_(
        SuggestionRow.source.in_(list(kinds)),
        *(SuggestionRow.source.startswith(f"{kind}:", autoescape=True) for kind in kinds),
    )
    for first in range(0, len(ids), _CHUNK):
        session.execute(
            sa.delete(SuggestionRow).where(SuggestionRow.sentence_id.in_(ids[first : first + _CHUNK]), theirs)
        )
    insert(session, rows)


def mark_preannotated(session: Session, sentence_ids: Collection[int]) -> None:
    """Mark sentences as fully pre-annotated."""
    ids = list(sentence_ids)
    for first in range(0, len(ids), _CHUNK):
        wanted = SentenceRow.id.in_(ids[first : first + _CHUNK])
        session.execute(sa.update(SentenceRow).where(wanted).values(preannotated_at=now()))


def cached(session: Session, endpoint: str, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return an endpoint's cached answers for these keys."""
    wanted = list(keys)
    values: dict[str, dict[str, Any]] = {}
    for first in range(0, len(wanted), _CHUNK):
        query = sa.select(SparqlCache.key, SparqlCache.value).where(
            SparqlCache.endpoint == endpoint, SparqlCache.key.in_(wanted[first : first + _CHUNK])
        )
        values |= dict(session.execute(query).all())
    return values


def keep(session: Session, endpoint: str, values: Mapping[str, dict[str, Any]]) -> None:
    """Cache an endpoint's answers, replacing older ones."""
    rows = [{"endpoint": endpoint, "key": key, "value": value, "fetched_at": now()} for key, value in values.items()]
    upsert(session, SparqlCache, rows, keys=("endpoint", "key"), update=("value", "fetched_at"))


def within_reach(session: Session, campaign_id: int, sentence_ids: Collection[int]) -> set[int]:
    """Return those of the sentences that nobody has begun to annotate and that have no gold."""
    ids, reached = list(sentence_ids), set[int]()
    for first in range(0, len(ids), _CHUNK):
        some = ids[first : first + _CHUNK]
        # Imported gold has no task to annotate, so it looks as if nobody had begun.
        gold = _with_gold(sa.select(Task.sentence_id), campaign_id).where(Task.sentence_id.in_(some))
        reached |= still_open(session, campaign_id, some) - set(session.scalars(gold))
    return reached


def insert(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert suggestions, leaving those alone that are there."""
    upsert(session, SuggestionRow, rows, keys=("sentence_id", "source", "start", "end", "type"))


def add(session: Session, rows: Sequence[Mapping[str, Any]]) -> int:
    """Insert suggestions as `insert` does; return how many are new."""
    before = _count(session, rows)
    insert(session, rows)
    return _count(session, rows) - before


def _count(session: Session, rows: Sequence[Mapping[str, Any]]) -> int:
    sources, ids = {row["source"] for row in rows}, sorted({row["sentence_id"] for row in rows})
    total = 0
    for first in range(0, len(ids), _CHUNK):
        query = sa.select(sa.func.count()).select_from(SuggestionRow).where(SuggestionRow.source.in_(sources))
        total += session.scalar(query.where(SuggestionRow.sentence_id.in_(ids[first : first + _CHUNK]))) or 0
    return total


def sentences_with(session: Session, campaign_id: int, source: str) -> list[int]:
    """Return the ids of the sentences in which a source suggests something."""
    return list(session.scalars(_of_source(sa.select(SuggestionRow.sentence_id), campaign_id, source).distinct()))


def count_of(session: Session, campaign_id: int, source: str) -> int:
    """Return how many suggestions a source has in a campaign."""
    return session.scalar(_of_source(sa.select(sa.func.count(SuggestionRow.id)), campaign_id, source)) or 0


def remove(session: Session, sentence_ids: Collection[int], source: str) -> int:
    """Delete a source's suggestions in these sentences; return how many there were."""
    ids, removed = list(sentence_ids), 0
    for first in range(0, len(ids), _CHUNK):
        here = SuggestionRow.sentence_id.in_(ids[first : first + _CHUNK])
        gone = session.scalars(
            sa.delete(SuggestionRow).where(here, SuggestionRow.source == source).returning(SuggestionRow.id)
        )
        removed += len(gone.all())
    return removed


def of_kind(session: Session, campaign_id: int, kind: str) -> list[tuple[str, str, int, int, int]]:
    """Return (source, entity type, sentence id, start, end) of what sources `KIND:…` suggest, the newest first."""
    row = SuggestionRow
    query = sa.select(row.source, row.type, row.sentence_id, row.start, row.end)
    query = query.join(SentenceRow, SentenceRow.id == row.sentence_id)
    query = query.where(SentenceRow.campaign_id == campaign_id, row.source.startswith(f"{kind}:", autoescape=True))
    return [(a, b, c, d, e) for a, b, c, d, e in session.execute(query.order_by(row.id.desc()))]


def _of_source(query: _Query, campaign_id: int, source: str) -> _Query:
    query = query.join(SentenceRow, SentenceRow.id == SuggestionRow.sentence_id)
    return query.where(SentenceRow.campaign_id == campaign_id, SuggestionRow.source == source)


def allowance(session: Session, campaign_id: int, name: str) -> OutsideAllowance | None:
    """Return what a campaign may send to an outside model; None if nobody has allowed anything yet."""
    return allowances(session, campaign_id).get(name)


def allowances(session: Session, campaign_id: int) -> dict[str, OutsideAllowance]:
    """Return what a campaign may send to outside models, by the model's name."""
    query = sa.select(OutsideAllowance).where(OutsideAllowance.campaign_id == campaign_id)
    return {row.name: row for row in session.scalars(query.order_by(OutsideAllowance.id))}


def allow_outside(session: Session, **values: Any) -> None:
    """Store what a campaign may send, from now on; what was spent before stays."""
    row = {**values, "is_open": True, "allowed_at": now()}
    keys = ("campaign_id", "name")
    upsert(session, OutsideAllowance, [row], keys=keys, update=[key for key in row if key not in keys])


def reserve(
    session: Session, allowance_id: int, *, requests: int, input_tokens: int, output_tokens: int, cost: float
) -> bool:
    """Add what a request takes at most, unless nothing may be sent or less is left; return whether it was added."""
    row = OutsideAllowance
    tokens = row.input_tokens + row.output_tokens + input_tokens + output_tokens
    query = _spending(allowance_id, requests, input_tokens, output_tokens, cost).where(
        row.is_open,
        row.requests + requests <= row.max_requests,
        sa.or_(row.max_tokens.is_(None), tokens <= row.max_tokens),
        sa.or_(row.max_cost.is_(None), row.cost + cost <= row.max_cost),
    )
    return session.scalar(query.returning(row.id)) is not None


def settle(
    session: Session, allowance_id: int, *, requests: int, input_tokens: int, output_tokens: int, cost: float
) -> None:
    """Add what a request took beyond what was set aside for it; numbers below 0 give the rest back."""
    session.execute(_spending(allowance_id, requests, input_tokens, output_tokens, cost))


def _spending(allowance_id: int, requests: int, input_tokens: int, output_tokens: int, cost: float) -> sa.Update:
    row = OutsideAllowance
    return (
        sa.update(row)
        .where(row.id == allowance_id)
        .values(
            requests=row.requests + requests,
            input_tokens=row.input_tokens + input_tokens,
            output_tokens=row.output_tokens + output_tokens,
            cost=row.cost + cost,
        )
    )


def count_answers(
    session: Session, allowance_id: int, *, answered: int, unusable: int, dropped: Mapping[str, int]
) -> None:
    """Count new answers, and what was dropped of them."""
    row = session.get_one(OutsideAllowance, allowance_id, with_for_update=True)
    row.answered += answered
    row.unusable += unusable
    row.dropped = {key: row.dropped.get(key, 0) + dropped.get(key, 0) for key in {**row.dropped, **dropped}}
