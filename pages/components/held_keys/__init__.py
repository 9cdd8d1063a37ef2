"""Shortcuts of buttons act once a press: a key held down would press the same button of what comes next, unseen."""

from __future__ import annotations

import streamlit as st

# Streamlit's shortcuts listen on the document and heed repeated presses; this hears them first.
_JS = """export default function () {
  const stop = (event) => {
    const field = event.target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(event.target.tagName)
    if (event.repeat && event.key.length === 1 && !field) event.stopImmediatePropagation()
  }
  window.addEventListener("keydown", stop, true)
  return () => window.removeEventListener("keydown", stop, true)
}"""

_mount = st.components.v2.component("crossner_held_keys", js=_JS)


def once_a_press() -> None:
    """Have shortcuts of one letter or digit act once a press on the page that calls this; nothing is drawn."""
    _mount(key="held_keys")
