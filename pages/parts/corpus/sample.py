"""Sample sentences of a corpus into a campaign: the plan, what it would add at this moment, and the button."""

from __future__ import annotations

import streamlit as st

from crossner_core.domains import Domain
from crossner_core.errors import InvalidConfig
from db.engine import Store
from pages import shell
from pages.components.corpus_sentences import corpus_list
from pages.components.marked_text import as_text
from pages.parts.corpus.look import domain_of
from workbench.accounts.actors import Actor
from workbench.campaigns.campaigns import CampaignView
from workbench.data import sampling
from workbench.data.corpora import CorpusView
from workbench.data.sampling import SamplingPlan, SamplingPreview, SamplingReport, plan_options

_OPTIONS = plan_options()


def sample_view(actor: Actor, one: CorpusView) -> None:
    """Draw the plan and a preview of its result; add the sentences on request."""
    campaign = shell.current_campaign(actor)
    if campaign is None:
        st.info("There is no campaign yet. Make one under New campaign.")
        return
    domain = campaign.domain
    plan = _plan(one, campaign, domain)
    if plan is None:
        return
    with st.spinner("Drawing …", show_time=True):
        shown = _preview(shell.store(), actor, campaign.id, campaign.sentences, one.name, one.hash, plan)
    with st.container(horizontal=True, vertical_alignment="center"):
        most = "up to " if not shown.report.complete else ""
        many = plan.count if most else shown.report.added
        pressed = st.button(
            f"Add {most}{many:,} sentences to {as_text(campaign.name)}", type="primary", disabled=not shown.report.added
        )
        st.caption(as_text(_expected(shown.report, plan)))
    if pressed:
        with st.spinner("Adding …"):
            done = sampling.sample_into_campaign(shell.store(), actor, campaign.id, one.name, plan)
        shell.note(as_text(_done(done, campaign, plan)))
        st.rerun()
    if shown.first:
        st.caption(f"The first {len(shown.first)} of them:")
        st.html(corpus_list(shown.first, domain_of(one)))


@st.cache_data(max_entries=32, ttl=600, show_spinner=False)
def _preview(
    _store: Store, _actor: Actor, campaign: int, sentences: int, corpus: str, corpus_hash: str, plan: SamplingPlan
) -> SamplingPreview:
    """Preview a draw, cached by what decides it: the campaign with its number of sentences, the corpus, the plan."""
    return sampling.preview(_store, _actor, campaign, corpus, plan)


def _plan(corpus: CorpusView, campaign: CampaignView, domain: Domain) -> SamplingPlan | None:
    """Draw the fields of the plan and return it; if it is invalid, show why and return None."""
    first = st.columns(4)
    count = first[0].number_input("Sentences", 1, sampling.MOST, 100, help=_doc("count"), key="sample:count")
    seed = first[1].number_input("Seed", 0, 2**31 - 1, 0, help=_doc("seed"), key="sample:seed")
    split = first[2].selectbox("Split", sampling.INTO, help=_doc("split"), key=f"sample:split:{campaign.id}")
    page = first[3].number_input("Maximum per page", 0, 10_000, 0, help=_doc("per_page"), key="sample:per_page")
    filters = st.expander("Filters: length, links, similarity, text and types", key="sample:filters")
    second = filters.columns(4)
    low = second[0].number_input("Minimum tokens", 1, 10_000, 5, help=_doc("min_tokens"), key="sample:min_tokens")
    high = second[1].number_input("Maximum tokens", 1, 10_000, 80, help=_doc("max_tokens"), key="sample:max_tokens")
    links = second[2].number_input("Minimum links", 0, 1000, 0, help=_doc("min_links"), key="sample:min_links")
    share = second[3].number_input(
        "Similarity threshold, %", 30, 100, 80, step=5, help=_doc("threshold"), key="sample:threshold"
    )
    third = filters.columns(3)
    text = third[0].text_input("Sentence contains", max_chars=200, help=_doc("text"), key="sample:text")
    title = third[1].text_input("Page title contains", max_chars=200, help=_doc("title"), key="sample:title")
    section = third[2].text_input("Section contains", max_chars=200, help=_doc("section"), key="sample:section")
    mentions, types = 0, list[str]()
    if corpus.domain is not None:
        fourth = filters.columns([1, 3])
        mentions = fourth[0].number_input(
            "Minimum suggestions", 0, 1000, 0, help=_doc("min_mentions"), key="sample:min_mentions"
        )
        types = fourth[1].multiselect(
            "Types of suggestions",
            domain.type_names,
            format_func=domain.titles.__getitem__,
            placeholder="any",
            help=_doc("types"),
            key=f"sample:types:{campaign.id}",
        )
    try:
        return SamplingPlan(
            count=count,
            seed=seed,
            split=split,
            min_tokens=low,
            max_tokens=high,
            min_links=links,
            min_mentions=mentions,
            types=tuple(types),
            text=text.strip(),
            title=title.strip(),
            section=section.strip(),
            per_page=page,
            threshold=share / 100,
        )
    except InvalidConfig as error:
        st.error(as_text(str(error)))
        return None


def _doc(name: str) -> str:
    words = _OPTIONS[name][1]
    return words[0].upper() + words[1:] + "."


def _expected(report: SamplingReport, plan: SamplingPlan) -> str:
    looked = f"{report.considered:,} sentences considered"
    if report.considered < report.total:
        looked = f"the first {report.considered:,} of {report.total:,} sentences considered"
    parts = [looked, f"{report.fitting:,} match the filters"]
    if report.added < plan.count and report.complete:
        parts.append(f"only {report.added:,} can be added")
    return " · ".join([*parts, *_out(report)])


def _out(report: SamplingReport) -> list[str]:
    out = {name: many for name, many in {**report.left_out, **report.repeated}.items() if many}
    return [f"left out: {', '.join(f'{name} {many:,}' for name, many in out.items())}"] if out else []


def _done(report: SamplingReport, campaign: CampaignView, plan: SamplingPlan) -> str:
    came = f" with {report.suggestions:,} suggestions from the corpus" if report.suggestions else ""
    return f"{report.added:,} sentences were added to the {plan.split} of {campaign.name}{came}. {report.note}".strip()
