"""`workbench round`: by which strategy a queue is ordered, when a campaign retrains, and what each round did."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from crossner_core.command_line import OptionsCommand
from workbench.commands import common
from workbench.commands.common import CampaignName
from workbench.commands.recipe_options import takes_changes

app = typer.Typer(help="Rounds of a campaign: order its queue, and retrain automatically.", no_args_is_help=True)


@takes_changes
def rules(
    changes: dict[str, Any],
    campaign: CampaignName,
    strategy: Annotated[
        str | None,
        typer.Option(
            help="Acquisition functions joined by + (see workbench round functions); append 'with self-training' to "
            "train models on the rest of the pool too, or 'with self-training and gazetteer' to also use what "
            "gazetteer and links propose there; '' for none."
        ),
    ] = None,
    random_share: Annotated[float | None, typer.Option(help="Share of the queue that is random, from 0 to 1.")] = None,
    retrain_every: Annotated[
        int | None, typer.Option(help="Queue a run after this many new gold sentences; 0: never.")
    ] = None,
) -> None:
    """Show a campaign's rules, or change those that are given; recipe options apply to its runs."""
    from workbench.runs import rounds

    store, actor = common.PLACE.store, common.PLACE.actor
    campaign_id = common.find_campaign(campaign).id
    now = rounds.round_settings(store, actor, campaign_id)
    if changes or any(option is not None for option in (strategy, random_share, retrain_every)):
        now = rounds.change_round_settings(
            store, actor, campaign_id,
            strategy=now.strategy if strategy is None else strategy,
            random_share=now.random_share if random_share is None else random_share,
            retrain_every=now.retrain_every if retrain_every is None else retrain_every,
            recipe={**(now.recipe or {}), **changes},
        )  # fmt: skip
    typer.echo(f"strategy       {now.strategy or 'none: the order of import'}")
    typer.echo(f"random share   {now.random_share:g}")
    typer.echo(f"retrain every  {now.retrain_every or 'never'}")
    typer.echo(f"recipe         {dict(now.recipe) if now.recipe else 'the default'}")


app.command(cls=OptionsCommand)(rules)


@app.command()
def order(
    campaign: CampaignName,
    wait: Annotated[
        bool, typer.Option("--wait", help="Order in this process, instead of queueing the round for a worker.")
    ] = False,
) -> int:
    """Order the queue by the campaign's strategy, with its best model."""
    from workbench.runs import rounds

    store, actor = common.PLACE.store, common.PLACE.actor
    campaign_id = common.find_campaign(campaign).id
    round_id = rounds.order_now(store, actor, campaign_id)
    if not wait:
        return common.left_to_worker(f"Round {round_id} is queued.")
    common.do_here(rounds.job_of_round(store, actor, campaign_id, round_id))
    rounds.tick(store)
    round_ = next(view for view in rounds.list_rounds(store, actor, campaign_id) if view.id == round_id)
    typer.echo(
        f"Round {round_id} {round_.state}: {round_.ordered or 0} sentences ordered, {round_.scored or 0} scored."
    )
    for note in round_.notes:
        typer.echo(note)
    return 0 if round_.state == "done" else 2


@app.command()
def cancel(campaign: CampaignName) -> None:
    """Cancel the queued or running round, and the run it waits for; the queue keeps its order."""
    from workbench.runs import rounds

    state = rounds.cancel_round(common.PLACE.store, common.PLACE.actor, common.find_campaign(campaign).id)
    common.say_cancelled(state)


@app.command("list")
def list_(campaign: CampaignName) -> None:
    """List a campaign's rounds, newest first."""
    from workbench.runs import rounds

    campaign_id = common.find_campaign(campaign).id
    views = rounds.list_rounds(common.PLACE.store, common.PLACE.actor, campaign_id)
    rows = [
        (
            str(view.id),
            f"{view.created_at:%Y-%m-%d %H:%M}",
            view.state,
            str(view.gold),
            str(view.run_id or "–"),
            common.percent(view.run_f1),
            str(view.ordered if view.ordered is not None else "–"),
            view.strategy or "–",
        )
        for view in views
    ]
    state = rounds.queue_state(common.PLACE.store, common.PLACE.actor, campaign_id)
    if state.under_way:
        typer.echo(state.under_way)
    common.table(rows, ("round", "when", "state", "gold", "run", "F1", "ordered", "strategy"))


@app.command()
def functions() -> None:
    """List the acquisition functions for strategies."""
    from workbench.runs import rounds

    rows = [
        (function.id, "yes" if function.needs_model else "no", function.title, function.reference)
        for function in rounds.functions()
    ]
    common.table(rows, ("function", "needs a model", "title", "source"))


