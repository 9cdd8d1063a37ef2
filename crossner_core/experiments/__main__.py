"""Run a study: `python -m crossner_core.experiments STUDY --data DIR --out DIR`; `list` names the studies.

Under `accelerate launch --multi_gpu` or `torchrun` the processes train each cell together.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from crossner_core.errors import InvalidConfig, WorkbenchError
from crossner_core.experiments.report import put_section, study_section
from crossner_core.experiments.results import StudyResult, checked_section, study_folder
from crossner_core.experiments.study import Study, StudyConfig, run_study, study, study_ids
from crossner_core.processes import told_to_stop
from crossner_core.training.processes import present, run_together

_METAVARS = {
    "corpora": "ID",
    "seeds": "N",
    "encoders": "LABEL=NAME",
    "recipe": "JSON",
    "rows": "JSON",
    "dapt": "JSON",
    "dapt_corpus": "FOLDER",
    "dapt_gazetteers": "FOLDER",
    "dapt_text": "FILE",
    "dapt_ways": "WAY",
    "tagged": "LABEL=FOLDER",
    "tagging": "JSON",
}

_STOPPED = "Stopped; the same command goes on from here."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0, 1 for a study with missing cells, 2 for an error, 130 when interrupted.

    The first Ctrl-C saves, and makes the tables of what is there.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words[:1] == ["list"]:
            print(_listed())
            return 0
        options = _parser().parse_args(words)
        with told_to_stop(launched=present().size > 1) as should_stop:
            try:
                code = _run(study(options.study), options, words, should_stop)
            except WorkbenchError as error:
                if not should_stop():
                    raise
                print(error, file=sys.stderr)
                code = 1
            if code and should_stop():
                raise KeyboardInterrupt
            return code
    except WorkbenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(_STOPPED, file=sys.stderr)
        return 130


def _run(chosen: Study, options: argparse.Namespace, words: list[str], should_stop: Callable[[], bool]) -> int:
    config = chosen.config.from_dict(_given(chosen.config, options))
    # Stopped before it begins, here: other processes would begin all the same.
    workers, ray = (1, "") if options.tables else (options.workers, options.ray)
    result: StudyResult | None = None
    for event in run_study(
        chosen.id, config, data=options.data, out=options.out, workers=workers, ray=ray, keep=options.keep,
        section=options.section, should_stop=lambda: options.tables or should_stop(),
    ):  # fmt: skip
        if event.message:
            print(f"[{event.done}/{event.total}] {event.message}", flush=True)
        result = event.result
    assert result is not None  # run_study() ends with one
    _show(result, options, words)
    return 0 if result.complete else 1


def _show(result: StudyResult, options: argparse.Namespace, words: list[str]) -> None:
    for table in result.tables:
        print(f"\n{table.title}\n\n{table.to_markdown()}\n\n{table.note}")
    for missing in result.missing:
        print(f"missing: {missing}", file=sys.stderr)
    folder = study_folder(options.out, result.id, result.section)
    if options.html and result.figure is not None:
        from crossner_core.experiments.plots import to_html

        (folder / "figure.html").write_text(to_html(result.figure), encoding="utf-8")
    print(f"\nTables and figure are in {folder}.")
    if options.report is not None:
        put_section(options.report, f"study-{folder.name}", study_section(result, words))


def _given(config: type[StudyConfig], options: argparse.Namespace) -> dict[str, Any]:
    """Return the config's fields that the command names."""
    given = {spec.name: getattr(options, spec.name) for spec in fields(config)}
    given = {name: value for name, value in given.items() if value is not None}
    if options.encoder is not None:
        given["recipe"] = {**given.get("recipe", {}), "encoder": options.encoder}
    return given


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m crossner_core.experiments", description=__doc__)
    parsers = parser.add_subparsers(dest="study", required=True, metavar="STUDY")
    parsers.add_parser("list", help="name the studies and what they ask")
    for id in study_ids():
        chosen = study(id)
        about = f"{chosen.question} {chosen.reference}."
        one = parsers.add_parser(id, help=chosen.title.replace("%", "%%"), description=about.replace("%", "%%"))
        _add_common(one)
        for spec in fields(chosen.config):
            _add_field(one, spec.name, spec.type, spec.metadata)
    return parser


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="Folder of the corpora.")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="Folder of cells and results.")
    parser.add_argument("--encoder", help="Encoder of the recipe: minilm, a folder or a hub name.")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="Cells trained side by side.")
    parser.add_argument("--ray", default="", metavar="ADDRESS", help="Train on this Ray cluster; local begins one.")
    parser.add_argument("--keep", action="store_true", help="Keep the taggers of the cells.")
    parser.add_argument("--tables", action="store_true", help="Train nothing: make the tables of what is there.")
    parser.add_argument("--html", action="store_true", help="Write the figure as a page too.")
    parser.add_argument("--report", type=Path, metavar="PAGE", help="Put the study's section into this page.")
    parser.add_argument(
        "--section", type=_section, default="", metavar="NAME",
        help="What tells these results from others of the same study, such as pretrain_finetune: "
        "a folder, and with --report a section, of their own.",
    )  # fmt: skip


def _section(text: str) -> str:
    try:
        return checked_section(text)
    except InvalidConfig as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _add_field(parser: argparse.ArgumentParser, name: str, type_name: Any, metadata: Mapping[str, Any]) -> None:
    """Make a config's field a flag; what is not given keeps the default."""
    flag, help = f"--{name.replace('_', '-')}", metadata["help"].replace("%", "%%")
    shared: dict[str, Any] = {"dest": name, "default": None, "help": help, "metavar": _METAVARS.get(name)}
    kind = {"int": int, "float": float}.get(type_name.removeprefix("tuple[").split(",")[0].strip("]"), str)
    if type_name.startswith("Mapping"):
        parser.add_argument(flag, **shared, type=_json_object)
    elif type_name == "bool":
        parser.add_argument(flag, dest=name, default=None, help=help, action=argparse.BooleanOptionalAction)
    else:
        if type_name.startswith("tuple"):
            shared["nargs"] = "+"
        parser.add_argument(flag, **shared, type=kind)


def _json_object(text: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except ValueError as error:
        raise InvalidConfig(f"{text!r} is no JSON: {error}.") from error
    if not isinstance(values, dict):
        raise InvalidConfig(f"{text!r} is no JSON object; write it as in '{{\"learning_rate\": 1e-4}}'.")
    return values


def _listed() -> str:
    rows = [(id, study(id)) for id in study_ids()]
    return "\n".join(f"{id:<18}{one.title}. {one.question} ({one.reference})" for id, one in rows)


if __name__ == "__main__":
    sys.exit(run_together(main))
