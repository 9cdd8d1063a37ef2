"""One base for every error a user can cause or should read."""

from __future__ import annotations

from typing import ClassVar


class WorkbenchError(Exception):
    """Base of all errors that are shown to a user; the message says what, which value, what is allowed."""


class InvalidSpan(WorkbenchError):
    """A span lies outside its sentence, overlaps another, or its surface does not match the text."""


class UnknownType(WorkbenchError):
    """An entity type that the domain does not define; the message lists those it does."""


class InvalidDomain(WorkbenchError):
    """A domain definition that cannot be used."""


class InvalidConfig(WorkbenchError):
    """A configuration value that is unknown or out of range."""


class BadInput(WorkbenchError):
    """A file that cannot be read as its format; `problems` lists file, line and reason."""

    def __init__(self, message: str, problems: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems


class EncoderUnavailable(WorkbenchError):
    """An encoder that cannot be loaded: missing, damaged, or its hub is unreachable."""


class CheckpointError(WorkbenchError):
    """A checkpoint that is missing, damaged, or of another domain or format version."""


class CheckpointMismatch(CheckpointError):
    """A checkpoint made with another recipe or other data than those it is to continue with."""


class EndpointUnavailable(WorkbenchError):
    """A SPARQL endpoint that did not return a complete answer."""


class NotAllowed(WorkbenchError):
    """The signed-in person's role does not permit this."""


class SignInRefused(NotAllowed):
    """Name and password match no active account (never which of them is wrong), or a provider's answer is no proof."""


class ProviderUnavailable(WorkbenchError):
    """A sign-in provider that did not answer, or not as OpenID Connect asks."""


class RateLimited(NotAllowed):
    """Too many attempts; the message states when the next one is possible."""


class InvalidAccount(WorkbenchError):
    """An account name, password or role that cannot be used."""


class NotFound(WorkbenchError):
    """No row of that kind with that id or name."""


class Conflict(WorkbenchError):
    """The stored state (revision, lease or name) has changed since it was read."""


class StorageError(WorkbenchError):
    """What is written cannot be kept: disk full, locked, or read-only."""


class StoreFailed(StorageError):
    """The database failed; its message names paths, hosts and accounts, and is for the log and the command line."""

    TRY_LATER: ClassVar[str] = "The workbench cannot reach its store right now; try again later."
    """All that a browser learns; the log has the rest."""
