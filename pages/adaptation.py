"""Adaptation: freeze the gold, train recipes on it, and read what each extra sentence bought."""

from __future__ import annotations

import streamlit as st

from pages import shell
from pages.components.lazy_download import download_problem
from pages.components.under_way import worker_line
from pages.parts.model import calibration, learning, run_list, scores
from workbench.accounts.roles import OVERSEERS

VIEWS = {
    "Curve": learning.curve_view,
    "As gold grows": learning.growth_view,
    "By type": scores.types_view,
    "Calibration": calibration.calibration_view,
    "Train": run_list.train_view,
    "Runs": run_list.runs_view,
}

actor = shell.signed_in(*OVERSEERS)
campaign = shell.page(
    actor,
    "Adaptation",
    "How good is a model trained on the gold so far, and what did each further sentence buy?",
    help="""
**Train.** *Freeze* makes a snapshot of the gold, named by its hash, so what a model was trained on stays traceable.
A *recipe* says what to train: encoder, architecture, transfer setting (*direct*: only your gold; *pretrain, then
fine-tune*: first a source corpus; *joint*: both at once) and hyperparameters. Start one run, or a *few-shot curve*:
nested subsets of the gold, drawn at random, for several seeds.

**Runs** shows what the worker is doing, with its log. A run can be cancelled; after a crash it resumes from its last
checkpoint.

**Curve** plots the mean over seeds, with a band of one standard deviation, against sentences, tokens, entities or
annotators' seconds, for all types or one. Published points are for BERT-base, not your encoder. Models are chosen on
dev; the figures are test scores where there is test gold. F1 is entity F1 as conlleval counts it; strict IOB2 is
given beside it under its own name. **As gold grows** shows which types are learned first, and which errors go away.
*Compare* sets two runs side by side; *Errors* shows what a run gets wrong.

**Calibration** shows whether suggestions are correct as often as their scores claim: a run's scores before and after
calibration on dev, and how often gold agrees with each source, by entity type.
""",
)
if campaign:
    worker_line()
    chosen = st.segmented_control(
        "View", list(VIEWS), default="Curve", key="model-view", required=True, label_visibility="collapsed"
    )
    with shell.shown_errors():
        VIEWS[chosen](actor, campaign)
    download_problem()
