"""Tiny dumps and gazetteers, all made up."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Iterable
from pathlib import Path

from crossner_core.gazetteer.building import build_from_dumps, build_from_facts
from crossner_core.gazetteer.compiled import CompiledGazetteer
from crossner_core.gazetteer.facts import Count, Fact, Label, Redirect, Typed
from crossner_core.gazetteer.manifest import Origin

RESOURCE, ONTOLOGY = "http://dbpedia.org/resource/", "http://dbpedia.org/ontology/"
TYPE, LABEL = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type", "http://www.w3.org/2000/01/rdf-schema#label"
REDIRECT = ONTOLOGY + "wikiPageRedirects"
FACTS = {
    "The Tin Gulls": "Band", "Mara Vell": "Singer", "Jonas Reik": "MusicalArtist", "Paper Lanterns": "Album",
    "Low Tide (song)": "Song", "Low Tide (ship)": "Ship", "Harbour Prize": "Award",
}  # fmt: skip
CONLL = b"Mara\tB-musicalartist\nVell\tI-musicalartist\nsang\tO\n\nLow\tB-song\nTide\tI-song\nsank\tO\n"
DOMAIN_TOML = """
name = "mini"
[[types]]
name = "person"
dbpedia = ["Person"]
[[types]]
name = "musicalartist"
parent = "person"
dbpedia = ["MusicalArtist"]
[[types]]
name = "organisation"
dbpedia = ["Organisation"]
[[types]]
name = "band"
dbpedia = ["Band"]
[[types]]
name = "album"
dbpedia = ["Album"]
[[types]]
name = "song"
dbpedia = ["Song", "Single"]
[[types]]
name = "location"
dbpedia = ["Place", "Location"]
[[types]]
name = "country"
dbpedia = ["Country"]
"""


def typed(page: str, cls: str = "Band") -> str:
    return f"<{RESOURCE}{page}> <{TYPE}> <{ONTOLOGY}{cls}> .\n"


def label(page: str, text: str, tag: str = "@en") -> str:
    return f'<{RESOURCE}{page}> <{LABEL}> "{text}"{tag} .\n'


def redirect(source: str, target: str) -> str:
    return f"<{RESOURCE}{source}> <{REDIRECT}> <{RESOURCE}{target}> .\n"


def write(path: Path, *lines: str | bytes) -> Path:
    """Write lines, packed by the file's suffix."""
    data = b"".join(line if isinstance(line, bytes) else line.encode() for line in lines)
    pack = {".bz2": bz2.compress, ".gz": gzip.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(data))
    return path


def as_line(fact: Fact) -> str:
    """Write a fact as a dump does; a Count has no line."""
    match fact:
        case Typed(entity, cls):
            return typed(entity.replace(" ", "_"), cls)
        case Label(entity, text):
            return label(entity.replace(" ", "_"), text)
        case Redirect(source, target):
            return redirect(source.replace(" ", "_"), target.replace(" ", "_"))
        case Count():
            return ""


def build(folder: Path, facts: Iterable[Fact], name: str = "tiny") -> CompiledGazetteer:
    """Build a gazetteer of facts and open it."""
    build_from_facts(facts, folder, name=name, origin=Origin("endpoint", address="http://example.org/sparql"))
    return CompiledGazetteer.open(folder)


def make_gazetteer(home: Path, name: str = "tiny") -> None:
    """Build a gazetteer of the invented pages into the home folder."""
    resource, ontology = "http://dbpedia.org/resource/", "http://dbpedia.org/ontology/"
    rdf = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
    lines = [f"<{resource}{page.replace(' ', '_')}> <{rdf}> <{ontology}{cls}> ." for page, cls in FACTS.items()]
    lines.append(f"<{resource}Vell> <{ontology}wikiPageRedirects> <{resource}Mara_Vell> .")
    (home / "facts.nt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    build_from_dumps([home / "facts.nt"], home / "gazetteers" / name, name=name)
