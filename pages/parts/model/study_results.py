"""A study's results: the list of studies, the job under way, tables with published figures, figure, provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from html import escape
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from crossner_core.domains import builtin_domains, load_domain
from crossner_core.experiments.results import StudyResult
from crossner_core.experiments.tables import Measured, Table
from db.engine import Store
from pages import shell
from pages.components.chosen_row import chosen_row
from pages.components.html_report import HtmlReport, report_download
from pages.components.lazy_download import download_problem, lazy_download
from pages.components.marked_text import as_text
from pages.components.rows import rows_html, table_html
from pages.components.saved_figure import safe_csv, saved_figure
from pages.components.under_way import failure, watched_job
from workbench.accounts.actors import Actor
from workbench.accounts.roles import KEEPERS
from workbench.runs import studies
from workbench.runs.recipe_names import MACHINE, field_name, recipe_value, row_name
from workbench.runs.studies import StudyView

_STATE_WORDS = {
    "queued": "queued",
    "running": "running",
    "failed": "failed",
    "cancelled": "cancelled",
}
_DOWNLOADS = {
    "Markdown": ("table.md", "text/markdown"),
    "CSV": ("table.csv", "text/csv"),
    "LaTeX": ("table.tex", "application/x-tex"),
}
_MOST_MISSING = 20
_BESIDE = " After the published figure: our difference from it."
_ONE_LINE = 24  # characters
_STYLE = """<style>
.study tbody tr{border-top:1px solid #8884}
.study td{font-variant-numeric:tabular-nums}
.study .figure{white-space:nowrap}
.study td:first-child{min-width:10em}
</style>"""


def choose(found: Sequence[StudyView]) -> StudyView:
    """Draw the list of studies; return the chosen one, by default the one under way or with the newest result."""
    chosen = chosen_row(
        studies_table(found),
        [study.key for study in found],
        key="study-table",
        height="content" if len(found) < 7 else 250,
        placeholder="–",
        column_config={
            "study": st.column_config.TextColumn(width=260),
            "name": st.column_config.TextColumn(width=130),
            "cells": st.column_config.TextColumn(width=90),
            "question": st.column_config.TextColumn(width="large"),
            "made": st.column_config.DatetimeColumn(format="D MMM", help="when its tables were made here"),
            "stored": st.column_config.DatetimeColumn(format="D MMM", help="results of this project, measured then"),
            "published": st.column_config.NumberColumn(help="figures that its papers print", width=90),
        },
    )
    if chosen is not None:
        return next(study for study in found if study.key == chosen)
    return next((study for study in found if study.is_under_way), found[0])


def studies_table(found: Sequence[StudyView]) -> pd.DataFrame:
    """List the studies for people: how far each is, and when its tables were made; their names where any has one."""
    named = any(study.section for study in found)
    return pd.DataFrame(
        [
            {
                "study": study.title,
                **({"name": study.section or None} if named else {}),
                "state": _state(study),
                "cells": f"{study.done} of {study.total}" if study.result and study.total else None,
                "made": pd.Timestamp(study.result.made_at) if study.result else None,
                "stored": pd.Timestamp(max(stored.made_on for stored in study.stored)) if study.stored else None,
                "published": sum(_figures(table) for table in study.published) or None,
                "question": study.question,
            }
            for study in found
        ]
    )


def _figures(table: Table) -> int:
    return sum(isinstance(value, float) for row in table.rows for value in row)


def study_name(title: str, section: str) -> str:
    """Return a study's title, with the name of these results where they have one."""
    return f"{title} · {section}" if section else title


def _state(study: StudyView) -> str:
    if study.job is not None and study.is_under_way:
        far = f", {study.job.progress:.0%}" if study.job.state == "running" else ""
        return f"{_STATE_WORDS[study.job.state]}{far}"
    if study.problem:
        return "cannot be read"
    if study.result is not None:
        return "complete" if study.result.complete else "incomplete"
    return _STATE_WORDS.get(study.job.state, "not run") if study.job is not None else "not run"


def job_line(actor: Actor, one: StudyView) -> None:
    """Draw how far the study's job is while it waits or runs, else why the last one failed."""
    if one.problem:
        st.error(as_text(one.problem))
    if one.job is None:
        return
    if one.is_under_way:
        watched_job(
            actor,
            lambda: studies.get_study(shell.store(), actor, one.id, one.section).job,
            cancel="Cancel this study",
            key=f"cancel-study-{one.job.id}",
            help="What was trained until now is kept.",
        )
    elif one.job.state == "failed":
        failure(one.job.error or "The last run of this study failed.")


def results_view(actor: Actor, one: StudyView) -> None:
    """Draw the results made here, then those that this project stores, then what the papers print."""
    if one.result is not None:
        _own_view(actor, one, one.result)
    else:
        st.caption("This study has no results here yet." + (" Start it under Run." if actor.role in KEEPERS else ""))
    if one.stored:
        _stored_view(one)
    if one.published:
        st.markdown("##### What the papers print")
        for table in one.published:
            _draw_table(table)


def _stored_view(study: StudyView) -> None:
    """Draw the results that come with the workbench: one of several, with what it was measured with."""
    st.markdown("##### Results of this project")
    named = {stored.section: stored for stored in study.stored}
    chosen = next(iter(named))
    if len(named) > 1:
        chosen = st.segmented_control(
            "Which results",
            list(named),
            default=chosen,
            required=True,
            format_func=lambda section: section or "main",
            key=f"study:stored:{study.id}",
            label_visibility="collapsed",
        )
    stored = named[chosen]
    for table in stored.tables:
        _draw_table(table)
    with st.expander(f"How it was measured, on {pd.Timestamp(stored.made_on):%d %B %Y}"):
        st.text(stored.measured)
        st.code(stored.command, language=None, wrap_lines=True)
        for note in stored.notes:
            st.caption(as_text(note))


def _draw_table(table: Table, seeds: int = 0) -> None:
    st.markdown(f"**{as_text(table.title)}**")
    st.html(rows_html([study_table(table, seeds)]))
    if table.note or _has_published(table):
        st.caption(as_text(f"{table.note}{_BESIDE if _has_published(table) else ''}"))


def _own_view(actor: Actor, study: StudyView, result: StudyResult) -> None:
    """Draw what was trained, the tables, the figure and the notes."""
    st.html(rows_html([_provenance(result)]))
    if result.missing:
        st.warning(f"{len(result.missing)} of {study.total} trainings have no result; the tables leave them out.")
        with st.expander("Which are missing"):
            st.code("\n".join(result.missing_rows[:_MOST_MISSING]), language=None, wrap_lines=True)
    for table in result.tables:
        _draw_table(table, len(result.seeds))
    if result.figure is not None:
        saved_figure(study_figure(result.figure), None, name=f"study-{study.key}")
    _downloads(actor, study, result)
    report_download(partial(_report, study_name(study.title, study.section), result), name=f"study-{study.key}")
    for note in result.notes:
        st.caption(as_text(note))
    download_problem()


def _report(title: str, result: StudyResult) -> HtmlReport:
    """Make the report: what was trained, the tables with the published figures, the figure, the notes."""
    report = HtmlReport(title)
    report.html(rows_html([_provenance(result)]))
    for table in result.tables:
        report.heading(table.title)
        report.html(rows_html([study_table(table, len(result.seeds))]))
        report.text(f"{table.note}{_BESIDE if _has_published(table) else ''}", caption=True)
    if result.figure is not None:
        report.figure(study_figure(result.figure))
    for words in (*result.notes, *(f"Missing: {line}" for line in result.missing)):
        report.text(words, caption=True)
    return report


def study_table(table: Table, seeds: int) -> str:
    """Return the table as HTML: what was measured, and under it what was published and the difference to it."""
    rows = [[_cell(value, seeds) for value in row] for row in table.rows]
    columns = tuple(map(_titled, table.columns))
    return f'{_STYLE}<div class="study">{table_html(columns, rows, html=range(len(columns)))}</div>'


def study_figure(values: Mapping[str, Any]) -> go.Figure:
    """Return the figure with settings and architectures by their names, as in the tables."""
    figure = go.Figure(dict(values))
    for trace in figure.data:
        trace.name = trace.name and _titled(trace.name)
        for axis in ("x", "y"):
            trace[axis] = [_titled(value) if isinstance(value, str) else value for value in trace[axis]]
    return figure


def _titled(name: str) -> str:
    """Return an entity type of a bundled domain, a setting or an architecture by what people call it."""
    return _type_titles().get(name) or row_name(name)


@cache
def _type_titles() -> dict[str, str]:
    return {name: title for id in builtin_domains() for name, title in load_domain(id).titles.items()}


def _has_published(table: Table) -> bool:
    return any(isinstance(value, Measured) and value.published is not None for row in table.rows for value in row)


def _cell(value: object, seeds: int) -> str:
    if not isinstance(value, Measured):
        return _text("–" if value is None else f"{value:.2f}" if isinstance(value, float) else _titled(str(value)))
    sign = "+" if value.signed else ""
    text = "–" if value.mean is None else f"<b>{_minus(f'{value.mean:{sign}.2f}')}</b>"
    if value.sd is not None:
        text += f" ± {value.sd:.2f}"
    text = f'<span class="figure">{text}</span>'
    under = []
    if value.published is not None:
        under.append(_minus(f"[{value.published:{sign}.2f}]"))
        if value.mean is not None:
            under.append(_minus(f"{value.mean - value.published:+.2f}"))
    if value.mean is not None and 0 < value.n < seeds:
        under.append(f"{value.n} of {seeds} seeds")
    return f'{text}<span class="small figure">{" · ".join(under)}</span>' if under else text


def _text(text: str) -> str:
    """Return text as HTML: short parts with a number, as of an interval or a corpus, stay in one line."""
    parts = text.split("; ")
    short = [len(part) <= _ONE_LINE and any(map(str.isdigit, part)) for part in parts]
    whole = (
        f'<span class="figure">{escape(part)}</span>' if kept else escape(part)
        for part, kept in zip(parts, short, strict=True)
    )
    return "; ".join(whole)


def _minus(number: str) -> str:
    return number.replace("-", "−")


def _provenance(result: StudyResult) -> str:
    """Return a few lines on what every number of the study was trained on."""
    asked = {
        name: value for name, value in result.config.get("recipe", {}).items() if name not in ("encoder", *MACHINE)
    }
    changed = ", ".join(f"{field_name(name)} {recipe_value(name, value)}" for name, value in asked.items())
    trained = len(result.cells)
    recipe = f"as each row says, with {changed}" if changed else "as each row says, all else by default"
    lines = [
        ("Corpora", ", ".join(result.corpora)),
        ("Encoder", ", ".join(map(_encoder, result.encoders))),
        ("Seeds", ", ".join(map(str, result.seeds)) if trained else ""),
        ("Recipe", recipe if trained else ""),
        ("Machine", "; ".join(result.machines)),
        (
            "Made",
            f"{pd.Timestamp(result.made_at):%d %B %Y, %H:%M} UTC" + (f", of {trained} trainings" if trained else ""),
        ),
    ]
    return table_html(("What was trained" if trained else "What was counted", ""), [line for line in lines if line[1]])


def _encoder(encoder: Mapping[str, str]) -> str:
    named = encoder["name"] if encoder["label"] in ("", encoder["name"]) else f"{encoder['label']} ({encoder['name']})"
    made = f", {encoder['pretrained']}" if encoder.get("pretrained") else ""
    return f"{named}, weights {encoder['fingerprint'][:8]}{made}"


def _downloads(actor: Actor, study: StudyView, result: StudyResult) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption("The tables as", width="content")
        for label, (name, mime) in _DOWNLOADS.items():
            make = partial(_table_file, shell.store(), actor, study, name)
            file_name = f"{study.key}{name[5:]}"
            if label == "CSV" and len(result.tables) > 1:
                make = partial(studies.study_archive, shell.store(), actor, study.id, study.section, prepared=safe_csv)
                file_name, mime = f"{study.key}-csv.zip", "application/zip"
            lazy_download(label, make, file_name=file_name, key=f"{name}-{study.key}", mime=mime, type="tertiary")
        if result.figure is not None:
            st.caption("the figure as", width="content")
            html = partial(_figure_html, result.figure)
            lazy_download("HTML", html, file_name=f"{study.key}.html", key=f"html-{study.key}", type="tertiary")


def _table_file(store: Store, actor: Actor, study: StudyView, name: str) -> bytes:
    data = studies.study_file(store, actor, study.id, name, study.section)
    return safe_csv(data) if name.endswith(".csv") else data


def _figure_html(figure: Mapping[str, Any]) -> bytes:
    """Return a page that shows the figure offline."""
    from crossner_core.experiments.plots import to_html

    return to_html(figure).encode()
