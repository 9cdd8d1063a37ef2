"""The span editor: a Streamlit component (v2) made of small ES modules; see `index.js` for the browser side."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import streamlit as st

from pages.components.palette import palette_css
from pages.components.script_bundle import bundled
from workbench.http import parts

HERE = Path(__file__).parent
# In bundle order: each module uses only those above it.
MODULES = (
    "browser.js",
    "tokens.js",
    "links.js",
    "marks.js",
    "adjudicate.js",
    "identical.js",
    "linking.js",
    "model.js",
    "keys.js",
    "outbox.js",
    "session.js",
    "wire.js",
    "dom.js",
    "context.js",
    "sentence.js",
    "elsewhere.js",
    "types.js",
    "units.js",
    "provenance.js",
    "guidelines.js",
    "panels.js",
    "asking.js",
    "entities.js",
    "frame.js",
    "input.js",
    "index.js",
)

TASK = "task"


@lru_cache(maxsize=1)
def bundle() -> str:
    """All modules and the style as one script."""
    return bundled([HERE / name for name in MODULES], stylesheet())


def stylesheet() -> str:
    """The editor's CSS with the colours of the entity types."""
    return (HERE / "editor.css").read_text(encoding="utf-8") + palette_css()


# A page sends what it mounts with each run: only the loader goes with it, the browser keeps the script.
_mount = st.components.v2.component("crossner_span_editor", js=parts.loader(parts.publish("span_editor", bundle())))


def span_editor(*, payload: dict[str, Any], key: str) -> int | None:
    """Mount the editor, which saves by itself, and return the task it shows, None before that has changed.

    `key` must stay the same from run to run: the mounted component holds the open sentence, its undo steps and focus.
    Only with `follow` in the payload does a change of the task run the script again.
    """
    result = _mount(key=key, data=payload, default={TASK: None}, on_task_change=_nothing)
    return cast("int | None", result.get(TASK))


def _nothing() -> None:
    """Placeholder callback: the state key exists only if a callback is given."""
