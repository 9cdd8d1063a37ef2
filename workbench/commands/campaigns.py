"""`workbench campaign`: campaigns as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from workbench.commands import common
from workbench.commands.recipe_options import takes_settings

app = typer.Typer(help="Campaigns: list, create, show, members, import.", no_args_is_help=True)


@app.command("list")
def list_() -> None:
    """List the campaigns."""
    from workbench.campaigns import campaigns

    views = campaigns.list_campaigns(common.PLACE.store, common.PLACE.actor, archived=True)
    rows = [
        (view.id, view.name, view.domain_name, view.sentences, view.gold, "yes" if view.archived else "no")
        for view in views
    ]
    common.table(rows, ("no", "name", "domain", "sentences", "gold", "archived"))


@app.command()
@takes_settings
def create(
    name: Annotated[str, typer.Argument(help="Name of the new campaign.")],
    domain: Annotated[str, typer.Option(help="Domain, by name (see workbench domain list).")],
    settings: dict[str, Any],
    member: Annotated[list[str] | None, typer.Option(help="Account to add as a member; can be repeated.")] = None,
) -> None:
    """Create an empty campaign."""
    from workbench.campaigns import campaigns, domains

    campaign_id = campaigns.create_campaign(
        common.PLACE.store,
        common.PLACE.actor,
        name=name,
        domain=domains.get_domain(common.PLACE.store, domain),
        member_ids=[common.find_person(account).id for account in member or ()],
        **settings,
    )
    typer.echo(f"Campaign {campaign_id}: {name}")


@app.command()
def show(name: Annotated[str, typer.Argument(help="Campaign, by name or number.")]) -> None:
    """Show a campaign's settings, members and progress."""
    view = common.find_campaign(name)
    splits = ", ".join(f"{split} {count}" for split, count in view.splits.items())
    typer.echo(f"{view.id}: {view.name} · domain {view.domain_name} · {view.sentences} sentences ({splits})")
    typer.echo(
        f"blind {view.blind_share:.0%} · control {view.control_share:.0%} · "
        f"suggestions {'on' if view.suggestions_on else 'off'} from {', '.join(view.sources)}"
    )
    typer.echo("members: " + (", ".join(f"{member.name} ({member.role})" for member in view.members) or "none"))
    rows = [(stage.stage, stage.waiting, stage.open, stage.leased, stage.done, stage.parked) for stage in view.stages]
    common.table(rows, ("stage", "waiting", "open", "leased", "done", "parked"))


@app.command()
def members(
    name: Annotated[str, typer.Argument(help="Campaign, by name or number.")],
    people: Annotated[list[str], typer.Argument(help="Account names to add.")],
) -> None:
    """Add people to a campaign."""
    from workbench.campaigns import campaigns

    ids = [common.find_person(name).id for name in people]
    campaigns.add_members(common.PLACE.store, common.PLACE.actor, common.find_campaign(name).id, ids)
    typer.echo(f"{', '.join(people)}: in {name} now.")


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="Zip file that `workbench export --layer all` wrote.")],
    name: Annotated[str | None, typer.Option(help="Name of the new campaign. Default: the name in the file.")] = None,
) -> None:
    """Create a campaign from an exported one, with all its layers."""
    from workbench.data import archive

    campaign_id = archive.import_campaign(common.PLACE.store, common.PLACE.actor, common.read_in(file), name=name)
    typer.echo(f"Campaign {campaign_id} was imported.")


@app.command()
def preannotate(name: Annotated[str, typer.Argument(help="Campaign, by name or number.")]) -> None:
    """Queue the pre-annotation of new sentences from links and gazetteer."""
    from workbench.jobs import queue

    job = queue.start_job(common.PLACE.store, common.PLACE.actor, "preannotate", common.find_campaign(name).id)
    common.left_to_worker(f"Job {job} is queued.")


@app.command("score-pool")
def score_pool(
    name: Annotated[str, typer.Argument(help="Campaign, by name or number.")],
    run: Annotated[int | None, typer.Option(help="Run whose checkpoint is used. Default: the best one.")] = None,
) -> None:
    """Queue the pre-annotation of the pool with a trained checkpoint."""
    from workbench.jobs import queue

    campaign_id = common.find_campaign(name).id
    job = queue.start_job(common.PLACE.store, common.PLACE.actor, "score_pool", campaign_id, run_id=run)
    common.left_to_worker(f"Job {job} is queued.")


@app.command("cancel-suggestions")
def cancel_suggestions(name: Annotated[str, typer.Argument(help="Campaign, by name or number.")]) -> None:
    """Cancel the pre-annotation of a campaign, from gazetteer and links or a model; suggestions made are kept."""
    from workbench.jobs import queue

    campaign_id = common.find_campaign(name).id
    states = queue.cancel_in_campaign(common.PLACE.store, common.PLACE.actor, campaign_id, "preannotate", "score_pool")
    typer.echo(f"{len(states)} cancelled; a running one stops within moments.")
