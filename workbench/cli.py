"""`workbench`: the whole job by command line. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
import typer.exceptions

from workbench.commands import (
    campaigns,
    common,
    corpus,
    data,
    domains,
    encoders,
    gazetteer,
    people,
    second_look,
    server,
    studies,
    training,
    turns,
)

app = typer.Typer(
    name="workbench",
    help="Annotate, check, adjudicate and retrain named-entity recognition in a new domain.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for _part in (server, data, training):
    _part.add_to(app)
app.add_typer(campaigns.app, name="campaign")
app.add_typer(corpus.corpora, name="corpus")
app.add_typer(domains.app, name="domain")
app.add_typer(encoders.app, name="encoder")
app.add_typer(gazetteer.app, name="gazetteer")
app.add_typer(people.app, name="user")
app.add_typer(second_look.app, name="second-look")
app.add_typer(studies.app, name="study")
app.add_typer(turns.app, name="turn")
app.add_typer(data.datasets, name="dataset")


@app.callback()
def options(
    as_name: Annotated[
        str | None,
        typer.Option(
            "--as",
            envvar="CROSSNER_AS",
            help="Act as this account, with its role. Default: the oldest admin account, since who can run commands "
            "on this machine can reach the whole store anyway.",
        ),
    ] = None,
    home: Annotated[
        Path | None,
        typer.Option(help="Folder with the store and the checkpoints. Default: $CROSSNER_HOME or ./.workbench"),
    ] = None,
) -> None:
    """Keep the options before the command."""
    common.PLACE = common.Place(home=home, as_name=as_name)


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return 0, 2 for what the user can mend (one clear line on stderr), 130 when interrupted."""
    from crossner_core.errors import WorkbenchError

    try:
        code = app(args=arguments, prog_name="workbench", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except typer.exceptions.TyperException as error:
        # Without a command the message is the help itself.
        is_help = type(error).__name__ == "NoArgsIsHelpError"
        said = error.format_message()
        print(said if is_help else f"workbench: {said} (see --help)", file=sys.stderr)
        return 2
    except WorkbenchError as error:
        print(f"workbench: {error}", file=sys.stderr)
        return 2
    except (typer.Abort, KeyboardInterrupt):
        print("workbench: interrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output went away (a pipe into head); that is no error of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
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
