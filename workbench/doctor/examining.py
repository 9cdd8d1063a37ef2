"""Examine a store and its home folder, keep the result for the admin's page, and repair what is safe to repair."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from crossner_core.errors import BadInput, Conflict, InvalidConfig, StorageError, WorkbenchError
from crossner_core.folders import write_json
from crossner_core.records import Record, read_json
from db.engine import Store
from db.types import now
from workbench.accounts import audit
from workbench.accounts.actors import Actor, admit, fresh, require
from workbench.doctor.base import Check, Context, Finding, checks
from workbench.settings import Settings, settings_of

log = logging.getLogger(__name__)
FILE = "doctor.json"
# The check whose findings mean that tables cannot be read as this version reads them.
_SCHEMA = "schema"
_READS_NO_TABLES = ("integrity", _SCHEMA, "disk", "packages", "leftovers", "builds")
_MOST_KEPT = 50


@dataclass(frozen=True, slots=True)
class CheckResult(Record):
    """What a check found: how much, the first findings, and, if it could not look, why.

    `remedy` is what its repair does (`repairable`), or what a person can do.
    """

    id: str
    title: str
    count: int
    findings: tuple[Finding, ...]
    obstacle: str
    remedy: str
    repairable: bool

    @property
    def state(self) -> str:
        """In one or two words: ok, found, could not look."""
        return "could not look" if self.obstacle else "found" if self.count else "ok"


@dataclass(frozen=True, slots=True)
class Examination(Record):
    """The results of all checks that were asked for, and when."""

    at: dt.datetime
    results: tuple[CheckResult, ...]

    @property
    def exit_status(self) -> int:
        """0 if all is well, 1 where something was found, 2 where a check could not look."""
        if any(result.obstacle for result in self.results):
            return 2
        return int(any(result.count for result in self.results))

    @property
    def line(self) -> str:
        """The outcome in one line."""
        blind = sum(bool(result.obstacle) for result in self.results)
        count = sum(result.count for result in self.results)
        if not count and not blind:
            examined = "1 check" if len(self.results) == 1 else f"{len(self.results)} checks"
            return f"All is well: {examined} found nothing."
        failing = sum(bool(result.count) for result in self.results)
        parts = [f"{failing} of {len(self.results)} checks found something ({count} in all)"]
        return "; ".join(parts + ([f"{blind} could not look"] if blind else [])) + "."


def examine(store: Store, actor: Actor, only: Sequence[str] = ()) -> Examination:
    """Run the checks of these ids, all by default, and change nothing; a whole examination is kept. For admins.

    A check that found something looks a second time and reports where it found something both times, since people
    work meanwhile: how much it is may change. Raises InvalidConfig for an unknown check.
    """
    admit(store, actor, "admin")
    settings, results = settings_of(store), []
    schema_differs = False
    for check in checks(only):
        if schema_differs and check.id not in _READS_NO_TABLES:
            results.append(_result(check, obstacle="the tables are not those of this version; see the check schema"))
            continue
        results.append(_look(store, settings, check))
        schema_differs = schema_differs or (check.id == _SCHEMA and results[-1].state != "ok")
    examination = Examination(now(), tuple(results))
    if not only:
        write_json(_file(settings), examination.to_dict())
    return examination


def repair(store: Store, actor: Actor, check_id: str) -> CheckResult:
    """Repair all that a check finds, in one transaction; return what it had found. For admins.

    Raises InvalidConfig for a check without a repair, Conflict where the check still finds something afterwards:
    then nothing is changed in the store.
    """
    require(actor, "admin")
    (check,) = checks([check_id])
    if check.mend is None:
        raise InvalidConfig(f"The check {check.id!r} has no repair. {check.remedy}")
    with store.write() as session:
        current = fresh(session, actor, "admin")
        context = Context(session, settings_of(store))
        before = list(check.find(context))
        if before:
            check.mend(context)
            session.flush()
        left = list(check.find(context))
        if left:
            raise Conflict(
                f"The repair of {check.id!r} left {len(left)} of {len(before)} findings, the first: {left[0].subject} "
                f"{left[0].problem}. Nothing was changed in the store; report this."
            )
        audit.record(session, current, "repair", ("check", check.id), findings=len(before))
    return _result(check, before)


def last_examination(store: Store, actor: Actor) -> Examination | None:
    """Return the last whole examination, None before the first; raise BadInput if its file is damaged. For admins."""
    admit(store, actor, "admin")
    path = _file(settings_of(store))
    try:
        return read_json(Examination, path.read_bytes(), FILE)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}. Check the folder's owner.") from error
    except BadInput as error:
        raise BadInput(f"{path} is damaged: {error}. Run “workbench doctor” again, which replaces it.") from error


def _look(store: Store, settings: Settings, check: Check) -> CheckResult:
    """Run one check; whatever keeps it from looking must not keep the others."""
    try:
        first = {finding.subject for finding in _find(store, settings, check)}
        findings = [finding for finding in _find(store, settings, check) if finding.subject in first] if first else []
    except WorkbenchError as error:
        return _result(check, obstacle=str(error))
    except Exception as error:  # a damaged store can raise anything; the log has the details
        log.exception("The check %s could not look", check.id)
        return _result(check, obstacle=f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")
    return _result(check, findings)


def _find(store: Store, settings: Settings, check: Check) -> list[Finding]:
    with store.read() as session:
        return list(check.find(Context(session, settings)))


def _result(check: Check, findings: Sequence[Finding] = (), *, obstacle: str = "") -> CheckResult:
    return CheckResult(
        id=check.id,
        title=check.title,
        count=len(findings),
        findings=tuple(findings[:_MOST_KEPT]),
        obstacle=obstacle,
        remedy=check.remedy,
        repairable=check.mend is not None,
    )


def _file(settings: Settings) -> Path:
    return settings.home.resolve() / FILE
