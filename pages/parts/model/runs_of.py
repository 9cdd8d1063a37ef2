"""Whose runs the views of Adaptation show: those on a campaign's gold, or those on a data set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import streamlit as st

from crossner_core.domains import Domain
from pages import shell
from workbench.accounts.actors import Actor
from workbench.accounts.roles import KEEPERS
from workbench.campaigns import domains
from workbench.campaigns.campaigns import CampaignView
from workbench.data import datasets
from workbench.data.datasets import DatasetView


@dataclass(frozen=True, slots=True)
class RunsOf:
    """What runs were trained on: a campaign's gold or a data set; `key` tells widgets apart.

    `titles` are the types' by name, `colours` theirs by title.
    """

    name: str
    key: str
    domain_name: str
    titles: Mapping[str, str]
    colours: Mapping[str, int]
    campaign: CampaignView | None = None
    dataset_id: int | None = None

    @property
    def campaign_id(self) -> int | None:
        """The campaign's id; None for a data set."""
        return self.campaign.id if self.campaign is not None else None


def of_campaign(campaign: CampaignView) -> RunsOf:
    """Return the runs on a campaign's gold."""
    titles = campaign.domain.titles
    return RunsOf(
        campaign.name, str(campaign.id), campaign.domain_name, titles, colours_by_title(campaign.domain), campaign
    )


def colours_by_title(domain: Domain) -> dict[str, int]:
    """Return the colours of a domain's types by their titles."""
    titles = domain.titles
    return {titles[kind.name]: kind.color for kind in domain.types}


def asked_runs(actor: Actor, campaign: CampaignView) -> RunsOf:
    """Ask whose runs to show, if there are any on data sets; only those who may start runs see these."""
    known = datasets.list_datasets(shell.store(), actor) if actor.role in KEEPERS else ()
    trained_on = {dataset.name: dataset for dataset in known if dataset.runs}
    if not trained_on:
        return of_campaign(campaign)
    chosen = st.selectbox(
        "Runs trained on",
        ["", *trained_on],
        format_func=lambda name: f"data set {name}" if name else f"the gold of {campaign.name}",
        key=f"runs-on-{campaign.id}",
        persist_state="session",
        width=320,
    )
    return _of_dataset(trained_on[chosen]) if chosen else of_campaign(campaign)


def _of_dataset(dataset: DatasetView) -> RunsOf:
    domain = domains.get_domain(shell.store(), dataset.domain_name) if dataset.domain_name else None
    # Without a domain the types have no titles, and no colours of their own: they get those of their places.
    places = {name: number for number, name in enumerate(dataset.types)}
    return RunsOf(
        f"data set {dataset.name}",
        f"data-{dataset.id}",
        dataset.domain_name or dataset.name,
        domain.titles if domain is not None else {},
        colours_by_title(domain) if domain is not None else places,
        dataset_id=dataset.id,
    )
