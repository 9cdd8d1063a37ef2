"""The span editor: a Streamlit component (v2) made of small ES modules; see `index.js` for the browser side."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import streamlit as st

from pages.components.palette import palette_css

HERE = Path(__file__).parent
# In bundle order: each module uses only those above it.
MODULES = (
    "tokens.js",
    "marks.js",
    "adjudicate.js",
    "model.js",
    "keys.js",
    "outbox.js",
    "session.js",
    "dom.js",
    "sentence.js",
    "types.js",
    "units.js",
    "panels.js",
    "frame.js",
    "input.js",
    "index.js",
)
_IMPORT = re.compile(r"^import\s[^;]*?from\s+\"\./[\w.]+\";\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default\b)", re.MULTILINE)
_COMMENT = re.compile(r"^\s*(?://[^\n]*|/\*\*.*?\*/)\n", re.MULTILINE | re.DOTALL)
_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)

OUTBOX = "outbox"


@lru_cache(maxsize=1)
def bundle() -> str:
    """All modules as one script, without imports, comments and indentation: it is sent on every run."""
    parts = []
    for name in MODULES:
        source = (HERE / name).read_text(encoding="utf-8")
        for pattern in (_IMPORT, _EXPORT, _COMMENT, _INDENT):
            source = pattern.sub("", source)
        parts.append(source)
    return "\n".join(parts)


def stylesheet() -> str:
    """The editor's CSS with the colours of the entity types."""
    return (HERE / "editor.css").read_text(encoding="utf-8") + palette_css()


_mount = st.components.v2.component("crossner_span_editor", css=stylesheet(), js=bundle())


def span_editor(
    *, payload: dict[str, Any], key: str, on_outbox: Callable[[], None] | None = None
) -> dict[str, Any] | None:
    """Mount the editor and return the newest outbox `{"client", "events", "sent"}`, or None before the first message.

    `key` must stay the same from run to run: the mounted component holds the open sentence, its undo steps and focus.
    After a server restart the outbox arrives without a callback, so apply the returned value in the page body too;
    every event carries an idempotency key.
    """
    result = _mount(key=key, data=payload, default={OUTBOX: None}, on_outbox_change=on_outbox or _nothing)
    return cast("dict[str, Any] | None", result.get(OUTBOX))


def _nothing() -> None:
    """Placeholder callback: the state key exists only if a callback is given."""
