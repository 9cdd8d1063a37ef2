"""Commands of retraining: snapshot, run, few-shot, runs, curve, compare, cancel, go-on, predict, export-model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from crossner_core.command_line import OptionsCommand, read_values
from crossner_core.training.recipe import Recipe, without_effect
from workbench.commands import common
from workbench.commands.common import CampaignName, MaybeCampaign, MaybeDataset
from workbench.commands.recipe_options import takes_recipe

Snapshot = Annotated[str | None, typer.Option(help="Beginning of a snapshot's hash. Default: freeze the gold now.")]
Wait = Annotated[
    bool,
    typer.Option("--wait", help="Train in this process and show progress, instead of queueing the run for a worker."),
]

RunNumber = Annotated[int, typer.Argument(help="Number of the run.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(snapshot)
    app.command(cls=OptionsCommand)(run)
    app.command()(universal)
    app.command("few-shot", cls=OptionsCommand)(few_shot)
    app.command()(runs)
    app.command()(curve)
    app.command()(compare)
    app.command()(cancel)
    app.command("go-on")(go_on)
    app.command()(predict)
    app.command("export-model")(export_model)


def snapshot(campaign: CampaignName) -> None:
    """Freeze a campaign's gold; the same gold gives the same snapshot."""
    from workbench.data import snapshots

    view = snapshots.freeze(common.PLACE.store, common.PLACE.actor, common.find_campaign(campaign).id)
    counts = ", ".join(f"{name} {count}" for name, count in view.counts.items())
    typer.echo(f"{view.hash}  {counts}{'' if view.is_new else '  (already existed)'}")
    for note in view.notes:
        typer.echo(f"  {note}")


@takes_recipe
def run(
    recipe: Recipe,
    campaign: MaybeCampaign = None,
    dataset: MaybeDataset = None,
    snapshot: Snapshot = None,
    size: Annotated[int | None, typer.Option(help="Train on only this many sentences, drawn with the seed.")] = None,
    wait: Wait = False,
) -> int:
    """Train a recipe on a campaign's gold or on a data set."""
    from workbench.runs import adaptation

    target = _target(campaign, dataset, snapshot)
    run_id = adaptation.start_run(common.PLACE.store, common.PLACE.actor, **target, recipe=recipe, size=size)
    typer.echo(f"Run {run_id} is queued.")
    return _wait([run_id]) if wait else common.left_to_worker()


def universal(
    dataset: Annotated[str, typer.Argument(help="Data set to measure on; it is no source.")],
    leave_out: Annotated[
        list[str] | None, typer.Option(help="Another data set, or gold:NUMBER of a campaign, not to train on; repeat.")
    ] = None,
    encoder: Annotated[str | None, typer.Option(help="Encoder to start from. Default: the bundled one.")] = None,
    recipe_file: Annotated[
        str | None, typer.Option("--recipe", help="JSON or TOML file with the recipe's fields to change.")
    ] = None,
    wait: Wait = False,
) -> int:
    """Train a tagger for any entity types, by their descriptions, on all other data sets and campaigns' gold.

    It suggests in any campaign, before its first label, by its guidelines.
    """
    from crossner_core.errors import BadInput, NotFound
    from crossner_core.training.zero_shot import UNIVERSAL
    from workbench.data import datasets
    from workbench.runs import adaptation, source_corpora

    store, actor = common.PLACE.store, common.PLACE.actor
    target, out = datasets.get_dataset(store, actor, dataset), leave_out or []
    names = [source.name for source in source_corpora.list_sources(store, actor)]
    if unknown := [name for name in out if name not in names]:
        raise NotFound(f"There is no source {', '.join(unknown)} to leave out; those here are {', '.join(names)}.")
    sources = ", ".join(name for name in names if name not in (target.name, *out))
    if not sources:
        raise BadInput(f"There is nothing to train on beside {target.name}: import data sets, or adjudicate gold.")
    changes = read_values(recipe_file) if recipe_file else {}
    changes |= {"encoder": encoder} if encoder else {}
    recipe = Recipe.from_dict({"source": sources, **UNIVERSAL, **changes})
    for line in without_effect(recipe, changes):
        typer.echo(line, err=True)
    run_id = adaptation.start_run(store, actor, dataset_id=target.id, recipe=recipe)
    typer.echo(f"Run {run_id} is queued: {recipe.source}, measured on {target.name}.")
    return _wait([run_id]) if wait else common.left_to_worker()


