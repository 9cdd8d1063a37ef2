"""Suggestions from links, a page's repeated names and names in the text, looked up in gazetteers and at an endpoint.

They are one source: a name is taken from the first gazetteer that contains it, and links determine what remains to be
scanned.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crossner_core.errors import WorkbenchError
from crossner_core.suggest.base import Resources, Suggester, SuggestionSource, register

if TYPE_CHECKING:
    from crossner_core.gazetteer.lookup import Source


@dataclass(frozen=True, slots=True)
class GazetteerSettings:
    """What is queried before the bundled sample."""

    gazetteer: str | None = field(
        default=None,
        metadata={"doc": "Asked first. `workbench gazetteer build` makes one from DBpedia or Wikipedia."},
    )
    endpoint: str | None = field(
        default=None,
        metadata={
            "doc": "An address such as https://dbpedia.org/sparql; the worker asks it for what the gazetteer does not "
            "know."
        },
    )


def gazetteer_sources(settings: GazetteerSettings, resources: Resources) -> list[Source]:
    """Return the gazetteer, the endpoint and the sample, in this order; one that cannot be opened is reported."""
    from crossner_core.gazetteer.compiled import CompiledGazetteer
    from crossner_core.gazetteer.lookup import EmbeddedSource, SparqlSource

    sources: list[Source] = []
    if settings.gazetteer is not None:
        try:
            sources.append(CompiledGazetteer.open(resources.folder_of("gazetteer", settings.gazetteer)))
        except WorkbenchError as error:
            resources.on_problem(str(error))
    if settings.endpoint is not None:
        sources.append(SparqlSource(settings.endpoint, resources.cache, rng=random.Random(resources.seed)))
    return [*sources, EmbeddedSource()]


def open_gazetteers(settings: GazetteerSettings, resources: Resources) -> Suggester:
    """Look links and names up in the sources."""
    from crossner_core.gazetteer.preannotate import Preannotator

    sources = gazetteer_sources(settings, resources)
    return Preannotator(sources, resources.domain, on_problem=resources.on_problem).suggest


GAZETTEER = register(
    SuggestionSource(
        id="gazetteer",
        title="Links and gazetteers",
        cost="under a millisecond; with an endpoint, its answer to every new name",
        kinds={"link": "link", "page": "named before on the page", "dbpedia": "gazetteer"},
        settings=GazetteerSettings,
        open=open_gazetteers,
    )
)
