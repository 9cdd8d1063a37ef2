"""Pre-train an encoder from the command line, without the workbench.

\b
python -m crossner_core.adaptation dapt --text FILE … --out FOLDER
python -m crossner_core.adaptation dapt --corpus FOLDER --domain music --level integrated --percent 50 --out FOLDER
python -m crossner_core.adaptation entity-tagging --labelled FILE … --out FOLDER
python -m crossner_core.adaptation entity-tagging --tagged FOLDER --out FOLDER
python -m crossner_core.adaptation character-models --text FILE … --out FOLDER
python -m crossner_core.adaptation convert-flair --forward FILE --backward FILE --out FOLDER

Several processes compute each step together: `torchrun --nproc-per-node 2 -m …`, or `accelerate launch --multi_gpu …`.
The first Ctrl-C saves and stops; run the same command again to resume. Exit code 1: an error; 2: a command line that
makes no sense; 3: stopped.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from crossner_core.adaptation.pretraining import Events, ShouldStop
from crossner_core.command_line import Outcomes, SeveralValuesCommand, flag, new_app, run_app, takes_options
from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.options.character_models import WITHOUT_EFFECT, CharacterModelOptions
from crossner_core.options.dapt import DaptOptions
from crossner_core.options.entity_tagging import TaggingPretrainOptions
from crossner_core.processes import stop_on_signal
from crossner_core.training.processes import present, run_together

if TYPE_CHECKING:
    from crossner_core.adaptation.texts import PretrainText

STOPPED = 3
app = new_app(help=__doc__, no_args_is_help=True)

Labelled = Annotated[list[Path] | None, flag("labelled files in any format", "FILE …")]
Text = Annotated[list[Path] | None, flag("UTF-8 files, one document per line", "FILE …")]
Corpus = Annotated[Path | None, flag("a Wikipedia corpus of the workbench", "FOLDER")]
Domain = Annotated[str | None, flag("with --corpus: the domain whose level is taken")]
Level = Annotated[str | None, flag("with --corpus: domain, entity, task or integrated [domain]")]
Gazetteers = Annotated[
    Path | None,
    flag(
        "with --corpus: where the gazetteer that annotated it lies by its name, for the classes of its levels "
        "[the folder gazetteers beside that of the corpora]",
        "FOLDER",
    ),
]
Percent = Annotated[float, flag("share of the text, or of the level, to train on")]
CorpusSeed = Annotated[int, flag("seed of the share")]
LastLine = Annotated[Literal["refuse", "keep", "drop"], flag("a last line without a newline")]
HeldOut = Annotated[list[Path] | None, flag("held-out text to evaluate on; default: a share of the rest", "FILE …")]
Out = Annotated[Path, flag("the encoder's folder", "FOLDER")]
Work = Annotated[Path | None, flag("folder of the state to resume from; default: OUT.work", "FOLDER")]
Fresh = Annotated[bool, flag("start over, discarding what an earlier run left", None, "--fresh")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code."""
    return run_app(app, arguments, prog="python -m crossner_core.adaptation", outcomes=Outcomes(prefix="", error=1))


@app.command(cls=SeveralValuesCommand)
@takes_options(DaptOptions, "options")
def dapt(
    options: DaptOptions,
    out: Out,
    text: Text = None,
    labelled: Labelled = None,
    corpus: Corpus = None,
    domain: Domain = None,
    level: Level = None,
    gazetteers: Gazetteers = None,
    percent: Percent = 100.0,
    corpus_seed: CorpusSeed = 0,
    last_line: LastLine = "refuse",
    held_out: HeldOut = None,
    work: Work = None,
    fresh: Fresh = False,
) -> int:
    """Masked-LM training on domain text."""
    from crossner_core.adaptation.dapt import run_dapt

    aside: dict[str, Any] = {"held_out": held_out or (), "last_line": last_line}
    of_level = {"domain": domain, "level": level, "gazetteers": gazetteers}
    read = _reading(options, text, labelled, corpus, of_level, percent, corpus_seed, aside)

    def start(should_stop: ShouldStop) -> Events:
        return run_dapt(options, read(), should_stop=should_stop, **_folders(out, work, fresh))

    return _follow(start)


@app.command("character-models", cls=SeveralValuesCommand)
@takes_options(CharacterModelOptions, "options", leave=WITHOUT_EFFECT)
def character_models(
    options: CharacterModelOptions,
    out: Out,
    text: Text = None,
    labelled: Labelled = None,
    corpus: Corpus = None,
    domain: Domain = None,
    level: Level = None,
    gazetteers: Gazetteers = None,
    percent: Percent = 100.0,
    corpus_seed: CorpusSeed = 0,
    last_line: LastLine = "refuse",
    split: Annotated[
        bool, flag("split --text and --corpus into tokens by the workbench's rules", None, "--split/--no-split")
    ] = True,
    held_out: HeldOut = None,
    work: Work = None,
    fresh: Fresh = False,
) -> int:
    """Language models over characters, in both directions: the encoder of FLAIR embeddings."""
    from crossner_core.adaptation.character_models import run_character_models, split_into_tokens

    aside: dict[str, Any] = {"held_out": held_out or (), "last_line": last_line}
    of_level = {"domain": domain, "level": level, "gazetteers": gazetteers}
    read = _reading(options, text, labelled, corpus, of_level, percent, corpus_seed, aside)

    def start(should_stop: ShouldStop) -> Events:
        source = split_into_tokens(read()) if split and not labelled else read()
        return run_character_models(options, source, should_stop=should_stop, **_folders(out, work, fresh))

    return _follow(start, "characters")


