"""What pages with learning curves share: the choice of axis and entity type, and a note on their random sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from crossner_core.evaluation.learning_curves import AXES, RoundPoint, axes_of
from pages import shell
from workbench.accounts.actors import Actor
from workbench.campaigns.campaigns import CampaignView
from workbench.runs import rounds

_EVERY_TYPE = ""


def axis_and_type(
    points: Sequence[RoundPoint], key: str, titles: Mapping[str, str], *, help: str | None = None
) -> tuple[str, str | None]:
    """Ask for an axis that all points have, and for one of their entity types; None for all types."""
    types = dict.fromkeys(name for point in points for name in point.per_type)
    with st.container(horizontal=True, vertical_alignment="top"):
        axis = st.segmented_control(
            "Horizontal axis", axes_of(points), default=AXES[0], format_func=str.capitalize, key=f"{key}-axis",
            required=True, help=help,
        )  # fmt: skip
        type_name = st.selectbox(
            "Entity type",
            [_EVERY_TYPE, *types],
            format_func=lambda name: titles.get(name, name) or "all types",
            key=f"{key}-type",
            width=220,
        )
    return axis or AXES[0], type_name or None


def measured(type_title: str | None) -> str:
    """Return the title of the y-axis."""
    return f"F1 of {type_title} on test, %" if type_title else "entity F1 on test, %"


def of_chosen_gold(actor: Actor, campaign: CampaignView, gold: Mapping[str, int] | None = None) -> str:
    """Return a note that random sentences are drawn from gold that strategies chose; empty if they chose none of it.

    `gold` counts the gold by how it was chosen at the time; without it, today's counts are used.
    """
    gold = rounds.gold_by_choice(shell.store(), actor, campaign.id) if gold is None else gold
    chosen = sum(count for why, count in gold.items() if why not in rounds.NO_STRATEGY)
    if not chosen:
        return ""
    return (
        f"Strategies chose {chosen:,} of the {sum(gold.values()):,} gold sentences from this campaign's pool, so a "
        "random sample of them is not a random sample of the pool."
    )
