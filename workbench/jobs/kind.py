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
from workbench.accounts.actors import Actor
from workbench.accounts.roles import KEEPERS
from workbench.jobs.context import Claimed, JobContext
from workbench.settings import Settings

# Jobs above this priority give way to waiting jobs that go before them: cells of a curve, pre-trainings, studies.
PATIENT_ABOVE = 12


class Payload(Protocol):
    """The request of a job, stored as plain JSON."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_dict` returned."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        ...


class Fields(BaseModel):
    """A payload made of fields; only those that were given are stored."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Check and read plain values; raise InvalidConfig for an unknown field or a wrong value."""
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
    """How a handler ended: `message` describes the outcome, `write` joins the transaction that records it.

    If `finished` is None, the job is done, unless it was cancelled or has to go back to the queue. `after` is called
    once the job is recorded as done.
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
    """A kind of job: who may start it, its payload, and how the worker runs it.

    `handle` runs in the worker only, does heavy imports itself, and returns the outcome: a message, or an Outcome. A
    smaller `priority` goes first. The fields after it have defaults that fit most kinds.

    Before somebody's job is queued, `allows` raises NotAllowed or NotFound where the payload names what that person may
    not see. `meets` is then called for each queued or running job of the kind in the same campaign: it
    returns whether that job already serves the request, or raises Conflict. `after` returns the id of a job that has to
    end first. `follow` updates the kind's own rows for a job's new state, in the transaction of that state; `forget`
    removes what a cancelled job had saved. `can_resume` is whether a failed job can be queued again and resumes from
    its saved state; `saved_step` is how far that state has come, 0 if there is none: worker deaths count anew once it
    has grown. `say` and `log` write and read a log that is not kept with the job. `tick` does periodic work.
    """

    name: str
    title: str
    priority: int
    payload: type[P]
    handle: Callable[[JobContext, P], Outcome | str]
    roles: tuple[str, ...] = KEEPERS
    idle: str = "No job of this kind is queued or running in this campaign"
    meets: Callable[[Job, Mapping[str, Any]], bool] = lambda job, payload: False
    allows: Callable[[Session, Actor, P], None] = lambda session, actor, payload: None
    after: Callable[[Session, Claimed], int | None] = lambda session, job: None
    follow: Callable[[Session, Claimed, str, str | None], None] = lambda session, job, state, error: None
    forget: Callable[[Settings, Claimed], object] = lambda settings, job: None
    can_resume: Callable[[Settings, Claimed], bool] | None = None
    saved_step: Callable[[Session, Settings, Claimed], int] = lambda session, settings, job: 0
    names: Callable[[Claimed], str] = lambda job: f"Job {job.id}"
    say: Callable[[JobContext, str], None] = JobContext.say
    log: Callable[[Session, Settings, Claimed], tuple[LogLine, ...]] = _own_log
    tick: Callable[[Store], int] = lambda store: 0


KINDS: Registry[JobKind[Any]] = Registry("workbench.jobs.kinds", "job kind")


def register(kind: JobKind[P]) -> JobKind[P]:
    """Register a kind under its name; raise InvalidConfig if the name is taken."""
    KINDS.add(kind.name, kind)
    return kind


def job_kinds() -> tuple[str, ...]:
    """Return the names of all kinds: those of the files in `kinds/`, and any registered elsewhere."""
    return KINDS.ids()


def kind_of(name: str) -> JobKind[Any]:
    """Return the kind of an existing job; a placeholder without behaviour for a kind of another version."""
    return job_kind(name) if name in job_kinds() else JobKind(name, name, 0, Fields, lambda context, payload: "")


def job_kind(name: str) -> JobKind[Any]:
    """Return a kind; raise InvalidConfig naming those that exist."""
    return KINDS.one(name)
