"""`workbench corpus sample`: sentences of a corpus into a campaign."""

from __future__ import annotations

from typing import Annotated

import typer

from workbench.commands import common
from workbench.commands.common import CampaignName


def add_to(group: typer.Typer) -> None:
    """Add the command to the group `corpus`."""
    group.command("sample")(sample)


def sample(
    name: Annotated[str, typer.Argument(help="Corpus, by name (see workbench corpus list).")],
    campaign: CampaignName,
    count: Annotated[int, typer.Option(help="Sentences to add.")] = 100,
    seed: Annotated[int, typer.Option(help="Draws the sentences; the same seed draws the same.")] = 0,
    split: Annotated[str, typer.Option(help="pool, dev or test.")] = "pool",
    min_tokens: Annotated[int, typer.Option(help="Tokens of a sentence, at least.")] = 5,
    max_tokens: Annotated[int, typer.Option(help="Tokens of a sentence, at most.")] = 80,
    min_links: Annotated[int, typer.Option(help="Links in a sentence, at least.")] = 0,
    min_mentions: Annotated[int, typer.Option(help="Pre-annotated entities (of the types), at least.")] = 0,
    type_: Annotated[
        list[str] | None, typer.Option("--type", help="Entity type that counts; may be given again. Default: all.")
    ] = None,
    text: Annotated[str, typer.Option(help="The sentence contains this.")] = "",
    title: Annotated[str, typer.Option(help="The page's title contains this.")] = "",
    section: Annotated[str, typer.Option(help="The heading above contains this.")] = "",
    per_page: Annotated[int, typer.Option(help="Sentences from one page, at most; 0: no limit.")] = 0,
    likeness: Annotated[
        float, typer.Option(help="Leave out what shares this part of its word triples with another sentence.")
    ] = 0.8,
    preview: Annotated[bool, typer.Option("--preview", help="Print what would be added, and add nothing.")] = False,
) -> None:
    """Add sentences of a corpus to a campaign: filtered, drawn by a seed, no two nearly the same."""
    from workbench.data import sampling

    plan = sampling.SamplingPlan(
        count=count, seed=seed, split=split, min_tokens=min_tokens, max_tokens=max_tokens, min_links=min_links,
        min_mentions=min_mentions, types=tuple(type_ or ()), text=text, title=title, section=section,
        per_page=per_page, threshold=likeness,
    )  # fmt: skip
    store, actor, campaign_id = common.PLACE.store, common.PLACE.actor, common.find_campaign(campaign).id
    if preview:
        shown = sampling.preview(store, actor, campaign_id, name, plan)
        for one in shown.first:
            typer.echo(f"{one.sentence.meta['title']}: {one.sentence.text}")
        typer.echo(f"Nothing was added. It would be: {shown.report}")
        return
    done = sampling.sample_into_campaign(store, actor, campaign_id, name, plan)
    typer.echo(f"{done}; {done.suggestions:,} suggestions came along. {done.note}".rstrip())
