"""Gazetteer: what a name may stand for, why a span was suggested, and which classes have no type."""

from __future__ import annotations

import streamlit as st

from pages import shell
from pages.components.marked_text import as_text
from pages.parts.corpus import lookup
from workbench.accounts.roles import EVERYONE, OVERSEERS
from workbench.campaigns import domains
from workbench.suggestions import gazetteers

_BUNDLED = ""
_HELP = """
A **gazetteer** lists names and the pages they may stand for, with the classes DBpedia gives each page. `workbench
gazetteer build` makes one from DBpedia's dumps, an endpoint, or a Wikipedia dump. Pre-annotation looks names up in the
campaign's gazetteer, then at its endpoint, then in the bundled sample.

**A sentence.** Every span that may be a name, the page chosen for it, and why the other candidates lost. Paste a
sentence, or choose one of the campaign's. Links may be written as in Wikipedia: `[[Page|words]]`.

**A name.** All pages it may stand for. The *way* shows how the name leads to the page; the *classes* lead from the
page's own class up to the one that the domain maps to an entity type.

**Classes without a type.** What the domain leaves out, on purpose or by mistake: classes with no path up to a class
that it maps.
"""

actor = shell.signed_in(*EVERYONE)
shell.header("Gazetteer", "Why was this span suggested, and what else might the name stand for?", help=_HELP)
with shell.shown_errors():
    known_gazetteers = gazetteers.list_gazetteers(shell.store(), actor)
    for gazetteer in known_gazetteers:
        if gazetteer.problem:
            st.warning(as_text(f"{gazetteer.name}: {gazetteer.problem}"))
    whole = {view.name: view for view in known_gazetteers if not view.problem}
    campaign = shell.current_campaign(actor)
    known = {domain.name: domain.title for domain in domains.list_domains(shell.store(), actor)}
    names = [*whole, _BUNDLED]
    own, kind = (campaign.gazetteer, campaign.domain_name) if campaign is not None else (None, "")
    # A choice made for one campaign does not carry over to the next.
    which = campaign.id if campaign is not None else ""
    left, right = st.columns(2)
    name = left.selectbox(
        "Gazetteer",
        names,
        index=names.index(own) if own in whole else 0,
        format_func=lambda name: name or lookup.SAMPLE,
        key=f"gazetteer:which:{which}",
    )
    domain_name = right.selectbox(
        "Domain",
        list(known),
        index=list(known).index(kind) if kind in known else 0,
        format_func=lambda name: known[name],
        key=f"gazetteer:domain:{which}",
    )
    domain = domains.get_domain(shell.store(), domain_name)
    lookup.counts_line(whole.get(name))
    views = ["A sentence", "A name"]
    if actor.role in OVERSEERS and name:
        views.append("Classes without a type")
    view = st.segmented_control(
        "View", views, default=views[0], key="gazetteer:view", required=True, label_visibility="collapsed"
    )
    if view == "A name":
        lookup.name_view(actor, name or None, domain)
    elif view == "A sentence":
        lookup.sentence_view(actor, name or None, domain, campaign)
    elif name:
        lookup.classes_view(actor, name, domain)
