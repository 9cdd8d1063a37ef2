"""Whose runs the views of Adaptation show: those on a campaign's gold, or those on a data set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import streamlit as st

from pages import shell
from workbench.accounts.actors import Actor
from workbench.accounts.roles import KEEPERS
from workbench.campaigns import domains
from workbench.campaigns.campaigns import CampaignView
from workbench.data import datasets
from workbench.data.datasets import DatasetView


@dataclass(frozen=True, slots=True)
class RunsOf:
    """What runs were trained on: a campaign's gold or a data set; `key` tells widgets apart, `colours` is by type."""

    name: str
    key: str
    domain_name: str
    colours: Mapping[str, int]
    campaign: CampaignView | None = None
    dataset_id: int | None = None

    @property
    def campaign_id(self) -> int | None:
        """The campaign's id; None for a data set."""
        return self.campaign.id if self.campaign is not None else None


def of_campaign(campaign: CampaignView) -> RunsOf:
    """Return the runs on a campaign's gold."""
    colours = {kind.name: kind.color for kind in campaign.domain.types}
    return RunsOf(campaign.name, str(campaign.id), campaign.domain_name, colours, campaign)


def asked_runs(actor: Actor, campaign: CampaignView) -> RunsOf:
    """Ask whose runs to show, if there are any on data sets; only those who may start runs see these."""
    known = datasets.list_datasets(shell.store(), actor) if actor.role in KEEPERS else ()
    trained_on = {dataset.name: dataset for dataset in known if dataset.runs}
    if not trained_on:
        return of_campaign(campaign)
    chosen = st.selectbox(
        "Runs on",
        ["", *trained_on],
        format_func=lambda name: f"data set {name}" if name else f"the gold of {campaign.name}",
        key=f"runs-on-{campaign.id}",
        persist_state="session",
        width=320,
    )
    return _of_dataset(trained_on[chosen]) if chosen else of_campaign(campaign)


def _of_dataset(dataset: DatasetView) -> RunsOf:
    kinds = domains.get_domain(shell.store(), dataset.domain_name).types if dataset.domain_name else ()
    # Without a domain the types have no colours of their own: they get those of their places.
    colours = {kind.name: kind.color for kind in kinds} or {name: number for number, name in enumerate(dataset.types)}
    return RunsOf(
        f"data set {dataset.name}",
        f"data-{dataset.id}",
        dataset.domain_name or dataset.name,
        colours,
        dataset_id=dataset.id,
    )
