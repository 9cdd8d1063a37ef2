"""`workbench domain`: the domains to choose from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from workbench.commands import common

app = typer.Typer(help="Domains: entity types with their guidelines.", no_args_is_help=True)

File = Annotated[Path, typer.Argument(help="TOML file with the definition; - reads standard input.")]


@app.command("list")
def list_() -> None:
    """List the domains."""
    from workbench.campaigns import domains

    rows = [
        (view.name, "built in" if view.is_builtin else "own", len(view.types), "; ".join(view.used_by) or "–")
        for view in domains.list_domains(common.PLACE.store, common.PLACE.actor)
    ]
    common.table(rows, ("name", "origin", "types", "used by"))


@app.command()
def show(name: str) -> None:
    """Print a domain's definition as TOML, as a starting point for a new one."""
    from workbench.campaigns import domains

    typer.echo(domains.get_toml(common.PLACE.store, common.PLACE.actor, name), nl=False)


@app.command()
def check(file: File) -> None:
    """Validate a definition without adding it."""
    from workbench.campaigns import domains

    domain = domains.check_domain(_text(file))
    typer.echo(f"{domain.name}: valid; {len(domain.types)} types: {', '.join(domain.type_names)}")


@app.command()
def add(file: File) -> None:
    """Add a domain, or replace a custom one of the same name."""
    from workbench.campaigns import domains

    domain = domains.save_domain(common.PLACE.store, common.PLACE.actor, _text(file))
    typer.echo(f"{domain.name}: saved with {len(domain.types)} types.")


@app.command()
def delete(name: str) -> None:
    """Delete a custom domain that is not in use."""
    from workbench.campaigns import domains

    domains.delete_domain(common.PLACE.store, common.PLACE.actor, name)
    typer.echo(f"{name}: deleted.")


def _text(file: Path) -> str:
    try:
        return common.read_in(file).decode("utf-8")
    except UnicodeDecodeError as error:
        common.refuse(f"{file} is not UTF-8: {error.reason} at byte {error.start}.")
