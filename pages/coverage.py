"""Coverage: how much of the gold pre-annotation finds, by entity type."""

from __future__ import annotations

import streamlit as st

from pages import shell
from pages.components.marked_text import as_text
from pages.parts.corpus import coverage_tables
from workbench.accounts.roles import OVERSEERS
from workbench.data import datasets
from workbench.reports import coverage
from workbench.suggestions import gazetteers

_STANDING, _AFRESH, _SET = "The campaign's suggestions", "The campaign, pre-annotated again", "A data set"
_HELP = """
**Found** are gold entities whose exact tokens were suggested, with any type; CrossNER calls their share
*pre-annotated*. **Right** are those suggested with gold's type, too. **Precision** is the share of suggestions with
gold's boundaries and type.

*The campaign's suggestions* are those people were shown, including a model's; where people accepted them, gold is
biased towards them. *Pre-annotated again* uses a gazetteer and the bundled sample, and stores nothing. So does *a data
set*, whose gold was not made from suggestions.
"""

actor = shell.signed_in(*OVERSEERS)
shell.header("Coverage", "How much of the gold does pre-annotation find, and is it right?", help=_HELP)
with shell.shown_errors():
    campaign = shell.current_campaign(actor)
    sets = datasets.list_datasets(shell.store(), actor)
    ways = [*([_STANDING, _AFRESH] if campaign is not None else []), *([_SET] if sets else [])]
    if not ways:
        st.info("There is neither a campaign nor a data set yet. Import one under Sentences, or by command:")
        st.code("workbench import FOLDER --dataset NAME --domain DOMAIN", language=None, wrap_lines=True)
        st.stop()
    way = st.segmented_control("Compare", ways, default=ways[0], key="coverage:way", required=True)
    names = ["", *(view.name for view in gazetteers.list_gazetteers(shell.store(), actor) if not view.problem)]
    view = None
    if way == _STANDING and campaign is not None:
        view = coverage.campaign_coverage(shell.store(), actor, campaign.id)
    elif way == _AFRESH and campaign is not None:
        name = coverage_tables.choose_gazetteer(names, campaign)
        with st.spinner("Pre-annotating …"):
            view = coverage.campaign_coverage_afresh(shell.store(), actor, campaign.id, name)
    elif way == _SET:
        view = coverage_tables.dataset_view(actor, sets, names)
    if view is not None and not view.total:
        st.info("There is no gold yet: nothing to compare with.")
    elif view is not None:
        for problem in view.problems:
            st.warning(as_text(problem))
        named = st.session_state["coverage:set"] if way == _SET or campaign is None else campaign.name
        coverage_tables.draw(view, about=[named, way])
