"""Play campaigns with gold as oracle: `python -m crossner_core.simulation --data DIR --out DIR --strategies …`.

Each strategy is played on each corpus with each seed, beside random sentences; what is there already is not played
again, and an interrupted campaign goes on with its round. `--list` names the functions strategies are made of.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from crossner_core.acquisition.base import acquisition, acquisition_ids
from crossner_core.errors import InvalidConfig, WorkbenchError
from crossner_core.evaluation.learning_curves import BASELINE, RoundPoint
from crossner_core.experiments.corpora import read_corpus
from crossner_core.experiments.report import put_section, study_section
from crossner_core.experiments.results import StudyResult, study_folder, write_study
from crossner_core.simulation.annotators import AnnotatorOptions
from crossner_core.simulation.config import Simulation, SimulationOptions
from crossner_core.simulation.running import Played, run_all
from crossner_core.simulation.tables import TITLE, strategies_figure, strategies_table
from crossner_core.training.recipe import Recipe

ID = "strategies"
SELF_TRAINING = "with self-training"
_SEEDS = (555, 666, 777, 888, 999)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0, 1 where a campaign could not be played, 2 for an error."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if "--list" in words:
            print(_listed())
            return 0
        return _run(_parser().parse_args(words), words)
    except WorkbenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Stopped; the same command goes on from here.", file=sys.stderr)
        return 130


def _run(given: argparse.Namespace, words: Sequence[str]) -> int:
    for corpus in given.corpora:
        read_corpus(corpus, given.data)
    plans = _simulations(given)
    played: list[Played] = []
    for one in run_all(plans, given.data, given.out, workers=given.workers, ray=given.ray):
        played.append(one)
        what = one.error or f"test F1 {100 * one.points[-1].f1:.2f} with {one.points[-1].sentences} sentences"
        print(f"[{len(played)}/{len(plans)}] {one.simulation}: {what}", flush=True)
    failed = [f"{one.simulation}: {one.error}" for one in played if one.error]
    by_corpus = _by_corpus(played, given.corpora)
    if not by_corpus:
        raise InvalidConfig(failed[0])
    result = _result(given, by_corpus, failed)
    write_study(given.out, result)
    for table in result.tables:
        print(f"\n{table.to_markdown()}\n\n{table.note}")
    print(f"\nTables and figure are in {study_folder(given.out, ID)}.")
    if given.report is not None:
        put_section(given.report, ID, study_section(result, words, module="simulation"))
    return 1 if failed else 0


def _simulations(given: argparse.Namespace) -> list[Simulation]:
    """Return a campaign for each corpus, strategy and seed; random ones go as far as the goals."""
    recipe = Recipe.from_dict(
        {"encoder": given.encoder, "setting": given.setting, **dict(_pair(one) for one in given.recipe)}
    )
    annotator = AnnotatorOptions(**{spec.name: getattr(given, spec.name) for spec in fields(AnnotatorOptions)})
    plans = []
    for text in dict.fromkeys((BASELINE, *given.strategies)):
        base, trained = text.removesuffix(SELF_TRAINING).strip(), text.endswith(SELF_TRAINING)
        at = given.baseline_at if text == BASELINE else given.at
        shared: dict[str, Any] = {"strategy": base, "self_training": trained, "at": tuple(at)}
        shared |= {"dev_sentences": given.dev_sentences, "suggestions": given.suggestions and text != BASELINE}
        for corpus in given.corpora:
            plans += [
                Simulation(corpus, SimulationOptions(**shared, seed=seed), recipe, annotator) for seed in given.seeds
            ]
    return sorted(plans, key=lambda one: given.seeds.index(one.options.seed))


def _by_corpus(played: Sequence[Played], corpora: Sequence[str]) -> dict[str, dict[str, list[RoundPoint]]]:
    found: dict[str, dict[str, list[RoundPoint]]] = {}
    for corpus in corpora:
        for one in sorted(played, key=lambda one: (one.simulation.options.label, one.simulation.options.seed)):
            if one.points and one.simulation.corpus == corpus:
                found.setdefault(corpus, {}).setdefault(one.simulation.options.label, []).extend(one.points)
    return found


def _result(
    given: argparse.Namespace, by_corpus: dict[str, dict[str, list[RoundPoint]]], failed: Sequence[str]
) -> StudyResult:
    first = next(iter(by_corpus))
    plans = _simulations(given)
    return StudyResult(
        id=ID,
        title=TITLE,
        question="Which sentences should be annotated next, and how many are saved?",
        reference="Settles 2009 and the functions' own papers",
        tables=(strategies_table(by_corpus, given.goals),),
        notes=(),
        config={
            "recipe": dict(map(_pair, given.recipe)),
            "at": list(given.at),
            "baseline_at": list(given.baseline_at),
            "strategies": list(given.strategies),
        },
        recipe=plans[0].recipe.to_dict(),
        seeds=tuple(given.seeds),
        corpora=tuple(by_corpus),
        encoders=({"label": "", "name": given.encoder, "fingerprint": ""},),
        machines=(platform.processor() or platform.machine(),),
        versions={"python": platform.python_version(), "torch": version("torch"), "numpy": version("numpy")},
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        missing=tuple(failed),
        figure=strategies_figure(first, by_corpus[first]),
    )


def _pair(text: str) -> tuple[str, Any]:
    """Read NAME=VALUE; a value that is no JSON is a word. The recipe itself checks what it is."""
    name, sign, value = text.partition("=")
    if not sign:
        raise InvalidConfig(f"{text!r} is no recipe field; write NAME=VALUE, as in batch_size=16.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _listed() -> str:
    found = [acquisition(id) for id in acquisition_ids()]
    return "\n".join(f"{one.id:<20}{one.title} ({one.reference})" for one in found)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m crossner_core.simulation", description=__doc__)
    add = parser.add_argument
    add("--list", action="store_true", help="Name the acquisition functions.")
    add("--data", type=Path, required=True, metavar="DIR", help="Folder of the corpora.")
    add("--out", type=Path, required=True, metavar="DIR", help="Folder of results, kept and gone on from.")
    add("--corpora", nargs="+", default=["music", "ai", "politics"], metavar="ID")
    add("--strategies", nargs="+", default=["token_entropy"], metavar="TEXT",
        help=f"Such as 'token_entropy + k_centre' or 'rare_types {SELF_TRAINING}'.")  # fmt: skip
    add("--at", type=int, nargs="+", default=[20, 40, 60, 85, 110], metavar="N", help="Sizes at which to measure.")
    add("--baseline-at", type=int, nargs="+", default=[20, 60, 100, 200], metavar="N", help="The same for random.")
    add("--goals", type=int, nargs="+", default=[100, 200], metavar="N", help="Random sentences to compare with.")
    add("--seeds", type=int, nargs="+", default=list(_SEEDS), metavar="N")
    add("--dev-sentences", type=int, default=50, metavar="N", help="Sentences kept out for early stopping.")
    add("--suggestions", action="store_true", help="Annotators see the newest model's suggestions.")
    add("--encoder", default="minilm")
    add("--setting", default="direct")
    add("--recipe", nargs="*", default=[], metavar="NAME=VALUE", help="Fields of the models' recipe.")
    add("--workers", type=int, default=1, metavar="N", help="Campaigns side by side.")
    add("--ray", default="", metavar="ADDRESS", help="Play on this Ray cluster; local begins one.")
    add("--report", type=Path, metavar="PAGE", help="Put the section into this page.")
    for spec in fields(AnnotatorOptions):
        add(
            f"--{spec.name.replace('_', '-')}",
            type=float,
            default=spec.default,
            help=spec.metadata["help"].replace("%", "%%"),
        )
    return parser


if __name__ == "__main__":
    sys.exit(main())
