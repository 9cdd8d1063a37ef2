"""What simulated annotators are like: asked for one, or for several who take sentences in turn."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import streamlit as st

from crossner_core.simulation.annotators import AnnotatorOptions
from pages.parts.model.recipe_form import changed_options

_MOST = 5


def annotator_inputs(key: str, usual: AnnotatorOptions) -> list[dict[str, Any]]:
    """Draw the inputs of n annotators; return how each differs from the usual one."""
    count = st.number_input(
        "Annotators",
        1,
        _MOST,
        1,
        key=f"{key}:count",
        help="Several annotators share the sentences, assigned by the seed.",
    )
    annotators = []
    for number in range(1, int(count) + 1):
        with st.container(border=True):
            if count > 1:
                st.markdown(f"**Annotator {number}**")
            # When the usual costs change, what was typed against the old ones is discarded.
            annotators.append(changed_options(AnnotatorOptions, f"{key}:{number}:{hash(usual)}", start=asdict(usual)))
    return annotators
