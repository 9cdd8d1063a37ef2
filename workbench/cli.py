"""`workbench`: the whole workflow on the command line. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from crossner_core.command_line import Outcomes, new_app, run_app
from workbench.accounts.ways import acting
from workbench.commands import (
    audit,
    backups,
    campaigns,
    common,
    corpus,
    corpus_levels,
    data,
    doctor,
    domains,
    encoders,
    gazetteer,
    label_review,
    outside,
    people,
    rounds,
    server,
    studies,
    tokens,
    training,
    webhooks,
)

_OUTCOMES = Outcomes(prefix="workbench: ", interrupted="workbench: interrupted.")

app = new_app(
    name="workbench",
    help="Named-entity recognition in a new domain: annotate, check, adjudicate and retrain.",
    no_args_is_help=True,
)
for _part in (server, backups, audit, data, training):
    _part.add_to(app)
app.command()(doctor.doctor)
app.add_typer(campaigns.app, name="campaign")
corpus_levels.add_to(corpus.corpora)
app.add_typer(corpus.corpora, name="corpus")
app.add_typer(domains.app, name="domain")
app.add_typer(encoders.app, name="encoder")
app.add_typer(gazetteer.app, name="gazetteer")
app.add_typer(rounds.app, name="round")
app.add_typer(people.app, name="user")
app.add_typer(label_review.app, name="second-look")
app.add_typer(outside.app, name="outside")
app.add_typer(studies.app, name="study")
app.add_typer(tokens.app, name="token")
app.add_typer(webhooks.app, name="webhook")
app.add_typer(data.datasets, name="dataset")


@app.callback()
def options(
    as_name: Annotated[
        str | None,
        typer.Option(
            "--as",
            envvar="CROSSNER_AS",
            help="Act as this account, with its role. Default: the oldest admin account, since whoever can run "
            "commands on this machine has access to the whole store anyway.",
        ),
    ] = None,
    home: Annotated[
        Path | None,
        typer.Option(help="Folder of the store and the checkpoints. Default: $CROSSNER_HOME or ./.workbench"),
    ] = None,
) -> None:
    """Keep the options before the command."""
    common.PLACE = common.Place(home=home, as_name=as_name)


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return 0, 2 for an error the user can fix (one clear line on stderr), 130 when interrupted."""
    try:
        with acting("command"):
            return run_app(app, arguments, prog="workbench", outcomes=_OUTCOMES)
    except ValueError as error:
        if type(error).__name__ != "ValidationError":
            raise
        print(f"workbench: a CROSSNER_… setting is wrong: {_first_problem(error)}", file=sys.stderr)
        return 2


def _first_problem(error: ValueError) -> str:
    problem = error.errors()[0]  # type: ignore[attr-defined]
    return f"{'.'.join(map(str, problem['loc'])).upper()}: {problem['msg']}"


if __name__ == "__main__":
    raise SystemExit(main())
