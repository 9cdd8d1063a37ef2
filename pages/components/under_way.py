"""A job under way: its progress and message, why it failed, its log, and the buttons to cancel or resume it."""

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
    """Warn if no worker is running; one may die, or be started, while the page is open."""
    with shell.shown_errors():
        status = queue.worker_status(shell.store())
        if not status.alive:
            st.warning(as_text(status.sentence))


@st.fragment(run_every=2)
def watched_job(actor: Actor, find: Callable[[], JobView | None], **shown: Any) -> None:
    """Draw the job that `find` returns as `job_state` does, refreshing it; rerun the page once the job has ended."""
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
    resume: tuple[str, str] = ("Resume", ""),
    words: str = "",
) -> None:
    """Draw a job's progress with `words` or its own message, or why it failed, and the buttons its reader may use.

    `key` and `help` are the cancel button's; `resume` is the label and the key of the other.
    """
    text = as_text(words or job.message)
    if job.error:
        failure(job.error)
    if job.state == "running":
        st.progress(job.progress, text=text or "Starting …")
    elif job.state == "queued":
        st.caption(text or "Waiting for the worker.")
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
            help="From its last saved step, once the cause is fixed; from the start if nothing was saved.",
        )
    ):
        queue.resume_job(shell.store(), actor, job.id)
        st.rerun()


def job_log(actor: Actor, job: JobView, *, expanded: bool = False) -> None:
    """Draw the log of a job, newest line first, if it has one."""
    lines = queue.job_log(shell.store(), actor, job.id)
    if lines:
        with st.expander("Log", expanded=expanded):
            log_lines([f"{line.at:%H:%M:%S}  {line.text}" for line in lines])


def log_lines(lines: list[str]) -> None:
    """Draw the last lines of a log, the newest first."""
    st.code("\n".join(reversed(lines[-_MOST_LINES:])), language=None, height=240)


def failure(error: str) -> None:
    """Draw why a job failed: the first line as an error, the rest below it."""
    first, *more = error.splitlines()
    st.error(as_text(first))
    if more:
        st.code("\n".join(more[:_MOST_PROBLEMS]), language=None, wrap_lines=True)


def cancel_button(label: str, *, asked: bool, key: str, help: str | None = None) -> bool:
    """Draw the button; return whether it was pressed. Once cancelling was requested, it is disabled and says so."""
    return st.button("Cancelling …" if asked else label, disabled=asked, key=key, help=help)
