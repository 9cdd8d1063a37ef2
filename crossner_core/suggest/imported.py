"""Suggestions that came with a file: its annotation, which nobody here has looked at yet."""

from __future__ import annotations

from crossner_core.suggest.base import SuggestionSource, register

IMPORTED = register(
    SuggestionSource(
        id="imported",
        title="Imported annotation",
        cost="nothing: it comes with the file",
        kinds={"import": "imported file"},
        from_people=True,
    )
)
