"""`workbench token`: personal tokens for the API."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from workbench.commands import common

app = typer.Typer(help="Tokens for the API: make, list, revoke one's own (see --as).", no_args_is_help=True)
Scope = Literal["read", "write", "train"]


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Name by which you tell your tokens apart, such as where it is used.")],
    scope: Annotated[
        Scope, typer.Option(help="What it may do: read and predict; write, too; train, too. Never more than you may.")
    ] = "read",
    days: Annotated[int, typer.Option(help="Days until it expires, 1 to 366.")] = 90,
) -> None:
    """Make a token; its secret is printed once, alone on standard output."""
    from workbench.accounts import tokens

    made = tokens.create_token(common.PLACE.store, common.PLACE.actor, name=name, scope=scope, days=days)
    line = f"Token {made.token.id} of {common.PLACE.actor.name}: {scope}, until {made.token.expires_at:%Y-%m-%d}."
    typer.echo(f"{line} It is not shown again.", err=True)
    typer.echo(made.secret)


@app.command("list")
def list_() -> None:
    """List the tokens, without their secrets."""
    from workbench.accounts import tokens

    rows = [
        (
            token.id,
            token.name,
            token.scope,
            token.state,
            f"{token.expires_at:%Y-%m-%d}",
            f"{token.last_used_at:%Y-%m-%d %H:%M}" if token.last_used_at else "never",
        )
        for token in tokens.list_tokens(common.PLACE.store, common.PLACE.actor)
    ]
    common.table(rows, ("number", "name", "scope", "state", "expires", "last used (UTC)"))


@app.command()
def revoke(number: Annotated[int, typer.Argument(help="Number of the token, as `token list` shows it.")]) -> None:
    """Revoke a token at once and for good."""
    from workbench.accounts import tokens

    tokens.revoke_token(common.PLACE.store, common.PLACE.actor, number)
    typer.echo(f"Token {number} is revoked.")