@app.command("convert-flair", cls=SeveralValuesCommand)
def convert_flair(
    forward: Annotated[Path, flag("FLAIR's model that reads from the left (news-forward….pt)", "FILE")],
    backward: Annotated[Path, flag("FLAIR's model that reads from the right (news-backward….pt)", "FILE")],
    out: Out,
) -> int:
    """Make an encoder of two character models that FLAIR released; no code in their files is run."""
    from crossner_core.adaptation.released_flair import convert_flair

    made = convert_flair(forward, backward, out)
    print(f"Encoder: {out} ({len(made.chosen.characters)} characters, states of 2 x {made.chosen.hidden_size})")
    return 0


@app.command("entity-tagging", cls=SeveralValuesCommand)
@takes_options(TaggingPretrainOptions, "options")
def entity_tagging(
    options: TaggingPretrainOptions,
    out: Out,
    labelled: Labelled = None,
    tagged: Annotated[Path | None, flag("an entity-tagging corpus of the workbench", "FOLDER")] = None,
    repeat: Annotated[
        bool, flag("with --tagged: repeat sentences according to their balancing weights", None, "--repeat/--no-repeat")
    ] = True,
    held_out: HeldOut = None,
    work: Work = None,
    fresh: Fresh = False,
) -> int:
    """Token tagging on a silver corpus, as NER-BERT."""
    from crossner_core.adaptation.entity_tagging import run_entity_tagging
    from crossner_core.adaptation.texts import from_labelled, from_tagged

    _require_one({"--labelled": labelled, "--tagged": tagged})

    def start(should_stop: ShouldStop) -> Events:
        if tagged is not None:
            source = from_tagged(tagged, repeat=repeat, held_out=held_out or ())
        else:
            source = from_labelled(labelled or (), held_out=held_out or ())
        types = source.types
        print(f"{len(types)} entity types: {', '.join(types[:10])}{' …' if len(types) > 10 else ''}", flush=True)
        return run_entity_tagging(options, source, should_stop=should_stop, **_folders(out, work, fresh))

    return _follow(start)


def _reading(
    options: DaptOptions | CharacterModelOptions,
    text: list[Path] | None,
    labelled: list[Path] | None,
    corpus: Path | None,
    of_level: dict[str, Any],
    percent: float,
    corpus_seed: int,
    aside: dict[str, Any],
) -> Callable[[], PretrainText[Sequence[str]]]:
    """Check where the text is from; return what opens it."""
    from crossner_core.adaptation.texts import from_files, from_level, share_of

    _require_one({"--text": text, "--labelled": labelled, "--corpus": corpus})
    for what, value in of_level.items():
        if corpus is None and value is not None:
            raise InvalidConfig(f"--{what} is {str(value)!r}, but only a --corpus has one; leave it out.")
    if corpus is not None and of_level["domain"] is None:
        raise BadInput("--corpus needs --domain: the domain whose entity types define the level.")

    def read() -> PretrainText[Sequence[str]]:
        if corpus is None:
            whole = from_files(labelled or text or (), labelled=bool(labelled), **aside)
            return share_of(whole, percent, options, corpus_seed)
        return from_level(
            corpus, of_level["domain"], of_level["level"] or "domain", gazetteers=of_level["gazetteers"],
            percent=percent, seed=corpus_seed, **aside,
        )  # fmt: skip

    return read


def _require_one(sources: dict[str, Any]) -> None:
    if sum(bool(given) for given in sources.values()) != 1:
        raise typer.BadParameter(f"name one of {', '.join(sources)}.")


def _folders(out: Path, work: Path | None, fresh: bool) -> dict[str, Any]:
    return {"out": out, "work": work or out.with_name(f"{out.name}.work"), "resume": not fresh}


def _follow(start: Callable[[ShouldStop], Events], unit: str = "subwords") -> int:
    """Print events as they come; request a stop on the first signal."""
    outcome = ""
    # First: a process launched with others but not joined to them would read a large corpus alone.
    launched = present().size > 1
    with stop_on_signal(launched=launched) as should_stop:
        for event in start(should_stop):
            outcome = event.outcome
            speed = f"  {event.tokens_per_second:,.0f} {unit}/s" if event.tokens_per_second else ""
            where = f"step {event.step}  pass {event.epoch}  loss {event.loss:.4f}{speed}  " if event.loss else ""
            print(f"{where}{event.message}".rstrip(), flush=True)
            if event.result is not None:
                print(f"Encoder: {event.result.encoder}")
    if outcome == "not_finite":
        print("Change that and run the command again to resume from what was kept; --fresh starts over.", flush=True)
    return {"done": 0, "stopped": STOPPED}.get(outcome, 1)


if __name__ == "__main__":
    sys.exit(run_together(main))
