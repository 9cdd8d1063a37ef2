"""`workbench webhook`: a campaign's events, sent to other programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.commands import common

if TYPE_CHECKING:
    from workbench.webhooks.managing import WebhookView

app = typer.Typer(
    help="Webhooks of a campaign: list, make, change, remove, secret, test, log, redeliver.", no_args_is_help=True
)
CampaignArgument = Annotated[str, typer.Argument(help="Campaign, by name or number.")]
NumberArgument = Annotated[int, typer.Argument(help="Number of the webhook, as `webhook list` shows it.")]
_EVENTS = "Event to send; give it again for more: gold.made, round.ended, run.ended, campaign.finished. Default: "


@app.command("list")
def list_(campaign: CampaignArgument) -> None:
    """List the webhooks of a campaign, without their secrets."""
    from workbench.webhooks import managing

    views = managing.list_webhooks(common.PLACE.store, common.PLACE.actor, common.find_campaign(campaign).id)
    rows = [(view.id, view.url, " ".join(view.events), _state(view), view.waiting, view.last) for view in views]
    common.table(rows, ("number", "address", "events", "state", "to be sent", "last attempt"))


def _state(view: WebhookView) -> str:
    return "on" if view.active else f"off: {view.off_reason}"


@app.command()
def make(
    campaign: CampaignArgument,
    url: Annotated[str, typer.Argument(help="Address that events are sent to, such as https://example.org/hooks.")],
    event: Annotated[list[str] | None, typer.Option(help=f"{_EVENTS}all.")] = None,
) -> None:
    """Make a webhook; its secret is printed once, alone on standard output."""
    from workbench.webhooks import managing
    from workbench.webhooks.events import EVENTS

    made = managing.make_webhook(
        common.PLACE.store, common.PLACE.actor, common.find_campaign(campaign).id, url=url, events=event or list(EVENTS)
    )
    typer.echo(f"Webhook {made.webhook.id} is made. Its secret is not shown again.", err=True)
    typer.echo(made.secret)


@app.command()
def change(
    campaign: CampaignArgument,
    number: NumberArgument,
    url: Annotated[str | None, typer.Option(help="New address. Default: as it is.")] = None,
    event: Annotated[list[str] | None, typer.Option(help=f"{_EVENTS}as it is.")] = None,
    on: Annotated[
        bool | None, typer.Option("--on/--off", help="Switch it on, or off, which gives up what is still to be sent.")
    ] = None,
) -> None:
    """Change a webhook's address or events, or switch it on or off."""
    from workbench.webhooks import managing

    view = managing.change_webhook(
        common.PLACE.store, common.PLACE.actor, common.find_campaign(campaign).id, number,
        url=url, events=event, active=on,
    )  # fmt: skip
    typer.echo(
        f"Webhook {number} sends {', '.join(view.events)} to {view.url}; it is {'on' if view.active else 'off'}."
    )


@app.command()
def remove(campaign: CampaignArgument, number: NumberArgument) -> None:
    """Remove a webhook with its log."""
    from workbench.webhooks import managing

    managing.remove_webhook(common.PLACE.store, common.PLACE.actor, common.find_campaign(campaign).id, number)
    typer.echo(f"Webhook {number} is removed.")


@app.command()
def secret(campaign: CampaignArgument, number: NumberArgument) -> None:
    """Replace a webhook's secret; the new one is printed once, alone on standard output."""
    from workbench.webhooks import managing

    made = managing.renew_secret(common.PLACE.store, common.PLACE.actor, common.find_campaign(campaign).id, number)
    typer.echo(f"Webhook {number} has a new secret. It is not shown again.", err=True)
    typer.echo(made.secret)


@app.command()
def test(campaign: CampaignArgument, number: NumberArgument) -> None:
    """Have the worker send a test event to a webhook."""
    from workbench.webhooks import managing

    line = managing.send_test(common.PLACE.store, common.PLACE.actor, common.find_campaign(campaign).id, number)
    typer.echo(f"Delivery {line.id} waits for the worker; `webhook log` shows what becomes of it.")


@app.command()
def log(
    campaign: CampaignArgument,
    webhook: Annotated[int | None, typer.Option(help="Number of a webhook. Default: all of the campaign.")] = None,
    state: Annotated[
        str | None, typer.Option(help="Only those in a state: waiting, failed, delivered or given up.")
    ] = None,
    limit: Annotated[int, typer.Option(help="Deliveries at most, 1 to 200.")] = 50,
    payloads: Annotated[bool, typer.Option("--payloads", help="Print each as JSON with what it sends.")] = False,
) -> None:
    """List the newest deliveries; the log goes back 30 days."""
    from workbench.webhooks import managing

    lines = managing.list_deliveries(
        common.PLACE.store, common.PLACE.actor, common.find_campaign(campaign).id,
        webhook_id=webhook, state=state, limit=limit,
    )  # fmt: skip
    if payloads:
        for line in lines:
            typer.echo(json.dumps({"delivery": line.id, "state": line.state, "payload": dict(line.payload)}))
        return
    rows = [
        (
            line.id,
            line.webhook_id,
            line.type,
            f"{line.created_at:%Y-%m-%d %H:%M:%S}",
            line.state,
            line.attempts,
            f"{line.next_at:%Y-%m-%d %H:%M:%S}" if line.next_at else "–",
            line.last_error or line.last_status or "–",
        )
        for line in lines
    ]
    head = ("number", "webhook", "event", "happened (UTC)", "state", "attempts", "next (UTC)", "answer")
    common.table(rows, head)


@app.command()
def redeliver(
    campaign: CampaignArgument,
    delivery: Annotated[int, typer.Argument(help="Number of the delivery, as `webhook log` shows it.")],
) -> None:
    """Have the worker send a delivery again, under the same id."""
    from workbench.webhooks import managing

    managing.redeliver(common.PLACE.store, common.PLACE.actor, common.find_campaign(campaign).id, delivery)
    typer.echo(f"Delivery {delivery} waits for the worker; `webhook log` shows what becomes of it.")
