"""The button that asks the worker to stop something."""

from __future__ import annotations

import streamlit as st


def cancel_button(label: str, *, asked: bool, key: str, help: str | None = None) -> bool:
    """Draw it; say whether it was pressed. Once the worker was asked, it says so and cannot be pressed again."""
    return st.button("Cancelling …" if asked else label, disabled=asked, key=key, help=help)
