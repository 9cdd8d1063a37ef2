"""Write a checked archive into the store as a new campaign, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from crossner_core.acquisition.selecting import without_idle_weights
from crossner_core.errors import BadInput, Conflict, InvalidConfig
from crossner_core.schema import Sentence
from db import account_rows, archive_rows, campaign_rows, snapshot_rows
from db.engine import Session, Store
from db.label_review_tables import FindingRow
from db.tables import (
    Annotation,
    AnnotationVersion,
    Answer,
    Decision,
    FlagRow,
    LinkRow,
    Question,
    RejectedRow,
    SentenceRow,
    SpanRow,
    SuggestionRow,
    Task,
)
from workbench.accounts import audit
from workbench.accounts.actors import Actor, fresh
from workbench.accounts.passwords import NO_PASSWORD
from workbench.campaigns import round_settings
from workbench.campaigns.settings import checked, names
from workbench.data.archive_reading import Archive
from workbench.data.archive_records import QUEUE, AnnotationRecord, FindingRecord, SentenceRecord, columns

# No password has this hash: the account is closed, and an admin who opens it sets a password first.


def insert_campaign(store: Store, actor: Actor, archive: Archive, *, name: str | None) -> int:
    """Add the campaign with all its work; return its id. Raises Conflict for a name that is taken."""
    settings = {**archive.settings, **({"name": name} if name else {})}
    tidy = checked({key: settings[key] for key in names() if key in settings}, names())
    tidy |= _queue(settings) | {"domain_name": archive.domain.name}
    with store.write() as session:
        current = fresh(session, actor, "admin")
        if not tidy.get("name") or campaign_rows.find_by_name(session, tidy["name"]) is not None:
            raise Conflict(f"There is already a campaign {tidy.get('name')!r}; give the imported one another name.")
        campaign = campaign_rows.add(session, domain_toml=archive.domain_toml, **tidy)
        ids = _people(session, archive)
        campaign_rows.add_members(session, campaign.id, [ids[name] for name in archive.members if name in ids])
        rows = {
            sentence.content_hash: _insert(session, campaign.id, sentence, record, ids)
            for sentence, record in archive.sentences
        }
        for sentence, record in archive.sentences:
            for finding in record.second_look:
                archive_rows.add(session, _decided(finding, rows[sentence.content_hash], rows, ids))
        for snapshot, content in archive.snapshots:
            snapshot_rows.add(
                session,
                campaign_id=campaign.id,
                hash=snapshot.hash,
                content=content,
                domain_name=snapshot.domain_name,
                types=snapshot.types,
                counts=snapshot.counts,
                created_by=None,
            )
        archive_rows.flush(session)
        counts = {"sentences": len(archive.sentences), "snapshots": len(archive.snapshots)}
        audit.record(session, current, "import_campaign", ("campaign", campaign.name), campaign.id, **counts)
        return campaign.id


def _queue(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a campaign's rounds; raise BadInput if they are invalid. Absent ones stay absent."""
    given = {key: settings[key] for key in QUEUE if key in settings}
    text, recipe = given.get("strategy", ""), given.get("turn_recipe", {})
    try:
        kept = round_settings.checked(
            without_idle_weights(text) if isinstance(text, str) else text,
            given.get("random_share", 0.2),
            given.get("retrain_every", 0),
            recipe,
        )
    except InvalidConfig as error:
        raise BadInput(f"campaign.json: {error}") from error
    values = (kept.strategy, kept.random_share, kept.retrain_every, dict(kept.recipe or {}))
    return {key: value for key, value in zip(QUEUE, values, strict=True) if key in given}


def _people(session: Session, archive: Archive) -> dict[str, int]:
    """Match people by account name; add a closed account for those unknown here."""
    wanted = {person.name: person for person in archive.people}
    known = archive_rows.people(session, sorted(wanted))
    ids = {name: user.id for name, user in known.items()}
    for name in sorted(set(wanted) - set(known)):
        # A file from elsewhere makes nobody an admin or researcher here.
        role = "expert" if wanted[name].role == "expert" else "annotator"
        user = account_rows.add(
            session, name=name, display_name=wanted[name].display_name, password_hash=NO_PASSWORD, role=role
        )
        user.active = False
        ids[name] = user.id
    return ids


def _insert(
    session: Session, campaign_id: int, sentence: Sentence, record: SentenceRecord, ids: Mapping[str, int]
) -> SentenceRow:
    """Write a sentence with its work; return its row."""
    row: SentenceRow = _row(SentenceRow, record)
    row.campaign_id, row.content_hash = campaign_id, sentence.content_hash
    row.links, row.suggestions = _rows(LinkRow, record.links), _rows(SuggestionRow, record.suggestions)
    archive_rows.add(session, row)
    for given in record.tasks:
        done_by = ids[given.done_by] if given.done_by is not None else None
        task: Task = _row(Task, given, sentence_id=row.id, done_by=done_by)
        task.annotations = [_annotation(work, ids) for work in given.annotations]
        archive_rows.add(session, task)
        for annotation, work in zip(task.annotations, given.annotations, strict=True):
            for version in work.versions:
                archive_rows.add(session, _row(AnnotationVersion, version, annotation_id=annotation.id))
        for question in given.questions:
            asked: Question = _row(Question, question, task_id=task.id, asked_by=ids[question.asked_by])
            asked.answers = [_row(Answer, answer, user_id=ids[answer.user]) for answer in question.answers]
            archive_rows.add(session, asked)
    return row


def _decided(
    record: FindingRecord, sentence: SentenceRow, rows: Mapping[str, SentenceRow], ids: Mapping[str, int]
) -> FindingRow:
    past = [asdict(step) for step in record.history]
    row: FindingRow = _row(FindingRow, record, decided_by=ids[record.decided_by], history=past)
    row.campaign_id, row.sentence_id = sentence.campaign_id, sentence.id
    row.other_id = None if record.other is None else rows[record.other].id
    row.left_out_id = {None: None, "this": row.sentence_id, "other": row.other_id}[record.left_out]
    return row


def _annotation(record: AnnotationRecord, ids: Mapping[str, int]) -> Annotation:
    row: Annotation = _row(Annotation, record, user_id=ids[record.user])
    row.spans, row.flags = _rows(SpanRow, record.spans), _rows(FlagRow, record.flags)
    row.rejected, row.decisions = _rows(RejectedRow, record.rejected), _rows(Decision, record.decisions)
    return row


def _row(table: type[Any], record: Any, **values: Any) -> Any:
    """Make a row from a record's values for a table's columns; `values` take precedence."""
    return table(**{name: getattr(record, name) for name in columns(type(record), table)} | values)


def _rows(table: type[Any], records: Sequence[Any]) -> list[Any]:
    return [_row(table, record) for record in records]
