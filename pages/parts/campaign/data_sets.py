"""Data sets beside campaigns: list, import, export, delete."""

from __future__ import annotations

from functools import partial

import streamlit as st

from crossner_core.formats.base import written_ids
from pages import shell
from pages.components.lazy_download import download_problem, lazy_download
from pages.components.marked_text import as_text
from pages.parts.campaign.exchange import (
    format_choice,
    remember_skipped,
    skipped_last_time,
    suffixes,
    type_map_choice,
)
from workbench import out_of_process
from workbench.accounts.actors import Actor
from workbench.campaigns import domains
from workbench.data import datasets
from workbench.data.datasets import SPLITS, DatasetView
from workbench.data.packing import file_suffix

_ROUND = "data:set-round"
_SPLIT_WORDS = {"train": "Train", "dev": "Dev", "test": "Test"}


def datasets_view(actor: Actor) -> None:
    """Draw the list, what can be done with one, and the form for a new one."""
    skipped_last_time()
    known = datasets.list_datasets(shell.store(), actor)
    if known:
        st.dataframe([_row(dataset) for dataset in known], hide_index=True)
        with st.expander("Download or delete one"):
            _one(actor, known)
    else:
        st.info("No data set yet. A source corpus with gold, such as news, lets a model transfer to your domain.")
    with st.expander("New data set", expanded=not known):
        _new(actor)


def _row(dataset: DatasetView) -> dict[str, str | int]:
    return {
        "Data set": dataset.name,
        "Domain": dataset.domain_name or "–",
        **{_SPLIT_WORDS[split]: dataset.count(split) for split in SPLITS},
        "Entities": sum(part.entities for part in dataset.splits),
        "Types": ", ".join(dataset.types),
        "Runs": dataset.runs,
        "Created": f"{dataset.created_at:%Y-%m-%d}",
    }


def _one(actor: Actor, known: tuple[DatasetView, ...]) -> None:
    named = {dataset.name: dataset for dataset in known}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.selectbox("Data set", list(named), key="data:set")
        split = st.selectbox("Split", [part.split for part in named[name].splits], key="data:set-split")
        format = st.selectbox("Format", written_ids(), index=written_ids().index("conll"), key="data:set-out")
    with st.container(horizontal=True):
        lazy_download(
            "Download this split",
            partial(datasets.export_dataset, shell.store(), actor, name, split, format=format),
            file_name=f"{name}-{split}{file_suffix(format)}",
            key=f"data:set-download:{name}:{split}:{format}",
        )
        runs = named[name].runs
        gone = st.button(
            "Delete this data set",
            disabled=runs > 0,
            help="Runs were trained on it, so it stays on record." if runs else None,
        )
    download_problem()
    with shell.shown_errors():
        if gone:
            datasets.delete_dataset(shell.store(), actor, name)
            shell.note(f"The data set {as_text(name)} is deleted.")
            st.rerun()


def _new(actor: Actor) -> None:
    turn = st.session_state.setdefault(_ROUND, 0)
    names = ["", *(domain.name for domain in domains.list_domains(shell.store(), actor))]
    with st.form(f"data:set-new:{turn}", border=False):
        first, second, third = st.columns(3)
        name = first.text_input("Name", placeholder="such as news-2003", max_chars=60)
        domain = second.selectbox(
            "Domain", names, format_func=lambda name: name or "none: the types found in the files"
        )
        with third:
            format = format_choice(f"data:set-format:{turn}")
            options = type_map_choice(f"data:set-type-map:{turn}")
        files = {}
        for column, split in zip(st.columns(3), SPLITS, strict=True):
            files[split] = column.file_uploader(_SPLIT_WORDS[split], type=suffixes(), key=f"data:set-{split}:{turn}")
        skip_bad = st.checkbox("Skip bad sentences, and list them")
        pressed = st.form_submit_button("Import the data set", type="primary")
    if pressed:
        given = {split: (file.name, file.getvalue()) for split, file in files.items() if file is not None}
        with shell.shown_errors(), st.spinner("Reading and checking …"):
            made = out_of_process.call(
                datasets.import_dataset,
                shell.store(),
                actor,
                name=name.strip(),
                splits=given,
                domain=domain or None,
                format=format,
                skip_bad=skip_bad,
                options=options,
            )
            _finish(made)


def _finish(made: DatasetView) -> None:
    parts = ", ".join(f"{part.sentences} {part.split}" for part in made.splits)
    shell.note(f"The data set {as_text(made.name)} was imported: {parts} sentences.")
    remember_skipped(made.problems)
    st.session_state[_ROUND] += 1
    st.rerun()
