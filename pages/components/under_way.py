"""What is under way: how far a job is and what it says, why it failed, its log, and who may cancel or resume it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from pages import shell
from pages.components.marked_text import as_text
from workbench.accounts.actors import Actor
from workbench.jobs import queue
from workbench.jobs.queue import JobView

_MOST_PROBLEMS = 20
_MOST_LINES = 200


@st.fragment(run_every=5)
def worker_line() -> None:
    """Say so when no worker is there to take up jobs; one may die, or be started, while the page is open."""
    with shell.shown_errors():
        status = queue.worker_status(shell.store())
        if not status.alive:
            st.warning(as_text(status.sentence))


@st.fragment(run_every=2)
def watched_job(actor: Actor, find: Callable[[], JobView | None], **shown: Any) -> None:
    """Draw the job that `find` returns as `job_state` does, ever anew; once it has ended, draw the whole page."""
    with shell.shown_errors():
        job = find()
        if job is None or not job.is_under_way:
            st.rerun()
        job_state(actor, job, **shown)


def job_state(
    actor: Actor,
    job: JobView,
    *,
    key: str,
    cancel: str = "Cancel",
    help: str | None = None,
    resume: tuple[str, str] = ("Go on", ""),
    words: str = "",
) -> None:
    """Draw how far a job is, in `words` or its own, or why it failed, with the buttons for those who may press them.

    `key` and `help` are the cancel button's; `resume` is the label and the key of the other.
    """
    text = as_text(words or job.message)
    if job.error:
        failure(job.error)
    if job.state == "running":
        st.progress(job.progress, text=text or "It begins.")
    elif job.state == "queued":
        st.caption(text or "It waits for the worker.")
    if not queue.may_steer(actor, job):
        return
    if job.is_under_way and cancel_button(cancel, asked=job.cancel_requested, key=key, help=help):
        queue.cancel_job(shell.store(), actor, job.id)
        st.rerun()
    if (
        job.state == "failed"
        and job.can_resume
        and st.button(
            resume[0],
            key=resume[1] or f"resume-{job.id}",
            help="From its last saved step, once what stopped it is mended; afresh where nothing was saved.",
        )
    ):
        queue.resume_job(shell.store(), actor, job.id)
        st.rerun()


def job_log(actor: Actor, job: JobView, *, expanded: bool = False) -> None:
    """Draw the log of a job, the newest line first, once there is one."""
    lines = queue.job_log(shell.store(), actor, job.id)
    if lines:
        with st.expander("Log", expanded=expanded):
            log_lines([f"{line.at:%H:%M:%S}  {line.text}" for line in lines])


def log_lines(lines: list[str]) -> None:
    """Draw the last lines of a log, the newest first."""
    st.code("\n".join(reversed(lines[-_MOST_LINES:])), language=None, height=240)


def failure(error: str) -> None:
    """Draw why a job failed: its first line, and what lies behind it below."""
    first, *more = error.splitlines()
    st.error(as_text(first))
    if more:
        st.code("\n".join(more[:_MOST_PROBLEMS]), language=None, wrap_lines=True)


def cancel_button(label: str, *, asked: bool, key: str, help: str | None = None) -> bool:
    """Draw it; say whether it was pressed. Once the worker was asked, it says so and cannot be pressed again."""
    return st.button("Cancelling …" if asked else label, disabled=asked, key=key, help=help)
