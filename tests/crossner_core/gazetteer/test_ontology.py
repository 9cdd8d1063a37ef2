"""The class tree, the reader of the ontology's file, and the report of classes that fall through."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pytest

from crossner_core.domains import Domain, builtin_domains, load_domain, parse_domain
from crossner_core.errors import BadInput
from crossner_core.gazetteer.classes import class_rows, fall_through, specific_types, type_of_class
from crossner_core.gazetteer.ontology import BUILTIN, ClassTree, read_ontology

DBO = "http://dbpedia.org/ontology/"
OWL = f"""<?xml version="1.0" encoding="UTF-8"?>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:owl="http://www.w3.org/2002/07/owl#"
         xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#">
  <owl:Ontology rdf:about="{DBO}"/>
  <owl:Class rdf:about="{DBO}Vessel">
    <rdfs:label xml:lang="en">vessel</rdfs:label>
    <rdfs:subClassOf rdf:resource="http://www.w3.org/2002/07/owl#Thing"/>
    <owl:equivalentClass rdf:resource="{DBO}Boat"/>
  </owl:Class>
  <owl:Class rdf:about="{DBO}Ferry">
    <rdfs:subClassOf rdf:resource="{DBO}vessel"/>
    <rdfs:subClassOf rdf:resource="{DBO}Service"/>
    <rdfs:subClassOf rdf:resource="http://schema.org/Product"/>
  </owl:Class>
  <rdf:Description rdf:about="{DBO}Service">
    <rdf:type rdf:resource="http://www.w3.org/2002/07/owl#Class"/>
  </rdf:Description>
  <owl:Class rdf:about="http://example.org/Other"/>
  <owl:Class rdf:about="{DBO}Lost"><rdfs:subClassOf rdf:resource="{DBO}Nowhere"/></owl:Class>
  <owl:ObjectProperty rdf:about="{DBO}captain"/>
</rdf:RDF>
"""
TREE = ClassTree.of(
    {"Vessel": (), "Ferry": ("Vessel", "Service"), "Service": (), "CarFerry": ("Ferry",), "Rowboat": ("Vessel",)},
    source="test",
)
PORT = parse_domain(
    """
