"""The two SPARQL queries of a look-up and the one reader of their results, for every source alike."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crossner_core.errors import InvalidConfig
from crossner_core.gazetteer.source import VIAS, Candidate, Via
from crossner_core.gazetteer.titles import ONTOLOGY, literal, resource_uri

RDFS_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
FOAF_NAME = "http://xmlns.com/foaf/0.1/name"
REDIRECTS = f"{ONTOLOGY}wikiPageRedirects"
_LANGUAGE = re.compile(r"[a-z]{2,8}(-[a-zA-Z0-9]{1,8})*\Z")

Answers = dict[str, tuple[Candidate, ...]]


@dataclass(frozen=True, slots=True)
class Query:
    """A query over a batch of names and, for each key its rows carry, the names that key answers."""

    text: str
    names_of: Mapping[str, tuple[str, ...]]

    @property
    def names(self) -> tuple[str, ...]:
        """Every name of the batch, once."""
        return tuple(dict.fromkeys(name for names in self.names_of.values() for name in names))


def check_language(language: str) -> str:
    """Return a language tag that may stand in a query; InvalidConfig for anything else."""
    if not _LANGUAGE.match(language):
        raise InvalidConfig(f"Language is {language!r}; give a tag such as en or pt-br.")
    return language


def _values(terms: Iterable[str], names: Sequence[str]) -> tuple[str, dict[str, tuple[str, ...]]]:
    """Group names by term; one duplicate in a VALUES list makes a Virtuoso endpoint hang."""
    grouped: dict[str, tuple[str, ...]] = {}
    for term, name in zip(terms, names, strict=True):
        grouped[term] = (*grouped.get(term, ()), name)
    return " ".join(grouped), grouped


def title_query(names: Sequence[str]) -> Query:
    """Ask for the classes of the pages named so, and of the pages they redirect to."""
    terms, grouped = _values((f"<{resource_uri(name)}>" for name in names), names)
    text = _union(
        f"VALUES ?title {{ {terms} }} ?title a ?class .",
        f"VALUES ?redirect {{ {terms} }} ?redirect <{REDIRECTS}> ?resource . ?resource a ?class .",
    )
    return Query(text, {term[1:-1]: found for term, found in grouped.items()})


def label_query(names: Sequence[str], language: str = "en") -> Query:
    """Ask for the classes of resources whose rdfs:label or foaf:name is the name."""
    terms, grouped = _values((literal(name, check_language(language)) for name in names), names)
    text = _union(
        f"VALUES ?label {{ {terms} }} ?resource <{RDFS_LABEL}> ?label . ?resource a ?class .",
        f"VALUES ?name {{ {terms} }} ?resource <{FOAF_NAME}> ?name . ?resource a ?class .",
    )
    return Query(text, {found[0]: found for found in grouped.values()})


def _union(*arms: str) -> str:
    """Write a query of arms, each with its own VALUES list; the variable an arm binds tells which it was.

    No BIND and no OPTIONAL: Virtuoso's compiler loses its way in both beside VALUES and UNION.
    """
    keep = f'FILTER(STRSTARTS(STR(?class), "{ONTOLOGY}"))'
    united = "\n  UNION ".join(f"{{ {arm} {keep} }}" for arm in arms)
    return f"SELECT DISTINCT ?{' ?'.join(VIAS)} ?resource ?class WHERE {{\n  {united}\n}}"


def read_rows(document: Any) -> list[dict[str, str]]:
    """Return the rows of SPARQL JSON results; ValueError if the document is anything else."""
    try:
        bindings = document["results"]["bindings"]
        return [{key: str(cell["value"]) for key, cell in row.items()} for row in bindings]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("no SPARQL results in the answer") from error


def read_answers(query: Query, rows: Iterable[Mapping[str, str]]) -> Answers:
    """Gather rows into candidates, sorted; every name of the batch is there, () where nothing was found."""
    classes: dict[tuple[Via, str, str], set[str]] = {}
    for row in rows:
        via = next((via for via in VIAS if row.get(via) in query.names_of), None)
        if via is not None and "class" in row:
            resource = row.get("resource", row[via])
            classes.setdefault((via, row[via], resource), set()).add(row["class"])
    best: dict[str, dict[str, Candidate]] = {name: {} for name in query.names}
    for (via, key, resource), found in sorted(classes.items(), key=lambda item: VIAS.index(item[0][0])):
        for name in query.names_of[key]:
            best[name].setdefault(resource, Candidate(resource, tuple(sorted(found)), via))
    return {name: tuple(sorted(found.values())) for name, found in best.items()}
