"""Every transaction that writes leaves an entry in the audit trail, or is on a list with the reason why not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.paths import ROOT

WRITES = {"write", "standing_still"}
RECORDS = {"record", "record_alone"}
NONE_NEEDED = {
    "accounts/sign_in.py attempt_by_provider": "counts attempts; the sign-in is recorded",
    "accounts/sign_in.py attempt_settled": "counts attempts; the sign-in is recorded",
    "backups/checking.py fill_from_rows": "fills a temporary store",
    "backups/restoring.py _hand_over": "copies a store that the restoring was recorded in",
    "campaigns/campaigns.py choose_campaign": "where a person works next",
    "campaigns/sentences.py add_sentences": "`add_within`, which it calls, records",
    "data/new_campaign.py make_campaign": "`write`, which it calls, records",
    "data/staging.py import_apart": "`add_within`, which it calls through `add`, records",
    "http/api/replays.py begin": "what was answered to a request, which is recorded itself",
    "http/api/replays.py keep": "what was answered to a request, which is recorded itself",
    "http/api/replays.py free": "what was answered to a request, which is recorded itself",
    "jobs/context.py say": "a job's own log",
    **dict.fromkeys(
        (
            "jobs/kinds/run.py _say",
            "jobs/kinds/run.py write",
            "jobs/kinds/score_pool.py suggest",
            "jobs/kinds/second_look.py look",
            "jobs/kinds/simulation.py play_simulations",
            "jobs/kinds/turn.py _begin",
            "jobs/kinds/turn.py _write",
            "jobs/running.py _fail",
            "jobs/running.py _settle",
        ),
        "a job's progress and results, which its rows and its log keep; who started it is recorded",
    ),
    **dict.fromkeys(
        ("jobs/lease.py _beat", "jobs/lease.py claim", "jobs/lease.py reclaim_stale", "jobs/lease.py stop"),
        "heartbeats and leases of workers",
    ),
    "labelling/handout.py items": "leases",
    "labelling/handout.py release": "leases",
    "labelling/outbox.py _apply_alone": "drafts and submits are kept as versions, from which the trail reads them; "
    "skips and reopenings are recorded in _write",
    "suggestions/asking_outside.py _write": "chunks of `ask`, which records at its end",
    "suggestions/asking_outside.py reserve": "a counter of a budget",
    "suggestions/asking_outside.py settle": "a counter of a budget",
    "webhooks/sending.py _claim": "deliveries, which the log of the webhook keeps",
    "webhooks/sending.py _tidy": "deliveries, which the log of the webhook keeps",
    "suggestions/preannotating.py put_many": "a cache of answers",
    "suggestions/preannotating.py _write": "chunks of `preannotate`, which records at its end",
}


def writers() -> Iterator[tuple[str, bool]]:
    """Yield each function of the workbench that opens a transaction to write, and whether it records."""
    root = ROOT / "workbench"
    for path in sorted(root.rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                called = set(_called(function))
                if called & WRITES and _writes(function):
                    yield f"{path.relative_to(root)} {function.name}", bool(called & RECORDS)


def _called(function: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id


def _writes(function: ast.FunctionDef) -> bool:
    """Return whether the function has a `with store.write() as …`."""
    return any(
        isinstance(item.context_expr, ast.Call)
        and isinstance(item.context_expr.func, ast.Attribute)
        and item.context_expr.func.attr in WRITES
        for node in ast.walk(function)
        if isinstance(node, ast.With)
        for item in node.items
    )


def test_what_writes_records_or_says_why_not() -> None:
    all_writers = dict(writers())
    assert len(all_writers) > 80
    silent = {name for name, records in all_writers.items() if not records}
    missing, gone = sorted(silent - NONE_NEEDED.keys()), sorted(NONE_NEEDED.keys() - silent)
    assert not missing, f"call audit.record in {missing}, or say in NONE_NEEDED why not"
    assert not gone, f"these record now, or are gone: {gone}"


def test_only_forgetting_changes_entries() -> None:
    """Nothing but the rows themselves touches the table, and these only add and forget."""
    for path in sorted([*(ROOT / "db").rglob("*.py"), *(ROOT / "workbench").rglob("*.py")]):
        if "AuditEntry" in path.read_text(encoding="utf-8"):
            assert path.parent in (ROOT / "db" / "audit", ROOT / "workbench" / "http" / "api" / "routes"), path
    text = Path(ROOT / "db" / "audit" / "rows.py").read_text(encoding="utf-8")
    assert "sa.update" not in text and text.count("sa.delete") == 1
