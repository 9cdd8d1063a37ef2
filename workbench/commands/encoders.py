"""`workbench encoder`: encoders that recipes can start from, and pre-training more of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crossner_core.command_line import OptionsCommand, takes_options
from crossner_core.options.dapt import DaptOptions
from crossner_core.options.entity_tagging import TaggingPretrainOptions
from workbench.commands import common
from workbench.commands.common import MaybeCampaign, MaybeDataset

app = typer.Typer(help="Encoders: pre-train them on text or on tagged sentences.", no_args_is_help=True)
EncoderName = Annotated[str, typer.Argument(help="Name of the encoder, by which recipes call it.")]
Wait = Annotated[
    bool, typer.Option("--wait", help="Pre-train in this process and show progress, else queue it for a worker.")
]


@takes_options(DaptOptions, "options")
def dapt(
    options: DaptOptions,
    name: EncoderName,
    corpus: Annotated[str | None, typer.Option(help="Corpus to read, by name (see workbench corpus list).")] = None,
    level: Annotated[
        str | None, typer.Option(help="Of the corpus: domain, entity, task or integrated. Default: domain")
    ] = None,
    percent: Annotated[float, typer.Option(help="Share of the text; smaller ones lie within larger ones.")] = 100.0,
    domain: Annotated[str | None, typer.Option(help="Whose level it is. Default: the corpus's own domain.")] = None,
    dataset: MaybeDataset = None,
    campaign: MaybeCampaign = None,
    text: Annotated[
        Path | None, typer.Option(help="Text to read in UTF-8, a sentence or document a line; it stays where it lies.")
    ] = None,
    wait: Wait = False,
) -> int:
    """Pre-train an encoder on domain text as a masked language model (DAPT)."""
    from workbench.runs import encoders

    job_id = encoders.start_dapt(
        common.PLACE.store,
        common.PLACE.actor,
        name=name,
        options=options.to_dict(),
        corpus=corpus,
        level=level,
        percent=percent,
        domain=domain,
        dataset=dataset,
        campaign_id=common.find_campaign(campaign).id if campaign else None,
        text=text,
    )
    return _follow(name, job_id, wait)


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


app.command(cls=OptionsCommand)(dapt)
app.command("entity-tagging", cls=OptionsCommand)(entity_tagging)


@app.command("list")
def list_() -> None:
    """List the encoders with what their pre-training bought, and the pre-trainings that are not done."""
    from workbench.runs import encoders

    store, actor = common.PLACE.store, common.PLACE.actor
    rows = [
        (
            one.name,
            _value(one.measure, one.before),
            _value(one.measure, one.after),
            one.measure or "–",
            f"{one.tokens:,}" if one.tokens else "–",
            one.runs,
            f"{one.made_at:%Y-%m-%d}" if one.made_at else "–",
            one.made_by or "–",
            one.problem or (f"{one.how}, from {one.base}" if one.base else one.how),
        )
        for one in encoders.list_encoders(store, actor)
    ]
    common.table(rows, ("encoder", "before", "after", "measure", "subwords", "runs", "made", "by", "how"))
    if waiting := encoders.list_pretrainings(store, actor):
        typer.echo("")
        table = [
            (one.name, one.job.id, one.job.state, f"{100 * one.job.progress:.0f} %", one.job.error or one.job.message)
            for one in waiting
        ]
        common.table(table, ("pre-training", "job", "state", "done", "says"))


@app.command()
def cancel(name: EncoderName) -> None:
    """Cancel the pre-training of an encoder; one under way stops at its next step."""
    from workbench.jobs import queue

    state = queue.cancel_job(common.PLACE.store, common.PLACE.actor, _job(name))
    typer.echo(f"{name}: {common.cancelled(state)}")


@app.command("go-on")
def go_on(name: EncoderName, wait: Wait = False) -> int:
    """Queue a failed pre-training again; it goes on from its last saved step."""
    from workbench.jobs import queue

    return _follow(name, queue.resume_job(common.PLACE.store, common.PLACE.actor, _job(name)), wait)


@app.command()
def remove(name: EncoderName) -> None:
    """Remove an encoder that nothing waits for, or what a failed pre-training left."""
    from workbench.runs import encoders

    encoders.remove(common.PLACE.store, common.PLACE.actor, name)
    typer.echo(f"{name} is removed.")


def _job(name: str) -> int:
    """Find the pre-training of an encoder that is not done; raise NotFound naming those there are."""
    from crossner_core.errors import NotFound
    from workbench.runs import encoders

    found = {one.name: one.job.id for one in encoders.list_pretrainings(common.PLACE.store, common.PLACE.actor)}
    if name not in found:
        raise NotFound(f"No pre-training of {name!r} waits, runs or failed; there are: {', '.join(found) or 'none'}.")
    return found[name]


def _follow(name: str, job_id: int, wait: bool) -> int:
    typer.echo(f"Pre-training of {name}: job {job_id} is queued.")
    return common.follow_here(job_id) if wait else common.left_to_worker()


def _value(measure: str | None, value: float | None) -> str:
    return common.percent(value) if measure == "f1" or value is None else f"{value:,.2f}"