@takes_recipe
def few_shot(
    recipe: Recipe,
    campaign: MaybeCampaign = None,
    dataset: MaybeDataset = None,
    snapshot: Snapshot = None,
    sizes: Annotated[
        str, typer.Option(help="Numbers of training sentences, separated by commas.")
    ] = "10,25,40,55,70,85,100",
    seeds: Annotated[str, typer.Option(help="Seeds to average over.")] = "555,666,777",
    wait: Wait = False,
) -> int:
    """Train nested subsets × seeds for a few-shot curve, reusing cells trained before."""
    from workbench.runs import adaptation

    started = adaptation.start_few_shot(
        common.PLACE.store,
        common.PLACE.actor,
        **_target(campaign, dataset, snapshot),
        recipe=recipe,
        sizes=common.numbers(sizes, "--sizes"),
        seeds=common.numbers(seeds, "--seeds"),
    )
    message = f"Curve {started.group_id}: {started.started} runs queued, {started.reused} already existed."
    typer.echo(f"{message} {started.note}".rstrip())
    return _wait(sorted(set(started.runs.values()))) if wait else common.left_to_worker()


def runs(
    campaign: MaybeCampaign = None,
    dataset: MaybeDataset = None,
    limit: Annotated[int, typer.Option(help="Maximum number of runs to list.")] = 50,
) -> None:
    """List runs, newest first."""
    from workbench.data import datasets as sets
    from workbench.runs import adaptation
    from workbench.runs.recipe_names import architecture_name, encoder_name, setting_name

    store, actor = common.PLACE.store, common.PLACE.actor
    campaign_id = common.find_campaign(campaign).id if campaign else None
    dataset_id = sets.get_dataset(store, actor, dataset).id if dataset else None
    views = adaptation.list_runs(store, actor, campaign_id, dataset_id=dataset_id, limit=limit)
    rows = [
        (
            run.id,
            run.state,
            f"{100 * run.progress:.0f} %",
            run.snapshot[:12] if run.snapshot else run.dataset,
            setting_name(run.recipe["setting"]),
            architecture_name(run.recipe["architecture"]),
            encoder_name(run.recipe["encoder"]),
            run.size,
            run.seed,
            common.percent(run.dev_f1),
            common.percent(run.test_f1),
            run.error or run.message,
        )
        for run in views
    ]
    head = ("run", "state", "done", "on", "setting", "architecture", "encoder", "size", "seed", "dev F1", "test F1")
    common.table(rows, (*head, "says"))


def curve(
    campaign: MaybeCampaign = None,
    dataset: MaybeDataset = None,
    measure: Annotated[str, typer.Option(help="test or dev.")] = "test",
) -> None:
    """Print the few-shot curve of finished runs: mean and standard deviation of F1 over seeds."""
    from workbench.data import datasets as sets
    from workbench.reports import curves

    store, actor = common.PLACE.store, common.PLACE.actor
    campaign_id = common.find_campaign(campaign).id if campaign else None
    dataset_id = sets.get_dataset(store, actor, dataset).id if dataset else None
    if campaign_id is None and dataset_id is None:
        common.refuse("Name a --campaign or a --dataset whose curve to print.")
    for series in curves.curve(store, actor, campaign_id, dataset_id=dataset_id, measure=measure):
        typer.echo(f"{series.title}" + (f" ({series.pending} runs to come)" if series.pending else ""))
        rows = [(point.size, common.percent(point.mean), common.percent(point.sd), point.n) for point in series.points]
        common.table(rows, ("sentences", f"{measure} F1", "sd", "seeds"))


def compare(
    first: Annotated[int, typer.Argument(help="Number of the first run.")],
    second: Annotated[int, typer.Argument(help="Number of the run to compare it with.")],
    split: Annotated[
        str | None, typer.Option(help="test or dev. Default: test, if both runs were evaluated on it.")
    ] = None,
) -> None:
    """Compare two runs on the sentences both predicted, and test the difference for significance."""
    from workbench.reports import comparing

    comparison = comparing.compare(common.PLACE.store, common.PLACE.actor, first, second, split=split)
    test = comparison.test
    typer.echo(
        f"F1 on {test.sentences} {comparison.split} sentences: {100 * test.first:.2f} -> {100 * test.second:.2f}, "
        f"{100 * test.difference:+.2f} (95 % interval {100 * test.low:+.2f} to {100 * test.high:+.2f})"
    )
    typer.echo(f"p = {test.permutation_p:.4f} by permutation, {test.bootstrap_p:.4f} by paired bootstrap")
    if comparison.left_out:
        typer.echo(f"{comparison.left_out} sentences that only one of them predicted are left out.")
    rows = [
        (row.type, row.support, *(f"{100 * value:.2f}" for value in (row.first, row.second, row.low, row.high)))
        for row in comparison.types
    ]
    common.table(rows, ("type", "in gold", f"run {first}", f"run {second}", "from", "to"))


