"""One domain to read: its types in their colours, with key, parent, DBpedia classes and guideline."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import streamlit as st

from crossner_core.domains import Domain, EntityType
from pages import shell
from pages.components.marked_text import as_text, type_chip
from workbench.accounts.actors import Actor
from workbench.campaigns import domains
from workbench.campaigns.domains import DomainView

_WHICH = "domains:which"
_STYLE = """<style>
.types{display:grid;gap:0}
.types>div{display:grid;grid-template-columns:11em 11.5em 1fr;gap:.15em 1em;padding:.5em 0;border-top:1px solid #8884}
.types p{margin:0;line-height:1.45;overflow-wrap:anywhere}
.types .small{font-size:.85em;opacity:.8}
.types kbd{border:1px solid currentColor;border-radius:4px;padding:0 .35em;font-size:.85em;margin-inline-end:.5em}
@media(max-width:640px){.types>div{grid-template-columns:1fr}}
</style>"""


def read_view(actor: Actor, known: Sequence[DomainView]) -> None:
    """Draw the choice of a domain, and the one chosen."""
    named = {view.name: view for view in known}
    campaign = shell.current_campaign(actor)
    if _WHICH not in st.session_state and campaign is not None and campaign.domain_name in named:
        st.session_state[_WHICH] = campaign.domain_name
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox("Domain", list(named), format_func=lambda name: _title(named[name]), key=_WHICH)
        toml = domains.get_toml(shell.store(), actor, chosen)
        st.download_button(
            "Download TOML", toml, file_name=f"{chosen}.toml", mime="application/toml", on_click="ignore"
        )
        gone = named[chosen].can_be_deleted and st.button("Delete")
    with shell.shown_errors():
        if gone:
            domains.delete_domain(shell.store(), actor, chosen)
            shell.note(f"The domain {chosen} is deleted.")
            st.rerun()
    domain = domains.get_domain(shell.store(), chosen)
    st.text(domain.description)
    used = named[chosen].used_by
    st.caption(as_text(f"{len(domain.types)} types. " + (f"Used by {', '.join(used)}." if used else "Not in use.")))
    draw_types(domain)


def _title(view: DomainView) -> str:
    return f"{view.title} ({view.name}, {'built in' if view.is_builtin else 'own'})"


def draw_types(domain: Domain) -> None:
    """Draw every type on a row of its own; a narrow screen stacks it."""
    st.html(f'{_STYLE}<div class="types" role="list">{"".join(_row(domain, kind) for kind in domain.types)}</div>')


def _row(domain: Domain, kind: EntityType) -> str:
    above = " → ".join(domain.type(name).title for name in domain.ancestors(kind.name))
    parent = f"<p class='small'>a kind of {escape(above)}</p>" if above else ""
    classes = f"<p class='small'>DBpedia: {escape(', '.join(kind.dbpedia))}</p>" if kind.dbpedia else ""
    return (
        f'<div role="listitem"><p>{type_chip(kind)}</p><div><p><kbd>{escape(kind.key)}</kbd>{escape(kind.name)}</p>'
        f"{parent}</div><div><p>{escape(kind.guideline) or '–'}</p>{classes}</div></div>"
    )
