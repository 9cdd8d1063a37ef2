"""A small compiled gazetteer of invented facts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from crossner_core.gazetteer.building import build_from_facts
from crossner_core.gazetteer.compiled import CompiledGazetteer
from crossner_core.gazetteer.facts import Count, Fact, Label, Redirect, Typed
from crossner_core.gazetteer.manifest import Origin


def compiled(
    folder: Path,
    pages: Mapping[str, tuple[str, ...]],
    *,
    redirects: Mapping[str, str] | None = None,
    counts: Mapping[str, int] | None = None,
) -> CompiledGazetteer:
    """Build and open a gazetteer of pages (title → classes), their titles as labels, and redirects."""
    facts: list[Fact] = [Typed(title, name) for title, names in pages.items() for name in names]
    facts += [Label(title, title) for title in pages]
    facts += [Redirect(source, target) for source, target in (redirects or {}).items()]
    facts += [Count(title, number) for title, number in (counts or {}).items()]
    build_from_facts(facts, folder, name="few", origin=Origin(kind="dump"))
    return CompiledGazetteer.open(folder)
