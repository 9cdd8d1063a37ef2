"""Label review by keys: a Streamlit component (v2) that shows doubts and posts decisions beside Streamlit."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import streamlit as st

from pages.components import span_editor
from pages.components.script_bundle import bundled
from workbench.http import parts

HERE = Path(__file__).parent
# In bundle order; outbox, wire and helpers are the span editor's.
MODULES = tuple(span_editor.HERE / name for name in ("browser.js", "outbox.js", "wire.js", "dom.js")) + tuple(
    HERE / name for name in ("review.js", "doubt.js", "index.js")
)
_SETTLED = "settled"


@lru_cache(maxsize=1)
def bundle() -> str:
    """All modules and the style as one script."""
    style = span_editor.stylesheet() + (HERE / "review.css").read_text(encoding="utf-8")
    return bundled(MODULES, style)


_mount = st.components.v2.component("crossner_review_keys", js=parts.loader(parts.publish("review_keys", bundle())))


def review_keys(*, payload: dict[str, Any], key: str) -> None:
    """Mount label review of one queue, which saves by itself.

    `key` must stay the same from run to run. A moment after the last decision was saved, the script runs again, so that
    the page draws what else shows decisions.
    """
    _mount(key=key, data=payload, default={_SETTLED: 0}, on_settled_change=_nothing)


def _nothing() -> None:
    """Placeholder callback: the state key exists only if a callback is given."""
