"""`workbench user`: accounts."""

from __future__ import annotations

from typing import Annotated

import typer

from workbench.accounts.roles import Role
from workbench.commands import common

app = typer.Typer(help="Accounts: list, add, change role or password.", no_args_is_help=True)
RoleOption = Annotated[Role, typer.Option(help="Role, which decides what the person may do.")]


@app.command("list")
def list_() -> None:
    """List the accounts."""
    from workbench.accounts import accounts

    people = accounts.list_people(common.PLACE.store, common.PLACE.actor)
    rows = [(person.name, person.display_name, person.role, "yes" if person.active else "no") for person in people]
    common.table(rows, ("name", "shown as", "role", "active"))


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="Account name: lower-case letters, digits, '.', '_', '-'.")],
    role: RoleOption = "annotator",
    display_name: Annotated[str, typer.Option(help="Display name. Default: the account name.")] = "",
    ask: Annotated[bool, typer.Option("--ask", help="Prompt for the password instead of generating one.")] = False,
) -> None:
    """Add an account; its random password is printed once."""
    from workbench.accounts import accounts

    # An empty store has nobody to act as yet: its first account, an admin's, needs no permission.
    actor = common.PLACE.actor if common.PLACE.has_admin else None
    password = _password(ask)
    made = accounts.create_user(
        common.PLACE.store, actor, name=name, display_name=display_name, password=password, role=role
    )
    typer.echo(f"{made.name} ({made.role}) was added." + ("" if ask else f" Password: {password}"))


@app.command("role")
def set_role(
    name: str, role: Annotated[Role, typer.Argument(help="Role, which decides what the person may do.")]
) -> None:
    """Change a person's role."""
    from workbench.accounts import accounts

    accounts.set_role(common.PLACE.store, common.PLACE.actor, common.find_person(name).id, role)
    typer.echo(f"{name} is {role} now.")


@app.command("password")
def set_password(
    name: str,
    ask: Annotated[bool, typer.Option("--ask", help="Prompt for the password instead of generating one.")] = False,
) -> None:
    """Set a new password for a person and sign them out everywhere."""
    from workbench.accounts import accounts

    password = _password(ask)
    accounts.set_password(common.PLACE.store, common.PLACE.actor, common.find_person(name).id, password)
    typer.echo(f"{name} has a new password" + ("." if ask else f": {password}"))


def _password(ask: bool) -> str:
    from workbench.accounts.passwords import random_password

    return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True)) if ask else random_password()
