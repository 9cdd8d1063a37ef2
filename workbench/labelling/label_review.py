"""Label review of gold: queues of doubts for an expert to decide; every decision is kept."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from crossner_core.errors import BadInput, Conflict, NotAllowed, NotFound
from crossner_core.label_review.base import Finding, check, check_ids, touching
from crossner_core.options.label_review import LabelReviewOptions
from crossner_core.schema import Sentence, Span
from db import annotation_rows, campaign_rows, label_review_rows, task_rows
from db.engine import Session, Store
from db.label_review_tables import FindingRow
from db.tables import SPLITS, Campaign, SentenceRow
from workbench.accounts import audit
from workbench.accounts.access import enter, enter_alone, refuse_archived
from workbench.accounts.actors import Actor, fresh, require
from workbench.accounts.roles import OVERSEERS
from workbench.campaigns.domains import domain_of
from workbench.data import layers
from workbench.data.double_imports import IMPORTED
from workbench.data.values import sentence_of, spans_of
from workbench.jobs import queue
from workbench.labelling.correcting import change_gold
from workbench.labelling.steps import take_up

DECISIONS = {"keep": "kept", "change": "changed", "reopen": "reopened", "leave_out": "left_out"}
_AT_A_TIME = 100
"""Findings whose gold is read together: the first of a long queue are there without reading all of it."""
_AFTER_A_TYPE = r"(?=\)| \d|;)"
"""What follows a type in a reason: “Alps (location)”, “location 3 ×”, “mostly location;”."""
_IMPORTED_WORDS = ("Imported twice", "A sentence was imported again with other labels; the first import is gold.")


@dataclass(frozen=True, slots=True)
class QueueView:
    """One check's queue; `open` counts the findings that still fit the gold, `decided` the decided ones."""

    id: str
    title: str
    line: str
    open: int
    decided: int


@dataclass(frozen=True, slots=True)
class FindingView:
    """One finding with its sentence: all its gold, the gold at tokens `[start, end)` (`there`), and the proposal.

    `proposed` equals `there` if there is nothing to change. `other` is the sentence it is compared with. `history` has
    every decision and its reversal, oldest first.
    """

    id: int
    check: str
    kind: str
    score: float
    why: str
    sentence_id: int
    sentence: Sentence
    split: str
    spans: tuple[Span, ...]
    start: int
    end: int
    there: tuple[Span, ...]
    proposed: tuple[Span, ...]
    other: Sentence | None = None
    other_spans: tuple[Span, ...] = ()
    other_split: str = ""
    state: str = "open"
    decided_by: str = ""
    decided_at: dt.datetime | None = None
    proposed_probability: float | None = None
    present_probability: float | None = None
    history: tuple[Mapping[str, str], ...] = ()

    @property
    def can_change(self) -> bool:
        """Whether the proposal differs from the gold."""
        return self.proposed != self.there

    def alters_test(self, decision: str) -> bool:
        """Whether a decision alters the gold of test, which nobody may do unasked."""
        return self.split == "test" and decision in ("change", "reopen")

    @property
    def leaves(self) -> str:
        """The split whose copy `leave_out` removes: for a leak the one farther from test, else none."""
        return min(self.split, self.other_split, key=SPLITS.index) if self.kind == "leak" else ""

    @property
    def leaving(self) -> Sentence:
        """The copy that `leave_out` removes."""
        return self.sentence if self.other is None or self.split == self.leaves else self.other


def look_again(
    store: Store,
    actor: Actor,
    campaign_id: int,
    options: LabelReviewOptions | None = None,
    checks: Sequence[str] | None = None,
) -> int:
    """Queue these checks (all by default) over all gold; return the job's id.

    Raises BadInput if there is no gold, Conflict while a review is under way.
    """
    require(actor, *OVERSEERS)
    wanted = [check(id).id for id in (checks or check_ids())]
    with store.write() as session:
        campaign_rows.hold(session, campaign_id)
        current, campaign = enter(session, actor, campaign_id, *OVERSEERS)
        refuse_archived(campaign)
        if not layers.gold(session, campaign_id):
            raise BadInput("There is no gold to review yet; adjudicate some sentences first.")
        payload = {"checks": wanted, "options": asdict(options or LabelReviewOptions())}
        job_id, _ = queue.start(session, "second_look", payload, by=current, campaign_id=campaign_id)
        audit.record(session, current, "look_again", ("job", job_id), campaign_id, checks=wanted)
        return job_id


