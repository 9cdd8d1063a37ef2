"""Starting runs and watching them: the recipe form, the list, progress and log."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from crossner_core.errors import InvalidConfig
from crossner_core.training.recipe import Recipe, effective
from pages import shell
from pages.components.chosen_row import chosen_row
from pages.components.marked_text import as_text
from pages.components.under_way import job_log, job_state
from pages.parts.model.download import download_model
from pages.parts.model.preview import suggest_with
from pages.parts.model.recipe_form import recipe_inputs
from pages.parts.model.runs_of import RunsOf, asked_runs
from pages.parts.model.source_table import source_table, with_sources
from workbench.accounts.actors import Actor
from workbench.accounts.roles import KEEPERS
from workbench.campaigns.campaigns import CampaignView
from workbench.data import datasets, snapshots
from workbench.data.datasets import DatasetView
from workbench.data.snapshots import SnapshotView
from workbench.runs import adaptation, encoders, source_corpora
from workbench.runs.adaptation import RunDetail, RunView
from workbench.runs.recipe_names import architecture_name, encoder_name, other_than_default, setting_name

_STATE_WORDS = {
    "queued": "queued",
    "running": "training",
    "done": "done",
    "failed": "failed",
    "cancelled": "cancelled",
}
_TRAINED_ON = {
    "queued": "To be trained on",
    "running": "Trains on",
    "done": "Trained on",
    "failed": "Was to be trained on",
    "cancelled": "Was to be trained on",
}
_COLUMNS = {
    "progress": st.column_config.ProgressColumn(min_value=0, max_value=1, format="percent"),
    "dev F1": st.column_config.NumberColumn(format="%.1f"),
    "test F1": st.column_config.NumberColumn(format="%.1f"),
    "started": st.column_config.DatetimeColumn(format="D MMM, HH:mm"),
}


def train_view(actor: Actor, campaign: CampaignView) -> None:
    """Draw the snapshots, the recipe form, and the two ways to start."""
    if actor.role not in KEEPERS:
        st.info("Only researchers and admins start runs; you can read their results under the other views.")
        return
    known = datasets.list_datasets(shell.store(), actor)
    chosen = _data_choice(actor, campaign, [dataset for dataset in known if dataset.count("train")])
    if chosen is None:
        return
    on_snapshot = isinstance(chosen, SnapshotView)
    for line in chosen.notes if isinstance(chosen, SnapshotView) else ():
        st.caption(as_text(line))
    sources = source_corpora.list_sources(shell.store(), actor, without_campaign=campaign.id)
    with st.container(border=True):
        st.markdown("**Recipe**")
        values = recipe_inputs(f"recipe-{campaign.id}", sources, encoders.encoder_names(shell.store(), actor))
        if "source" in values and not sources:
            st.caption("There is no data set yet to use as the source corpus; import one by command:")
            st.code(f"workbench import FOLDER --dataset {values['source']}", language=None, wrap_lines=True)
        target = {"campaign_id": campaign.id} if on_snapshot else {"dataset_id": chosen.id}
        values = with_sources(actor, values, sources, campaign.domain.titles, f"recipe-{campaign.id}", **target)
        st.markdown("**Few-shot curve**")
        left, right = st.columns(2)
        usual = ", ".join(map(str, _default_sizes(_count(chosen))))
        data_key = f"{'snapshot' if on_snapshot else 'data'}-{chosen.id}"
        sizes = left.text_input("Sizes", value=usual, key=f"curve-sizes-{data_key}", persist_state="session")
        usual = ", ".join(map(str, adaptation.SEEDS))
        seeds = right.text_input("Seeds", value=usual, key=f"curve-seeds-{campaign.id}", persist_state="session")
        with st.container(horizontal=True):
            one_run = st.button("Start one run", type="primary", key=f"start-run-{campaign.id}")
            many = st.button("Start the curve", key=f"start-curve-{campaign.id}")
    if one_run or many:
        recipe = Recipe.from_dict(values)
        on = {"campaign_id": campaign.id, "snapshot_id": chosen.id} if on_snapshot else {"dataset_id": chosen.id}
        if one_run:
            run_id = adaptation.start_run(shell.store(), actor, **on, recipe=recipe)
            shell.note(f"Run {run_id} is queued; follow it under Runs.")
        else:
            started = adaptation.start_few_shot(
                shell.store(),
                actor,
                **on,
                recipe=recipe,
                sizes=_numbers(sizes, "Sizes"),
                seeds=_numbers(seeds, "Seeds"),
            )
            runs = f"{started.started} run{'s' * (started.started != 1)}"
            message = f"{runs} queued, {started.reused} reused."
            shell.note(f"{message} {started.note}".rstrip())
        st.rerun()


def _count(chosen: SnapshotView | DatasetView) -> int:
    """Return how many sentences there are to train on."""
    return chosen.counts["pool"] if isinstance(chosen, SnapshotView) else chosen.count("train")


def _default_sizes(most: int) -> list[int]:
    return [size for size in adaptation.SIZES if size < most] + [most]


def _numbers(text: str, what: str) -> list[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() for part in parts):
        raise InvalidConfig(f"{what} is {text!r}; write whole numbers separated by commas, such as 10, 25, 40.")
    return [int(part) for part in parts]


def _data_choice(
    actor: Actor, campaign: CampaignView, known: Sequence[DatasetView]
) -> SnapshotView | DatasetView | None:
    frozen = snapshots.list_snapshots(shell.store(), actor, campaign.id)
    offered: list[SnapshotView | DatasetView] = [*frozen, *known]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox(
            "Train on",
            offered,
            # Without a snapshot nothing is preselected: a data set must be chosen explicitly.
            index=0 if frozen else None,
            format_func=_data_line,
            placeholder="No snapshot yet: freeze the gold first" + (", or choose a data set" if known else ""),
        )
        if st.button(
            f"Freeze the gold now ({campaign.gold - campaign.left_out} sentences)", key=f"freeze-{campaign.id}"
        ):
            made = snapshots.freeze(shell.store(), actor, campaign.id)
            shell.note(
                f"Snapshot {made.name} holds {sum(made.counts[s] for s in ('pool', 'dev', 'test'))} sentences."
                if made.is_new
                else f"The gold has not changed since snapshot {made.name}."
            )
            st.rerun()
    return chosen


def _data_line(data: SnapshotView | DatasetView) -> str:
    parts = data.counts if isinstance(data, SnapshotView) else {split: data.count(split) for split in ("dev", "test")}
    name = f"Snapshot {data.name}" if isinstance(data, SnapshotView) else f"Data set {data.name}"
    return (
        f"{name} · {_count(data)} to train on, {parts['dev']} dev, {parts['test']} test · {data.created_at:%d %b %H:%M}"
    )


def runs_view(actor: Actor, campaign: CampaignView) -> None:
    """Draw the list of runs and the one chosen; both refresh while something is under way."""
    _live_runs(actor, asked_runs(actor, campaign))


@st.fragment(run_every=2)
def _live_runs(actor: Actor, of: RunsOf) -> None:
    with shell.shown_errors():
        runs = adaptation.list_runs(shell.store(), actor, of.campaign_id, dataset_id=of.dataset_id)
        if not runs:
            st.info("No run yet. Freeze the gold and start one under Train.")
            return
        chosen = chosen_row(
            runs_table(runs),
            [run.id for run in runs],
            key=f"run-table-{of.key}",
            height="content" if len(runs) < 9 else 320,
            placeholder="–",
            column_config=_COLUMNS,
        )
        _one_run(actor, of, adaptation.get_run(shell.store(), actor, chosen or _most_interesting(runs).id))


def _most_interesting(runs: tuple[RunView, ...]) -> RunView:
    return next((run for run in runs if run.state == "running"), runs[0])


def runs_table(runs: tuple[RunView, ...]) -> pd.DataFrame:
    """List runs for people: F1 in percent."""
    return pd.DataFrame(
        [
            {
                "run": run.id,
                "state": _STATE_WORDS[run.state],
                "progress": 1.0 if run.state == "done" else round(run.progress, 2),
                "setting": setting_name(run.recipe["setting"]),
                "architecture": architecture_name(run.recipe["architecture"]),
                "encoder": encoder_name(run.recipe["encoder"]),
                "sentences": run.size,
                "seed": run.seed,
                "dev F1": None if run.dev_f1 is None else round(100 * run.dev_f1, 1),
                "test F1": None if run.test_f1 is None else round(100 * run.test_f1, 1),
                "trained on": (run.snapshot or run.dataset or "")[:12],
                "started": run.started_at,
            }
            for run in runs
        ]
    )


def _one_run(actor: Actor, of: RunsOf, detail: RunDetail) -> None:
    run = detail.run
    st.markdown(f"**{as_text(run.title)}** — {_STATE_WORDS[run.state]}")
    st.caption(as_text(_trained_on(run)))
    job = adaptation.job_of_run(shell.store(), actor, run.id)
    job_state(
        actor,
        job,
        cancel="Cancel this run",
        key=f"cancel-{run.id}",
        resume=("Resume this run", f"go-on-{run.id}"),
        words=run.message if run.state == "queued" else "",
    )
    if detail.sources:
        titles = of.campaign.domain.titles if of.campaign is not None else {}
        st.markdown("**What came from where**")
        source_table(detail.sources, titles, detail.source_words)
    for reason in detail.reasons:
        st.caption(as_text(reason))
    if of.campaign is not None and run.has_checkpoint and actor.role in KEEPERS:
        suggest_with(actor, of.campaign, run.id)
    if run.has_checkpoint and actor.role in KEEPERS:
        download_model(actor, run)
    job_log(actor, job, expanded=run.state in ("running", "failed"))
    with st.expander("Recipe"):
        st.json(effective(run.recipe))


def _trained_on(run: RunView) -> str:
    """Return in full what a run was trained on."""
    recipe = effective(run.recipe)
    which = "" if run.is_whole else " drawn by the seed"
    where = f"snapshot {run.snapshot}" if run.snapshot else f"data set {run.dataset}"
    source = f", with the source corpus {recipe['source']}" if "source" in recipe else ""
    changed = other_than_default(Recipe, recipe)
    trained_on = f"{_TRAINED_ON[run.state]} {run.size} gold sentences{which} of {where}{source}"
    return f"{trained_on}; encoder {run.recipe['encoder']}. " + (
        f"Other than the defaults: {changed}." if changed else "Everything else is at its default."
    )
