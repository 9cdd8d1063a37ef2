"""People: accounts, roles, passwords."""

from __future__ import annotations

import streamlit as st

from pages import shell
from pages.components.marked_text import as_text
from workbench.accounts import accounts, identities, passwords
from workbench.accounts.accounts import Person
from workbench.accounts.actors import Actor
from workbench.accounts.identities import IdentityView
from workbench.accounts.roles import EVERYONE, ROLE_TASKS

_SHOWN_ONCE = "people:shown_once"
_HELP = "\n".join(
    (
        *(f"- **{role}** {tasks}." for role, tasks in ROLE_TASKS.items()),
        "",
        "A password made here is shown once: hand it over, and ask the person to change it under My account.",
        "Closing an account or giving it a new password signs the person out at once; their work stays.",
        "The last active admin can be neither closed nor given another role.",
        "Who signs in with a provider for the first time may wait here: let them in, or link them to their account.",
    )
)


def _show_password_once() -> None:
    """Show the password that was just made; only its hash is stored."""
    made = st.session_state.pop(_SHOWN_ONCE, None)
    if made:
        name, password = made
        st.success(f"Password of **{as_text(name)}**, shown only this once:")
        st.code(password, language=None, wrap_lines=True)


def _state(person: Person, identity: IdentityView | None) -> str:
    if person.active:
        return "active"
    return "waits to be let in" if identity is not None and identity.waits_since is not None else "closed"


def _table(people: tuple[Person, ...], known: dict[int, IdentityView]) -> None:
    st.dataframe(
        [
            {
                "Account": person.name,
                "Display name": person.display_name,
                "Role": person.role,
                "State": _state(person, known.get(person.id)),
                "At the provider": known[person.id].label if person.id in known else "–",
                "Signed in": f"{person.browsers} browser{'s' if person.browsers != 1 else ''}"
                if person.browsers
                else "–",
                "Last sign-in": f"{person.last_sign_in:%Y-%m-%d %H:%M} UTC" if person.last_sign_in else "never",
            }
            for person in people
        ],
        hide_index=True,
    )


def _add(actor: Actor) -> None:
    with st.form("add", clear_on_submit=True):
        first, second, third = st.columns(3)
        name = first.text_input("Account name", placeholder="a–z, 0–9, . _ -", max_chars=40)
        display_name = second.text_input("Display name", max_chars=80)
        role = third.selectbox("Role", EVERYONE)
        if st.form_submit_button("Add, with a random password", type="primary"):
            with shell.shown_errors():
                password = passwords.random_password()
                accounts.create_user(
                    shell.store(), actor, name=name, display_name=display_name, password=password, role=role
                )
                st.session_state[_SHOWN_ONCE] = (name.strip(), password)
                st.rerun()


def _let_in(actor: Actor, people: tuple[Person, ...], waiting: dict[int, IdentityView]) -> None:
    """Draw who waits: let in with a role, linked to an account that is here, or refused."""
    st.subheader("Waiting to be let in", anchor=False)
    named = {person.id: person for person in people}
    chosen = st.selectbox(
        "Who waits",
        list(waiting),
        format_func=lambda key: f"{named[key].name} · {named[key].display_name} · {waiting[key].label}",
        key="people:waiting",
    )
    others = [person for person in people if person.id not in waiting]
    first, second = st.columns(2)
    role = first.selectbox("Role to give", EVERYONE, key=f"people:let_in:{chosen}")
    account = second.selectbox(
        "Or the account that is theirs already",
        [person.id for person in others],
        index=None,
        format_func=lambda key: f"{named[key].name} · {named[key].display_name}",
        key=f"people:link:{chosen}",
    )
    with st.container(horizontal=True):
        admitted = st.button("Let in", type="primary", disabled=account is not None)
        linked = st.button("Link to the account", disabled=account is None)
        refused = st.button("Refuse")
    person, identity, store = named[chosen], waiting[chosen], shell.store()
    with shell.shown_errors():
        if admitted:
            identities.let_in(store, actor, chosen, role)
            shell.note(as_text(f"{person.display_name} is let in as {role}, and can sign in now."))
        elif linked and account is not None:
            identities.link_identity(store, actor, account, issuer=identity.issuer, subject=identity.subject)
            shell.note(as_text(f"{person.display_name} now signs in to the account {named[account].name}."))
        elif refused:
            accounts.set_active(store, actor, chosen, False)
            shell.note(as_text(f"{person.display_name} is refused; the account is closed."))
        if admitted or linked or refused:
            st.rerun()


def _change(actor: Actor, people: tuple[Person, ...]) -> None:
    named = {person.id: person for person in people}
    chosen = st.selectbox(
        "Person",
        list(named),
        format_func=lambda key: f"{named[key].name} · {named[key].display_name}",
        key="people:who",
    )
    person = named[chosen]
    role = st.selectbox("Role", EVERYONE, index=EVERYONE.index(person.role), key=f"people:role:{person.id}")
    with st.container(horizontal=True):
        save = st.button("Save the role", disabled=role == person.role)
        reset = st.button("New random password")
        out = st.button("Sign out everywhere", disabled=not person.browsers)
        switch = st.button("Close the account" if person.active else "Reopen the account")
    with shell.shown_errors():
        done = _apply(actor, person, role=role if save else None, reset=reset, out=out, switch=switch)
        if done:
            shell.note(as_text(done))
            st.rerun()


def _apply(actor: Actor, person: Person, *, role: str | None, reset: bool, out: bool, switch: bool) -> str:
    """Do what was pressed; return the message to show, empty if nothing was pressed."""
    store = shell.store()
    if role is not None:
        accounts.set_role(store, actor, person.id, role)
        return f"{person.display_name} is now {role}."
    if reset:
        password = passwords.random_password()
        accounts.set_password(store, actor, person.id, password)
        st.session_state[_SHOWN_ONCE] = (person.name, password)
        return f"{person.display_name} has a new password and is signed out."
    if out:
        accounts.sign_out_everywhere(store, actor, person.id)
        return f"{person.display_name} is signed out everywhere."
    if switch:
        accounts.set_active(store, actor, person.id, not person.active)
        return f"The account of {person.display_name} is now {'closed' if person.active else 'open'}."
    return ""


actor = shell.signed_in("admin")
shell.header("People", "Who may sign in, and in which role.", help=_HELP)
_show_password_once()
with shell.shown_errors():
    people = accounts.list_people(shell.store(), actor)
    views = identities.list_identities(shell.store(), actor)
    _table(people, {view.user_id: view for view in reversed(views)})
    waiting = {view.user_id: view for view in views if view.waits_since is not None}
    if waiting:
        _let_in(actor, people, waiting)
    adding, changing = st.tabs(["Add a person", "Change a person"])
    with adding:
        _add(actor)
    with changing:
        _change(actor, people)
