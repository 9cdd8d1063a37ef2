"""The kinds of jobs. A new one is a file in `kinds/` that registers a JobKind under the file's name."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from crossner_core.errors import InvalidConfig
from crossner_core.registry import Registry
from db import job_rows
from db.engine import Session, Store
from db.training_tables import Job
from workbench.accounts.roles import KEEPERS
from workbench.jobs.context import Claimed, JobContext
from workbench.settings import Settings

# Jobs of a larger priority give way to what waits and comes before them: cells of a curve, pre-trainings, studies.
PATIENT_ABOVE = 12


class Payload(Protocol):
    """What a job was asked for, as a value that is stored as plain JSON."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_dict` gave."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        ...


class Fields(BaseModel):
    """A payload made of fields; only those that were given are stored."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Check and read plain values; raise InvalidConfig for an unknown or wrong one."""
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            problem = error.errors()[0]
            where = ".".join(map(str, problem["loc"]))
            known = ", ".join(cls.model_fields) or "none"
            raise InvalidConfig(
                f"A job was asked for with a wrong {where!r}: {problem['msg']} (fields: {known})."
            ) from error

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that were given."""
        return self.model_dump(exclude_unset=True)


P = TypeVar("P", bound=Payload)


@dataclass(frozen=True)
class Outcome:
    """How a handler ended: `message` is what became of the job, `write` goes into the transaction that says so.

    Where `finished` is None, the job is done unless it was cancelled, or goes back into the queue, meanwhile. `after`
    is called once it is written down that the job is done.
    """

    message: str = ""
    finished: bool | None = None
    write: Callable[[Session], None] = lambda session: None
    after: Callable[[], object] = lambda: None


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a job's log."""

    at: dt.datetime
    text: str


def _own_log(session: Session, _settings: Settings, job: Claimed) -> tuple[LogLine, ...]:
    return tuple(LogLine(line.at, line.message) for line in job_rows.lines(session, job.id))


@dataclass(frozen=True)
class JobKind(Generic[P]):
    """A kind of job: who may ask for it, what it is asked for, and what the worker does with it.

    `handle` runs in the worker alone, imports what is heavy by itself, and returns what became of the job: words, or an
    Outcome. A smaller `priority` comes first. All that follows has a default that fits most kinds.

    `meets`, asked of each job of the kind that waits or runs in the same campaign before another is queued, says
    whether that one does it, too, or raises Conflict. `after` names a job that has to end before. `follow` writes what
    a job's new state means for a kind's own rows, in the transaction of that state; `forget` removes what a cancelled
    job had saved. `can_resume` says whether a failed job can be queued again and resumes from what it saved. `say` and
    `log` write and read a log that is kept elsewhere than beside the job. `tick` does what is due by itself.
    """

    name: str
    title: str
    priority: int
    payload: type[P]
    handle: Callable[[JobContext, P], Outcome | str]
    roles: tuple[str, ...] = KEEPERS
    idle: str = "No job of this kind is under way in this campaign"
    meets: Callable[[Job, Mapping[str, Any]], bool] = lambda job, payload: False
    after: Callable[[Session, Claimed], int | None] = lambda session, job: None
    follow: Callable[[Session, Claimed, str, str | None], None] = lambda session, job, state, error: None
    forget: Callable[[Settings, Claimed], object] = lambda settings, job: None
    can_resume: Callable[[Settings, Claimed], bool] | None = None
    names: Callable[[Claimed], str] = lambda job: f"Job {job.id}"
    say: Callable[[JobContext, str], None] = JobContext.say
    log: Callable[[Session, Settings, Claimed], tuple[LogLine, ...]] = _own_log
    tick: Callable[[Store], int] = lambda store: 0


KINDS: Registry[JobKind[Any]] = Registry("workbench.jobs.kinds", "job kind")


def register(kind: JobKind[P]) -> JobKind[P]:
    """Register a kind under its name; raise InvalidConfig for one that is taken."""
    KINDS.add(kind.name, kind)
    return kind


def job_kinds() -> tuple[str, ...]:
    """Return the names of all kinds: those of the files in `kinds/`, and what was registered besides."""
    return KINDS.ids()


def kind_of(name: str) -> JobKind[Any]:
    """Return the kind of a job that is there; for one of another version a kind that does nothing of its own."""
    return job_kind(name) if name in job_kinds() else JobKind(name, name, 0, Fields, lambda context, payload: "")


def job_kind(name: str) -> JobKind[Any]:
    """Return a kind; raise InvalidConfig naming those there are."""
    return KINDS.one(name)
