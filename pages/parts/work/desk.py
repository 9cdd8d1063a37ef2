"""The parts of the desk on Start: labelling, models, and for admins the installation."""

from __future__ import annotations

import datetime as dt

import streamlit as st

from pages.components.marked_text import as_text
from workbench.jobs.kind import kind_of
from workbench.reports.desk import PACE_DAYS, House, Labelling, Models, NextSentence, Questions
from workbench.reports.my_work import WorkRow
from workbench.time_words import time_words

STAGE_TITLES = {"annotate": "Annotate", "check": "Check", "adjudicate": "Adjudicate"}


def draw_labelling(mine: Labelling) -> None:
    """Draw the next sentence with its button, what is left by stage, open questions, outcomes and pace."""
    if mine.next is not None:
        _draw_next(mine.next)
    else:
        st.info("Nothing waits for you in this campaign.")
    _draw_questions(mine.questions)
    pace = {line.stage: line for line in mine.pace}
    with st.container(horizontal=True, gap="medium"):
        for stage, progress in mine.progress.items():
            with st.container(width=230, gap=None):
                st.page_link(f"{stage}.py", label=f"**{STAGE_TITLES[stage]}**")
                st.markdown(f"**{progress.left:,}** left · {progress.done:,} done")
                if stage in pace:
                    line = pace[stage]
                    st.caption(f"{line.seconds:.0f} s a sentence; the campaign {line.campaign_seconds:.0f} s")
    if mine.pace:
        st.caption(f"Seconds are active time, of what was sent in the last {PACE_DAYS} days.")
    if mine.work:
        st.markdown("**Your latest work**")
        st.dataframe(
            [{"Stage": STAGE_TITLES[row.stage], "What became of it": _outcome(row), "Sentence": row.text}
             for row in mine.work],
            hide_index=True,
        )  # fmt: skip
        st.page_link("my_work.py", label="All in My work")


def _draw_next(sentence: NextSentence) -> None:
    with st.container(border=True):
        st.caption(f"Your next sentence, under {STAGE_TITLES[sentence.stage]}")
        st.text(sentence.text)
        if st.button("Go on", type="primary", shortcut="Enter", key="desk:next"):
            st.switch_page(f"{sentence.stage}.py")


def _draw_questions(questions: Questions) -> None:
    lines = (
        (questions.to_answer, "my_work.py", "to answer, under My work"),
        (questions.answered, "adjudicate.py", "of yours answered, under Adjudicate"),
        (questions.awaited, "my_work.py", "of yours not answered yet"),
    )
    for number, page, words in lines:
        if number:
            st.page_link(page, label=f"**{number}** question{'s' * (number > 1)} {words}", icon=":material/help:")


def _outcome(row: WorkRow) -> str:
    by = f" by {row.by}" if row.by else ""
    if row.gold is not None:
        words = {"kept": f"kept as it was, adjudicated{by}", "changed": f"{row.changed} changed{by}"}
        return words.get(row.outcome, "gold")
    return f"checked{by}, {row.outcome}" if by and row.stage == "annotate" else row.outcome


def draw_models(models: Models) -> None:
    """Draw the newest run with the curve, the jobs at work, and when the next round comes."""
    with st.container(horizontal=True, gap="medium"):
        if models.newest_run is not None and models.newest_f1 is not None:
            st.metric(
                f"F1 of run {models.newest_run}, the newest",
                f"{100 * models.newest_f1:.1f}",
                None if models.bought is None else f"{100 * models.bought:+.1f} by the last round",
                chart_data=[100 * f1 for _, f1 in models.curve] or None,
                chart_type="line",
                width=250,
            )
        with st.container(width="stretch", gap=None):
            st.page_link("adaptation.py", label="**Models**")
            for words in (_curve_words(models), _round_words(models), _jobs_words(models)):
                st.text(words)


def _curve_words(models: Models) -> str:
    if not models.curve:
        return "No run has scored yet."
    (first, low), (last, high) = models.curve[0], models.curve[-1]
    return f"Newest curve: F1 {100 * low:.1f} with {first:,} gold sentences, {100 * high:.1f} with {last:,}."


def _round_words(models: Models) -> str:
    state = models.queue
    if state.under_way:
        return state.under_way
    if state.missing is None:
        return f"{state.gold:,} gold sentences to train on; no retraining is set under Queue, Rules."
    if not state.missing:
        return "The next round is due."
    return f"The next round comes after {state.missing:,} more gold sentence{'s' * (state.missing != 1)}."


def _jobs_words(models: Models) -> str:
    running = [job for job in models.at_work if job.state == "running"]
    queued = len(models.at_work) - len(running)
    if not models.at_work:
        return "No job is running or queued."
    return f"{len(running)} running, {queued} queued. " + " · ".join(
        f"{kind_of(job.kind).title} {job.progress:.0%}{job.message and f' ({job.message})'}" for job in running
    )


def draw_house(state: House) -> None:
    """Draw open accounts, free disk space and the last examination."""
    st.markdown("**Installation**")
    accounts = ", ".join(f"{number} {role}{'s' * (number != 1)}" for role, number in sorted(state.people.items()))
    st.page_link("people.py", label=f"**{sum(state.people.values())}** open accounts: {accounts}")
    st.markdown(f"**{state.free_bytes / 1e9:.1f} GB** free on the disk of the home folder")
    if state.doctor is None:
        line = state.trouble or "Nothing was examined yet; run “workbench doctor” on the server."
    else:
        age = time_words((dt.datetime.now(dt.UTC) - state.doctor.at).total_seconds())
        line = f"{state.doctor.line} Examined {age} ago."
    st.page_link("doctor.py", label=f"**Doctor:** {as_text(line)}")
