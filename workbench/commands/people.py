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
    """List the accounts, with the subjects at the sign-in provider that open them."""
    from workbench.accounts import accounts, identities

    people = accounts.list_people(common.PLACE.store, common.PLACE.actor)
    views = identities.list_identities(common.PLACE.store, common.PLACE.actor)
    waiting = {view.user_id for view in views if view.waits_since is not None}
    rows = [
        (
            person.name,
            person.display_name,
            person.role,
            "yes" if person.active else "waits" if person.id in waiting else "no",
            ", ".join(view.subject for view in views if view.user_id == person.id),
        )
        for person in people
    ]
    common.table(rows, ("name", "shown as", "role", "active", "at the provider"))


@app.command("let-in")
def let_in(
    name: str, role: Annotated[Role, typer.Argument(help="Role, which decides what the person may do.")]
) -> None:
    """Let in somebody who signed in with the provider for the first time and waits."""
    from workbench.accounts import identities

    identities.let_in(common.PLACE.store, common.PLACE.actor, common.find_person(name).id, role)
    typer.echo(f"{name} is let in as {role}.")


@app.command()
def link(
    name: str,
    subject: Annotated[str, typer.Argument(help="What the provider knows the person by: the claim sub.")],
    issuer: Annotated[str, typer.Option(help="The provider's issuer. Default: the one of oidc.toml.")] = "",
) -> None:
    """Let a person at the sign-in provider sign in to an account."""
    from crossner_core.errors import NotFound
    from workbench.accounts import identities
    from workbench.accounts.oidc.provider_settings import read_provider

    described = read_provider(common.PLACE.settings.sign_in_provider) if not issuer else None
    if not issuer and described is None:
        raise NotFound(f"{common.PLACE.settings.sign_in_provider} is not there; name the provider with --issuer.")
    given = issuer or (described.issuer if described is not None else "")
    person = common.find_person(name)
    identities.link_identity(common.PLACE.store, common.PLACE.actor, person.id, issuer=given, subject=subject)
    typer.echo(f"{subject} at {given} signs in to {name} now.")


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
