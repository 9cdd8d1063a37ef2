"""Button shortcuts that act once per key press: a held key would press the same button of the next item, unseen."""

from __future__ import annotations

import streamlit as st

# Streamlit's shortcuts listen on the document and act on key repeats; this listener on the window runs first.
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
    """Make shortcuts of one letter or digit act once per press on the calling page; draws nothing."""
    _mount(key="held_keys")
