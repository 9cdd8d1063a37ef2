"""Train one recipe: `python -m crossner_core.training --data DIR --out DIR`, with one process or many.

Many: `accelerate launch --multi_gpu --num_processes 2 -m crossner_core.training …`, or PyTorch's own
`torchrun --nproc-per-node 2 -m …`; both work without a GPU too.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from crossner_core.adaptation.texts import bare_sentences
from crossner_core.command_line import Outcomes, SeveralValuesCommand, flag, new_app, read_values, run_app
from crossner_core.domains import load_domain
from crossner_core.domains.texts import texts_of
from crossner_core.errors import InvalidConfig
from crossner_core.training.data import TrainingData
from crossner_core.training.processes import run_together
from crossner_core.training.recipe import Recipe, source_weights, without_effect
from crossner_core.training.settings.registry import needs_source, needs_unlabelled, setting
from crossner_core.training.sources import prepared, source_warnings

if TYPE_CHECKING:
    from crossner_core.experiments.corpora import Corpus
    from crossner_core.training.events import RunResult, TrainEvent

_OUTCOMES = Outcomes(interrupted="Interrupted; run the same command again to resume from the last saved state.")
app = new_app()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0, 1 if no tagger was made, 2 for a user error, 130 when interrupted."""
    return run_app(app, arguments, prog="python -m crossner_core.training", outcomes=_OUTCOMES)


@app.command(cls=SeveralValuesCommand, help=__doc__)
def train_recipe(
    data: Annotated[Path, flag("folder with train, dev and test files", "DIR")],
    out: Annotated[Path, flag("folder of the run: state, tagger, result.json", "DIR")],
    recipe: Annotated[str, flag("fields to change: JSON, or a .json or .toml file", "JSON")] = "{}",
    domain: Annotated[str | None, flag("built-in domain that defines entity types and parents", "NAME")] = None,
    source: Annotated[
        list[str] | None,
        flag("folders of source corpora, for transfer settings; DIR*2 counts one twice, DIR*0.5 half of it", "DIR …"),
    ] = None,
    source_cache: Annotated[Path | None, flag("folder where source checkpoints are shared between runs", "DIR")] = None,
    size: Annotated[
        int | None, flag("train on only this many sentences; the rest of train is unlabelled text", "N")
    ] = None,
    order: Annotated[
        Literal["random", "entities", "file"] | None,
        flag(
            "with --size: which sentences to take: random, drawn from all; entities, from those with any; file, the "
            "first in the file; for pdaln entities, as in its paper, otherwise random"
        ),
    ] = None,
    unlabelled: Annotated[
        list[Path] | None,
        flag("unlabelled target text for settings that use it: files in any format, labels are ignored", "FILE …"),
    ] = None,
    gazetteer: Annotated[
        Path | None,
        flag(
            "compiled gazetteer whose proposals self-training combines with the teacher (self_training_gazetteer)",
            "DIR",
        ),
    ] = None,
    threads: Annotated[int, flag("CPU threads; 0 lets PyTorch choose", "N")] = 0,
    afresh: Annotated[bool, flag("discard what an earlier run left in --out", None, "--afresh")] = False,
) -> int:
    """Train a recipe."""
    from crossner_core.training.loop import train
    from crossner_core.training.machine import prepare

    device = prepare(threads)  # first: an invalid number of threads is rejected before anything is read
    values = read_values(recipe)
    chosen = Recipe.from_dict(values)
    drawn = order or ("entities" if chosen.setting == "pdaln" else "random")
    read, carved = read_data(data, source or (), chosen, domain=domain, size=size, order=drawn)
    read, bare = _with_bare_text(read, chosen, unlabelled or ())
    read, proposed = _with_proposals(read, chosen, gazetteer, domain)
    notes = (*carved, *bare, *proposed)
    if size is not None and len(read.train) < size:
        notes += (f"--size is {size}, but there are {len(read.train)} training sentences; all are used.",)
    if source and not needs_source(chosen.setting):
        notes += (f"Setting {chosen.setting} reads no source corpus: --source has no effect.",)
    notes += tuple(note for stage in setting(chosen.setting).plan(chosen, read) for note in stage.notes)
    notes += without_effect(chosen, values)
    print(
        f"{len(read.train)} training sentences, {len(read.types)} entity types, on {device}.",
        *notes,
        sep="\n",
        flush=True,
    )
    result: RunResult | None = None
    for event in train(chosen, read, checkpoint_dir=out, resume=not afresh, source_cache=source_cache):
        if line := _line(event):
            print(line, flush=True)
        result = event.result
    assert result is not None  # train() ends with one
    _show(result, shown=notes)
    return 0 if result.checkpoint else 1


