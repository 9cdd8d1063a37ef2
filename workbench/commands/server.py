"""Commands that start and keep up the server: up, serve, worker, migrate, demo."""

from __future__ import annotations

from typing import Annotated

import typer

from workbench.commands import common


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    for command in (up, serve, worker, migrate, demo):
        app.command()(command)


def up(demo: Annotated[bool, typer.Option(help="Fill an empty store with the demo.")] = True) -> int:
    """Start everything: migrations, the demo in an empty store, the web app and one worker."""
    from workbench import up as starting

    _share_home()
    return starting.up(demo=demo)


def serve(
    port: Annotated[int | None, typer.Option(help="Port to listen on. Default: $CROSSNER_PORT or 8501")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on. Default: $CROSSNER_HOST or 127.0.0.1")] = None,
) -> None:
    """Start the web app alone."""
    from workbench.http.server import run

    given = {key: value for key, value in (("port", port), ("host", host)) if value is not None}
    _ = common.PLACE.store
    run(common.PLACE.settings.model_copy(update=given))


def worker(once: Annotated[bool, typer.Option(help="Exit when the queue is empty.")] = False) -> int:
    """Start a worker, which trains and pre-annotates."""
    from workbench.jobs.worker import main

    return main(common.PLACE.settings, once=once)


def migrate() -> None:
    """Upgrade the store to the latest migration."""
    typer.echo(f"The store at {common.PLACE.store.url.render_as_string(hide_password=True)} is up to date.")


def demo() -> None:
    """Fill an empty store with the demo campaigns and accounts; passwords are printed once."""
    from workbench.demo import seed, wiki

    lines = list(seed.seed_if_empty(common.PLACE.store))
    if lines:
        lines += wiki.make_if_absent(common.PLACE.settings)
    typer.echo("\n".join(lines) if lines else "The store has accounts already; the demo is only for an empty one.")


def _share_home() -> None:
    """Pass the folder given by --home on to the processes that are started."""
    import os

    if common.PLACE.home:
        os.environ["CROSSNER_HOME"] = str(common.PLACE.home.resolve())
