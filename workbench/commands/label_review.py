"""`workbench second-look`: doubts about gold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crossner_core.command_line import OptionsCommand, takes_options
from crossner_core.options.label_review import LabelReviewOptions
from workbench.commands import common
from workbench.commands.common import CampaignName

app = typer.Typer(help="Label review: find annotations that may be wrong.", no_args_is_help=True)
Check = Annotated[str | None, typer.Option("--check", help="Only this check (see workbench second-look list).")]


@takes_options(LabelReviewOptions, "options")
def compute(
    options: LabelReviewOptions,
    campaign: CampaignName,
    check: Check = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Run the checks in this process, instead of queueing them for a worker.")
    ] = False,
) -> int:
    """Check all gold of a campaign and fill its queues of findings."""
    from workbench.jobs import queue
    from workbench.labelling import label_review

    store, actor = common.PLACE.store, common.PLACE.actor
    view = common.find_campaign(campaign)
    job_id = label_review.look_again(store, actor, view.id, options, [check] if check else None)
    if not wait:
        return common.left_to_worker(f"The label review is queued as job {job_id}.")
    common.do_here(job_id)
    job = queue.get_job(store, actor, job_id)
    typer.echo(job.error or job.message)
    return 0 if job.state == "done" else 2


@app.command()
def cancel(campaign: CampaignName) -> None:
    """Cancel the queued or running label review; the findings of finished checks are kept."""
    common.cancel_in_campaign(campaign, "second_look")


@app.command("list")
def list_(
    campaign: CampaignName,
    check: Check = None,
    limit: Annotated[int, typer.Option(help="Maximum number of findings to print.")] = 50,
) -> None:
    """List the queues of a campaign, or the findings of one check."""
    from crossner_core.label_review.base import in_words
    from workbench.labelling import label_review

    store, actor = common.PLACE.store, common.PLACE.actor
    campaign_id = common.find_campaign(campaign).id
    if check is None:
        rows = [(row.id, row.open, row.decided, row.line) for row in label_review.queues(store, actor, campaign_id)]
        common.table(rows, ("check", "open", "decided", "finds"))
        return
    shown = label_review.findings(store, actor, campaign_id, check)[:limit]
    lines = [
        (finding.id, f"{finding.score:.2f}", finding.split, in_words(finding.sentence, finding.there),
         in_words(finding.sentence, finding.proposed), finding.why)
        for finding in shown
    ]  # fmt: skip
    common.table(lines, ("no", "doubt", "split", "is", "proposed", "why"))


@app.command()
def files(
    paths: Annotated[list[Path], typer.Argument(help="Labelled files; the name of each file is its split.")],
    check: Annotated[str, typer.Option("--check", help="The check to run.")] = "near_duplicates",
    limit: Annotated[int, typer.Option(help="Maximum number of findings to print.")] = 50,
) -> None:
    """Check labelled files that belong to no campaign; exact duplicates are listed separately."""
    from crossner_core.formats import open_file
    from crossner_core.label_review.base import Desk, Gold, in_words
    from crossner_core.label_review.base import check as find_check

    parsed = [(path.stem, item) for path in paths for item in open_file(path).labelled]
    types = tuple(sorted({span.type for _, item in parsed for span in item.spans}))
    gold = Gold(tuple(item for _, item in parsed), tuple(split for split, _ in parsed), types)
    findings = find_check(check).find(gold, LabelReviewOptions(), Desk()) or []
    rows = [
        (f"{finding.score:.2f}", finding.kind, gold.splits[finding.item], gold.items[finding.item].sentence.id,
         in_words(gold.items[finding.item].sentence, finding.there), finding.why)
        for finding in findings[:limit]
    ]  # fmt: skip
    common.table(rows, ("doubt", "kind", "split", "sentence", "is", "why"))
    typer.echo(f"{len(findings)} findings.")


app.command("compute", cls=OptionsCommand)(compute)
