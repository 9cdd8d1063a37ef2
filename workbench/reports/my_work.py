"""Outcome of one's own work: which entities the gold kept, which it changed, and what is still open."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from crossner_core.schema import Sentence, Span
from db import annotation_rows, layer_rows, people_rows
from db.engine import Session, Store
from db.tables import Annotation, Campaign, SentenceRow
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import LABELLERS
from workbench.campaigns.domains import domain_of
from workbench.data.values import sentence_of, spans_of
from workbench.labelling.steps import reopenable
from workbench.labelling.units import Unit, units


@dataclass(frozen=True, slots=True)
class WorkRow:
    """One submitted sentence of mine.

    `outcome`: waiting for check · waiting for the expert · kept · changed · gold (an adjudication of mine). `changes`
    compare my spans (`first`) with the gold (`second`), agreement included.
    """

    task_id: int
    sentence_id: int
    stage: str
    text: str
    submitted_at: dt.datetime
    outcome: str
    can_reopen: bool
    mine: tuple[str, ...]
    gold: tuple[str, ...] | None
    kept: int
    changed: int
    changes: tuple[Unit, ...]
    by: str = ""
    """Who adjudicated or, before that, checked it; empty as long as nobody has."""


@dataclass(frozen=True, slots=True)
class MyWork:
    """My submitted sentences, the newest first, with totals; `kept` and `changed` count entities that gold judged."""

    rows: tuple[WorkRow, ...]
    sentences: int
    waiting: int
    kept: int
    changed: int
    skipped: int
    active_seconds: float


def my_work(store: Store, actor: Actor, campaign_id: int) -> MyWork:
    """Return the outcome of each sentence the actor submitted."""
    require(actor, *LABELLERS)
    with store.read() as session:
        current, campaign = enter(session, actor, campaign_id, *LABELLERS)
        submitted = layer_rows.submitted_by(session, campaign.id, current.id)
        rows = rows_in(session, current, campaign, submitted)
        return MyWork(
            rows=rows,
            sentences=len(rows),
            waiting=sum(row.gold is None for row in rows),
            kept=sum(row.kept for row in rows),
            changed=sum(row.changed for row in rows),
            skipped=layer_rows.skips_by_person(session, campaign.id).get(current.id, 0),
            active_seconds=sum(work.active_ms for _, _, work in submitted) / 1000,
        )


def rows_in(
    session: Session, actor: Actor, campaign: Campaign, submitted: Sequence[tuple[SentenceRow, str, Annotation]]
) -> tuple[WorkRow, ...]:
    """Return the outcome of what the actor submitted, the newest first, within a transaction."""
    ids = [row.id for row, _, _ in submitted]
    gold = annotation_rows.submitted(session, ids, "adjudicate")
    checked = annotation_rows.submitted(session, ids, "check")
    open_again = reopenable(session, campaign, actor, (work for _, _, work in submitted))
    names = people_rows.by_ids(session, {work.user_id for work in (*gold.values(), *checked.values())})
    rows, titles = [], domain_of(campaign).titles
    for row, stage, work in submitted:
        last = gold.get(row.id) or (checked.get(row.id) if stage == "annotate" else None)
        made = _row(
            row,
            stage,
            work,
            gold.get(row.id),
            checked=row.id in checked,
            can_reopen=(stage == "adjudicate" or row.id not in gold) and work.task_id in open_again,
            titles=titles,
        )
        rows.append(replace(made, by=names[last.user_id].display_name if last is not None else ""))
    return tuple(sorted(rows, key=lambda row: row.submitted_at, reverse=True))


def _row(
    row: SentenceRow,
    stage: str,
    work: Annotation,
    gold: Annotation | None,
    *,
    checked: bool,
    can_reopen: bool,
    titles: Mapping[str, str],
) -> WorkRow:
    sentence, mine, final = sentence_of(row), spans_of(work), spans_of(gold)
    judged = gold is not None and stage != "adjudicate"
    changes = units(mine, final) if judged else ()
    changed = sum(unit.kind != "agree" for unit in changes)
    if judged:
        outcome = "changed" if changed else "kept"
    else:
        outcome = "gold" if stage == "adjudicate" else "waiting for the expert" if checked else "waiting for check"
    return WorkRow(
        task_id=work.task_id,
        sentence_id=row.id,
        stage=stage,
        text=row.text,
        submitted_at=work.submitted_at or work.updated_at,
        outcome=outcome,
        can_reopen=can_reopen,
        mine=_words(sentence, mine, titles),
        gold=_words(sentence, final, titles) if gold is not None else None,
        kept=len(changes) - changed,
        changed=changed,
        changes=changes,
    )


def _words(sentence: Sentence, spans: Sequence[Span], titles: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{sentence.surface(span.start, span.end)} ({titles.get(span.type, span.type)})" for span in spans)
