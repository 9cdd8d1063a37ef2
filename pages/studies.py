"""Studies: the papers' tables with our encoder and data, and starting one."""

from __future__ import annotations

import streamlit as st

from pages import shell
from pages.components.marked_text import as_text
from pages.components.under_way import worker_line
from pages.parts.model import study_form, study_results
from workbench.accounts.roles import KEEPERS, OVERSEERS
from workbench.runs import studies

_HELP = """
A **study** is a table or a curve of one of the papers: many trainings (*cells*), each a recipe on a corpus with a seed.
Each cell is trained once and kept; a stopped study resumes where it left off, and studies share their cells.

**Results.** Mean over the seeds ± one standard deviation. Below it, in brackets, the published figure, then our
difference from it: published figures come from the paper's encoder, not yours. *What was trained* lists corpora,
encoder, seeds, recipe and machine.

**Results of this project** come with the workbench: they were measured by the command that stands below them. **What
the papers print** are their figures, with the table they are from.

**Run** queues the study for the worker. It is run on data sets that are kept under Sentences and the gold of campaigns,
or on the corpora of the data folder (`CROSSNER_DATA`), which has a folder for each, with train, dev and test files and,
if its types have guidelines, `domain.toml`. Rounds, runs, suggestions and label reviews
have priority over a study, which resumes afterwards; a second `workbench worker` does both at once.
On the command line: `workbench study run STUDY`.
"""

actor = shell.signed_in(*OVERSEERS)
shell.header("Studies", "What do the papers print, and what is it with our encoder and data?", help=_HELP)
with shell.shown_errors():
    known = studies.list_studies(shell.store(), actor)
    if any(study.is_under_way for study in known):
        worker_line()
    chosen = study_results.choose(known)
    st.markdown(f"#### {as_text(study_results.study_name(chosen.title, chosen.section))}")
    st.caption(as_text(f"{chosen.question} {chosen.reference}"))
    study_results.job_line(actor, chosen)
    view = "Results"
    if actor.role in KEEPERS:
        view = st.segmented_control(
            "View", [view, "Run"], default=view, key="study:view", required=True, label_visibility="collapsed"
        )
    if view == "Run":
        study_form.start_view(actor, chosen)
    else:
        study_results.results_view(actor, chosen)
