"""Checks of a store and its home folder, what they find, and their registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from crossner_core.records import Record
from crossner_core.registry import Registry
from db.engine import Session
from workbench.settings import Settings


@dataclass(frozen=True, slots=True)
class Finding(Record):
    """Something that should not be: `subject` says where (`task 7`), `problem` what is wrong there."""

    subject: str
    problem: str


@dataclass(frozen=True, slots=True)
class Context:
    """What a check reads: the store, within a transaction, and the settings, which name the home folder."""

    session: Session
    settings: Settings


Find = Callable[[Context], Iterable[Finding]]
Mend = Callable[[Context], None]


@dataclass(frozen=True, slots=True)
class Check:
    """A check by its id; `remedy` is what its repair does, or, without a `mend`, what a person can do.

    `mend` removes all that `find` finds, in a transaction, and is given only where no work is lost. `order` is the
    place in the list; a check of the `schema` comes before those that read tables.
    """

    id: str
    title: str
    remedy: str
    find: Find
    mend: Mend | None = None
    order: int = 5


CHECKS: Registry[Check] = Registry("workbench.doctor.checks", "check", order=lambda check: check.order)


def register(id: str, title: str, *, remedy: str, mend: Mend | None = None, order: int = 5) -> Callable[[Find], Find]:
    """Register a function as a check."""

    def keep(find: Find) -> Find:
        CHECKS.add(id, Check(id, title, remedy, find, mend, order))
        return find

    return keep


def checks(only: Iterable[str] = ()) -> tuple[Check, ...]:
    """Return the checks of these ids, all by default; raise InvalidConfig naming the known ones."""
    chosen = set(only)
    for id in chosen:
        CHECKS.one(id)
    return tuple(CHECKS.one(id) for id in CHECKS.ids() if not chosen or id in chosen)
