"""`workbench doctor`: check a store and its home folder, repair what is safe to repair."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.commands import common

if TYPE_CHECKING:
    from workbench.doctor.examining import CheckResult

_Ids = list[str] | None


def doctor(
    repair: Annotated[_Ids, typer.Option("--repair", help="Repair what this check finds; repeatable.")] = None,
    only: Annotated[_Ids, typer.Option("--only", help="Run this check alone; repeatable.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Check the store and the home folder: 0 if all is well, 1 where something was found, 2 if it could not look.

    Nothing is changed, and the store is not brought to a newer migration, unless --repair names a check.
    """
    from workbench.doctor.examining import examine
    from workbench.doctor.examining import repair as mend

    store = common.PLACE.store_as_it_is()
    for check_id in repair or ():
        mended = mend(store, common.PLACE.actor, check_id)
        typer.echo(f"{mended.id}: {mended.count} repaired. {mended.remedy}", err=as_json)
    examination = examine(store, common.PLACE.actor, tuple(only or ()) or tuple(repair or ()))
    if as_json:
        typer.echo(json.dumps(examination.to_dict(), indent=1, ensure_ascii=False))
        return examination.exit_status
    for result in examination.results:
        _print(result)
    typer.echo(examination.line)
    return examination.exit_status


def _print(result: CheckResult) -> None:
    """Print a check's line, its first findings below it, and what can be done."""
    state = f"{result.count} found" if result.count else result.state
    typer.echo(f"{state:<14}  {result.id:<12}  {result.title}")
    for finding in result.findings:
        typer.echo(f"    {finding.subject}: {finding.problem}")
    if result.count > len(result.findings):
        typer.echo(f"    … and {result.count - len(result.findings):,} more")
    if result.obstacle:
        typer.echo(f"    {result.obstacle}")
    elif result.count:
        typer.echo(f"    → {f'--repair {result.id}: ' if result.repairable else ''}{result.remedy}")
