"""Pre-train an encoder from the command line, without the workbench.

python -m crossner_core.adaptation dapt --text FILE … --out FOLDER
python -m crossner_core.adaptation dapt --corpus FOLDER --domain music --level integrated --percent 50 --out FOLDER
python -m crossner_core.adaptation entity-tagging --labelled FILE … --out FOLDER
python -m crossner_core.adaptation entity-tagging --tagged FOLDER --out FOLDER

Several processes compute each step together: `torchrun --nproc-per-node 2 -m …`, or `accelerate launch --multi_gpu …`.
The first Ctrl-C saves and stops; the same command goes on from there. Exit code 1: an error; 2: a command line that
makes no sense; 3: stopped.
"""

from __future__ import annotations

import argparse
import sys
import typing
from dataclasses import fields
from pathlib import Path
from typing import Any

from crossner_core.adaptation.pretraining import Events, ShouldStop
from crossner_core.adaptation.texts import LAST_LINE
from crossner_core.errors import BadInput, InvalidConfig, WorkbenchError
from crossner_core.options.dapt import DaptOptions
from crossner_core.options.entity_tagging import TaggingPretrainOptions
from crossner_core.options.pretraining import PretrainOptions
from crossner_core.processes import told_to_stop
from crossner_core.training.processes import present, run_together

STOPPED = 3


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return its exit code."""
    given = _parser().parse_args(arguments)
    try:
        here = present()  # said before a large corpus is read, where each process would do all of it
        options = given.options(**{spec.name: getattr(given, spec.name) for spec in fields(given.options)})
        with told_to_stop(launched=here.size > 1) as should_stop:
            return _follow(given.start(given, options, should_stop))
    except WorkbenchError as error:
        print(error, file=sys.stderr)
        return 1


def _follow(events: Events) -> int:
    """Print events as they come; ask for a stop at the first signal."""
    outcome = ""
    for event in events:
        outcome = event.outcome
        speed = f"  {event.tokens_per_second:,.0f} subwords/s" if event.tokens_per_second else ""
        where = f"step {event.step}  pass {event.epoch}  loss {event.loss:.4f}{speed}  " if event.loss else ""
        print(f"{where}{event.message}".rstrip(), flush=True)
        if event.result is not None:
            print(f"Encoder: {event.result.encoder}")
    if outcome == "not_finite":
        print("The same command with that changed goes on from what was kept; --fresh begins anew.", flush=True)
    return {"done": 0, "stopped": STOPPED}.get(outcome, 1)


def _dapt(given: argparse.Namespace, options: DaptOptions, should_stop: ShouldStop) -> Events:
    from crossner_core.adaptation.dapt import run_dapt
    from crossner_core.adaptation.texts import from_files, from_level

    shared: dict[str, Any] = {
        "percent": given.percent,
        "seed": given.corpus_seed,
        "held_out": given.held_out or (),
        "last_line": given.last_line,
    }
    for what in ("level", "domain", "gazetteers"):
        if given.corpus is None and (value := getattr(given, what)) is not None:
            raise InvalidConfig(f"--{what} is {str(value)!r}, but only a --corpus has one; leave it out.")
    if given.corpus is None:
        source = from_files(given.labelled or given.text, options, labelled=bool(given.labelled), **shared)
    elif given.domain is None:
        raise BadInput("--corpus needs --domain: which domain's entity types make a sentence one of the level.")
    else:
        level = given.level or "domain"
        source = from_level(given.corpus, given.domain, level, gazetteers=given.gazetteers, **shared)
    return run_dapt(
        options, source.texts, source.held_out, provenance=source.provenance, should_stop=should_stop, **_places(given)
    )


def _entity_tagging(given: argparse.Namespace, options: TaggingPretrainOptions, should_stop: ShouldStop) -> Events:
    from crossner_core.adaptation.entity_tagging import run_entity_tagging
    from crossner_core.adaptation.texts import from_labelled, from_tagged

    held_out = given.held_out or ()
    if given.tagged is not None:
        source = from_tagged(given.tagged, repeat=given.repeat, held_out=held_out)
    else:
        source = from_labelled(given.labelled, held_out=held_out)
    types = source.types
    print(f"{len(types)} entity types: {', '.join(types[:10])}{' …' if len(types) > 10 else ''}", flush=True)
    return run_entity_tagging(
        options, source.sentences, source.held_out, types, provenance=source.provenance, should_stop=should_stop,
        **_places(given),
    )  # fmt: skip


def _places(given: argparse.Namespace) -> dict[str, Any]:
    work = given.work or given.out.with_name(f"{given.out.name}.work")
    return {"out": given.out, "work": work, "resume": not given.fresh}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m crossner_core.adaptation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True)
    dapt = commands.add_parser("dapt", help="masked-LM training on domain text")
    source = dapt.add_mutually_exclusive_group(required=True)
    source.add_argument("--text", type=Path, nargs="+", metavar="FILE", help="UTF-8 files, a document a line")
    source.add_argument("--labelled", type=Path, nargs="+", metavar="FILE", help="files of sentences in any format")
    source.add_argument("--corpus", type=Path, metavar="FOLDER", help="a Wikipedia corpus of the workbench")
    dapt.add_argument("--domain", help="with --corpus: the domain whose level is taken")
    dapt.add_argument("--level", help="with --corpus: domain, entity, task or integrated [domain]")
    dapt.add_argument(
        "--gazetteers", type=Path, metavar="FOLDER",
        help="with --corpus: where the gazetteer that annotated it lies by its name, for the classes of its levels "
        "[the folder gazetteers beside that of the corpora]",
    )  # fmt: skip
    dapt.add_argument("--percent", type=float, default=100.0, help="share of the text, or of the level, to learn from")
    dapt.add_argument("--corpus-seed", type=int, default=0, help="which share")
    dapt.add_argument(
        "--last-line", choices=LAST_LINE, default="refuse",
        help="a last line without a newline: refuse, keep or drop",
    )  # fmt: skip
    _add_common(dapt, DaptOptions, _dapt)
    tagging = commands.add_parser("entity-tagging", help="token tagging on a silver corpus, as NER-BERT")
    source = tagging.add_mutually_exclusive_group(required=True)
    source.add_argument("--labelled", type=Path, nargs="+", metavar="FILE", help="labelled files in any format")
    source.add_argument("--tagged", type=Path, metavar="FOLDER", help="an entity-tagging corpus of the workbench")
    tagging.add_argument(
        "--repeat",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="with --tagged: sentences as often as balancing says",
    )
    _add_common(tagging, TaggingPretrainOptions, _entity_tagging)
    return parser


def _add_common(parser: argparse.ArgumentParser, options: type[PretrainOptions], start: Any) -> None:
    """Add places, and a flag for each option."""
    parser.set_defaults(options=options, start=start)
    parser.add_argument("--held-out", type=Path, nargs="+", metavar="FILE", help="to measure on; else a share")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="the encoder's folder")
    parser.add_argument("--work", type=Path, metavar="FOLDER", help="what a resume needs; default OUT.work")
    parser.add_argument("--fresh", action="store_true", help="begin anew whatever an earlier run left")
    hints = typing.get_type_hints(options)
    for spec in fields(options):
        flag, about = f"--{spec.name.replace('_', '-')}", f"{spec.metadata['help']} [{spec.default}]".replace("%", "%%")
        if hints[spec.name] is bool:
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=spec.default, help=about)
        else:
            shown = "|".join(spec.metadata["choices"] or ()) or "VALUE"
            parser.add_argument(flag, type=hints[spec.name], default=spec.default, help=about, metavar=shown)


if __name__ == "__main__":
    sys.exit(run_together(main))
