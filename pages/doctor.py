"""Doctor: what the last examination of the store and the home folder found."""

from __future__ import annotations

import datetime as dt

import streamlit as st

from pages import shell
from pages.components.marked_text import as_text
from workbench.doctor.examining import CheckResult, Examination, last_examination
from workbench.time_words import time_words

_COMMAND = "workbench doctor"
_HELP = "\n".join(
    (
        f"- `{_COMMAND}` on the server examines everything, and this page shows what it found last.",
        f"- `{_COMMAND} --only leases` runs one check, `{_COMMAND} --repair leases` repairs what it finds.",
        "- A repair exists only where nobody's work is lost; it is one transaction, and looks again before it ends.",
        "- The exit status is 0 if all is well, 1 where something was found, 2 where a check could not look: run it "
        "every night, and have a status other than 0 reported.",
    )
)


def _draw(examination: Examination) -> None:
    age = time_words((dt.datetime.now(dt.UTC) - examination.at).total_seconds())
    line = f"{examination.line} Examined {age} ago, at {examination.at:%Y-%m-%d %H:%M} UTC."
    (st.success if examination.exit_status == 0 else st.warning)(as_text(line))
    for result in examination.results:
        if result.state != "ok":
            _draw_findings(result)
    st.dataframe(
        [{"Check": result.id, "Result": _state(result), "What should hold": result.title}
         for result in examination.results],
        hide_index=True,
        height="content",
    )  # fmt: skip


def _draw_findings(result: CheckResult) -> None:
    """Draw what a check found, and what can be done."""
    with st.expander(f"{as_text(result.id)}: {_state(result)}", expanded=True):
        if result.obstacle:
            st.text(result.obstacle)
            return
        st.dataframe(
            [{"Where": finding.subject, "What is wrong": finding.problem} for finding in result.findings],
            hide_index=True,
        )
        if result.count > len(result.findings):
            st.caption(f"… and {result.count - len(result.findings):,} more")
        st.caption(as_text(result.remedy))
        if result.repairable:
            st.code(f"{_COMMAND} --repair {result.id}", language=None, wrap_lines=True)


def _state(result: CheckResult) -> str:
    return f"{result.count:,} found" if result.state == "found" else result.state


actor = shell.signed_in("admin")
shell.header("Doctor", "Whether store and home folder are sound, as last examined on the server.", help=_HELP)
with shell.shown_errors():
    examination = last_examination(shell.store(), actor)
    if examination is None:
        st.info("Nothing was examined yet. Run this on the server:")
        st.code(_COMMAND, language=None, wrap_lines=True)
    else:
        _draw(examination)
