"""My account: display name, password, signing out everywhere, and tokens for the API."""

from __future__ import annotations

from html import escape

import streamlit as st

from pages import shell
from pages.components.marked_text import as_text
from workbench.accounts import accounts, identities, tokens
from workbench.accounts.actors import Actor
from workbench.accounts.identities import WaysIn
from workbench.accounts.oidc.provider_settings import read_provider
from workbench.accounts.roles import ROLE_TASKS
from workbench.settings import settings_of


def _password(actor: Actor) -> None:
    """Draw the form of a new password."""
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
                    accounts.change_password(
                        shell.store(), actor, present=present, new=new, token=shell.session_token()
                    )
                    shell.note("Your password is changed; other browsers are signed out.")
                    st.rerun()


def _provider(actor: Actor, ways: WaysIn) -> None:
    """Draw which identities at the provider open this account, with a way to link and to unlink one."""
    described = read_provider(settings_of(shell.store()).sign_in_provider)
    if described is None and not ways.identities:
        return
    st.markdown("**Sign-in with a provider**")
    for identity in ways.identities:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.text(f"{identity.label} at {identity.issuer}")
            is_only = not ways.has_password and len(ways.identities) == 1
            if st.button("Unlink", key=f"account:unlink:{identity.id}", disabled=is_only):
                identities.unlink_identity(shell.store(), actor, identity.id)
                shell.note("That identity no longer opens your account.")
                st.rerun()
    if described is not None and described.issuer not in {identity.issuer for identity in ways.identities}:
        st.html(f'<a href="/auth/oidc/link" target="_self">Link {escape(described.name)}</a>')


actor = shell.signed_in()
shell.header(
    "My account",
    "Your name as others see it, your password, the browsers you are signed in on, and tokens for programs.",
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

with shell.shown_errors():
    ways = identities.own_ways_in(shell.store(), actor)
    if ways.has_password:
        _password(actor)
    else:
        st.caption("Your account has no password: you sign in with the provider. An admin can give you one.")
    _provider(actor, ways)

if st.button("Sign out my other browsers"):
    with shell.shown_errors():
        accounts.sign_out_everywhere(shell.store(), actor, actor.id, keep_token=shell.session_token())
        st.success("All other browsers are signed out.")

st.subheader("Tokens for programs")
st.markdown(
    "A program that calls the [API](/api/v1/) sends a token. It acts as you, within the token's scope, and never with "
    "more rights than you have at that moment."
)
with st.container(width=440), st.form("token", border=False, clear_on_submit=True):
    token_name = st.text_input("Name of the token", max_chars=80, placeholder="notebook on my laptop")
    scope = st.selectbox("Scope", tokens.SCOPES, format_func=lambda name: f"{name}: {tokens.SCOPE_WORDS[name]}")
    days = st.number_input("Days until it expires", 1, tokens.MOST_DAYS, tokens.USUAL_DAYS)
    if st.form_submit_button("Make a token"):
        with shell.shown_errors():
            made = tokens.create_token(shell.store(), actor, name=token_name, scope=scope, days=int(days))
            st.success("Copy the token now; it is not shown again.")
            st.code(made.secret, language=None)

with shell.shown_errors():
    mine = tokens.list_tokens(shell.store(), actor)
    valid = {token.id: token for token in mine if token.state == "valid"}
    if mine:
        st.dataframe(
            {
                "Number": [token.id for token in mine],
                "Name": [token.name for token in mine],
                "Scope": [token.scope for token in mine],
                "State": [token.state for token in mine],
                "Expires (UTC)": [f"{token.expires_at:%Y-%m-%d}" for token in mine],
                "Last used (UTC)": [
                    f"{token.last_used_at:%Y-%m-%d %H:%M}" if token.last_used_at else "never" for token in mine
                ],
            },
            hide_index=True,
        )
    if valid:
        with st.container(width=440), st.form("revoke", border=False):
            chosen = st.selectbox(
                "Token to revoke", list(valid), format_func=lambda number: f"{number}: {valid[number].name}"
            )
            if st.form_submit_button("Revoke it"):
                tokens.revoke_token(shell.store(), actor, chosen)
                shell.note(f"Token {chosen} is revoked; programs that use it are refused from now on.")
                st.rerun()
