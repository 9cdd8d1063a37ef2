"""Questions between the expert and the two annotators of a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from pages import shell
from workbench.accounts.actors import Actor
from workbench.campaigns.campaigns import CampaignView
from workbench.labelling import adjudication
from workbench.labelling.adjudication import QuestionView

ASKED = {"both": "both annotators", "first": "annotator 1", "second": "annotator 2"}


def expert_side(actor: Actor, campaign: CampaignView, _items: Sequence[Mapping[str, Any]]) -> None:
    """Draw the campaign's open questions with their answers; the editor itself asks."""
    open_questions = adjudication.open_questions(shell.store(), actor, campaign.id)
    if open_questions:
        st.markdown("**Open questions**")
        for question in open_questions:
            _asked(actor, question)


def _asked(actor: Actor, question: QuestionView) -> None:
    st.text(question.sentence_text)
    who = "You" if question.mine else question.asked_by
    st.text(f"{who} asked {ASKED[question.asks]}: {question.text}")
    for reply in question.answers:
        st.text(f"{reply.who}: {reply.text}")
    if not question.answers:
        st.caption("No answer yet.")
    if st.button("Close without more answers", key=f"close-{question.id}", type="tertiary"):
        adjudication.close_question(shell.store(), actor, question.id)
        st.rerun()


def annotator_side(actor: Actor, campaign: CampaignView) -> None:
    """Draw the questions that wait for this person's answer."""
    waiting = [
        question
        for question in adjudication.my_questions(shell.store(), actor, campaign.id)
        if not question.closed and question.my_answer is None and not question.mine
    ]
    if not waiting:
        return
    st.markdown(f"**Questions from the expert ({len(waiting)})**")
    for question in waiting:
        with st.form(f"answer-{question.id}", clear_on_submit=True):
            st.text(question.sentence_text)
            st.text("First: " + (" · ".join(question.first) or "no entities"))
            st.text("Second: " + (" · ".join(question.second) or "no entities"))
            st.text(f"{question.asked_by} asks: {question.text}")
            text = st.text_area("Your answer", height=80)
            if st.form_submit_button("Answer") and text.strip():
                adjudication.answer(shell.store(), actor, question.id, text.strip())
                st.rerun()