def read_data(
    folder: Path,
    source_folders: Sequence[str] = (),
    recipe: Recipe | None = None,
    *,
    domain: str | None = None,
    size: int | None = None,
    order: str = "random",
) -> tuple[TrainingData, tuple[str, ...]]:
    """Read the corpora; return them with notes on what was carved, mapped or skipped.

    Sources are read as the recipe says, its own `source` apart.
    """
    weights = source_weights(", ".join(source_folders)) if source_folders else {}
    for name in weights:
        if Path(name).expanduser().resolve() == folder.expanduser().resolve():
            raise InvalidConfig(f"--source is {name}, the same folder as --data; choose another corpus's folder.")
    target, sources = _corpus(folder), [_corpus(Path(name)) for name in weights]
    built_in = load_domain(domain) if domain else None
    read = [source.as_source(weight) for source, weight in zip(sources, weights.values(), strict=True)]
    types = built_in.type_names if built_in else target.types
    chosen = prepared(recipe or Recipe(), read, types) if read else ()
    data = target.data(size=size, order=order, sources=chosen)
    if built_in:
        data = replace(data, types=built_in.type_names, parents=built_in.parents, texts=texts_of(built_in))
    doubts = source_warnings(chosen, types, recipe) if recipe and needs_source(recipe.setting) else ()
    notes = (f"{corpus.id}: {note}." for corpus in (target, *sources) for note in corpus.notes)
    return data, (*notes, *doubts)


def _with_bare_text(data: TrainingData, recipe: Recipe, files: Sequence[Path]) -> tuple[TrainingData, tuple[str, ...]]:
    """Return the data with the sentences of files as unlabelled text, without duplicates, and notes on them.

    Those with the words of a training, dev or test sentence are excluded. A setting that uses no unlabelled text gets
    none.
    """
    if not files:
        return data, ()
    if not needs_unlabelled(recipe.setting):
        return data, (f"Setting {recipe.setting} uses no unlabelled text: --unlabelled has no effect.",)
    labelled = (item.sentence for part in (data.train, data.dev, data.test) for item in part)
    known = {tuple(sentence.words) for sentence in (*labelled, *data.unlabelled)}
    unlabelled, read = list(data.unlabelled), 0
    for sentence in bare_sentences(files):
        read += 1
        if (words := tuple(sentence.words)) not in known:
            known.add(words)
            unlabelled.append(sentence)
    note = f"Unlabelled text: {len(unlabelled) - len(data.unlabelled)} of the {read} sentences in the files are new."
    return replace(data, unlabelled=tuple(unlabelled)), (note,)


def _with_proposals(
    data: TrainingData, recipe: Recipe, folder: Path | None, domain: str | None
) -> tuple[TrainingData, tuple[str, ...]]:
    """Return the data with a gazetteer's proposals for training and unlabelled sentences, and notes on them."""
    if folder is None:
        return data, ()
    if not recipe.uses_gazetteer:
        return data, ("No student uses a gazetteer's proposals (self_training_gazetteer): --gazetteer has no effect.",)
    if domain is None:
        raise InvalidConfig("A gazetteer needs a domain for its entity types; name one with --domain.")
    from crossner_core.training.settings.self_training.proposals import proposed_spans

    try:
        from crossner_core.gazetteer.asking import asking
    except ModuleNotFoundError as error:
        raise InvalidConfig(
            f"A gazetteer needs the package {error.name}, which is not installed; install it, or leave out --gazetteer."
        ) from error

    sentences = (*(item.sentence for item in data.train), *data.unlabelled)
    return replace(data, proposed=proposed_spans(asking(folder, domain), sentences)), ()


def _corpus(folder: Path) -> Corpus:
    from crossner_core.experiments.corpora import read_corpus

    path = folder.expanduser().resolve()
    return read_corpus(path.name, path.parent)


def _line(event: TrainEvent) -> str:
    where = f"{event.phase} epoch {event.epoch}, step {event.step}"
    if event.dev_f1 is not None:
        best = ", the best so far" if event.is_best else ""
        speed = f", {event.tokens_per_second:.0f} tokens/s"
        return f"{where}: loss {event.loss:.4f}, dev F1 {100 * event.dev_f1:.2f}{best}{speed}"
    return f"{where}: {event.message}" if event.message else ""


def _show(result: RunResult, *, shown: Sequence[str]) -> None:
    for note in result.notes:
        if note not in shown:
            print(note)
    for name, scores in (("dev", result.dev), ("test", result.test)):
        if scores is not None:
            parts = f"precision {100 * scores.precision:.2f}, recall {100 * scores.recall:.2f}"
            print(f"{name} F1 {100 * scores.f1:.2f} ({parts})")
    where = f" Tagger: {result.checkpoint}" if result.checkpoint else ""
    print(f"{result.steps} steps, {result.seconds:.1f} s.{where}")


if __name__ == "__main__":
    sys.exit(run_together(main))
