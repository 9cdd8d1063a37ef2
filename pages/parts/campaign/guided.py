"""The frame of the page New campaign: five steps as a list of which one is open, then the button that makes it all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from pages import shell
from pages.components import under_way
from pages.components.marked_text import as_text
from pages.parts.campaign import guided_steps
from pages.parts.campaign.exchange import remember_skipped, skipped_last_time
from pages.parts.campaign.guided_steps import Answer
from workbench import out_of_process
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.data.exchange import ImportOutcome
from workbench.data.new_campaign import make_campaign, start_campaign
from workbench.jobs import queue
from workbench.jobs.queue import JobView

_STEPS = ("Name and domain", "Sentences", "People", "Rules", "Suggestions")
_OPEN, _SEEN, _TURN, _MADE, _JOB = (f"new:{part}" for part in ("open", "seen", "turn", "made", "job"))
_NEXT_PAGES = {
    "See its sentences": "data.py",
    "Follow it on Overview": "campaign.py",
    "Set when models are trained": "queue.py",
}
_STYLE = """<style>
[class*="st-key-new-step-"]{{border-top:1px solid #8884;padding-top:.5rem}}
[class*="st-key-new-head-"]{{flex-wrap:nowrap}}
{folded}{{display:none}}
</style>"""


@dataclass(frozen=True, slots=True)
class _Made:
    """What the page says about the campaign that was made last."""

    id: int
    name: str
    lines: tuple[str, ...]
    job: JobView | None = None
    """The job that made it, if the worker did."""


def draw(actor: Actor) -> None:
    """Draw the steps and the button; after it, what was made and where to go on."""
    if made := st.session_state.get(_MADE):
        _made_view(actor, made)
        return
    with shell.shown_errors():
        job = _job(actor)
        if job is not None and job.state == "done" and job.campaign_id is not None:
            _finish(actor, job.campaign_id, [job.message], job=job)
    turn = st.session_state.setdefault(_TURN, 0)
    heads, answers = [], list[Answer]()
    for number, step in enumerate(guided_steps.STEPS, start=1):
        with st.container(key=f"new-step-{number}", gap="small"):
            heads.append(st.container(key=f"new-head-{number}", horizontal=True, vertical_alignment="center"))
            with st.container(key=f"new-body-{number}", gap="small"):
                answers.append(step(actor, f"new:{turn}", answers))
                if number < len(_STEPS):
                    st.button("Next", key=f"new:next:{number}", on_click=_next, args=(number,))
    open_step = _open_step(answers)
    for number, (title, answer) in enumerate(zip(_STEPS, answers, strict=True), start=1):
        with heads[number - 1]:
            _head(number, title, answer, is_open=number == open_step)
    folded = ",".join(
        f'[data-testid="stLayoutWrapper"]:has(>.st-key-new-body-{n})'
        for n in range(1, len(_STEPS) + 1)
        if n != open_step
    )
    with st.container(key="new-end"):
        st.html(_STYLE.format(folded=folded))
        with shell.shown_errors():
            if job is not None and job.is_under_way:
                _under_way(actor)
            else:
                _make(actor, answers, job)


def _open_step(answers: list[Answer]) -> int:
    """Return the step to show: the one asked for, or one before it that was left with a fault."""
    asked: int = st.session_state.setdefault(_OPEN, 1)
    seen: set[int] = st.session_state.setdefault(_SEEN, set())
    return next((n for n, answer in enumerate(answers, start=1) if n < asked and n in seen and answer.fault), asked)


def _next(number: int) -> None:
    st.session_state[_SEEN] = st.session_state.get(_SEEN, set()) | {number}
    st.session_state[_OPEN] = number + 1


def _change(number: int) -> None:
    st.session_state[_OPEN] = number


def _head(number: int, title: str, answer: Answer, *, is_open: bool) -> None:
    """Draw a step's line: its title, what is missing where one has been there, and what is set while it is folded."""
    words = "" if is_open else as_text(answer.summary)
    if answer.fault and number in st.session_state[_SEEN]:
        words = f"needs {as_text(answer.fault)}"
    st.markdown(f"**{number}  {title}**" + (f"  ·  {words}" if words else ""), width="stretch")
    if is_open:
        return
    st.button("Change", key=f"new:change:{number}", on_click=_change, args=(number,), type="tertiary")


def _make(actor: Actor, answers: list[Answer], last: JobView | None) -> None:
    """Draw the button, and below it why the worker did not make the campaign that it was last asked for."""
    faults = [answer.fault for answer in answers if answer.fault]
    with st.container(horizontal=True, vertical_alignment="center"):
        pressed = st.button("Make the campaign", type="primary", disabled=bool(faults), key="new:make")
        st.caption(as_text(f"Still needed: {faults[0]}" if faults else "Nothing is written before this."))
    if pressed:
        values: dict[str, Any] = {"settings": {}}
        for answer in answers:
            values["settings"] |= answer.settings
            values |= answer.values
        if any(answer.takes_long for answer in answers):
            st.session_state[_JOB] = start_campaign(shell.store(), actor, **values)
            st.rerun()
        with st.spinner("Making the campaign and pre-annotating …"):
            made = out_of_process.call(make_campaign, shell.store(), actor, **values)
        outcome = made.outcome
        if outcome is not None:
            remember_skipped(outcome.problems, outcome.again)
        _finish(actor, made.id, _in_words(outcome))
    if last is not None:
        under_way.job_state(actor, last, key="new:last", words="No campaign was made.")
        under_way.job_log(actor, last)


def _job(actor: Actor) -> JobView | None:
    """Return the job that makes a campaign, or failed to, since this page was opened."""
    job_id = st.session_state.get(_JOB)
    return None if job_id is None else queue.get_job(shell.store(), actor, job_id)


def _under_way(actor: Actor) -> None:
    under_way.worker_line()
    under_way.watched_job(actor, lambda: _job(actor), key="new:cancel", cancel="Do not make it")
    st.caption("You can leave this page: the campaign is under Campaigns once it is made.")


def _in_words(outcome: ImportOutcome | None) -> list[str]:
    if outcome is None:
        return []
    left_out = [f"{outcome.duplicates:,} duplicates were left out."] if outcome.duplicates else []
    return [*left_out, outcome.note]


def _finish(actor: Actor, campaign_id: int, lines: Sequence[str], *, job: JobView | None = None) -> None:
    """Make the new campaign the chosen one, forget the steps, and draw what was made at the next run."""
    view = campaigns.get_campaign(shell.store(), actor, campaign_id)
    counts = f"{view.sentences:,} sentences, {len(view.domain.types)} types, {len(view.members)} people."
    st.session_state[_MADE] = _Made(view.id, view.name, (counts, *filter(None, lines)), job)
    st.session_state[_TURN] += 1
    for key in (_OPEN, _SEEN, _JOB, guided_steps.LOOKS):
        st.session_state.pop(key, None)
    shell.choose(view.id)
    st.rerun()


def _made_view(actor: Actor, made: _Made) -> None:
    st.success(as_text(f"The campaign {made.name} is made. {' '.join(made.lines)}"))
    skipped_last_time()
    if made.job is not None:
        with shell.shown_errors():
            under_way.job_log(actor, made.job)
    with st.container(horizontal=True):
        for label, page in _NEXT_PAGES.items():
            if st.button(label, key=f"new:to:{page}"):
                st.switch_page(page)
    if st.button("Make another campaign", type="tertiary"):
        del st.session_state[_MADE]
        st.rerun()
