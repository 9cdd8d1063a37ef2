"""The gazetteer: names looked up in DBpedia, at an endpoint or in a file, and pre-annotation from what it says."""

from __future__ import annotations

from crossner_core.gazetteer.candidates import ScanningSource
from crossner_core.gazetteer.context import PageContext
from crossner_core.gazetteer.embedded import SAMPLE, EmbeddedSource
from crossner_core.gazetteer.explanation import ExplainedCandidate, Explanation
from crossner_core.gazetteer.matcher import ScanRules
from crossner_core.gazetteer.merge import Merged, merge
from crossner_core.gazetteer.preannotate import PreannotationConfig, Preannotator
from crossner_core.gazetteer.source import Cache, Candidate, MemoryCache, Source
from crossner_core.gazetteer.sparql import PUBLIC_ENDPOINT, SparqlSource

__all__ = [
    "PUBLIC_ENDPOINT",
    "SAMPLE",
    "Cache",
    "Candidate",
    "EmbeddedSource",
    "ExplainedCandidate",
    "Explanation",
    "MemoryCache",
    "Merged",
    "PageContext",
    "PreannotationConfig",
    "Preannotator",
    "ScanRules",
    "ScanningSource",
    "Source",
    "SparqlSource",
    "merge",
]
