"""Commands of studies: list, run, cancel, show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from crossner_core.command_line import OptionsCommand
from workbench.commands import common
from workbench.commands.recipe_options import takes_changes

app = typer.Typer(help="Studies: the papers' tables with our encoder and data.", no_args_is_help=True)

Section = Annotated[
    str, typer.Option(help="Section that keeps these results apart from others of the study, such as dev.")
]
StudyName = Annotated[str, typer.Argument(help="Study, by its id; see workbench study list.")]


@app.command("list")
def list_studies() -> None:
    """List the studies and how far each is."""
    from workbench.runs import studies

    rows = []
    for study in studies.list_studies(common.PLACE.store, common.PLACE.actor):
        cells = f"{study.done} of {study.total}" if study.result else "–"
        state = study.job.state if study.job else "–"
        if study.job and state == "running":
            state += f" {study.job.progress:.0%}"
        rows.append(
            (study.id, study.section or "–", cells, state, study.result.made_at if study.result else "–", study.title)
        )
    common.table(rows, ("study", "section", "cells", "job", "made", "title"))


@takes_changes
def run(
    changes: dict[str, Any],
    study: StudyName,
    corpora: Annotated[str | None, typer.Option(help="Corpora, separated by commas. Default: the study's own.")] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Seeds to average over, separated by commas. Default: the study's own.")
    ] = None,
    encoders: Annotated[
        list[str] | None,
        typer.Option("--encoders", help="Encoder as NAME or LABEL=NAME; can be repeated."),
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option("--option", help="Other option of this study, as NAME=VALUE; can be repeated."),
    ] = None,
    section: Section = "",
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Number of cells trained in parallel. Default: $CROSSNER_STUDY_WORKERS, else 1"),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(help="Address of a Ray cluster to train on; local starts one. Default: $CROSSNER_RAY, else none"),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of the corpora. Default: $CROSSNER_DATA")] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Train in this process, instead of queueing the study for a worker.")
    ] = False,
) -> int:
    """Train a study's cells that have no result yet, and make its tables and figure."""
    from workbench.runs import studies

    values: dict[str, Any] = {
        **({} if corpora is None else {"corpora": [part.strip() for part in corpora.split(",")]}),
        **({} if seeds is None else {"seeds": list(common.numbers(seeds, "--seeds"))}),
        "encoders": encoders or [],
        "recipe": changes,
        **_own_options(study, options or []),
    }
    store, actor = common.PLACE.store, common.PLACE.actor
    job_id, is_new = studies.start_study(
        store, actor, study, values, section=section, data=data, workers=workers, ray=ray
    )
    typer.echo(f"Study {study}: job {job_id} {'is queued' if is_new else 'is queued or running already'}.")
    if not wait:
        return common.left_to_worker()
    code = common.follow_here(job_id)
    if code == 0:
        show(study, section)
    return code


app.command(cls=OptionsCommand)(run)


@app.command()
def cancel(study: StudyName, section: Section = "") -> None:
    """Cancel a queued or running study; cells trained so far are kept."""
    from workbench.runs import studies

    state = studies.cancel_study(common.PLACE.store, common.PLACE.actor, study, section)
    typer.echo(f"Study {study}: {common.cancelled(state)}")


@app.command()
def show(
    study: StudyName,
    section: Section = "",
    to: Annotated[
        str, typer.Option(help="markdown, csv (the first table), csv-archive (all tables) or latex.")
    ] = "markdown",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write. Default: standard output.")
    ] = None,
) -> None:
    """Print a study's tables."""
    from workbench.runs import studies

    names = {"markdown": "table.md", "csv": "table.csv", "latex": "table.tex"}
    store, actor = common.PLACE.store, common.PLACE.actor
    if to == "csv-archive":
        common.write_out(studies.study_archive(store, actor, study, section), output)
        return
    if to not in names:
        common.refuse(f"--to is {to!r}; choose one of {', '.join(names)}, csv-archive.")
    common.write_out(studies.study_file(store, actor, study, names[to], section), output)


def _own_options(study: str, given: list[str]) -> dict[str, Any]:
    """Read NAME=VALUE as JSON if it is valid, comma-separated lists too, else as text."""
    import json

    from workbench.runs import studies

    values: dict[str, Any] = {}
    kinds = studies.option_kinds(study)
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or name not in kinds:
            common.refuse(f"--option is {text!r}; give NAME=VALUE with one of {', '.join(kinds) or 'none'} as NAME.")
        text = f"[{value}]" if kinds[name] is tuple and not value.startswith("[") else value
        try:
            values[name] = json.loads(text)
        except ValueError:
            values[name] = [part.strip() for part in value.split(",")] if kinds[name] is tuple else value
    return values
