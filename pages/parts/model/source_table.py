"""The sources of a recipe or a run: what each lends, what becomes of its types, and where guidelines differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from crossner_core.training.recipe import Recipe
from crossner_core.training.settings.registry import needs_source
from crossner_core.training.sources import SourceLine
from pages import shell
from pages.components.marked_text import as_text
from workbench.accounts.actors import Actor
from workbench.runs.source_corpora import Source
from workbench.runs.source_preview import Contradiction, preview_sources

_COLUMNS = {
    "counts as": st.column_config.NumberColumn(format="localized", help="Sentences in an epoch of the source stage."),
    "sentences": st.column_config.NumberColumn(format="localized", help="Sentences to train on, each counted once."),
    "weight": st.column_config.NumberColumn(format="%.3g", help="How often a sentence counts in an epoch."),
    "entities": st.column_config.NumberColumn(format="localized"),
    "shared types": st.column_config.TextColumn(width="medium"),
    "apart": st.column_config.TextColumn(help="Types of its own: they teach the encoder, not the target's head."),
}


def with_sources(
    actor: Actor,
    values: Mapping[str, Any],
    sources: Sequence[Source],
    titles: Mapping[str, str],
    key: str,
    *,
    dataset_id: int | None = None,
    campaign_id: int | None = None,
) -> dict[str, Any]:
    """Draw what a recipe's sources are for a target; return its values with the types that were kept apart here."""
    chosen = dict(values)
    if not sources or not needs_source(values["setting"]) or "source" not in values:
        return chosen
    with shell.shown_errors():
        target = {"dataset_id": dataset_id, "campaign_id": campaign_id}
        view = preview_sources(shell.store(), actor, Recipe.from_dict(chosen), **target)
        table = st.container()
        if apart := _contradictions(view.contradictions, sources, titles, key):
            entries = [entry for entry in (chosen.get("source_types", ""), *apart) if entry]
            chosen["source_types"] = ", ".join(entries)
            view = preview_sources(shell.store(), actor, Recipe.from_dict(chosen), **target)
        with table:
            source_table(view.lines, titles, {source.name: source.words for source in sources})
            for warning in view.warnings:
                st.warning(as_text(warning))
    return chosen


def source_table(lines: Sequence[SourceLine], titles: Mapping[str, str], words: Mapping[str, str]) -> None:
    """Draw sources with what is shared, mapped and apart; `titles` are those of the target's types."""
    rows = []
    for line in lines:
        row = {
            "source": words.get(line.name, line.name).split(", ")[0],
            "sentences": line.sentences,
            "weight": line.weight,
            "counts as": line.counts,
        }
        if line.entities:
            row |= {"entities": line.entities}
        renamed = (f"{name} → {titles.get(ours, ours) or 'left out'}" for name, ours in line.mapped.items())
        row |= {
            "shared types": ", ".join(titles.get(name, name) for name in line.shared),
            "mapped": ", ".join(renamed),
            "apart": ", ".join(line.apart),
        }
        rows.append(row | ({"hash": line.hash} if line.entities else {}))
    st.dataframe(pd.DataFrame(rows), hide_index=True, column_config=_COLUMNS, placeholder="–")


def _contradictions(
    contradictions: Sequence[Contradiction], sources: Sequence[Source], titles: Mapping[str, str], key: str
) -> list[str]:
    """Draw types with both guidelines side by side; return what keeps those apart that were chosen here."""
    if not contradictions:
        return []
    words = {source.name: source.words.split(" · ")[0] for source in sources}
    count = f"{len(contradictions)} type{'s' * (len(contradictions) != 1)}"
    apart = []
    with st.expander(f"Guidelines differ: {count} of the same name", key=f"{key}-guidelines"):
        st.caption(
            "A source's type is learned as the target's if they have one name. Keep it apart where the texts "
            "contradict each other: it then trains as a type of its own."
        )
        for differing in contradictions:
            source, title = words.get(differing.source, differing.source), titles.get(differing.type, differing.type)
            ours, theirs, choice = st.columns([3, 3, 1])
            ours.markdown(f"**{as_text(title)}** here")
            ours.text(differing.here)
            theirs.markdown(f"**{as_text(title)}** in {as_text(source)}")
            theirs.text(differing.there)
            if differing.is_apart:
                choice.caption("Apart by *Source types*")
            elif choice.checkbox("Keep apart", key=f"{key}-apart-{differing.entry}", persist_state="session"):
                apart.append(differing.entry)
    return apart
