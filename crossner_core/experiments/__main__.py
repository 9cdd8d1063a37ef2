"""Run a study: `python -m crossner_core.experiments STUDY --data DIR --out DIR`; `list` names the studies.

Under `accelerate launch --multi_gpu` or `torchrun` the processes train each cell together.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from crossner_core.command_line import Outcomes, SeveralValuesCommand, flag, new_app, run_app, with_flags
from crossner_core.errors import InvalidConfig, WorkbenchError
from crossner_core.experiments.records import pack
from crossner_core.experiments.report import put_section, study_section
from crossner_core.experiments.results import StudyResult, checked_section, study_folder
from crossner_core.experiments.running import run_study
from crossner_core.experiments.study import Study, StudyEvent, study, study_ids
from crossner_core.processes import stop_on_signal
from crossner_core.training.processes import present, run_together

_OUTCOMES = Outcomes(interrupted="Stopped; run the same command again to resume.")


Out = Annotated[Path, flag("Folder of cells and results.", "DIR")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0, 1 for a study with missing cells, 2 for an error, 130 when interrupted.

    The first Ctrl-C saves, and makes the tables of what is there.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    return run_app(app_of_studies(words), words, prog="python -m crossner_core.experiments", outcomes=_OUTCOMES)


def app_of_studies(words: Sequence[str]) -> typer.Typer:
    """Return the app with a command for each study; `words` are the typed arguments."""
    app = new_app(help=__doc__, no_args_is_help=True)
    app.command("list")(list_studies)
    app.command("pack")(pack_results)
    for id in study_ids():
        chosen = study(id)
        app.command(
            id,
            cls=SeveralValuesCommand,
            short_help=chosen.title,
            help=f"{chosen.question} {chosen.reference}.",
        )(_study_command(chosen, words))
    return app


def list_studies() -> None:
    """List the studies and their questions."""
    for chosen in map(study, study_ids()):
        print(f"{chosen.id:<18}{chosen.title}. {chosen.question} ({chosen.reference})")


def pack_results(
    out: Out,
) -> None:
    """Put the results of all cells into one file, those of campaigns into another; studies with this --out follow."""
    for name, count in pack(out).items():
        print(f"{count} {name} in {out / name}.jsonl")


def _section(text: str) -> str:
    try:
        return checked_section(text)
    except InvalidConfig as error:
        raise typer.BadParameter(str(error)) from error


Section = Annotated[
    str,
    flag(
        "Section that keeps these results apart from others of the same study, such as pretrain_finetune: they get "
        "their own folder and, with --report, their own section of the page.",
        "NAME",
        callback=_section,
    ),
]


def _study_command(chosen: Study, words: Sequence[str]) -> Callable[..., int]:
    def command(
        config: dict[str, Any],
        data: Annotated[Path, flag("Folder of the corpora.", "DIR")],
        out: Out,
        encoder: Annotated[
            str | None, flag("Encoder of the recipe: minilm, a folder, a hub name, words:… or flair:…")
        ] = None,
        workers: Annotated[int, flag("Number of cells trained in parallel.", "N")] = 1,
        ray: Annotated[str, flag("Address of a Ray cluster to train on; local starts one.", "ADDRESS")] = "",
        keep: Annotated[bool, flag("Keep the taggers of the cells.", None, "--keep")] = False,
        tables: Annotated[
            bool, flag("Train nothing; make the tables from existing results.", None, "--tables")
        ] = False,
        html: Annotated[bool, flag("Also write the figure as an HTML page.", None, "--html")] = False,
        report: Annotated[
            Path | None,
            flag("Put the study's section into this page, or that of this folder which has it.", "PAGE"),
        ] = None,
        section: Section = "",
    ) -> int:
        if encoder is not None:
            config["recipe"] = {**config.get("recipe", {}), "encoder": encoder}
        # With --tables it is stopped here before it begins: other processes would begin anyway.
        options: dict[str, Any] = {
            "data": data, "out": out, "workers": 1 if tables else workers, "ray": "" if tables else ray, "keep": keep,
            "section": section,
        }  # fmt: skip

        def run(should_stop: Callable[[], bool]) -> int:
            made = chosen.config.from_dict(config)
            result = _follow(run_study(chosen.id, made, **options, should_stop=lambda: tables or should_stop()))
            _show(result, out, html=html)
            if report is not None:
                name = study_folder(out, result.id, result.section).name
                put_section(report, f"study-{name}", study_section(result, words))
            return 0 if result.complete else 1

        return _stoppable(run)

    return with_flags(command, chosen.config, "config", dict, file=False)


def _stoppable(run: Callable[[Callable[[], bool]], int]) -> int:
    """Run something that a signal can stop; raise KeyboardInterrupt if it was stopped before it was done."""
    with stop_on_signal(launched=present().size > 1) as should_stop:
        try:
            code = run(should_stop)
        except WorkbenchError as error:
            if not should_stop():
                raise
            print(error, file=sys.stderr)
            code = 1
        if code and should_stop():
            raise KeyboardInterrupt
        return code


def _follow(events: Iterator[StudyEvent]) -> StudyResult:
    """Print a study's events, and return the result of the last one."""
    result: StudyResult | None = None
    for event in events:
        if event.message:
            print(f"[{event.done}/{event.total}] {event.message}", flush=True)
        result = event.result
    assert result is not None
    return result


def _show(result: StudyResult, out: Path, *, html: bool) -> None:
    for table in result.tables:
        print(f"\n{table.title}\n\n{table.to_markdown()}\n\n{table.note}")
    for missing in result.missing:
        print(f"missing: {missing}", file=sys.stderr)
    folder = study_folder(out, result.id, result.section)
    if html and result.figure is not None:
        from crossner_core.experiments.plots import to_html

        (folder / "figure.html").write_text(to_html(result.figure), encoding="utf-8")
    print(f"\nTables and figure are in {folder}.")


if __name__ == "__main__":
    sys.exit(run_together(main))
