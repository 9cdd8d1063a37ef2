"""A whole campaign as one zip file, and a new campaign from such a file."""

from __future__ import annotations

import json
from typing import Any

from crossner_core.formats import write
from db import archive_rows, label_review_rows, people_rows, run_rows, snapshot_rows
from db.engine import Session, Store
from db.tables import Campaign
from db.types import now
from workbench.accounts import audit
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import KEEPERS
from workbench.data import layers
from workbench.data.archive_reading import read_archive
from workbench.data.archive_records import (
    FORMAT,
    SETTINGS,
    VERSION,
    AnnotationRecord,
    DecisionRecord,
    FindingRecord,
    LinkRecord,
    SentenceRecord,
    SnapshotRecord,
    SuggestionRecord,
    TaskRecord,
    VersionRecord,
    columns,
    iso,
    plain,
)
from workbench.data.archive_writing import insert_campaign
from workbench.data.packing import zipped
from workbench.labelling.work import Flag, Rejected, WorkSpan


def export_campaign(store: Store, actor: Actor, campaign_id: int) -> bytes:
    """Return everything of a campaign as a zip: domain, settings, sentences with every layer, snapshots, run scores.

    Beside `sentences.jsonl`, which `import_campaign` reads, it holds each layer as plain JSON lines for other tools.
    """
    require(actor, *KEEPERS)
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *KEEPERS)
        names = archive_rows.names(session)
        lines = _sentence_lines(session, campaign_id, names)
        files = {
            "domain.toml": campaign.domain_toml,
            "campaign.json": _json(_settings(session, campaign)),
            "people.json": _json(_people(session, campaign_id, lines)),
            "sentences.jsonl": "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines),
            "runs.json": _json(_runs(session, campaign_id)),
        }
        files |= _snapshots(session, campaign_id)
    for which in layers.LAYERS:
        items = [item for item, _ in layers.layer(store, actor, campaign_id, which)]
        if items:
            files[f"layers/{which}.jsonl"] = write(items, "jsonl")
    audit.record_alone(store, actor, "export_campaign", ("campaign", campaign.name), campaign_id, sentences=len(lines))
    manifest = {"format": FORMAT, "version": VERSION, "campaign": campaign.name, "exported_at": iso(now())}
    files = {"manifest.json": _json({**manifest, "sentences": len(lines)}), **files}
    return zipped({name: text.encode("utf-8") for name, text in files.items()})


def import_campaign(store: Store, actor: Actor, data: bytes, *, name: str | None = None) -> int:
    """Make a new campaign from an exported one, under its own or another name; return its id. For admins.

    People are matched by account name; those unknown here get a closed account, so that their work keeps its author.
    Everything is checked first: names and sizes in the zip, offsets, surfaces, types. Raises BadInput with what is
    wrong; nothing is imported then.
    """
    require(actor, "admin")
    archive = read_archive(data)
    return insert_campaign(store, actor, archive, name=name)


def _settings(session: Session, campaign: Campaign) -> dict[str, Any]:
    members = [user.name for user in people_rows.members(session, campaign.id)]
    return {**archive_rows.values(campaign, SETTINGS), "created_at": iso(campaign.created_at), "members": members}


