"""Audit trail: who did what, when."""

from __future__ import annotations

import datetime as dt
import json
from functools import partial

import streamlit as st

from pages import shell
from pages.components.lazy_download import download_problem, lazy_download
from workbench.accounts.actors import Actor
from workbench.accounts.roles import KEEPERS
from workbench.campaigns import campaigns
from workbench.reports import audit_trail
from workbench.reports.audit_trail import MOST_CHARACTERS, Asked, Entry

_PER_PAGE = 100
_CURSORS = "audit:cursors"
_HELP = "\n".join(
    (
        "- Every change is here with who made it, by which way (page, API, command or worker), and when; so are "
        "sign-ins, failed ones too, and what was exported.",
        "- Admins see everything; researchers see what belongs to campaigns.",
        "- Submitted sentences are read from their kept versions, drafts are not listed.",
        "- Nobody can change an entry. `workbench audit --forget-before 2026-01-01` on the server deletes old ones, "
        "and is recorded itself.",
    )
)


def _newest() -> None:
    """Show the newest entries again: what is listed has changed."""
    st.session_state.pop(_CURSORS, None)


def _choice(label: str, options: list[str], key: str) -> str:
    return st.selectbox(
        label, ["", *options], format_func=lambda value: value or "all", key=key, bind="query-params",
        on_change=_newest,
    )  # fmt: skip


def _day(label: str, key: str) -> dt.date | None:
    return st.date_input(label, value=None, key=key, bind="query-params", on_change=_newest)


def _asked(actor: Actor) -> Asked:
    """Draw the search; return what it asks for. The address keeps it."""
    store = shell.store()
    named = {f"{each.name} ({each.id})": each.id for each in campaigns.list_campaigns(store, actor, archived=True)}
    text = st.text_input(
        "Search the audit trail", key="q", type="search", max_chars=MOST_CHARACTERS, bind="query-params",
        placeholder="Part of a name, of the subject or of the details, then Enter", on_change=_newest,
        label_visibility="collapsed",
    )  # fmt: skip
    with st.container(horizontal=True):
        person = st.text_input("Account", key="who", bind="query-params", max_chars=100, on_change=_newest)
        action = _choice("Action", list(audit_trail.actions(store, actor)), "action")
        campaign = _choice("Campaign", list(named), "about")
        first, last = _day("From", "from"), _day("To", "to")
    return Asked(
        actor=(person or "").strip(),
        action=action or "",
        campaign_id=named.get(campaign or ""),
        since=_midnight(first) if first is not None else None,
        until=_midnight(last + dt.timedelta(days=1)) if last is not None else None,
        text=(text or "").strip(),
    )


def _midnight(day: dt.date) -> dt.datetime:
    return dt.datetime.combine(day, dt.time(), dt.UTC)


def _row(entry: Entry) -> dict[str, str]:
    gone = f"{entry.campaign_id}, deleted" if entry.campaign_id is not None else ""
    return {
        "When (UTC)": f"{entry.done_at:%Y-%m-%d %H:%M:%S}",
        "Who": entry.actor or "nobody signed in",
        "By": entry.via if entry.token_id is None else f"{entry.via}, token {entry.token_id}",
        "Action": entry.action.replace("_", " "),
        "About": f"{entry.subject_kind} {entry.subject}".strip(),
        "Campaign": entry.campaign or gone,
        "Details": json.dumps(dict(entry.details), ensure_ascii=False) if entry.details else "",
    }


def _list(actor: Actor, asked: Asked) -> None:
    cursors: list[str] = st.session_state.setdefault(_CURSORS, [])
    cursor = cursors[-1] if cursors else None
    part = audit_trail.search(shell.store(), actor, asked, cursor=cursor, limit=_PER_PAGE)
    if not part.entries:
        st.info("Nothing matches.")
    else:
        config = {"Details": st.column_config.TextColumn(width="large")}
        st.dataframe([_row(entry) for entry in part.entries], hide_index=True, column_config=config)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("Newest", disabled=not cursors, on_click=_newest)
        if st.button("Older", disabled=part.next is None) and part.next is not None:
            cursors.append(part.next)
            st.rerun()
        for format in audit_trail.FORMATS:
            lazy_download(
                {"csv": "CSV", "jsonl": "JSON lines"}[format],
                partial(audit_trail.export, shell.store(), actor, asked, format=format),
                file_name=f"audit.{format}",
                key=f"audit:{format}",
                type="tertiary",
            )
    download_problem()


actor = shell.signed_in(*KEEPERS)
shell.header("Audit trail", "Who did what, when, and by which way.", help=_HELP)
with shell.shown_errors():
    _list(actor, _asked(actor))
