"""`workbench audit`: who did what, when."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Annotated, Literal

import typer

from workbench.commands import common

_TIMES = ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]


def add_to(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command()(audit)


def audit(
    text: Annotated[str, typer.Argument(help="Part of a name, of the subject or of the details.")] = "",
    person: Annotated[str, typer.Option(help="Account name of who acted.")] = "",
    action: Annotated[str, typer.Option(help="Action, such as set_role, export_layer or sign_in.")] = "",
    campaign: common.MaybeCampaign = None,
    since: Annotated[dt.datetime | None, typer.Option(formats=_TIMES, help="From this time on, in UTC.")] = None,
    until: Annotated[dt.datetime | None, typer.Option(formats=_TIMES, help="Before this time, in UTC.")] = None,
    limit: Annotated[int, typer.Option(help="Entries to print, 1 to 500.")] = 50,
    format: Annotated[
        Literal["table", "csv", "jsonl"], typer.Option(help="A table of the newest, or all that match as a file.")
    ] = "table",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File for csv or jsonl; - prints.")] = None,
    forget_before: Annotated[
        dt.datetime | None,
        typer.Option(formats=_TIMES, help="Delete all entries of before this time (UTC) instead; that is recorded."),
    ] = None,
) -> None:
    """Show or export who did what, newest first; for admins, and for researchers what belongs to campaigns."""
    from workbench.reports import audit_trail
    from workbench.reports.audit_trail import Asked

    store, actor = common.PLACE.store, common.PLACE.actor
    asked = Asked(person, action, common.find_campaign(campaign).id if campaign else None, since, until, text)
    if forget_before is not None:
        if asked != audit_trail.EVERYTHING:
            common.refuse("--forget-before deletes all entries of before a time; give no other condition with it.")
        typer.echo(f"{audit_trail.forget(store, actor, forget_before):,} entries were deleted.")
        return
    if format != "table":
        common.write_out(audit_trail.export(store, actor, asked, format=format), output)
        return
    if output is not None:
        common.refuse("A table is printed; give --format csv or jsonl for a file.")
    part = audit_trail.search(store, actor, asked, limit=limit)
    rows = [
        (
            f"{entry.done_at:%Y-%m-%d %H:%M:%S}",
            entry.actor or "nobody",
            entry.via,
            entry.action,
            _printable(f"{entry.subject_kind} {entry.subject}".strip()),
            _printable(entry.campaign or (f"{entry.campaign_id}, deleted" if entry.campaign_id else "")),
            _printable(", ".join(f"{key}={value}" for key, value in entry.details.items())),
        )
        for entry in part.entries
    ]
    common.table(rows, ("when (UTC)", "who", "by", "action", "about", "campaign", "details"))
    if part.next is not None:
        typer.echo("There are more: narrow the search, raise --limit, or export them.", err=True)


def _printable(text: str) -> str:
    """Return a text that cannot steer the terminal."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)
