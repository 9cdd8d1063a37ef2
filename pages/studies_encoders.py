"""Which encoders a study is to pre-train before it trains on them: on what text, in which ways, with which options."""

from __future__ import annotations

from typing import Any

import streamlit as st

from crossner_core.experiments.pretrained import PretrainingConfig
from crossner_core.experiments.study import StudyConfig
from crossner_core.options.dapt import DaptOptions
from pages import shell
from pages.recipe_form import chosen_options
from workbench import corpora
from workbench.actors import Actor

FIELDS = ("dapt_corpus", "dapt_text", "dapt_ways", "dapt")
# The ways say how is masked; the encoder to begin from is the recipe's.
_DECIDED = ("masking", "encoder")


def pretraining_inputs(actor: Actor, config: type[StudyConfig], key: str) -> dict[str, Any]:
    """Draw what a study can be told of its encoders' pre-training, where it pre-trains any; return the fields."""
    if not issubclass(config, PretrainingConfig):
        return {}
    with st.expander("Encoders that the study pre-trains", key=f"{key}:pretraining"):
        there = [one.name for one in corpora.list_corpora(shell.store(), actor) if not one.problem]
        if not there:
            st.caption("On none: there is no Wikipedia corpus here yet. `workbench corpus build` makes one.")
            return {}
        chosen = st.selectbox(
            "Wikipedia corpus",
            there,
            index=None,
            placeholder="None: only the encoders named above",
            accept_new_options=True,
            key=f"{key}:dapt-corpus",
            persist_state="session",
            help="For each way and each corpus of the study an encoder is pre-trained on it, once. In a name you type, "
            "{corpus} stands for the study's corpus: wiki-{corpus}.",
        )
        if not chosen:
            return {}
        ways = st.multiselect(
            "Ways",
            config.usual_ways,
            accept_new_options=True,
            key=f"{key}:dapt-ways",
            persist_state="session",
            placeholder=f"The paper's: {', '.join(config.usual_ways)}",
            help="MASKING-LEVEL-PERCENT: masking is token or span; level is domain, entity, task or integrated; a "
            "share of the level in percent may follow. Type one that is not in the list.",
        )
        changes = chosen_options(
            DaptOptions, f"{key}:dapt", "Options of the pre-training to change", "None: all as usual", without=_DECIDED
        )
    return {"dapt_corpus": chosen, "dapt_ways": tuple(ways), "dapt": changes}
