"""Suggestions that a person made for all hits of a search at once, without looking at each in its sentence."""

from __future__ import annotations

from crossner_core.suggest.base import SuggestionSource, register

SEARCH = register(
    SuggestionSource(
        id="search",
        title="Proposed from a search",
        cost="nothing: a person proposes them",
        kinds={"search": "a search"},
        from_people=True,
    )
)
