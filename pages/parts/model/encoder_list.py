"""The encoders, how each was made and what it gained, and the pre-trainings that are not done."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from pages import shell
from pages.components.charts import laid_out
from pages.components.chosen_row import chosen_row
from pages.components.html_report import HtmlReport, report_download
from pages.components.marked_text import as_text
from pages.components.palette import mark_colours
from pages.components.saved_figure import saved_figure
from pages.components.under_way import job_log, job_state, log_lines, worker_line
from workbench.accounts.actors import Actor
from workbench.accounts.roles import KEEPERS
from workbench.runs import encoders
from workbench.runs.encoder_gains import Gain
from workbench.runs.encoder_library import CHARACTERS, figure, line_text, measure_title
from workbench.runs.encoders import EncoderView, PretrainingView
from workbench.runs.recipe_names import encoder_name

_STATE_WORDS = {"queued": "queued", "running": "running", "failed": "failed"}
_TAUGHT_WITH_IT, _FRESH = "the head trained with it", "a fresh head, trained like the first"
_OF_ITS_OWN = "its own output layers"


def under_way(actor: Actor, found: Sequence[PretrainingView]) -> None:
    """Draw the pre-trainings that wait, run or failed, while there are any."""
    if not found:
        return
    if any(pretraining.job.state != "failed" for pretraining in found):
        worker_line()
    _live(actor, tuple(pretraining.job.id for pretraining in found))


@st.fragment(run_every=2)
def _live(actor: Actor, known: tuple[int, ...]) -> None:
    with shell.shown_errors():
        pretrainings = encoders.list_pretrainings(shell.store(), actor)
        if tuple(pretraining.job.id for pretraining in pretrainings) != known:
            st.rerun(scope="app")  # one is done: the list of encoders has a line more
        for pretraining in sorted(pretrainings, key=_order):
            with st.container(border=True, gap="small"):
                _one_pretraining(actor, pretraining)


def _order(pretraining: PretrainingView) -> tuple[int, int]:
    return ("running", "queued", "failed").index(pretraining.job.state), pretraining.job.id


def _one_pretraining(actor: Actor, pretraining: PretrainingView) -> None:
    with st.container(gap=None, width="stretch"):
        st.markdown(f"**{as_text(pretraining.name)}** — {_STATE_WORDS[pretraining.job.state]}")
        st.caption(as_text(f"{_made_how(pretraining)}. Requested by {pretraining.made_by}."))
    job_state(
        actor,
        pretraining.job,
        key=f"encoder:cancel-{pretraining.job.id}",
        resume=("Resume", f"encoder:go-on-{pretraining.job.id}"),
    )
    if (
        pretraining.job.state == "failed"
        and actor.role in KEEPERS
        and st.button("Discard", key=f"encoder:drop-{pretraining.job.id}", help="Removes what it has saved.")
    ):
        encoders.remove(shell.store(), actor, pretraining.name)
        st.rerun(scope="app")
    job_log(actor, pretraining.job)


def list_view(actor: Actor) -> None:
    """Draw the table of encoders and what is known of the chosen one."""
    views = encoders.list_encoders(shell.store(), actor)
    for encoder in views:
        if encoder.problem:
            st.warning(as_text(f"{encoder.name}: {encoder.problem}"))
    report, table = HtmlReport("Encoders"), encoders_table(views)
    report.table(table)
    chosen = chosen_row(
        table,
        [encoder.name for encoder in views],
        key="encoder-table",
        height="content" if len(views) < 9 else 320,
        placeholder="–",
        column_config={
            "how it was made": st.column_config.TextColumn(width="large"),
            "made": st.column_config.DatetimeColumn(format="D MMM YYYY"),
            "read": st.column_config.NumberColumn(
                format="compact", help="Subwords read in training, over all passes; characters, of character models"
            ),
            "runs": st.column_config.NumberColumn(help="Runs whose recipe names it"),
        },
    )
    made = [encoder for encoder in views if encoder.kind and not encoder.problem]
    if chosen is not None:
        _one_encoder(actor, next(encoder for encoder in views if encoder.name == chosen), report)
    elif made:
        _one_encoder(
            actor, max(made, key=lambda encoder: encoder.made_at or dt.datetime.min.replace(tzinfo=dt.UTC)), report
        )
    else:
        line = "No encoder has been pre-trained here yet: every recipe starts from one not adapted to your domain."
        st.info(f"{line} **Pre-train** adapts one." if actor.role in KEEPERS else line)
    report_download(lambda: report, name="encoders")


def encoders_table(found: Sequence[EncoderView]) -> pd.DataFrame:
    """List encoders for people."""
    return pd.DataFrame(
        [
            {
                "encoder": encoder.name,
                "from": encoder_name(encoder.base) if encoder.base else None,
                "before": _figure(encoder.measure, encoder.before),
                "after": _figure(encoder.measure, encoder.after),
                "measured": measure_title(encoder.measure) if encoder.measure else None,
                "read": encoder.tokens or None,
                "runs": encoder.runs,
                "made": encoder.made_at,
                "by": encoder.made_by or None,
                "how it was made": "cannot be read" if encoder.problem else encoder.how,
            }
            for encoder in found
        ]
    )


def _one_encoder(actor: Actor, encoder: EncoderView, report: HtmlReport) -> None:
    st.markdown(f"#### {as_text(encoder.name)}")
    report.heading(encoder.name)
    if not encoder.kind or encoder.measure is None or encoder.before is None or encoder.after is None:
        runs = f"{encoder.runs} runs name it" if encoder.runs != 1 else "1 run names it"
        st.caption(as_text(report.text(f"{encoder.how[:1].upper()}{encoder.how[1:]}. {runs}.", caption=True)))
        return
    st.caption(as_text(report.text(f"{_made_how(encoder)}.", caption=True)))
    difference = encoder.after - encoder.before
    change = f"{'-' if difference < 0 else '+'}{_figure(encoder.measure, abs(difference))}"
    title = measure_title(encoder.measure)
    title = title[:1].upper() + title[1:]
    st.metric(
        title,
        _figure(encoder.measure, encoder.after),
        f"{change} from {_figure(encoder.measure, encoder.before)}",
        delta_color="normal" if encoder.measure == "f1" else "inverse",
        width="content",
    )
    report.text(
        f"{title}: {_figure(encoder.measure, encoder.before)} before, {_figure(encoder.measure, encoder.after)} after."
    )
    if encoder.kind == CHARACTERS:
        note = "Before and after: of the models themselves, which predict without another head."
    elif not encoder.equal_heads:
        note = "After: through the head trained along with the encoder, which accounts for part of the change."
    else:
        note = "Before and after: each through a fresh head, trained alike, so that the change is due to the encoder."
    st.caption(report.text(note, caption=True))
    st.caption(as_text(report.text(_cost(encoder), caption=True)))
    if actor.role in KEEPERS and encoder.base is not None:
        _gains(encoders.encoder_gains(shell.store(), actor, encoder), encoder, report)
    _history(encoder, report)
    lines = encoders.encoder_log(shell.store(), actor, encoder.name)
    if lines:
        with st.expander("Log"):
            log_lines(
                [
                    f"{dt.datetime.fromtimestamp(line.at, dt.UTC):%H:%M:%S}  {line_text(line, encoder.kind)}"
                    for line in lines
                ]
            )
    with st.expander("Options"):
        st.json(dict(encoder.options))
    if actor.role in KEEPERS:
        _remove(actor, encoder)


def _cost(encoder: EncoderView) -> str:
    """Return what the pre-training cost, when and by whom it was made, and how many runs use the encoder."""
    made = f"made on {encoder.made_at:%d %b %Y} by {encoder.made_by}" if encoder.made_at else ""
    parts = (
        f"{encoder.steps:,} steps in {encoder.epochs} passes"
        if encoder.epochs != 1
        else f"{encoder.steps:,} steps in one pass",
        f"{encoder.tokens:,} {encoder.unit} read in {_duration(encoder.seconds)}",
        f"measured on {encoder.held_out}" if encoder.held_out else "",
        f"{encoder.peak_memory_mb:,.0f} MB of memory at peak",
        made,
        "1 run names it" if encoder.runs == 1 else f"{encoder.runs:,} runs name it",
    )
    return " · ".join(part for part in parts if part)


def _gains(gains: Sequence[Gain], encoder: EncoderView, report: HtmlReport) -> None:
    st.markdown("**Runs with it**")
    base = encoder_name(encoder.base or "")
    if not gains:
        st.caption(
            as_text(
                "Nothing to compare yet. Train one recipe twice, with the same seed on the same sentences: "
                f"from {base} and from {encoder.name}."
            )
        )
        return
    table = pd.DataFrame(
        [
            {
                "trained on": each.on,
                "method": each.method,
                "sentences": "all" if each.sentences is None else str(each.sentences),
                f"F1 from {base}": 100 * each.base,
                f"F1 from {encoder.name}": 100 * each.own,
                "change": 100 * each.change,
                "± sd": None if each.sd is None else 100 * each.sd,
                "pairs": each.pairs,
                "measured on": each.measure,
            }
            for each in gains
        ]
    )
    report.heading("Runs with it")
    report.table(table.round(2))
    st.dataframe(
        table,
        hide_index=True,
        placeholder="–",
        column_config={
            name: st.column_config.NumberColumn(format=form)
            for name, form in (
                (f"F1 from {base}", "%.2f"),
                (f"F1 from {encoder.name}", "%.2f"),
                ("change", "%+.2f"),
                ("± sd", "%.2f"),
            )
        },
    )


def _history(encoder: EncoderView, report: HtmlReport) -> None:
    points = [(0, encoder.before), *encoder.history]
    scale = 100 if encoder.measure == "f1" else 1
    table = pd.DataFrame({"step": [step for step, _ in points], "value": [scale * (y or 0.0) for _, y in points]})
    if len(table) < 3:
        return
    name = measure_title(encoder.measure or "f1")
    learned = _OF_ITS_OWN if encoder.kind == CHARACTERS else _TAUGHT_WITH_IT
    figure = go.Figure()
    colours = mark_colours(2)
    figure.add_scatter(
        x=table["step"],
        y=table["value"],
        mode="lines+markers",
        name=learned,
        line={"color": colours[0], "width": 2},
        hovertemplate=f"step %{{x}}: {name} %{{y:.2f}}, {learned}<extra></extra>",
    )
    if encoder.equal_heads and encoder.after is not None:
        last = pd.DataFrame({"step": [encoder.steps], "value": [scale * encoder.after], "head": [_FRESH]})
        table = pd.concat([table.assign(head=learned), last], ignore_index=True)
        figure.add_scatter(
            x=last["step"],
            y=last["value"],
            mode="markers",
            name=_FRESH,
            marker={"color": colours[1], "size": 11, "symbol": "diamond"},
            hovertemplate=f"step %{{x}}: {name} %{{y:.2f}}, {_FRESH}<extra></extra>",
        )
    figure.update_xaxes(title="step", rangemode="tozero")
    figure.update_yaxes(title=name)
    saved_figure(
        report.figure(laid_out(figure, height=320)),
        table.rename(columns={"value": name}),
        name=f"encoder-{encoder.name}",
    )


def _remove(actor: Actor, encoder: EncoderView) -> None:
    with st.popover("Remove this encoder"):
        kept = " Runs trained from it keep their checkpoints and scores; its name is not used again."
        st.text(f"Its weights and log are deleted.{kept if encoder.runs else ''}")
        if st.button("Remove it", key=f"encoder:remove-{encoder.name}"):
            encoders.remove(shell.store(), actor, encoder.name)
            shell.note(as_text(f"The encoder {encoder.name} is removed."))
            st.rerun()


def _figure(measure: str | None, value: float | None) -> str | None:
    return None if value is None or measure is None else figure(measure, value)


def _made_how(made: EncoderView | PretrainingView) -> str:
    return f"{made.how}, {f'from {encoder_name(made.base)}' if made.base else 'from random weights'}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
