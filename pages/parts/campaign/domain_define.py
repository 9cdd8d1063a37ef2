"""Defining a domain: a table of types, or its TOML, with its faults shown beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from crossner_core.domains import Domain
from crossner_core.domains.loader import COLORS
from crossner_core.errors import InvalidDomain, WorkbenchError
from pages import shell
from pages.components.marked_text import as_text
from pages.parts.campaign.domain_read import draw_types
from workbench.accounts.actors import Actor
from workbench.campaigns import domains
from workbench.campaigns.domain_drafts import COLUMNS, Draft, draft_from_toml, draft_to_toml
from workbench.campaigns.domains import DomainView

# The text is the source of truth between runs; a table starts from `base`, its edits are in the widget of that turn.
_TEXT, _BASE, _TURN, _VIEW, _FAULT = (f"domains:{part}" for part in ("text", "base", "turn", "as", "fault"))
_EMPTY = Draft(rows=({"name": "person"}, {"name": ""}))
_CONFIG: dict[str, Any] = {
    "name": st.column_config.TextColumn("Name", help="lower-case letters a–z and digits", required=True),
    "title": st.column_config.TextColumn("Title", help="what people read; the name if empty"),
    "parent": st.column_config.TextColumn("Parent", help="name of the type it is a kind of"),
    "key": st.column_config.TextColumn("Key", help="a–z or 1–9; chosen if empty", max_chars=1, width="small"),
    "color": st.column_config.NumberColumn(
        "Colour", help=f"0–{COLORS - 1}; chosen if empty", min_value=0, max_value=COLORS - 1, step=1, width="small"
    ),
    "dbpedia": st.column_config.TextColumn("DBpedia classes", help="separated by commas"),
    "guideline": st.column_config.TextColumn("Guideline", width="large"),
}


def define_view(actor: Actor, known: Sequence[DomainView]) -> None:
    """Draw the choice of a start, the definition as table or TOML, its faults, and the buttons to save it."""
    _open()
    _begin_from(actor, known)
    text = _edited()
    domain = _checked(text)
    own = {view.name for view in known if not view.is_builtin}
    with st.container(horizontal=True, vertical_alignment="center"):
        again = domain is not None and domain.name in own
        save = st.button("Save the changed domain" if again else "Save", type="primary", disabled=domain is None)
        name = f"{domain.name if domain else 'domain'}.toml"
        st.download_button("Download TOML", text, file_name=name, mime="application/toml", on_click="ignore")
    if domain is None:
        return
    if save:
        domains.save_domain(shell.store(), actor, text)
        shell.note(f"The domain {domain.name} is saved with {len(domain.types)} types.")
        st.rerun()
    st.caption(f"Preview: {len(domain.types)} types.")
    draw_types(domain)


def _open() -> None:
    """Make the widgets' first values from the text when they are new, or were forgotten on another page."""
    state = st.session_state
    if any(_widget(part) in state for part in ("table", "toml")):
        return
    _begin(state.get(_TEXT) or draft_to_toml(_EMPTY))
    try:
        state[_BASE] = draft_from_toml(state[_TEXT])
    except InvalidDomain as error:
        if state.get(_VIEW, "Table") == "Table":
            state[_FAULT] = f"A table cannot show this definition yet: {error}"
        state[_VIEW] = "TOML"


def _widget(part: str) -> str:
    return f"domains:{part}:{st.session_state.get(_TURN, 0)}"


def _begin(text: str) -> None:
    """Replace the definition; new widget keys discard the old edits."""
    st.session_state[_TURN] = st.session_state.get(_TURN, 0) + 1
    st.session_state[_TEXT] = text


def _edited() -> str:
    """Draw the definition as table or text; return it as TOML."""
    shown = st.session_state.setdefault(_VIEW, "Table")
    wanted = st.segmented_control("Edit as", ["Table", "TOML"], default=shown, required=True, key=_widget("as"))
    if fault := st.session_state.pop(_FAULT, None):
        st.info(as_text(fault))
    text = st.session_state[_TEXT] = _table() if shown == "Table" else _toml()
    if wanted != shown:
        # Only now, as the last edit of the old view may have arrived together with the click.
        st.session_state[_VIEW] = wanted
        _begin(text)
        st.rerun()
    return text


def _begin_from(actor: Actor, known: Sequence[DomainView]) -> None:
    named = {view.name: view for view in known}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        start = st.selectbox(
            "Start from",
            ["", *named],
            format_func=lambda name: _offer(named[name]) if name else "an empty list",
            key="domains:start",
        )
        if st.button("Start", help="This replaces what is in the table now."):
            text = draft_to_toml(_EMPTY)
            if start:
                text = domains.get_toml(shell.store(), actor, start)
            if start and named[start].is_builtin:
                text = text.replace(f'name = "{start}"', f'name = "my{start}"', 1)
            _begin(text)
            st.rerun()
        with st.popover("Start from a file"):
            upload = st.file_uploader("TOML file", type="toml", key=_widget("file"), max_upload_size=1)
    if upload is not None:
        try:
            _begin(upload.getvalue().decode("utf-8-sig"))
        except UnicodeDecodeError as error:
            raise InvalidDomain(f"{upload.name}: not UTF-8 at byte {error.start}; save it as UTF-8.") from error
        st.rerun()


def _offer(view: DomainView) -> str:
    return f"a copy of {view.title}" if view.is_builtin else f"{view.title}, to change it"


def _table() -> str:
    """Draw the table; return what it holds now as TOML."""
    base: Draft = st.session_state[_BASE]
    first, second, third = st.columns([1, 1, 3])
    name = first.text_input("Name", base.name, placeholder="a–z, 0–9", key=_widget("name"))
    title = second.text_input("Title", base.title, key=_widget("title"))
    description = third.text_input("Description", base.description, key=_widget("description"))
    frame = pd.DataFrame([{key: row.get(key) for key in COLUMNS} for row in base.rows], columns=list(COLUMNS))
    text_columns = [key for key in COLUMNS if key != "color"]
    frame[text_columns] = frame[text_columns].fillna("").astype("string")
    frame["color"] = frame["color"].astype("Int64")
    edited = st.data_editor(
        frame,
        num_rows="dynamic",
        hide_index=True,
        placeholder="",
        column_config=_CONFIG,
        height=min(75 + 35 * max(len(frame), 3), 460),
        key=_widget("table"),
    )
    rows = [{key: None if pd.isna(value) else value for key, value in row.items()} for row in edited.to_dict("records")]
    return draft_to_toml(Draft(name, title, description, rows))


def _toml() -> str:
    text = st.session_state[_TEXT]
    return st.text_area("Definition", text, height=420, key=_widget("toml"), label_visibility="collapsed")


def _checked(text: str) -> Domain | None:
    """Return the domain, or show what is still wrong with it and return None."""
    if text.startswith('name = ""'):
        st.info("Give the domain a name to save it.")
        return None
    try:
        return domains.check_domain(text)
    except WorkbenchError as error:
        st.info(as_text(f"Not ready to save: {str(error).removeprefix('domain: ')}"))
        return None