def queues(store: Store, actor: Actor, campaign_id: int) -> tuple[QueueView, ...]:
    """Return every check's queue; that of double imports only if there are some."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *OVERSEERS)
        rows = {id: label_review_rows.of_check(session, campaign_id=campaign_id, found_by=id) for id in _queue_ids()}
        waiting = {id: [row for row in findings if row.state == "open"] for id, findings in rows.items()}
        gold = _gold(session, [row for findings in waiting.values() for row in findings])
        left_out = label_review_rows.left_out(session, campaign_id)
        views = []
        for id, stored in rows.items():
            title, line = _IMPORTED_WORDS if id == IMPORTED else (check(id).title, check(id).line)
            if stored or id != IMPORTED:
                count = sum(_fits(row, gold) and not _settled(row, left_out) for row in waiting[id])
                views.append(QueueView(id, title, line, count, len(stored) - len(waiting[id])))
        return tuple(views)


def findings(
    store: Store,
    actor: Actor,
    campaign_id: int,
    check_id: str,
    *,
    first: Sequence[int] = (),
    later: Sequence[int] = (),
    limit: int | None = None,
) -> tuple[FindingView, ...]:
    """Return a check's open findings that still fit the gold, most doubtful first.

    Those of `first` come before all others, those of `later` after them.
    """
    require(actor, *OVERSEERS)
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *OVERSEERS)
        if check_id not in _queue_ids():
            check(check_id)
        rows = label_review_rows.of_check(session, campaign_id=campaign_id, found_by=check_id, state="open")
        turn = {id: number for number, id in enumerate(later, start=1)} | dict.fromkeys(first, -1)
        return _current(session, campaign, sorted(rows, key=lambda row: turn.get(row.id, 0)), limit=limit)


def decided(store: Store, actor: Actor, campaign_id: int) -> tuple[FindingView, ...]:
    """Return the decisions, each with who made it and when, newest first; spans are as they were then."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *OVERSEERS)
        titles = domain_of(campaign).titles
        pairs = label_review_rows.decided(session, campaign_id)
        sentences = _sentences(session, [row for row, _ in pairs])
        return tuple(
            _view(row, sentences[row.sentence_id], _spans(row.there), other=sentences.get(row.other_id or 0),
                  titles=titles, who=user.display_name)
            for row, user in pairs
        )  # fmt: skip


def decide(
    store: Store, actor: Actor, finding_id: int, decision: str, *, changes_test: bool = False, key: str = ""
) -> None:
    """Keep the gold, change it to what is proposed, reopen it for adjudication, or leave a repeated sentence out.

    A change is saved like every adjudication: the previous version is kept, and so are existing snapshots. For a leak,
    the copy farther from test is left out: it stays gold, but later snapshots lack it. What would alter the gold of a
    test sentence needs `changes_test`, or NotAllowed is raised; the history names the split. What was done before under
    the same `key` is not done again. For experts. Raises Conflict if it was decided already, or if the gold has changed
    since.
    """
    require(actor, "expert")
    if decision not in DECISIONS:
        raise BadInput(f"There is no decision {decision!r}; choose one of {', '.join(DECISIONS)}.")
    with store.write() as session:
        row, current, campaign = _for_decision(session, actor, finding_id)
        if label_review_rows.is_known(row, key):
            return
        if row.state != "open":
            raise Conflict(f"This was decided already ({row.state}); continue with the next.")
        if _settled(row, label_review_rows.left_out(session, row.campaign_id)):
            raise Conflict("One of the two sentences was left out meanwhile; continue with the next.")
        views = _current(session, campaign, [row])
        if not views:
            raise Conflict("The gold has changed here since, so this doubt no longer applies; continue with the next.")
        (view,) = views
        if decision == "change" and not view.can_change:
            raise BadInput("There is no proposal to change the gold to; keep it, or reopen the sentence.")
        if view.alters_test(decision) and not changes_test:
            raise NotAllowed(
                f"This sentence is in test, and “{decision}” alters the gold that models are measured on; "
                "confirm it, or keep the gold."
            )
        out = None
        if decision == "leave_out":
            if not view.leaves:
                raise BadInput("Only a sentence repeated across splits can be left out; choose another decision.")
            out = row.sentence_id if view.split == view.leaves else row.other_id
        elif decision != "keep":
            task = task_rows.of_sentence(session, row.sentence_id)["adjudicate"]
            if decision == "change":
                rest = [span for span in view.spans if span not in view.there]
                change_gold(session, campaign, current, task, [*rest, *view.proposed])
            else:
                take_up(session, campaign, current, task)
        label_review_rows.decide(
            row,
            state=DECISIONS[decision],
            user_id=current.id,
            name=current.name,
            split=view.split,
            left_out_id=out,
            key=key,
        )
        details = {"check": row.found_by, "decision": decision, "sentence": row.sentence_id, "split": view.split}
        audit.record(session, current, "decide_finding", ("finding", row.id), campaign.id, **details)


