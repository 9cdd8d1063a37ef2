"""My account: display name, password, and signing out everywhere."""

from __future__ import annotations

import streamlit as st

from pages import shell
from pages.components.marked_text import as_text
from workbench.accounts import accounts
from workbench.accounts.roles import ROLE_TASKS

actor = shell.signed_in()
shell.header(
    "My account",
    "Your name as others see it, your password, and the browsers you are signed in on.",
    help="Changing the password signs out your other browsers. Only an admin changes your role.",
)
st.markdown(f"Account name **{as_text(actor.name)}** · role **{actor.role}** ({ROLE_TASKS[actor.role]})")

with st.container(width=440), st.form("display_name", border=False):
    shown = st.text_input("Display name", actor.display_name, max_chars=80)
    if st.form_submit_button("Change the name"):
        with shell.shown_errors():
            accounts.set_display_name(shell.store(), actor, actor.id, shown)
            shell.note("Your display name is changed.")
            st.rerun()

with st.container(width=440), st.form("password", border=False, clear_on_submit=True):
    st.markdown("**New password**")
    present = st.text_input("Current password", type="password", autocomplete="current-password")
    new = st.text_input("New password (10 characters or more)", type="password", autocomplete="new-password")
    again = st.text_input("Repeat the new password", type="password", autocomplete="new-password")
    if st.form_submit_button("Change the password"):
        with shell.shown_errors():
            if new != again:
                st.warning("The two new passwords differ; nothing was changed.")
            else:
                accounts.change_password(shell.store(), actor, present=present, new=new, token=shell.session_token())
                shell.note("Your password is changed; other browsers are signed out.")
                st.rerun()

if st.button("Sign out my other browsers"):
    with shell.shown_errors():
        accounts.sign_out_everywhere(shell.store(), actor, actor.id, keep_token=shell.session_token())
        st.success("All other browsers are signed out.")
