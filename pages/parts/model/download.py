"""Downloading a run's model for other software."""

from __future__ import annotations

from functools import partial

import streamlit as st

from crossner_core.training.recipe import Recipe
from pages import shell
from pages.components.lazy_download import lazy_download
from pages.components.marked_text import as_text
from workbench.accounts.actors import Actor
from workbench.runs import exporting
from workbench.runs.adaptation import RunView
from workbench.settings import settings_of


def download_model(actor: Actor, run: RunView) -> None:
    """Offer the model as a zip: for which software, and with which weights; why not, where it cannot be."""
    with st.expander("Download the model"):
        targets = {target.id: target for target in exporting.list_targets()}
        to = st.selectbox("For", list(targets), format_func=lambda id: targets[id].title, key=f"export-to-{run.id}")
        if why := exporting.refusal(settings_of(shell.store()), Recipe.from_dict(run.recipe), to):
            st.caption(as_text(why))
            return
        int8 = targets[to].has_int8 and st.checkbox(
            "Weights in int8 (smaller and faster; a few entities differ)", key=f"export-int8-{run.id}"
        )
        make = partial(exporting.export_zip, shell.store(), actor, run.id, to=to, int8=bool(int8))
        lazy_download("Download", make, file_name=f"run-{run.id}-{to}.zip", key=f"export-{run.id}")
        st.caption("It is made when you click, which takes up to a minute. README.md in it says how to use it.")
