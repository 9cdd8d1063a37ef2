"""The button that signs out: a plain form, because ending a session is an HTTP request, not a message."""

from __future__ import annotations

import streamlit as st

_HTML = """<form method="post" action="/auth/logout">
<input type="hidden" name="form_token"><button type="submit">Sign out</button></form>"""
_CSS = """
form { margin: 0; }
button { font: inherit; font-size: .875rem; color: var(--st-text-color); background: transparent; cursor: pointer;
  padding: .25rem .75rem; border: 1px solid var(--st-border-color); border-radius: var(--st-button-radius, 6px); }
button:hover { border-color: var(--st-primary-color); color: var(--st-primary-color); }
button:focus-visible { outline: 2px solid var(--st-primary-color); outline-offset: 2px; }
"""
_JS = """export default function ({ data, parentElement }) {
  parentElement.querySelector("input").value = data.form_token
}"""

_mount = st.components.v2.component("crossner_sign_out", html=_HTML, css=_CSS, js=_JS)


def sign_out_button(*, form_token: str) -> None:
    """Draw the button; `form_token` is derived from this browser's session."""
    _mount(key="sign_out", data={"form_token": form_token})
