"""`workbench outside`: outside models as sources of a campaign's suggestions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.commands import common

if TYPE_CHECKING:
    from crossner_core.outside.asking import Spend
    from workbench.suggestions.outside import OutsideView

app = typer.Typer(
    help="Outside models that suggest in a campaign: list, plan, allow, preview, ask, forbid, withdraw.",
    no_args_is_help=True,
)
CampaignArgument = Annotated[str, typer.Argument(help="Campaign, by name or number.")]
ModelArgument = Annotated[str, typer.Argument(help="Model, by its name in the file of outside models.")]


@app.command("list")
def list_(campaign: CampaignArgument) -> None:
    """List the models that the settings name, whether a campaign may ask them, and what it has spent."""
    from workbench.suggestions import outside

    views = outside.outside_models(common.PLACE.store, common.PLACE.actor, common.find_campaign(campaign).id)
    if not views:
        typer.echo(f"The settings name no outside model ({common.PLACE.settings.outside_models}).")
        return
    rows = [
        (view.name, view.kind, view.model or "–", view.address, *_budget(view), view.suggestions, view.problem or "–")
        for view in views
    ]
    head = ("name", "kind", "model", "address", "allowed", "requests", "tokens", "cost", "suggestions", "problem")
    common.table(rows, head)


def _budget(view: OutsideView) -> tuple[str, str, str, str]:
    """Return whether it is allowed, and of requests, tokens and money what was spent of how much."""
    allowed = view.allowed
    if allowed is None:
        return "no", "–", "–", "–"
    spent, budget = allowed.spent, allowed.budget
    tokens = spent.input_tokens + spent.output_tokens
    return (
        "yes" if allowed.is_open else "no longer",
        f"{spent.requests} of {budget.requests}",
        f"{tokens}" + (f" of {budget.tokens}" if budget.tokens is not None else ""),
        _money(spent, view.currency) + (f" of {budget.cost:g}" if budget.cost is not None else ""),
    )


def _money(spent: Spend, currency: str) -> str:
    return f"{spent.cost:.4f} {currency}".rstrip()


@app.command()
def plan(campaign: CampaignArgument, model: ModelArgument) -> None:
    """Print what asking would send where, and what it may cost; sends nothing."""
    from workbench.suggestions import outside

    made = outside.plan(common.PLACE.store, common.PLACE.actor, common.find_campaign(campaign).id, model)
    typer.echo(f"Sent to: {made.url}" + (f", model {made.model}" if made.model else ""))
    typer.echo(f"With a key: {'yes' if made.has_key else 'no'}")
    typer.echo(f"Requests: {made.new}, one a sentence; {made.open - made.new} of {made.open} answers are kept already")
    typer.echo(f"Tokens: about {made.tokens[0]:,}, at most {made.tokens[1]:,}")
    typer.echo(f"Cost: about {made.cost[0]:.4f} {made.currency}, at most {made.cost[1]:.4f}")
    for line in made.warnings:
        typer.echo(f"Mind: {line}")
    typer.echo("The first request:")
    typer.echo(json.dumps(made.request, ensure_ascii=False, indent=1))


@app.command()
def allow(
    campaign: CampaignArgument,
    model: ModelArgument,
    address: Annotated[str, typer.Option(help="Address that its sentences may be sent to, as the list shows it.")],
    requests: Annotated[int, typer.Option(help="Most requests, those sent again included.")],
    tokens: Annotated[int | None, typer.Option(help="Most tokens, sent and answered. Default: any number.")] = None,
    cost: Annotated[float | None, typer.Option(help="Most money, in the currency of the settings.")] = None,
) -> None:
    """Allow a campaign's sentences to be sent to a model, within a budget; sends nothing."""
    from workbench.suggestions import outside

    outside.allow(
        common.PLACE.store, common.PLACE.actor, common.find_campaign(campaign).id, model,
        address=address, requests=requests, tokens=tokens, cost=cost,
    )  # fmt: skip
    typer.echo(f"The sentences of {campaign} may be sent to {model} at {address}.")


@app.command()
def preview(campaign: CampaignArgument, model: ModelArgument) -> None:
    """Ask about the first ten open sentences and print what comes; writes no suggestion."""
    from workbench.suggestions import asking_outside

    view = common.find_campaign(campaign)
    made = asking_outside.preview(common.PLACE.store, common.PLACE.actor, view.id, model)
    for each in made.sentences:
        typer.echo(each.sentence.text)
        for suggestion in each.suggestions:
            typer.echo(
                f"  {each.sentence.surface(suggestion.start, suggestion.end)}: {view.domain.titles[suggestion.type]}"
            )
    typer.echo(f"{made.report}.")


@app.command()
def ask(
    campaign: CampaignArgument,
    model: ModelArgument,
    wait: Annotated[bool, typer.Option("--wait", help="Ask in this process, not in a worker.")] = False,
) -> int:
    """Queue asking a model about all open sentences; what it suggests is shown to annotators."""
    from workbench.suggestions import asking_outside

    job = asking_outside.start(common.PLACE.store, common.PLACE.actor, common.find_campaign(campaign).id, model)
    return common.follow_here(job) if wait else common.left_to_worker(f"Job {job} is queued.")


@app.command()
def cancel(campaign: CampaignArgument) -> None:
    """Cancel asking; what was answered is kept."""
    common.cancel_in_campaign(campaign, "ask_outside")


@app.command()
def forbid(campaign: CampaignArgument, model: ModelArgument) -> None:
    """Take the permission back: nothing more is sent, also by a job under way; suggestions stay."""
    from workbench.suggestions import outside

    outside.forbid(common.PLACE.store, common.PLACE.actor, common.find_campaign(campaign).id, model)
    typer.echo(f"Nothing more of {campaign} is sent to {model}.")


@app.command()
def withdraw(campaign: CampaignArgument, model: ModelArgument) -> None:
    """Delete a model's suggestions in sentences that nobody has begun."""
    from workbench.suggestions import outside

    campaign_id = common.find_campaign(campaign).id
    removed, stay = outside.withdraw(common.PLACE.store, common.PLACE.actor, campaign_id, model)
    typer.echo(f"{removed} suggestions of {model} are withdrawn; {stay} stay in sentences that people have begun.")