@app.command()
def costs(campaign: CampaignName) -> None:
    """Print the cost of annotators' steps in this campaign, in the form that the study strategies reads."""
    import json
    from dataclasses import asdict

    from workbench.reports.annotator_costs import fitted_costs

    costs = fitted_costs(common.PLACE.store, common.PLACE.actor, common.find_campaign(campaign).id)
    seconds = {name: value for name, value in asdict(costs.options).items() if name.startswith("seconds_")}
    typer.echo(json.dumps(seconds))
    typer.echo(f"Fitted to {costs.seen} sentences; explains {costs.explained:.0%} of the variance.", err=True)
    if costs.unseen:
        typer.echo(f"Published values used, as these never occurred here: {', '.join(costs.unseen)}.", err=True)


@app.command()
def simulate(
    campaign: CampaignName,
    strategies: Annotated[list[str], typer.Argument(help="Strategies to compare with random sentences.")],
    seeds: Annotated[int, typer.Option(help="Number of seeds, from 555 in steps of 111.", min=1, max=10)] = 3,
    suggestions: Annotated[
        bool,
        typer.Option(
            "--suggestions",
            help="Show annotators suggestions from gazetteer, links and model (not for random sentences).",
        ),
    ] = False,
    annotators: Annotated[
        list[str] | None,
        typer.Option(
            "--annotator",
            help="Options of an annotator that differ from this campaign's own, as JSON: '{\"missed\": 0.1}'; repeat "
            "it for several annotators, who share the sentences.",
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Simulate in this process, instead of queueing the simulation for a worker.")
    ] = False,
) -> int:
    """Simulate strategies on a campaign's gold, which acts as the oracle."""
    from workbench.runs import simulations

    store, actor = common.PLACE.store, common.PLACE.actor
    campaign_id = common.find_campaign(campaign).id
    drawn = simulations.drawn_seeds(seeds)
    people = [_json_object(text) for text in annotators or ()]
    job_id = simulations.start_simulations(
        store, actor, campaign_id, strategies, seeds=drawn, suggestions=suggestions, annotators=people
    )
    if not wait:
        return common.left_to_worker(f"Job {job_id} is queued.")
    common.do_here(job_id)
    return _print_saved(campaign_id)


@app.command("cancel-simulations")
def cancel_simulations(campaign: CampaignName) -> None:
    """Cancel the queued or running simulated campaigns; finished ones are kept."""
    common.cancel_in_campaign(campaign, "simulation")


def _json_object(text: str) -> dict[str, Any]:
    import json

    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, dict):
        common.refuse(f"--annotator is {text!r}; give a JSON object, as in '{{\"missed\": 0.1}}'.")
    return values


@app.command()
def saved(
    campaign: CampaignName,
    job: Annotated[int | None, typer.Option(help="Job that simulated them. Default: the newest.")] = None,
) -> int:
    """Print what each strategy saved in simulated campaigns on this campaign's gold."""
    return _print_saved(common.find_campaign(campaign).id, job)


def _print_saved(campaign_id: int, job: int | None = None) -> int:
    from crossner_core.evaluation.learning_curves import seconds_saved, summarise
    from workbench.runs import simulations
    from workbench.time_words import time_words

    store, actor = common.PLACE.store, common.PLACE.actor
    if job is not None:
        play: simulations.SimulationsView | None = simulations.get_play(store, actor, campaign_id, job)
    else:
        play = simulations.newest_simulations(store, actor, campaign_id)
    if play is None:
        typer.echo("No strategy has been simulated on this campaign's gold yet; see workbench round simulate.")
        return 2
    typer.echo(f"Gold {play.snapshot}: {play.done} of {play.total} campaigns simulated, {play.job.state}.")
    if play.done < play.total:
        typer.echo(play.job.error or play.job.message)
        before = simulations.newest_simulations(store, actor, campaign_id, with_points=True)
        if job is not None or before is None or before.done < before.total:
            return 2
        typer.echo(f"Previous ones, of {before.job.created_at:%d %B %Y, %H:%M} UTC:")
        play = before
    spared = seconds_saved(play.points)
    rows = [
        (
            summary.strategy,
            str(summary.seeds),
            common.percent(summary.area),
            common.percent(summary.final),
            "–" if summary.needs is None else f"{summary.needs:.0f}",
            "–" if summary.saved is None else f"{summary.saved:.0f}",
            "–" if (seconds := spared[summary.strategy]) is None else time_words(seconds),
        )
        for summary in summarise(play.points)
    ]
    common.table(rows, ("strategy", "seeds", "area", "last F1", "sentences", "saved", "time saved"))
    return 0