name = "port"
[[types]]
name = "vessel"
dbpedia = ["Vessel"]
[[types]]
name = "ferry"
parent = "vessel"
dbpedia = ["Ferry"]
""",
    origin="port",
)


@pytest.mark.parametrize(
    ("suffix", "pack"), [("", bytes), (".xz", lzma.compress), (".bz2", bz2.compress), (".gz", gzip.compress)]
)
def test_ontology_reads_rdf_xml_plain_and_packed(tmp_path: Path, suffix: str, pack: object) -> None:
    path = tmp_path / f"ontology.owl{suffix}"
    path.write_bytes(pack(OWL.encode()))  # type: ignore[operator]
    tree = read_ontology(path)
    assert tree.parents == {"Ferry": ("Vessel", "Service"), "Lost": (), "Service": (), "Vessel": ()}
    assert tree.source == path.name
    assert tree.problems == (
        "Ferry: its parent vessel is read as Vessel",
        "Lost: its parent Nowhere is not a class of the ontology and is left out",
    )


@pytest.mark.parametrize("suffix", [".nt", ".ttl"])
def test_ontology_reads_triples(tmp_path: Path, suffix: str) -> None:
    kind, below = (
        "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>",
        "<http://www.w3.org/2000/01/rdf-schema#subClassOf>",
    )
    path = tmp_path / f"o{suffix}"
    path.write_text(
        f"<{DBO}Ferry> {kind} <http://www.w3.org/2002/07/owl#Class> .\n<{DBO}Ferry> {below} <{DBO}Vessel> .\n"
        f"<{DBO}Vessel> {kind} <http://www.w3.org/2002/07/owl#Class> .\n_:b {kind} _:c .\n"
        f"<{DBO}Vessel> {below} <http://www.w3.org/2002/07/owl#Thing> .\n<{DBO}Vessel> {below} _:r .\n"
    )
    assert read_ontology(path).parents == {"Ferry": ("Vessel",), "Vessel": ()}


def test_ontology_refuses_what_is_none(tmp_path: Path) -> None:
    bad = {
        "o.csv": (b"", r"ends in \.owl"),
        "o.owl": (b"<rdf:RDF", "cannot be read as an ontology"),
        "empty.owl": (b"<a/>", "holds no class"),
        "o.nt": (b"<a> <b>\n", "cannot be read as an ontology"),
        "o.owl.xz": (lzma.compress(OWL.encode())[:-40], "cut off or damaged"),
        "o.owl.bz2": (bz2.compress(OWL.encode())[:-9], "cut off or damaged"),
        "p.owl.bz2": (b"no bz2 at all", "cut off or damaged"),
        "o.owl.gz": (gzip.compress(OWL.encode())[:-20], "cut off or damaged"),
    }
    for name, (data, says) in bad.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(BadInput, match=says):
            read_ontology(tmp_path / name)
    with pytest.raises(BadInput, match="no such file"):
        read_ontology(tmp_path / "none.owl")
    with pytest.raises(BadInput, match="cannot be read"):
        (tmp_path / "folder.owl").mkdir()
        read_ontology(tmp_path / "folder.owl")


def test_class_tree_cuts_cycles_and_says_so() -> None:
    tree = ClassTree.of({"A": ("B",), "B": ("C",), "C": ("A",), "D": ("D", "A")}, source="t")
    assert len(tree.problems) == 2 and all("a cycle" in problem for problem in tree.problems)
    assert set(tree.ancestors("D")) == {"A", "B", "C"} and "A" not in tree.ancestors("A")
    assert tree.depth("D") == 3
    raw = ClassTree({"A": ("B",), "B": ("A",)})  # not made by `of`: still no endless loop
    assert raw.ancestors("A") == ("B",) and raw.depth("A") == 2


def test_class_tree_climbs_all_parents_nearest_first() -> None:
    assert TREE.ancestors("CarFerry") == ("Ferry", "Vessel", "Service")
    assert TREE.depth("CarFerry") == 2 and TREE.depth("Vessel") == 0 and TREE.depth("Unheard") == 0
    assert TREE.known("Ferry") and not TREE.known("Thing") and TREE.ancestors("Unheard") == ()
    assert TREE.descendants(["Vessel"]) == ("CarFerry", "Ferry", "Rowboat", "Vessel")
    assert TREE.descendants(["Unheard"]) == ()


def test_class_tree_survives_json() -> None:
    again = ClassTree.from_json(json.loads(json.dumps(TREE.to_json())))
    assert again == TREE
    for bad in ({}, [], {"source": "x", "parents": 3}, {"source": "x", "parents": {"A": 4}}, None):
        with pytest.raises(BadInput, match="build the gazetteer again"):
            ClassTree.from_json(bad)


def test_classes_fall_to_the_nearest_mapped_class() -> None:
    assert type_of_class("CarFerry", PORT, TREE) == "ferry"
    assert type_of_class(f"{DBO}Rowboat", PORT, TREE) == "vessel"
    assert type_of_class("Service", PORT, TREE) is None and type_of_class("Thing", PORT, TREE) is None
    assert specific_types(["CarFerry", "Vessel", "Submarine", "owl:Thing"], PORT, TREE) == ("ferry",)


def test_classes_report_says_what_falls_through_and_what_to_do() -> None:
    tree = ClassTree.of(
        {**TREE.parents, "Fog": ("Weather",), "Sleet": ("Weather",), "Weather": (), "Chart": ()}, source="test"
    )
    counts = {"Fog": 5, "CarFerry": 9, "Service": 7, "Submarine": 2, "Thing": 11, "Sleet": 1, "Chart": 1}
    rows = class_rows(counts, PORT, tree)
    assert [row.cls for row in rows] == ["Thing", "CarFerry", "Service", "Fog", "Submarine", "Chart", "Sleet"]
    ferry = rows[1]
    assert (ferry.via, ferry.type, ferry.known, ferry.entities, ferry.suggestion) == ("Ferry", "ferry", True, 9, "")
    fallen = {row.cls: row for row in fall_through(counts, PORT, tree)}
    assert set(fallen) == set(counts) - {"CarFerry"}
    assert not fallen["Submarine"].known and "not in the ontology (test)" in fallen["Submarine"].suggestion
    assert "the domain maps Ferry below it" in fallen["Service"].suggestion
    assert "Weather, which is above 2" in fallen["Fog"].suggestion
    assert fallen["Chart"].suggestion == "map it if the domain needs it"
    assert "too general to map" in fallen["Thing"].suggestion


@pytest.mark.parametrize("name", builtin_domains())
def test_ontology_bundled_tree_has_every_class_of_the_domains(name: str) -> None:
    domain: Domain = load_domain(name)
    assert [cls for kind in domain.types for cls in kind.dbpedia if not BUILTIN.known(cls)] == []
    assert BUILTIN.problems == ()


def test_ontology_bundled_tree_contradicts_the_real_one_nowhere(shared: Path) -> None:
    path = shared / "data" / "dbpedia" / "ontology.owl.xz"
    if not path.is_file():
        pytest.skip(f"the ontology is not at {path}")
    real = read_ontology(path)
    assert len(real.parents) == 790
    bundled = frozenset(BUILTIN.parents)
    assert bundled <= frozenset(real.parents)
    for name in sorted(bundled):
        assert BUILTIN.parents[name] == real.parents[name], name
        assert BUILTIN.ancestors(name) == real.ancestors(name), name
    assert len(real.problems) == 5 and all("its parent" in problem for problem in real.problems)
    assert ClassTree.from_json(real.to_json()).parents == real.parents
