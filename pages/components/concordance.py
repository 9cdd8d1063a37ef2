"""What was searched for, with the words before and after it in columns of their own, so that hits stand in line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

_BEFORE = 28
"""Characters before a match that fit their column: longer text would lose the words next to the match."""


def concordance(text: str, ranges: Sequence[tuple[int, int]]) -> dict[str, str]:
    """Return the columns of a text's first match; without one, the beginning of the text stands behind it."""
    if not ranges:
        return {"Before": "", "Match": "", "After": text}
    start, end = ranges[0]
    before = text[:start].rstrip()
    if len(before) > _BEFORE:
        before = f"…{before[-_BEFORE:].lstrip()}"
    return {"Before": before, "Match": text[start:end], "After": text[end:].lstrip()}


def concordance_columns() -> dict[str, Any]:
    """Return the layout of these columns for `st.dataframe`."""
    return {
        "Before": st.column_config.TextColumn(width="medium", alignment="right"),
        "Match": st.column_config.TextColumn(width="small", alignment="center"),
        "After": st.column_config.TextColumn(width="large"),
    }
