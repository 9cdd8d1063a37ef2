"""The harness's page: mounts the editor once; what it saves goes past Streamlit."""

from __future__ import annotations

import os
from pathlib import Path

import streamlit as st

from pages.components.span_editor import span_editor
from tests.support.editor.server import payload

st.set_page_config(page_title="editor", page_icon="✏️", layout="wide")
mode, total = st.query_params.get("mode", "annotate"), int(st.query_params.get("total", "12"))
shown = payload(Path(os.environ["EDITOR_STORE"]), mode, {"acks": {}, "rejections": []}, total)
span_editor(payload=shown | {"url": f"/save/{mode}/{total}", "token": "none"}, key=f"editor-{mode}")
