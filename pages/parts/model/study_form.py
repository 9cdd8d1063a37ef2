"""Starting a study: corpora, seeds, encoders, its own options, and recipe fields to change."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import MISSING, fields
from typing import Any

import streamlit as st

from crossner_core.errors import InvalidConfig
from crossner_core.experiments.study import StudyConfig
from crossner_core.simulation.annotators import AnnotatorOptions
from crossner_core.training.recipe import Recipe
from pages import shell
from pages.components.marked_text import as_text
from pages.parts.model import study_encoders
from pages.parts.model.annotator_form import annotator_inputs
from pages.parts.model.recipe_form import chosen_options, option_inputs
from workbench.accounts.actors import Actor
from workbench.runs import encoders, studies
from workbench.runs.recipe_names import field_name
from workbench.runs.studies import StudyChoices, StudyView

_COMMON = ("corpora", "seeds", "encoders")
_BY_ROW = ("only",)  # chosen from the rows that the other options make
_DECIDED = ("seed", "encoder")  # the study's own seeds and encoders stand for these


def start_view(actor: Actor, one: StudyView) -> None:
    """Draw what can be chosen, how many trainings that is, and the button."""
    options = _corpora(actor, one)
    if options is None:
        return
    from_store = options.data is None
    absent = f" Missing of the study's own corpora: {', '.join(options.absent)}." if options.absent else ""
    where = "the data sets under Sentences and the gold of campaigns" if from_store else str(options.data)
    st.caption(as_text(f"Corpora are read from {where}.{absent}"))
    key = f"study-{one.id}"
    usual = [id for id in options.usual if id in options.there]
    st.session_state.setdefault(f"{key}-corpora", usual or list(options.there[:1]))
    own = [
        spec.name
        for spec in fields(options.config)
        if spec.name not in {*_COMMON, *_BY_ROW, *study_encoders.FIELDS}
        and not spec.metadata.get("lines")
        and spec.default is not MISSING
    ]
    with st.container(border=True):
        offered = {"corpora": options.there, "encoders": encoders.encoder_names(shell.store(), actor)}
        values = option_inputs(options.config, key, only=_COMMON, choices=offered, free=("encoders",))
        if own:
            values |= option_inputs(options.config, key, only=own, given=values)
        values |= study_encoders.pretraining_inputs(actor, options.config, key)
        values |= _lines(options.config, key)
        values |= _annotators(options.config, key)
        values["recipe"] = _changes("Recipe fields to change", key, "None: every training as the study defines it")
        is_whole = values.keys() >= {*_COMMON, *own}  # an invalid number has no value, and its error is shown
        labels = _row_labels(actor, one, values, from_store) if is_whole else ()
        values["only"] = _asked_for(key, labels) if one.in_part else ()
        values["rows"] = _changes_of_rows(key, labels)
        name, side_by_side = _how(one, key)
        can_start = False
        with shell.shown_errors():
            if is_whole:
                count = studies.count_cells(shell.store(), actor, one.id, values, from_store=from_store)
                made = studies.count_encoders(shell.store(), actor, one.id, values, from_store=from_store)
                before = f", and before them {made:,} encoder{'s' * (made > 1)} to pre-train" if made else ""
                note = "Those that already have a result are not trained again."
                st.caption(f"{count:,} trainings{before}. {note}")
                can_start = not studies.get_study(shell.store(), actor, one.id, name).is_under_way
        pressed = st.button("Start this study", type="primary", disabled=not can_start)
    if pressed:
        with shell.shown_errors():
            job_id, is_new = studies.start_study(
                shell.store(), actor, one.id, values, section=name, workers=side_by_side, from_store=from_store
            )
            _queued(job_id, is_new)


def _queued(job_id: int, is_new: bool) -> None:
    state = "is queued" if is_new else "is already queued or running"
    shell.note(f"The study {state} (job {job_id}).")
    st.rerun()


def _corpora(actor: Actor, study: StudyView) -> StudyChoices | None:
    """Ask where the corpora are, if they are in two places; explain how to add some where there are none."""
    folder = studies.choices(shell.store(), actor, study.id)
    sets = studies.choices(shell.store(), actor, study.id, from_store=True)
    places = {"Data sets": sets, "Data folder": folder}
    filled = {name: options for name, options in places.items() if options.there}
    if not filled:
        st.info("There is nothing to train on yet. Add a data set under Sentences, Data sets, or adjudicate gold.")
        where = f"There is no corpus in {folder.data}" if folder.data else "CROSSNER_DATA names no folder of corpora"
        st.caption(as_text(f"{where}; it would have a folder for each corpus, with train, dev and test files."))
        return None
    if len(filled) == 1:
        return next(iter(filled.values()))
    chosen = st.segmented_control(
        "Corpora from",
        list(filled),
        default="Data folder",
        required=True,
        key=f"study-{study.id}:place",
        on_change=_forget_corpora,
        args=(study.id,),
    )
    return filled[chosen]


def _forget_corpora(id: str) -> None:
    st.session_state.pop(f"study-{id}-corpora", None)


def _row_labels(actor: Actor, study: StudyView, values: dict[str, Any], from_store: bool) -> Sequence[str]:
    """Name the rows; none for invalid values, whose error the count of trainings below shows."""
    with suppress(InvalidConfig):
        return studies.row_labels(shell.store(), actor, study.id, values, from_store=from_store)
    return ()


def _lines(config: type[StudyConfig], key: str) -> dict[str, Any]:
    """Draw the options that hold longer texts, one per line; return their fields."""
    asked: dict[str, Any] = {}
    for spec in fields(config):
        if spec.metadata.get("lines"):
            text = st.text_area(
                f"{field_name(spec.name).capitalize()}, one per line",
                "\n".join(getattr(config, spec.name)),
                key=f"{key}-{spec.name}",
                persist_state="session",
                help=spec.metadata["help"],
            )
            asked[spec.name] = tuple(line.strip() for line in (text or "").splitlines() if line.strip())
    return asked


def _annotators(config: type[StudyConfig], key: str) -> dict[str, Any]:
    """Ask what simulated annotators are like, where the study has any; return its field."""
    if "annotator" not in {spec.name for spec in fields(config)}:
        return {}
    with st.expander("Simulated annotators"):
        asked = annotator_inputs(f"{key}-annotator", AnnotatorOptions())
    several = {f"annotator {number}": prices for number, prices in enumerate(asked, start=1)}
    return {"annotator": several if len(asked) > 1 else asked[0]}


def _changes(label: str, key: str, placeholder: str) -> dict[str, Any]:
    return chosen_options(Recipe, key, label, placeholder, without=_DECIDED)


def _changes_of_rows(key: str, labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Draw the recipe fields to change in single rows; return them by the row's label."""
    if not labels:
        return {}
    chosen = st.multiselect(
        "Rows to change by themselves",
        labels,
        key=f"{key}:rows",
        persist_state="session",
        placeholder="None: the changes above apply to all rows",
        help="Rows of the study's table. Values set here override the study's own and those set above.",
    )
    made = {row: _changes(f"Fields of {as_text(row)}", f"{key}-row-{row}", "Nothing yet") for row in chosen}
    return {row: changes for row, changes in made.items() if changes}


def _asked_for(key: str, labels: Sequence[str]) -> tuple[str, ...]:
    """Ask which rows to train; empty for all."""
    chosen = st.multiselect(
        "Rows to train",
        labels,
        key=f"{key}:only",
        persist_state="session",
        placeholder="All",
        help="The table shows these rows alone.",
    )
    return tuple(chosen)


def _how(study: StudyView, key: str) -> tuple[str, int]:
    """Draw the name that results are kept under and how many trainings run side by side."""
    first, second = st.columns(2)
    name = first.text_input(
        "Name of these results",
        study.section,
        key=f"{key}:section:{study.section}",
        persist_state="session",
        placeholder="None",
        help="Results of this study under another name are kept beside these; under the same name they are replaced.",
    )
    side_by_side = second.number_input(
        "Trainings side by side",
        1,
        64,
        studies.usual_workers(shell.store()),
        key=f"{key}:workers",
        persist_state="session",
        help="Each takes its share of the worker's cores. All must fit into its memory.",
    )
    return name.strip(), int(side_by_side)