def cancel(run: RunNumber) -> None:
    """Cancel a run; if it is running, it stops at its next step."""
    from workbench.runs import adaptation

    state = adaptation.cancel(common.PLACE.store, common.PLACE.actor, run)
    typer.echo(f"Run {run}: {common.cancelled(state)}")


def go_on(run: RunNumber, wait: Wait = False) -> int:
    """Queue a failed run again; it resumes from its last saved step, or starts over if nothing was saved."""
    from workbench.runs import adaptation

    adaptation.resume(common.PLACE.store, common.PLACE.actor, run)
    typer.echo(f"Run {run} is queued again.")
    return _wait([run]) if wait else common.left_to_worker()


def predict(
    file: Annotated[Path, typer.Argument(help="File with sentences, in any format; - reads standard input.")],
    run: Annotated[int | None, typer.Option(help="Run whose checkpoint is used.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Folder of a checkpoint, instead of --run.")] = None,
    format: Annotated[str | None, typer.Option(help="Format of the file. Default: by suffix and content.")] = None,
    to: Annotated[str, typer.Option(help="Format to write: conll or jsonl.")] = "conll",
    paragraphs: Annotated[
        bool, typer.Option("--paragraphs", help="Plain text: split paragraphs into sentences.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write. Default: standard output.")
    ] = None,
) -> None:
    """Tag a file's sentences with a trained checkpoint."""
    from workbench.runs import predicting

    options: dict[str, Any] = {"split": "paragraphs"} if paragraphs else {}
    if (run is None) == (checkpoint is None):
        common.refuse("Name either a --run or a --checkpoint folder.")
    folder = checkpoint or predicting.folder_of_run(
        common.PLACE.store, common.PLACE.actor, int(run or 0), common.PLACE.settings.checkpoints
    )
    chosen = format or ("plain" if paragraphs else None)
    data = predicting.tag_file(folder, common.read_in(file), name=file.name, format=chosen, to=to, options=options)
    common.write_out(data, output)


def export_model(
    run: RunNumber,
    to: Annotated[str, typer.Option(help="huggingface, onnx or spacy.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write; an earlier export is replaced.")],
    int8: Annotated[bool, typer.Option("--int8", help="With weights in int8 (onnx: beside the others).")] = False,
) -> None:
    """Export a run's model for Hugging Face transformers, ONNX Runtime or spaCy."""
    from workbench.runs import exporting

    store, checkpoints = common.PLACE.store, common.PLACE.settings.checkpoints
    exporting.export_run(store, common.PLACE.actor, run, to=to, folder=output, checkpoints=checkpoints, int8=int8)
    size = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
    typer.echo(f"{output}: {size / 1e6:,.1f} MB for {to}; its README.md says how to use it.")


def _target(campaign: str | None, dataset: str | None, snapshot: str | None) -> dict[str, Any]:
    from workbench.data import datasets as sets
    from workbench.data import snapshots

    store, actor = common.PLACE.store, common.PLACE.actor
    if (campaign is None) == (dataset is None):
        common.refuse("Name either a --campaign or a --dataset to train on.")
    if dataset is not None:
        if snapshot is not None:
            common.refuse(
                "--snapshot applies to a campaign's gold; a --dataset has none. Leave it out, or name a --campaign."
            )
        return {"dataset_id": sets.get_dataset(store, actor, dataset).id}
    campaign_id = common.find_campaign(str(campaign)).id
    if snapshot is not None:
        view = snapshots.find_snapshot(store, actor, campaign_id, snapshot)
    else:
        view = snapshots.freeze(store, actor, campaign_id)
    return {"campaign_id": campaign_id, "snapshot_id": view.id}


def _wait(run_ids: list[int]) -> int:
    from workbench.jobs.following import train_here

    return train_here(common.PLACE.store, common.PLACE.actor, common.PLACE.settings, run_ids, echo=typer.echo)