def revert(store: Store, actor: Actor, finding_id: int, *, key: str = "") -> None:
    """Revert anybody's decision: the doubt is open again, and changed gold is restored; the history keeps both.

    For experts of the campaign, at any time. Raises Conflict if nothing was decided, the sentence was reopened, or the
    gold has changed since.
    """
    require(actor, "expert")
    with store.write() as session:
        row, current, campaign = _for_decision(session, actor, finding_id)
        if label_review_rows.is_known(row, key):
            return
        if row.state == "open":
            raise Conflict("This doubt is open; there is no decision to revert.")
        if row.state == "reopened":
            raise Conflict("The sentence already waits under Adjudicate; correct its labels there.")
        if row.state != "left_out":
            _restore(session, row, current, campaign)
        split = _sentences(session, [row])[row.sentence_id].split
        audit.record(session, current, "revert_finding", ("finding", row.id), campaign.id, was=row.state, split=split)
        label_review_rows.reopen(row, name=current.name, split=split, key=key)


def _restore(session: Session, row: FindingRow, actor: Actor, campaign: Campaign) -> None:
    """Bring back the gold of before a decision; raise Conflict unless it is still what the decision left."""
    before, proposed = (tuple(sorted(_spans(spans))) for spans in (row.there, row.proposed))
    mine = _gold(session, [row]).get(row.sentence_id)
    if mine is None or touching(mine, row.start, row.end) != (proposed if row.state == "changed" else before):
        raise Conflict("The gold has changed here since, so the decision stands; look again to see what is in doubt.")
    if row.state == "changed":
        task = task_rows.of_sentence(session, row.sentence_id)["adjudicate"]
        change_gold(session, campaign, actor, task, [*(span for span in mine if span not in proposed), *before])


def keep_findings(
    session: Session, campaign_id: int, check_id: str, found: Iterable[Finding], sentence_ids: Sequence[int]
) -> tuple[int, int]:
    """Replace a check's open findings; return how many are open and how many were decided already.

    Those settled by leaving a sentence out count as decided; they are open again if it is taken in again.
    """
    rows = [_values(finding, sentence_ids) for finding in found]
    stand, before = label_review_rows.replace_open(session, campaign_id=campaign_id, found_by=check_id, rows=rows)
    left_out = label_review_rows.left_out(session, campaign_id)
    kept = label_review_rows.of_check(session, campaign_id=campaign_id, found_by=check_id, state="open")
    settled = sum(_settled(row, left_out) for row in kept)
    return stand - settled, before + settled


def _for_decision(session: Session, actor: Actor, finding_id: int) -> tuple[FindingRow, Actor, Campaign]:
    """Return a finding, locked, with the expert as they are now and the campaign, which must not be archived."""
    fresh(session, actor, "expert")
    row = label_review_rows.find(session, finding_id)
    if row is None:
        raise NotFound(f"There is no finding {finding_id}; it may have been replaced by a newer look.")
    current, campaign = enter_alone(session, actor, row.campaign_id, "expert")
    refuse_archived(campaign)
    return row, current, campaign


def _values(finding: Finding, sentence_ids: Sequence[int]) -> dict[str, Any]:
    other = None if finding.other is None else sentence_ids[finding.other]
    return {
        "sentence_id": sentence_ids[finding.item],
        "kind": finding.kind,
        "start": finding.start,
        "end": finding.end,
        "there": _json(finding.there),
        "proposed": _json(finding.proposed),
        "score": min(max(finding.score, 0.0), 1.0),
        "why": finding.why,
        "proposed_probability": finding.proposed_probability,
        "present_probability": finding.present_probability,
        "other_id": other,
        "other_there": None if other is None else _json(finding.other_there),
    }


