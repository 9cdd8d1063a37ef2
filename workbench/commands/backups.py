"""Commands that keep what there is: backup, restore, move."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.commands import common

if TYPE_CHECKING:
    from db.engine import Store


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    for command in (backup, restore, move):
        app.command()(command)


def backup(
    target: Annotated[
        Path, typer.Argument(help="Folder to add a backup to; or a file for the SQLite store alone, as store.sqlite3.")
    ],
    parts: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            help="Folder of the home to include, repeatable: checkpoints, encoders, experiments, signals, corpora, "
            "tagged, gazetteers; store for none. Default: the first three.",
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Include all of these folders.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Check the newest backup there instead.")] = False,
) -> int:
    """Back up the home while it is in use, or check a backup. Files that an earlier one there has are linked."""
    if verify:
        return _verify(target)
    from workbench.backups import making
    from workbench.backups.manifest import PARTS

    chosen = (
        PARTS if everything else making.BY_DEFAULT if parts is None else [part for part in parts if part != "store"]
    )
    if _is_file(target) and (parts is not None or everything):
        common.refuse(f"{target} is a file, which takes the store alone; give a folder for --with and --all.")
    with common.PLACE.readable() as store:
        actor = common.PLACE.actor
        if _is_file(target):
            typer.echo(f"{target}: {making.back_up_file(store, actor, target):,} bytes")
            return 0
        made = making.back_up(store, actor, common.PLACE.settings.home, target, chosen)
    for note in made.manifest.notes:
        typer.echo(note, err=True)
    size = sum(entry.size for entry in made.manifest.files.values())
    typer.echo(f"{made.folder}: {len(made.manifest.files):,} files, {size:,} bytes, {made.linked:,} linked")
    return 0


def restore(
    source: Annotated[Path, typer.Argument(help="Backup, folder of backups (the newest is taken), or copied store.")],
    home: Annotated[
        Path | None, typer.Option(help="Home to restore into, new or empty. Default: $CROSSNER_HOME or ./.workbench")
    ] = None,
) -> None:
    """Restore a backup into an empty home, and prove it equal: hashes, counts, gold, predictions."""
    from workbench.backups.restoring import restore as restore_home

    settings = common.PLACE.settings
    restored = restore_home(source, settings.model_copy(update={"home": home}) if home else settings)
    for line in (*restored.source.facts, *restored.skipped):
        typer.echo(line)
    if restored.taggers:
        typer.echo(f"Taggers that predict what they did: {restored.taggers:,}.")
    typer.echo(f"{restored.home} is equal to {restored.source.path}. Everybody signs in again.")


def move(
    source: Annotated[str, typer.Argument(help="Store to copy: a URL, or a SQLite file.")],
    target: Annotated[str, typer.Argument(help="Empty store to copy it to: a URL, or a new SQLite file.")],
) -> None:
    """Move a store from SQLite to PostgreSQL or back, and prove both equal; the app and all workers must be stopped."""
    from workbench.backups.moving import move as move_store

    before, after = _store(source, must_exist=True), _store(target, must_exist=False)
    actor = common.Place(as_name=common.PLACE.as_name, _store=before).actor
    sums = move_store(before, actor, after)
    rows = sum(table.rows for table in sums.values())
    typer.echo(f"{rows:,} rows in {len(sums)} tables, the same in both. The old store was left as it was.")
    typer.echo("Set CROSSNER_DATABASE_URL to the new one for the app and every worker, then start them.")


def _verify(target: Path) -> int:
    """Print what a backup holds and what is wrong with it; return 1 for a damaged one."""
    from workbench.backups.checking import verify

    checked = verify(target)
    for line in checked.source.facts:
        typer.echo(line)
    for problem in checked.problems:
        typer.echo(problem, err=True)
    typer.echo(f"{checked.source.path} is {'damaged' if checked.problems else 'whole'}.")
    return 1 if checked.problems else 0


def _is_file(target: Path) -> bool:
    """Return whether a target is a file's name: one with an ending of letters, unless such a folder exists."""
    return not target.is_dir() and any(character.isalpha() for character in target.suffix)


def _store(text: str, *, must_exist: bool) -> Store:
    """Open the store at a URL, or in a SQLite file."""
    from crossner_core.errors import NotFound
    from db.engine import Store

    store = Store(text if "://" in text else f"sqlite:///{Path(text).resolve()}")
    path = store.url.database if store.url.get_backend_name() == "sqlite" else None
    if must_exist and path is not None and not Path(path).is_file():
        raise NotFound(f"There is no store {path}; give a URL, as postgresql://USER@HOST/DATABASE, or a SQLite file.")
    return store
