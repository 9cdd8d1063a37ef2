"""What suggestions and strategies save: annotators' hours, and simulated campaigns on a campaign's own gold."""

from __future__ import annotations

from typing import Any

import streamlit as st

from crossner_core.errors import BadInput
from pages import shell
from pages.components.marked_text import as_text
from pages.parts.model import played
from pages.parts.model.annotator_form import annotator_inputs
from workbench.accounts.actors import Actor
from workbench.accounts.roles import KEEPERS
from workbench.campaigns.campaigns import CampaignView
from workbench.reports import annotator_costs
from workbench.runs import rounds, simulations
from workbench.time_words import time_words


def saved_view(actor: Actor, campaign: CampaignView) -> None:
    """Draw the hours that suggestions saved, then what strategies save on this campaign's gold."""
    st.subheader("By suggestions")
    _by_suggestions(actor, campaign)
    st.subheader("By the order of the queue")
    busy = played.played_view(actor, campaign)
    if actor.role in KEEPERS and not campaign.archived:
        _ask(actor, campaign, busy=busy)


def _by_suggestions(actor: Actor, campaign: CampaignView) -> None:
    try:
        savings = annotator_costs.saved_by_suggestions(shell.store(), actor, campaign.id)
    except BadInput as error:  # no harm: a young campaign has too little data yet
        st.caption(as_text(str(error)))
        return
    prices = savings.fitted.options
    share = savings.hours / savings.from_scratch if savings.from_scratch else 0.0
    more_or_less = "less" if savings.hours >= 0 else "more"
    st.markdown(
        f"**{time_words(abs(savings.hours) * 3600)} {more_or_less}** ({abs(share):.0%}) than from scratch, on "
        f"{savings.sentences:,} sentences in {time_words(savings.spent * 3600)} of active time."
    )
    st.caption(
        f"At this campaign's own costs: {prices.seconds_added:.1f} s for an entity that was not suggested, "
        f"{prices.seconds_kept:.1f} s for one that was kept, {prices.seconds_changed:.1f} s for one that was changed, "
        f"{prices.seconds_deleted:.1f} s for one that was deleted, {prices.seconds_token:.2f} s to read a token. They "
        f"explain {savings.fitted.explained:.0%} of the differences between {savings.fitted.seen:,} sentences."
    )


def _ask(actor: Actor, campaign: CampaignView, *, busy: bool) -> None:
    now = rounds.round_settings(shell.store(), actor, campaign.id)
    with st.expander("Simulate strategies on this gold"):
        text = st.text_area(
            "Strategies, one per line",
            now.strategy or simulations.usual_strategy(shell.store(), actor, campaign.id),
            help="Written as under Rules. Random selection is always simulated beside them.",
            key=f"saved:strategies:{campaign.id}",
        )
        seeds = st.number_input("Seeds", 1, 10, 3, key=f"saved:seeds:{campaign.id}")
        shown = st.checkbox(
            "Annotators see suggestions from gazetteer, links and the newest model",
            key=f"saved:suggestions:{campaign.id}",
            help="In campaigns of the strategies; those of random selection always annotate from scratch.",
        )
        annotators = _annotators(actor, campaign)
        st.caption(
            f"Each strategy is simulated once per seed, with four trainings and {100 * now.random_share:g}% of its "
            "sentences by chance, as under Rules. The worker does it in the background; rounds, runs and suggestions "
            "have priority."
        )
        if st.button("Simulate", type="primary", disabled=busy, key=f"saved:play:{campaign.id}"):
            wanted = [line.strip() for line in text.splitlines() if line.strip()]
            simulations.start_simulations(
                shell.store(), actor, campaign.id, wanted,
                seeds=simulations.drawn_seeds(int(seeds)), suggestions=shown, annotators=annotators,
            )  # fmt: skip
            shell.note("The worker will simulate them; the results appear here.")
            st.rerun()


def _annotators(actor: Actor, campaign: CampaignView) -> list[dict[str, Any]]:
    """Ask what the annotators are like; return how they differ from this campaign's own."""
    key, usual = f"saved:annotators:{campaign.id}", simulations.usual_annotator(shell.store(), actor, campaign.id)
    if not st.checkbox(
        "Annotators differ from this campaign's own",
        key=key,
        help="At first they make no errors and steps cost what they cost here; as published if data is scarce.",
    ):
        return []
    return annotator_inputs(key, usual)
