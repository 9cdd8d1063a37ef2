"""The coverage screen's figure and tables, and the choice of a data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from crossner_core.evaluation.coverage import Coverage
from db.engine import Store
from pages import shell
from pages.components.charts import coverage_figure
from pages.components.html_report import HtmlReport, report_download
from pages.components.saved_figure import saved_figure
from workbench.accounts.actors import Actor
from workbench.campaigns import domains
from workbench.campaigns.campaigns import CampaignView
from workbench.data.datasets import DatasetView
from workbench.reports import coverage
from workbench.reports.coverage import CoverageView
from workbench.suggestions import gazetteers


def choose_gazetteer(names: Sequence[str], campaign: CampaignView | None = None) -> str | None:
    """Draw the choice of a gazetteer, at first the campaign's; None means the bundled sample alone."""
    own = campaign.gazetteer if campaign is not None else None
    return (
        st.selectbox(
            "Gazetteer",
            names,
            index=names.index(own) if own in names else 0,
            format_func=lambda name: f"{name}, then the bundled sample" if name else "the bundled sample alone",
            key=f"coverage:gazetteer:{campaign.id}" if campaign is not None else "coverage:gazetteer",
        )
        or None
    )


def dataset_view(actor: Actor, sets: Sequence[DatasetView], names: Sequence[str]) -> CoverageView | None:
    """Draw the choice of a data set, its split, its domain and a gazetteer; return the coverage."""
    named = {dataset.name: dataset for dataset in sets}
    first, second, third = st.columns(3)
    name = first.selectbox("Data set", list(named), key="coverage:set")
    dataset = named[name]
    splits = [part.split for part in dataset.splits]
    split = second.selectbox("Split", splits, index=len(splits) - 1, key=f"coverage:split:{name}")
    known = [domain.name for domain in domains.list_domains(shell.store(), actor)]
    own = known.index(dataset.domain_name) if dataset.domain_name in known else 0
    domain = third.selectbox("Domain", known, index=own, key=f"coverage:domain:{name}")
    gazetteer = choose_gazetteer(names)
    hashes = {view.name: view.hash for view in gazetteers.list_gazetteers(shell.store(), actor)}
    with st.spinner("Pre-annotating …"):
        return _looked_through(
            shell.store(),
            actor,
            name,
            dataset.created_at.isoformat(),
            split,
            domain,
            gazetteer,
            hashes.get(gazetteer or ""),
        )


@st.cache_data(max_entries=16, show_spinner=False)
def _looked_through(
    _store: Store,
    _actor: Actor,
    name: str,
    made: str,
    split: str,
    domain: str,
    gazetteer: str | None,
    gazetteer_hash: str | None,
) -> CoverageView:
    """Measure a split, cached by everything that decides the result."""
    return coverage.dataset_coverage(_store, _actor, name, split, gazetteer, domain=domain)


def draw(view: CoverageView, *, about: Sequence[str]) -> None:
    """Draw the overall figures in words, the bars by type, and the tables; `about` names the subject in the report."""
    table, overall = view.table, view.table.overall
    report = HtmlReport("Coverage", about)
    if table.sentences < view.total:
        words = f"The first {table.sentences:,} of {view.total:,} gold sentences were looked through."
        st.caption(words)
        report.text(words, caption=True)
    parts = (
        (_percent(overall.found, overall.gold), "of gold found"),
        (_percent(overall.correct, overall.gold), "with the right type"),
        (_percent(overall.correct, overall.suggested), "precision"),
    )
    st.markdown(" · ".join(f"**{share}** {words}" for share, words in parts))
    report.text(" · ".join(f"{share} {words}" for share, words in parts))
    counted = (
        f"{overall.gold:,} gold entities in {table.sentences:,} sentences, {overall.suggested:,} suggestions. CrossNER "
        "reports 63.64 % found over its five domains. In the figure, full colour is found with the right type, faint "
        "with another; the number of gold entities is in brackets."
    )
    st.caption(counted)
    report.text(counted, caption=True)
    if not overall.gold and not overall.suggested:
        return
    titles = view.domain.titles
    colours = {titles[kind.name]: kind.color for kind in view.domain.types}
    rows = {titles.get(name, name): row for name, row in table.per_type.items()}
    figure, by_type = coverage_figure(rows, colours), coverage_table(rows, "type")
    saved_figure(figure, by_type, name="coverage")
    _table(by_type)
    report.figure(figure)
    report.table(by_type)
    if len(table.per_source) > 1:
        words = "By source; found and right are shares of all gold entities."
        by_source = coverage_table(table.per_source, "source")
        st.caption(words)
        _table(by_source)
        report.text(words)
        report.table(by_source)
    report_download(lambda: report, name="coverage")


def _table(rows: pd.DataFrame) -> None:
    columns = {name: st.column_config.NumberColumn(format="%.1f") for name in rows.columns if name.endswith("%")}
    st.dataframe(rows, hide_index=True, placeholder="–", height="content", column_config=columns)


def coverage_table(rows: Mapping[str, Coverage], what: str) -> pd.DataFrame:
    """List counts and shares in percent, a row a type or source; a share of nothing is left empty."""
    return pd.DataFrame(
        [
            {
                what: name,
                "gold": row.gold,
                "found": row.found,
                "found, %": _share(row.found, row.gold),
                "right": row.correct,
                "right, %": _share(row.correct, row.gold),
                "suggested": row.suggested,
                "precision, %": _share(row.correct, row.suggested),
            }
            for name, row in rows.items()
        ]
    )


def _share(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 1) if whole else None


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"