def _json(spans: Iterable[Span]) -> list[Any]:
    return [[span.start, span.end, span.type] for span in spans]


def _spans(values: Iterable[Any]) -> tuple[Span, ...]:
    return tuple(Span(*value) for value in values)


def _queue_ids() -> tuple[str, ...]:
    return (*check_ids(), IMPORTED)


def _gold(session: Session, rows: Sequence[FindingRow]) -> dict[int, tuple[Span, ...]]:
    """Return the gold of all sentences that findings are about, by sentence id."""
    ids = {row.sentence_id for row in rows} | {row.other_id for row in rows if row.other_id is not None}
    annotations = annotation_rows.submitted(session, sorted(ids), "adjudicate")
    return {id: spans_of(annotation) for id, annotation in annotations.items()}


def _current(
    session: Session, campaign: Campaign, rows: Sequence[FindingRow], *, limit: int | None = None
) -> tuple[FindingView, ...]:
    """Return the findings that still fit: the gold at these tokens is as it was when they were found."""
    left_out, titles = label_review_rows.left_out(session, campaign.id), domain_of(campaign).titles
    kept: list[FindingView] = []
    for start in range(0, len(rows), _AT_A_TIME):
        part = rows[start : start + _AT_A_TIME]
        gold = _gold(session, part)
        fitting = [row for row in part if _fits(row, gold) and not _settled(row, left_out)]
        sentences = _sentences(session, fitting[:limit])
        kept += [
            _view(row, sentences[row.sentence_id], gold[row.sentence_id], other=sentences.get(row.other_id or 0),
                  titles=titles)
            for row in fitting[:limit]
        ]  # fmt: skip
        if limit is not None and len(kept) >= limit:
            return tuple(kept[:limit])
    return tuple(kept)


def _sentences(session: Session, rows: Sequence[FindingRow]) -> dict[int, SentenceRow]:
    """Return the sentences that findings are about and compare with, by id."""
    ids = {row.sentence_id for row in rows} | {row.other_id for row in rows if row.other_id is not None}
    return {row.id: row for row in label_review_rows.sentences(session, sorted(ids))}


def _settled(row: FindingRow, left_out: Container[int]) -> bool:
    """Return whether one of the two sentences of a leak is left out of training, so that nothing leaks."""
    return row.kind == "leak" and (row.sentence_id in left_out or row.other_id in left_out)


def _fits(row: FindingRow, gold: Mapping[int, tuple[Span, ...]]) -> bool:
    mine = gold.get(row.sentence_id)
    if mine is None or _json(touching(mine, row.start, row.end)) != row.there:
        return False
    if row.other_id is None:
        return True
    theirs = gold.get(row.other_id)
    return theirs is not None and _json(theirs) == row.other_there


def _view(
    row: FindingRow,
    sentence: SentenceRow,
    spans: tuple[Span, ...],
    *,
    titles: Mapping[str, str],
    other: SentenceRow | None = None,
    who: str = "",
) -> FindingView:
    return FindingView(
        id=row.id,
        check=row.found_by,
        kind=row.kind,
        score=row.score,
        why=_titled(row.why, titles),
        sentence_id=row.sentence_id,
        sentence=sentence_of(sentence),
        split=sentence.split,
        spans=spans,
        start=row.start,
        end=row.end,
        there=_spans(row.there),
        proposed=_spans(row.proposed),
        other=sentence_of(other) if other is not None else None,
        other_spans=_spans(row.other_there or ()),
        other_split=other.split if other is not None else "",
        state=row.state,
        decided_by=who,
        decided_at=row.decided_at,
        proposed_probability=row.proposed_probability,
        present_probability=row.present_probability,
        history=tuple(row.history),
    )


def _titled(why: str, titles: Mapping[str, str]) -> str:
    """Return a reason with its types by their titles: one that was stored long ago names them as they are stored."""
    return re.sub(rf"\b({'|'.join(map(re.escape, titles))}){_AFTER_A_TYPE}", lambda found: titles[found[1]], why)
