"""Suggestions by what the types mean: a type-aware model of elsewhere, and guidelines to try out on ten sentences."""

from __future__ import annotations

import streamlit as st

from crossner_core.training.recipe import reads_texts
from pages import shell
from pages.components.marked_text import as_text
from pages.parts.model.preview import is_under_way, suggest_with
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.campaigns.campaigns import CampaignView
from workbench.runs import adaptation
from workbench.runs.adaptation import RunView

_SECONDS_BETWEEN_LOOKS = 2


def descriptions_view(actor: Actor, campaign: CampaignView) -> None:
    """Draw the choice of a type-aware model, the guidelines, and what the model makes of them."""
    st.caption(
        "A type-aware model finds entities by the titles and guidelines of their types, before the first label. "
        "Change a guideline, look at ten sentences, and keep what works."
    )
    runs = {run.id: run for run in _type_aware(actor)}
    if not runs:
        st.info(
            "No type-aware model is here yet. Train one under *Adaptation*: the architecture *Type-aware tagger*, on "
            "data sets and on other campaigns' gold."
        )
        return
    run_id = st.selectbox(
        "Model", list(runs), format_func=lambda id_: runs[id_].title, key=f"campaigns:reader:{campaign.id}"
    )
    answers = st.container()
    titles, texts = campaign.domain.titles, dict[str, str]()
    left, right = st.columns(2)
    for number, kind in enumerate(campaign.domain.types):
        column = left if number % 2 == 0 else right
        texts[kind.name] = column.text_area(
            titles[kind.name],
            kind.guideline,
            height=100,
            max_chars=campaigns.MOST_GUIDELINE,
            key=f"campaigns:guideline:{campaign.id}:{kind.name}:{campaign.domain.hash[:8]}",
            disabled=campaign.archived,
        )
    changed = {kind.name: texts[kind.name] for kind in campaign.domain.types if texts[kind.name] != kind.guideline}
    with answers, shell.shown_errors():
        if changed:
            st.caption(as_text(f"Changed and not kept yet: {', '.join(titles[name] for name in changed)}."))
            if st.button("Keep these guidelines", key=f"campaigns:keep:{campaign.id}", disabled=campaign.archived):
                campaigns.set_guidelines(shell.store(), actor, campaign.id, changed)
                shell.note("The guidelines are kept; annotators see them from their next sentence on.")
                st.rerun()
        waits = is_under_way(campaign, run_id, changed or None)
        st.fragment(suggest_with, run_every=_SECONDS_BETWEEN_LOOKS if waits else None)(
            actor, campaign, run_id, changed or None
        )


def _type_aware(actor: Actor) -> list[RunView]:
    """Return the runs of all campaigns and data sets that can read what types mean, newest first."""
    done = adaptation.list_runs(shell.store(), actor, states=("done",))
    return [run for run in done if run.has_checkpoint and reads_texts(run.recipe)]
