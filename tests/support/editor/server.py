"""The server side of the harness: applies outbox events to an SQLite file as the editor's contract says."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.support.editor.samples import TYPES, adjudicate_item, check_item, item

SCHEMA = """
CREATE TABLE IF NOT EXISTS work (task INTEGER PRIMARY KEY, revision INTEGER, state TEXT, client TEXT, work TEXT,
  active_ms INTEGER, keystrokes INTEGER, reason TEXT);
CREATE TABLE IF NOT EXISTS applied (key TEXT PRIMARY KEY, client TEXT, seq INTEGER);
"""


@contextmanager
def store(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the file and commit at the end."""
    with closing(sqlite3.connect(path, timeout=15)) as db:
        db.row_factory = sqlite3.Row
        db.executescript(SCHEMA)
        yield db
        db.commit()


def build(mode: str, task: int, row: sqlite3.Row | None) -> dict[str, Any]:
    """The item of a task with what is stored of it."""
    make = {"check": check_item, "adjudicate": adjudicate_item}.get(mode, item)
    stored = json.loads(row["work"]) if row else None
    return make(task) | {"revision": row["revision"] if row else 0, "work": stored}


def apply(path: Path, mode: str, outbox: dict[str, Any] | None) -> dict[str, Any]:
    """Apply the events of an outbox; return its acks and rejections."""
    acks: dict[str, int] = {}
    rejections: list[dict[str, Any]] = []
    if outbox:
        with store(path) as db:
            for event in outbox["events"]:
                reason = apply_event(db, outbox["client"], event)
                if reason is None:
                    acks[outbox["client"]] = max(acks.get(outbox["client"], 0), event["seq"])
                    continue
                row = db.execute("SELECT * FROM work WHERE task = ?", (event["task"],)).fetchone()
                theirs = build(mode, event["task"], row)
                rejections.append(
                    {"client": outbox["client"], "seq": event["seq"], "task": event["task"], "reason": reason,
                     "message": "", "item": theirs}
                )  # fmt: skip
    return {"acks": acks, "rejections": rejections}


def apply_event(db: sqlite3.Connection, client: str, event: dict[str, Any]) -> str | None:
    """Apply one event; return the reason when it is refused."""
    if db.execute("SELECT 1 FROM applied WHERE key = ?", (event["key"],)).fetchone():
        return None
    row = db.execute("SELECT * FROM work WHERE task = ?", (event["task"],)).fetchone()
    if event["base"] != (row["revision"] if row else 0):
        return "conflict"
    state = {"submit": "done", "skip": "skipped"}.get(event["kind"], "draft")
    effort = [event[name] + (row[name] if row else 0) for name in ("active_ms", "keystrokes")]
    db.execute(
        "INSERT OR REPLACE INTO work VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (event["task"], event["revision"], state, client, json.dumps(event["work"]), *effort, event.get("reason", "")),
    )
    db.execute("INSERT INTO applied VALUES (?, ?, ?)", (event["key"], client, event["seq"]))
    return None


def payload(path: Path, mode: str, answer: dict[str, Any], total: int) -> dict[str, Any]:
    """What the page hands to the editor."""
    with store(path) as db:
        rows = {row["task"]: row for row in db.execute("SELECT * FROM work")}
    over = {task for task, row in rows.items() if row["state"] != "draft"}
    open_tasks = [task for task in range(6, 6 + total) if task not in over]
    items = [build(mode, task, rows.get(task)) for task in open_tasks[:4]]
    return {
        "user": 7, "campaign": 3, "mode": mode, "types": TYPES, "items": items, **answer,
        "progress": {"done": len(over), "left": len(open_tasks)}, "empty": "Everything here is done. Thank you.",
    }  # fmt: skip
