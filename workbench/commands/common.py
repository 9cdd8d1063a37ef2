"""What all commands share: who acts, where the store is, tables, and finding a campaign by name."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from crossner_core.folders import write_bytes

if TYPE_CHECKING:
    from crossner_core.domains import Domain
    from crossner_core.wikipedia.corpus import Corpus
    from db.engine import Store
    from workbench.accounts.actors import Actor
    from workbench.campaigns.campaigns import CampaignView
    from workbench.settings import Settings

CampaignName = Annotated[str, typer.Option("--campaign", "-c", help="Campaign, by name or number.")]
MaybeCampaign = Annotated[str | None, typer.Option("--campaign", "-c", help="Campaign, by name or number.")]
MaybeDataset = Annotated[str | None, typer.Option("--dataset", "-d", help="Data set, by name.")]


@dataclass
class Place:
    """The options before the command: where the data is and which account to act as."""

    home: Path | None = None
    as_name: str | None = None
    _store: Store | None = field(default=None, repr=False)

    @property
    def settings(self) -> Settings:
        from workbench.settings import get_settings

        configured = get_settings()
        return configured.model_copy(update={"home": self.home}) if self.home else configured

    @property
    def store(self) -> Store:
        """The store, at its newest migration."""
        from db.migrate import migrate
        from workbench.settings import open_store

        if self._store is None:
            self._store = open_store(self.settings)
            migrate(self._store)
        return self._store

    @contextmanager
    def readable(self) -> Iterator[Store]:
        """Yield the store, at its newest migration; one on a read-only disk as a copy in a temporary folder."""
        from db.engine import copied_if_read_only
        from db.migrate import migrate

        with tempfile.TemporaryDirectory(prefix="workbench-") as folder:
            if copy := copied_if_read_only(self.settings.url, Path(folder)):
                migrate(copy)
                self._store = copy
            yield self.store
            if copy:
                copy.close()
                self._store = None

    def store_as_it_is(self) -> Store:
        """Return the store without migrating it; raise StorageError where a SQLite store has no file yet."""
        from crossner_core.errors import StorageError
        from workbench.settings import open_store

        settings = self.settings
        if settings.database_url is None and not (file := settings.home / "workbench.sqlite3").is_file():
            raise StorageError(f"There is no store at {file}. Set CROSSNER_HOME or --home, or start with workbench up.")
        self._store = open_store(settings)
        return self._store

    @property
    def has_admin(self) -> bool:
        from crossner_core.errors import NotFound
        from workbench.accounts import accounts

        try:
            accounts.operator(self.store)
        except NotFound:
            return False
        return True

    @property
    def actor(self) -> Actor:
        """The person named by --as, or the oldest active admin."""
        from crossner_core.errors import NotFound
        from workbench.accounts import accounts

        if self.as_name is None:
            try:
                return accounts.operator(self.store)
            except NotFound as error:
                raise NotFound("This store has no admin yet: workbench user add NAME --role admin") from error
        person = next((user for user in self._people() if user.name == self.as_name), None)
        if person is None or not person.active:
            known = ", ".join(user.name for user in self._people() if user.active)
            raise NotFound(f"There is no active account {self.as_name!r}; there are: {known}.")
        actor = accounts.current(self.store, person.id)
        assert actor is not None
        return actor

    def _people(self) -> Sequence[Any]:
        from workbench.accounts import accounts

        return accounts.list_people(self.store, accounts.operator(self.store))


PLACE = Place()
"""Set by the options before the command; one command line is one process."""


def find_campaign(name: str) -> CampaignView:
    """Return a campaign by name or number; raise NotFound naming those that exist."""
    from crossner_core.errors import NotFound
    from workbench.campaigns import campaigns

    views = campaigns.list_campaigns(PLACE.store, PLACE.actor, archived=True)
    for view in views:
        if view.name == name or str(view.id) == name:
            return view
    known = ", ".join(repr(view.name) for view in views) or "none yet"
    raise NotFound(f"There is no campaign {name!r}; there are: {known}.")


def find_domain(name: str) -> Domain:
    """Return a domain by name, a built-in one without opening the store; raise NotFound."""
    from crossner_core.domains import builtin_domains, load_domain
    from workbench.campaigns import domains

    return load_domain(name) if name in builtin_domains() else domains.get_domain(PLACE.store, name)


def find_folder(home: Path, kind: str, name: str) -> Path:
    """Return the folder of this name in a folder of the home folder, or the folder at this path; raise NotFound."""
    from crossner_core.errors import NotFound
    from crossner_core.folders import named_folders

    for folder in (home / name, Path(name)):
        if folder.is_dir():
            return folder
    known = ", ".join(folder.name for folder in named_folders(home)) or "none yet"
    raise NotFound(f"There is no {kind} {name!r}; there are: {known}.")


def open_corpus(name: str) -> Corpus:
    """Open a corpus by its name in the home folder, or by its folder; raise NotFound naming those that exist."""
    from crossner_core.wikipedia.corpus import Corpus

    return Corpus.open(find_folder(PLACE.settings.corpora, "corpus", name))


def new_folder(name: str | None, output: Path | None) -> Path:
    """Return the folder of a new corpus: of this name in the home folder, or the one given; refuse both and neither."""
    from crossner_core.folders import is_name

    if output is not None and name is None:
        return output
    if name is None or output is not None:
        refuse("Give the new corpus either a name (--name) or a folder (--output).")
    if not is_name(name):
        refuse(f"The name {name!r} cannot be used: up to 60 letters, digits, - _ and . are allowed.")
    return PLACE.settings.corpora / name


def find_person(name: str) -> Any:
    """Return an account by name; raise NotFound."""
    from crossner_core.errors import NotFound
    from workbench.accounts import accounts

    people = accounts.list_people(PLACE.store, PLACE.actor)
    match = next((person for person in people if person.name == name), None)
    if match is None:
        raise NotFound(f"There is no account {name!r}; there are: {', '.join(person.name for person in people)}.")
    return match


def table(rows: Iterable[Sequence[object]], head: Sequence[str]) -> None:
    """Print rows under their headings, columns aligned."""
    texts = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(head))]
    for row in texts:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def percent(value: float | None) -> str:
    """Format a share as the papers do: 66.59; a dash for None."""
    return "–" if value is None else f"{100 * value:.2f}"


def numbers(text: str, what: str) -> tuple[int, ...]:
    """Read whole numbers separated by commas; raise BadInput otherwise."""
    from crossner_core.errors import BadInput

    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise BadInput(f"{what} is {text!r}; give whole numbers separated by commas, e.g. 10,25,40.") from error


def cancelled(state: str) -> str:
    """Describe the outcome of a cancel by the state it left: a running job ends a step later, others have ended."""
    if state == "running":
        return "running; it will stop at its next step"
    return state if state == "cancelled" else f"{state}; there is nothing to cancel"


def left_to_worker(line: str = "") -> int:
    """Print a line, and whether a worker is alive to run what was queued; return 0."""
    from workbench.jobs.queue import worker_status

    typer.echo(f"{line} {worker_status(PLACE.store).sentence}".lstrip())
    return 0


def do_here(job_id: int) -> None:
    """Run a job in this process."""
    from workbench.jobs.worker import Worker

    Worker(PLACE.store, PLACE.settings, job_ids=[job_id]).run(once=True)


def follow_here(job_id: int) -> int:
    """Run a job in this process, or watch the worker that took it, and print its output; return the exit code."""
    from workbench.jobs.following import work_here

    return work_here(PLACE.store, PLACE.actor, PLACE.settings, [job_id], echo=typer.echo)


def cancel_in_campaign(campaign: str, kind: str) -> None:
    """Cancel a campaign's job of a kind, and print the outcome."""
    from workbench.jobs import queue

    (state, *_) = queue.cancel_in_campaign(PLACE.store, PLACE.actor, find_campaign(campaign).id, kind)
    say_cancelled(state)


def say_cancelled(state: str) -> None:
    """Print the outcome of a cancel in a campaign."""
    typer.echo("Cancelled." if state == "cancelled" else "The worker was asked to stop.")


def write_out(data: bytes, output: Path | None) -> None:
    """Write to a file, or to standard output if none is named."""
    if output is None or str(output) == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    if output.exists() and not output.is_file():  # a pipe or a device
        try:
            output.write_bytes(data)
        except OSError as error:
            refuse(f"{output} cannot be written: {error.strerror or error}.")
    else:
        write_bytes(output.resolve(), data)
    typer.echo(f"{output}: {len(data):,} bytes", err=True)


def read_in(path: Path) -> bytes:
    """Read a file, or standard input for `-`."""
    if str(path) == "-":
        return sys.stdin.buffer.read()
    try:
        return path.read_bytes()
    except OSError as error:
        refuse(f"{path} cannot be read: {error.strerror or error}.")


def refuse(message: str) -> NoReturn:
    """Raise BadInput."""
    from crossner_core.errors import BadInput

    raise BadInput(message)
