"""`workbench encoder`: encoders that recipes can start from, and pre-training more of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from crossner_core.command_line import OptionsCommand, takes_options
from crossner_core.options.character_models import WITHOUT_EFFECT, CharacterModelOptions
from crossner_core.options.dapt import DaptOptions
from crossner_core.options.entity_tagging import TaggingPretrainOptions
from workbench.commands import common
from workbench.commands.common import MaybeCampaign, MaybeDataset

app = typer.Typer(help="Encoders: pre-train them on text or on tagged sentences.", no_args_is_help=True)
EncoderName = Annotated[str, typer.Argument(help="Name of the encoder, as used in recipes.")]
Wait = Annotated[
    bool,
    typer.Option("--wait", help="Pre-train in this process and show progress, instead of queueing it for a worker."),
]
MaybeCorpus = Annotated[str | None, typer.Option(help="Corpus to read, by name (see workbench corpus list).")]
MaybeLevel = Annotated[
    str | None, typer.Option(help="Level of the corpus: domain, entity, task or integrated. Default: domain")
]
Percent = Annotated[float, typer.Option(help="Percentage of the text; smaller samples are subsets of larger ones.")]
MaybeDomain = Annotated[str | None, typer.Option(help="Domain of the level. Default: the corpus's own domain.")]
MaybeText = Annotated[
    Path | None,
    typer.Option(help="UTF-8 text file, one sentence or document per line; it is read in place, not copied."),
]


def _on_text(kind: str, config: type, help: str, leave: Sequence[str] = ()) -> None:
    """Add a command that pre-trains a kind of encoder on text."""

    @takes_options(config, "options", leave=leave)
    def command(
        options: DaptOptions | CharacterModelOptions,
        name: EncoderName,
        corpus: MaybeCorpus = None,
        level: MaybeLevel = None,
        percent: Percent = 100.0,
        domain: MaybeDomain = None,
        dataset: MaybeDataset = None,
        campaign: MaybeCampaign = None,
        text: MaybeText = None,
        wait: Wait = False,
    ) -> int:
        from workbench.runs import encoders

        campaign_id = common.find_campaign(campaign).id if campaign else None
        job_id = encoders.start_on_text(
            common.PLACE.store, common.PLACE.actor, kind=kind, name=name, options=options.to_dict(),
            corpus=corpus, level=level, percent=percent, domain=domain, dataset=dataset, campaign_id=campaign_id,
            text=text,
        )  # fmt: skip
        return _follow(name, job_id, wait)

    app.command(kind.replace("_", "-"), help=help, cls=OptionsCommand)(command)


@takes_options(TaggingPretrainOptions, "options")
def entity_tagging(
    options: TaggingPretrainOptions,
    name: EncoderName,
    tagged: Annotated[
        str | None,
        typer.Option(help="Entity-tagging corpus, by folder or by its name in the home folder's tagged/."),
    ] = None,
    dataset: MaybeDataset = None,
    wait: Wait = False,
) -> int:
    """Pre-train an encoder to tag entities on a large silver corpus (NER-BERT)."""
    from workbench.runs import encoders

    store, actor = common.PLACE.store, common.PLACE.actor
    job_id = encoders.start_entity_tagging(
        store, actor, name=name, options=options.to_dict(), tagged=tagged, dataset=dataset
    )
    return _follow(name, job_id, wait)


_on_text("dapt", DaptOptions, "Pre-train an encoder on domain text as a masked language model (DAPT).")
app.command("entity-tagging", cls=OptionsCommand)(entity_tagging)
_on_text(
    "character_models",
    CharacterModelOptions,
    "Train language models over characters in both directions: the encoder of FLAIR embeddings.",
    WITHOUT_EFFECT,
)


@app.command("list")
def list_() -> None:
    """List the encoders with what their pre-training gained, and the pre-trainings that are not done."""
    from workbench.runs import encoders

    store, actor = common.PLACE.store, common.PLACE.actor
    rows = [
        (
            encoder.name,
            _value(encoder.measure, encoder.before),
            _value(encoder.measure, encoder.after),
            encoder.measure or "–",
            f"{encoder.tokens:,} {encoder.unit}" if encoder.tokens else "–",
            encoder.runs,
            f"{encoder.made_at:%Y-%m-%d}" if encoder.made_at else "–",
            encoder.made_by or "–",
            encoder.problem or (f"{encoder.how}, from {encoder.base}" if encoder.base else encoder.how),
        )
        for encoder in encoders.list_encoders(store, actor)
    ]
    common.table(rows, ("encoder", "before", "after", "measure", "read", "runs", "made", "by", "how"))
    if waiting := encoders.list_pretrainings(store, actor):
        typer.echo("")
        table = [
            (
                pretraining.name,
                pretraining.job.id,
                pretraining.job.state,
                f"{100 * pretraining.job.progress:.0f} %",
                pretraining.job.error or pretraining.job.message,
            )
            for pretraining in waiting
        ]
        common.table(table, ("pre-training", "job", "state", "done", "says"))


@app.command()
def cancel(name: EncoderName) -> None:
    """Cancel the pre-training of an encoder; if it is running, it stops at its next step."""
    from workbench.jobs import queue

    state = queue.cancel_job(common.PLACE.store, common.PLACE.actor, _job(name))
    typer.echo(f"{name}: {common.cancelled(state)}")


@app.command("go-on")
def go_on(name: EncoderName, wait: Wait = False) -> int:
    """Queue a failed pre-training again; it resumes from its last saved step."""
    from workbench.jobs import queue

    return _follow(name, queue.resume_job(common.PLACE.store, common.PLACE.actor, _job(name)), wait)


@app.command()
def remove(name: EncoderName) -> None:
    """Remove an encoder that no job is waiting for, or the remains of a failed pre-training."""
    from workbench.runs import encoders

    encoders.remove(common.PLACE.store, common.PLACE.actor, name)
    typer.echo(f"{name} is removed.")


def _job(name: str) -> int:
    """Find the unfinished pre-training of an encoder; raise NotFound naming those that exist."""
    from crossner_core.errors import NotFound
    from workbench.runs import encoders

    job_ids = {
        pretraining.name: pretraining.job.id
        for pretraining in encoders.list_pretrainings(common.PLACE.store, common.PLACE.actor)
    }
    if name not in job_ids:
        raise NotFound(f"There is no unfinished pre-training of {name!r}; there are: {', '.join(job_ids) or 'none'}.")
    return job_ids[name]


def _follow(name: str, job_id: int, wait: bool) -> int:
    typer.echo(f"Pre-training of {name}: job {job_id} is queued.")
    return common.follow_here(job_id) if wait else common.left_to_worker()


def _value(measure: str | None, value: float | None) -> str:
    return common.percent(value) if measure == "f1" or value is None else f"{value:,.2f}"
