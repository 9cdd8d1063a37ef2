"""Which encoders a study pre-trains before it trains on them: on what, in which ways, with which options."""

from __future__ import annotations

from typing import Any

import streamlit as st

from crossner_core.experiments.pretrained import DaptConfig, TaggingConfig
from crossner_core.experiments.study import StudyConfig
from crossner_core.options.dapt import DaptOptions
from crossner_core.options.entity_tagging import TaggingPretrainOptions
from pages import shell
from pages.parts.model.recipe_form import chosen_options
from workbench.accounts.actors import Actor
from workbench.data import corpora
from workbench.runs import encoders

FIELDS = (*DaptConfig.own_fields, *TaggingConfig.own_fields)
_TITLE = "Encoders that the study pre-trains"
# Masking is set by the ways, the initial encoder by the recipe.
_DECIDED = ("masking", "encoder")


def pretraining_inputs(actor: Actor, config: type[StudyConfig], key: str) -> dict[str, Any]:
    """Draw the options of a study's pre-training, if it pre-trains encoders; return the fields."""
    if issubclass(config, DaptConfig):
        with st.expander(_TITLE, key=f"{key}:pretraining"):
            return _dapt(actor, config, key)
    if issubclass(config, TaggingConfig):
        with st.expander(_TITLE, key=f"{key}:pretraining"):
            return _tagging(actor, key)
    return {}


def _dapt(actor: Actor, config: type[DaptConfig], key: str) -> dict[str, Any]:
    names = [corpus.name for corpus in corpora.list_corpora(shell.store(), actor) if not corpus.problem]
    if not names:
        st.caption("There is no Wikipedia corpus here yet. `workbench corpus build` makes one.")
    chosen = st.selectbox(
        "Wikipedia corpus",
        names,
        index=None,
        placeholder="None: only the encoders named above",
        accept_new_options=True,
        key=f"{key}:dapt-corpus",
        persist_state="session",
        help="One encoder is pre-trained on it for each way and each corpus of the study. You can also type the folder "
        "of another corpus; {corpus} in it stands for the study's corpus: wiki-{corpus}.",
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
    return {"dapt_corpus": chosen, "dapt_ways": tuple(ways), "dapt": _options(DaptOptions, key)}


def _tagging(actor: Actor, key: str) -> dict[str, Any]:
    names = encoders.tagged_corpora(shell.store(), actor)
    if not names:
        st.caption("There is no entity-tagging corpus here yet. `workbench corpus entity-tagging` makes one.")
    chosen = st.multiselect(
        "Entity-tagging corpora",
        names,
        accept_new_options=True,
        key=f"{key}:tagged",
        persist_state="session",
        placeholder="None: only the encoders named above",
        help="One encoder is pre-trained on each; its row is named after the corpus. LABEL=NAME gives the row another "
        "name; 4-types, merged and full are the paper's rows. You can also type a folder of labelled files.",
    )
    if not chosen:
        return {}
    return {"tagged": tuple(chosen), "tagging": _options(TaggingPretrainOptions, key)}


def _options(config: type, key: str) -> dict[str, Any]:
    label = "Options of the pre-training to change"
    return chosen_options(config, f"{key}:dapt", label, "None: all at their defaults", without=_DECIDED)
