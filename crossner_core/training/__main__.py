"""Train one recipe: `python -m crossner_core.training --data DIR --out DIR`, with one process or many.

Many: `accelerate launch --multi_gpu --num_processes 2 -m crossner_core.training …`, or PyTorch's own
`torchrun --nproc-per-node 2 -m …`; both work without a GPU too.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from crossner_core.adaptation.texts import bare_sentences
from crossner_core.domains import load_domain
from crossner_core.errors import InvalidConfig, WorkbenchError
from crossner_core.experiments.few_shot import ORDERS
from crossner_core.training.data import TrainingData
from crossner_core.training.processes import run_together
from crossner_core.training.recipe import Recipe
from crossner_core.training.settings.registry import needs_source, needs_unlabelled, setting

if TYPE_CHECKING:
    from crossner_core.experiments.corpora import Corpus
    from crossner_core.training.events import RunResult, TrainEvent


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0, 1 where no tagger came out, 2 for what the user can mend, 130 when interrupted."""
    options = _parser().parse_args(arguments)
    try:
        return _train(options)
    except WorkbenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Interrupted; the same command goes on from the last saved state.", file=sys.stderr)
        return 130


def read_recipe(text: str) -> Recipe:
    """Read a recipe from a JSON or TOML file, or from JSON itself; raise InvalidConfig with what is wrong."""
    is_file = text.endswith((".json", ".toml"))
    try:
        words = Path(text).read_text(encoding="utf-8-sig") if is_file else text
        values = tomllib.loads(words) if text.endswith(".toml") else json.loads(words)
    except OSError as error:
        raise InvalidConfig(f"The recipe {text} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        shown = text if is_file else repr(text)
        raise InvalidConfig(
            f"The recipe {shown} is no {'TOML' if text.endswith('.toml') else 'JSON'}: {error}."
        ) from error
    if not isinstance(values, dict):
        raise InvalidConfig(f"The recipe {text} is no object; write it as in '{{\"learning_rate\": 1e-4}}'.")
    return Recipe.from_dict(values)


def _train(options: argparse.Namespace) -> int:
    from crossner_core.training.loop import train
    from crossner_core.training.machine import prepare

    device = prepare(options.threads)  # first: a number of threads that cannot be is said before anything is read
    recipe = read_recipe(options.recipe)
    data, carved = _data(options)
    data, said = _with_bare_text(data, recipe, options.unlabelled or ())
    data, asked = _with_names(data, recipe, options.gazetteer, options.domain)
    said = (*carved, *said, *asked)
    if options.source and not needs_source(recipe.setting):
        said = (*said, f"Setting {recipe.setting} reads no source corpus: --source has no effect.")
    notes = (*said, *(note for stage in setting(recipe.setting).plan(recipe, data) for note in stage.notes))
    print(
        f"{len(data.train)} training sentences, {len(data.types)} entity types, on {device}.",
        *notes,
        sep="\n",
        flush=True,
    )
    result: RunResult | None = None
    for event in train(
        recipe, data, checkpoint_dir=options.out, resume=not options.afresh, source_cache=options.source_cache
    ):
        if line := _line(event):
            print(line, flush=True)
        result = event.result
    assert result is not None  # train() ends with one
    _show(result, said=notes)
    return 0 if result.checkpoint else 1


def _data(options: argparse.Namespace) -> tuple[TrainingData, tuple[str, ...]]:
    """Read the corpora, and say what was carved, mapped or passed over in them."""
    if options.source and options.source.expanduser().resolve() == options.data.expanduser().resolve():
        raise InvalidConfig(f"--source is {options.source}, which is what --data names; give another corpus's folder.")
    source = _corpus(options.source) if options.source else None
    target = _corpus(options.data)
    data = target.data(size=options.size, order=options.order, source=source)
    if options.domain:
        domain = load_domain(options.domain)
        data = replace(data, types=domain.type_names, parents=domain.parents)
    notes = (f"{one.id}: {note}." for one in (target, source) if one is not None for note in one.notes)
    return data, tuple(notes)


def _with_bare_text(data: TrainingData, recipe: Recipe, files: Sequence[Path]) -> tuple[TrainingData, tuple[str, ...]]:
    """Return the data with the sentences of files as bare text, each once, and what to say of them.

    Those with the words of a training, dev or test sentence stay out. A setting that reads no bare text gets none.
    """
    if not files:
        return data, ()
    if not needs_unlabelled(recipe.setting):
        return data, (f"Setting {recipe.setting} reads no bare text: --unlabelled has no effect.",)
    labelled = (item.sentence for part in (data.train, data.dev, data.test) for item in part)
    known = {tuple(sentence.words) for sentence in (*labelled, *data.unlabelled)}
    found, read = list(data.unlabelled), 0
    for sentence in bare_sentences(files):
        read += 1
        if (words := tuple(sentence.words)) not in known:
            known.add(words)
            found.append(sentence)
    said = f"Bare text: {len(found) - len(data.unlabelled)} of the {read} sentences in the files are new."
    return replace(data, unlabelled=tuple(found)), (said,)


def _with_names(
    data: TrainingData, recipe: Recipe, folder: Path | None, domain: str | None
) -> tuple[TrainingData, tuple[str, ...]]:
    """Return the data with what a gazetteer proposes in training and bare sentences, and what to say of it."""
    if folder is None:
        return data, ()
    if not recipe.uses_gazetteer:
        return data, ("No student is told what a gazetteer proposes (self_training_gazetteer): it has no effect.",)
    if domain is None:
        raise InvalidConfig("A gazetteer needs the domain whose entity types it is asked for; name one with --domain.")
    from crossner_core.training.settings.self_training.proposals import proposed_spans

    try:
        from crossner_core.gazetteer.compiled import CompiledGazetteer
        from crossner_core.gazetteer.preannotate import Preannotator
    except ModuleNotFoundError as error:
        raise InvalidConfig(
            f"A gazetteer needs the package {error.name}, which is not installed; install it, or leave out --gazetteer."
        ) from error

    sentences = (*(item.sentence for item in data.train), *data.unlabelled)
    machine = Preannotator([CompiledGazetteer.open(folder)], load_domain(domain))
    return replace(data, proposed=proposed_spans(machine.suggest, sentences)), ()


def _corpus(folder: Path) -> Corpus:
    from crossner_core.experiments.corpora import read_corpus

    place = folder.expanduser().resolve()
    return read_corpus(place.name, place.parent)


def _line(event: TrainEvent) -> str:
    where = f"{event.phase} epoch {event.epoch}, step {event.step}"
    if event.dev_f1 is not None:
        best = ", the best so far" if event.is_best else ""
        speed = f", {event.tokens_per_second:.0f} tokens/s"
        return f"{where}: loss {event.loss:.4f}, dev F1 {100 * event.dev_f1:.2f}{best}{speed}"
    return f"{where}: {event.message}" if event.message else ""


def _show(result: RunResult, *, said: Sequence[str]) -> None:
    for note in result.notes:
        if note not in said:
            print(note)
    for name, scores in (("dev", result.dev), ("test", result.test)):
        if scores is not None:
            parts = f"precision {100 * scores.precision:.2f}, recall {100 * scores.recall:.2f}"
            print(f"{name} F1 {100 * scores.f1:.2f} ({parts})")
    where = f" Tagger: {result.checkpoint}" if result.checkpoint else ""
    print(f"{result.steps} steps, {result.seconds:.1f} s.{where}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m crossner_core.training", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder with train, dev and test files")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder of the run: state, tagger, result.json"
    )
    parser.add_argument(
        "--recipe", default="{}", metavar="JSON", help="fields to change: JSON, or a .json or .toml file"
    )
    parser.add_argument("--domain", metavar="NAME", help="built-in domain whose entity types and parents count")
    parser.add_argument("--source", type=Path, metavar="DIR", help="folder of the source corpus, for transfer settings")
    parser.add_argument("--source-cache", type=Path, metavar="DIR", help="keep source checkpoints here for other runs")
    parser.add_argument(
        "--size", type=int, metavar="N", help="train on so many sentences only; the others of train are bare text"
    )
    parser.add_argument(
        "--order",
        choices=ORDERS,
        default="random",
        help="with --size: which ones, always the same; file takes the first",
    )
    parser.add_argument(
        "--unlabelled", type=Path, nargs="+", metavar="FILE",
        help="bare target text for settings that learn from it: files of sentences in any format, labels are not read",
    )  # fmt: skip
    parser.add_argument(
        "--gazetteer", type=Path, metavar="DIR",
        help="built gazetteer whose word teachers of self-training weigh, where self_training_gazetteer is set",
    )  # fmt: skip
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="CPU threads; 0 lets PyTorch choose")
    parser.add_argument("--afresh", action="store_true", help="forget what an earlier run left in --out")
    return parser


if __name__ == "__main__":
    sys.exit(run_together(main))
