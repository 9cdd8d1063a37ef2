"""Write a checked archive into the store as a new campaign, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
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
from workbench.accounts.actors import Actor, fresh
from workbench.campaigns import round_settings
from workbench.campaigns.settings import checked, names
from workbench.data.archive_columns import ANNOTATION, PARTS, QUEUE, SENTENCE, TASK, with_moments
from workbench.data.archive_reading import Archive

_TABLES: dict[str, Any] = {
    "links": LinkRow,
    "suggestions": SuggestionRow,
    "spans": SpanRow,
    "flags": FlagRow,
    "rejected": RejectedRow,
    "decisions": Decision,
}
# No password has this hash: the account is closed, and an admin who opens it sets a password first.
_NO_PASSWORD = "!"


def insert_campaign(store: Store, actor: Actor, archive: Archive, *, name: str | None) -> int:
    """Add the campaign with all its work; return its id. Raises Conflict for a name that is taken."""
    settings = {**archive.settings, **({"name": name} if name else {})}
    tidy = checked({key: settings[key] for key in names() if key in settings}, names())
    tidy |= _queue(settings) | {"domain_name": archive.domain.name}
    with store.write() as session:
        fresh(session, actor, "admin")
        if not tidy.get("name") or campaign_rows.find_by_name(session, tidy["name"]) is not None:
            raise Conflict(f"There is a campaign {tidy.get('name')!r} already; give the imported one another name.")
        campaign = campaign_rows.add(session, domain_toml=archive.domain_toml, **tidy)
        ids = _people(session, archive)
        members = archive.settings.get("members", [])
        campaign_rows.add_members(session, campaign.id, [ids[name] for name in members if name in ids])
        try:
            rows = {
                sentence.content_hash: _insert(session, campaign.id, sentence, values, ids)
                for sentence, values in archive.sentences
            }
            for sentence, values in archive.sentences:
                for doubt in values["second_look"]:
                    archive_rows.add(session, _decided(doubt, rows[sentence.content_hash], rows, ids))
            for listed, content in archive.snapshots:
                _insert_snapshot(session, campaign.id, listed, content)
            archive_rows.flush(session)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BadInput(f"The archive is damaged: {type(error).__name__}: {error}. Nothing was imported.") from error
        return campaign.id


def _queue(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a campaign's rounds; raise BadInput where they are none. Those that are absent stay so."""
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
    wanted = {person["name"]: person for person in archive.people}
    known = archive_rows.people(session, sorted(wanted))
    ids = {name: user.id for name, user in known.items()}
    for name in sorted(set(wanted) - set(known)):
        # A file from elsewhere makes nobody an admin or researcher here.
        role = "expert" if wanted[name]["role"] == "expert" else "annotator"
        user = account_rows.add(
            session, name=name, display_name=wanted[name]["display_name"], password_hash=_NO_PASSWORD, role=role
        )
        user.active = False
        ids[name] = user.id
    return ids


def _insert(
    session: Session, campaign_id: int, sentence: Sentence, values: Mapping[str, Any], ids: Mapping[str, int]
) -> SentenceRow:
    """Write a sentence with its work; return its row."""
    row: SentenceRow = archive_rows.columns_of(SentenceRow, with_moments(dict(values)), SENTENCE)
    row.campaign_id, row.content_hash = campaign_id, sentence.content_hash
    row.links, row.suggestions = _parts("links", values), _parts("suggestions", values)
    archive_rows.add(session, row)
    for given in values["tasks"]:
        task = archive_rows.columns_of(Task, with_moments(given), TASK)
        task.sentence_id, task.done_by = row.id, ids[given["done_by"]] if given["done_by"] else None
        task.annotations = [_annotation(work, ids) for work in given["annotations"]]
        archive_rows.add(session, task)
        for annotation, work in zip(task.annotations, given["annotations"], strict=True):
            for version in work["versions"]:
                kept = archive_rows.columns_of(AnnotationVersion, with_moments(version), PARTS["versions"])
                kept.annotation_id = annotation.id
                archive_rows.add(session, kept)
        for question in given["questions"]:
            archive_rows.add(session, _question(question, task.id, ids))
    return row


def _decided(
    given: Mapping[str, Any], sentence: SentenceRow, rows: Mapping[str, SentenceRow], ids: Mapping[str, int]
) -> FindingRow:
    row: FindingRow = archive_rows.columns_of(FindingRow, with_moments(dict(given)), PARTS["second_look"])
    row.campaign_id, row.sentence_id, row.decided_by = sentence.campaign_id, sentence.id, ids[given["decided_by"]]
    row.other_id = None if given["other"] is None else rows[given["other"]].id
    row.left_out_id = {None: None, "this": row.sentence_id, "other": row.other_id}[given["left_out"]]
    return row


def _annotation(given: Mapping[str, Any], ids: Mapping[str, int]) -> Annotation:
    row: Annotation = archive_rows.columns_of(Annotation, with_moments(dict(given)), ANNOTATION)
    row.user_id = ids[given["user"]]
    for part in ("spans", "flags", "rejected", "decisions"):
        setattr(row, part, _parts(part, given))
    return row


def _question(given: Mapping[str, Any], task_id: int, ids: Mapping[str, int]) -> Question:
    moments = with_moments(dict(given))
    row = Question(task_id=task_id, asked_by=ids[given["asked_by"]], text=given["text"])
    row.asked_at, row.closed_at = moments["asked_at"], moments["closed_at"]
    for given_answer in given["answers"]:
        answer = Answer(
            user_id=ids[given_answer["user"]],
            text=given_answer["text"],
            answered_at=with_moments(given_answer)["answered_at"],
        )
        row.answers.append(answer)
    return row


def _parts(part: str, given: Mapping[str, Any]) -> list[Any]:
    return [archive_rows.columns_of(_TABLES[part], item, PARTS[part]) for item in given[part]]


def _insert_snapshot(session: Session, campaign_id: int, listed: Mapping[str, Any], content: str) -> None:
    snapshot_rows.add(
        session,
        campaign_id=campaign_id,
        hash=listed["hash"],
        content=content,
        domain_name=listed["domain_name"],
        types=listed["types"],
        counts=listed["counts"],
        created_by=None,
    )