def _people(session: Session, campaign_id: int, lines: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return who worked here and the members: names and roles, never a password."""
    mentioned = {user.name for user in people_rows.members(session, campaign_id)}
    for line in lines:
        mentioned |= {finding["decided_by"] for finding in line["second_look"]}
        for task in line["tasks"]:
            mentioned |= {user for user in (task["done_by"], *(work["user"] for work in task["annotations"])) if user}
            for question in task["questions"]:
                mentioned |= {question["asked_by"], *(answer["user"] for answer in question["answers"])}
    rows = archive_rows.people(session, sorted(mentioned))
    return [{"name": row.name, "display_name": row.display_name, "role": row.role} for _, row in sorted(rows.items())]


def _sentence_lines(session: Session, campaign_id: int, names: dict[int, str]) -> list[dict[str, Any]]:
    versions = archive_rows.versions(session, campaign_id)
    questions = archive_rows.questions(session, campaign_id)
    decided = _decided(session, campaign_id)
    lines = []
    for row, tasks in archive_rows.sentences(session, campaign_id):
        line = _values(SentenceRecord, row)
        line["links"] = [_values(LinkRecord, link) for link in row.links]
        line["suggestions"] = [_values(SuggestionRecord, suggestion) for suggestion in row.suggestions]
        line["tasks"] = [_task(task, names, versions, questions) for task in tasks]
        line["second_look"] = decided.get(row.id, [])
        lines.append(line)
    return lines


def _decided(session: Session, campaign_id: int) -> dict[int, list[dict[str, Any]]]:
    """Return the decisions of label review, by sentence id; a sentence compared with is named by its content hash."""
    rows = label_review_rows.decided(session, campaign_id)
    others = label_review_rows.sentences(session, [row.other_id for row, _ in rows if row.other_id is not None])
    hashes = {other.id: other.content_hash for other in others}
    grouped: dict[int, list[dict[str, Any]]] = {}
    for row, user in reversed(rows):
        values = _values(FindingRecord, row)
        values |= {"decided_by": user.name, "other": hashes.get(row.other_id or 0)}
        values["left_out"] = row.left_out_id and ("this" if row.left_out_id == row.sentence_id else "other")
        grouped.setdefault(row.sentence_id, []).append(values)
    return grouped


def _task(task: Any, names: dict[int, str], versions: dict[int, Any], questions: dict[int, Any]) -> dict[str, Any]:
    values = _values(TaskRecord, task)
    # A lease is a promise between a browser and this server; elsewhere the task is simply open.
    values["state"] = "open" if task.state == "leased" else task.state
    values["done_by"] = names.get(task.done_by) if task.done_by else None
    values["annotations"] = [
        _annotation(annotation, names, versions.get(annotation.id, [])) for annotation in task.annotations
    ]
    values["questions"] = [_question(question, names) for question in questions.get(task.id, [])]
    return values


def _annotation(annotation: Any, names: dict[int, str], versions: list[Any]) -> dict[str, Any]:
    return {
        "user": names[annotation.user_id],
        **_values(AnnotationRecord, annotation),
        "spans": [_values(WorkSpan, span) for span in annotation.spans],
        "flags": [_values(Flag, flag) for flag in annotation.flags],
        "rejected": [_values(Rejected, suggestion) for suggestion in annotation.rejected],
        "decisions": [_values(DecisionRecord, decision) for decision in annotation.decisions],
        "versions": [_values(VersionRecord, version) for version in versions],
    }


def _question(question: Any, names: dict[int, str]) -> dict[str, Any]:
    answers = [
        {"user": names[answer.user_id], "text": answer.text, "answered_at": iso(answer.answered_at)}
        for answer in question.answers
    ]
    times = {"asked_at": iso(question.asked_at), "closed_at": iso(question.closed_at)}
    return {
        "asked_by": names[question.asked_by],
        "text": question.text,
        **times,
        "answers": answers,
        "asks": question.asks,
    }


def _snapshots(session: Session, campaign_id: int) -> dict[str, str]:
    files, listed = {}, []
    for row in reversed(snapshot_rows.listed(session, campaign_id=campaign_id)):
        full = snapshot_rows.get(session, row.id, content=True)
        assert full is not None
        files[f"snapshots/{full.hash}.jsonl"] = full.content
        listed.append(_values(SnapshotRecord, full))
    return {"snapshots.json": _json(listed), **files}


def _runs(session: Session, campaign_id: int) -> list[dict[str, Any]]:
    shown = ("id", "group_id", "size", "seed", "recipe", "state", "dev_f1", "test_f1", "created_at", "finished_at")
    rows = run_rows.listed(session, campaign_id=campaign_id)
    return [
        {**plain(archive_rows.values(row, shown)), "snapshot": row.snapshot.hash if row.snapshot else None}
        for row in reversed(rows)
    ]


def _values(record: type[Any], row: Any) -> dict[str, Any]:
    """Return a row's values of a record's fields, ready for JSON."""
    return plain(archive_rows.values(row, columns(record, type(row))))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"
