"""A page with nothing but the editor, for a real browser: `?mode=…&total=…`; the store is $EDITOR_STORE."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

import streamlit as st

from pages.components.span_editor import span_editor
from tests.support.editor.server import apply, payload

STORE = Path(os.environ["EDITOR_STORE"])
st.set_page_config(page_title="editor", page_icon="✏️", layout="wide")


# A timed fragment makes the browser ask for a whole run after a reconnect; without one, a restarted server would
# never hear of this fragment again and would ignore its messages.
@st.fragment(run_every=60)
def editor() -> None:
    """Apply what came, then show what is next."""
    mode = st.query_params.get("mode", "annotate")
    key = f"editor-{mode}"
    state = st.session_state.get(key) or {}
    time.sleep(float(os.environ.get("EDITOR_DELAY", "0")))
    answer = apply(STORE, mode, state.get("outbox"))
    span_editor(payload=payload(STORE, mode, answer, int(st.query_params.get("total", "12"))), key=key)


editor()
