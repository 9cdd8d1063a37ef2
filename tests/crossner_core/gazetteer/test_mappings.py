"""The reader of DBpedia's infobox mappings and the choice of a class."""

from __future__ import annotations

import bz2
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from crossner_core.errors import BadInput
from crossner_core.gazetteer.infoboxes import InfoboxMappings, read_mappings, template_title
from crossner_core.gazetteer.ontology import BUILTIN, ClassTree, read_ontology

FERRY = """<!-- {{TemplateMapping | mapToClass = Wrong}} -->
{{TemplateMapping
| mapToClass = Ship <!-- or a service? -->
| mappings =
  {{PropertyMapping | templateProperty = name | ontologyProperty = foaf:name }}
  {{IntermediateNodeMapping | nodeClass = Voyage | mappings = {{PropertyMapping | templateProperty = a }} }}
}}"""
CREW = """{{ConditionalMapping
| cases =
  {{Condition | templateProperty = $TemplateName | operator = equals | value = Infobox choir
    | mapping = {{TemplateMapping | mapToClass = Band }} }}
  {{Condition | templateProperty = members | operator = isSet | mapping = {{TemplateMapping | mapToClass = Band }} }}
  {{Condition | templateProperty = job | operator = equals | value = Deck Hand
    | mapping = {{TemplateMapping | mapToClass = person }} }}
  {{Condition | templateProperty = job | operator = contains | value = paint
    | mapping = {{TemplateMapping | mapToClass = Painter }} }}
  {{Condition | templateProperty = job | operator = startsWith | value = x
    | mapping = {{TemplateMapping | mapToClass = Model }} }}
  {{Condition | templateProperty = job | operator = equals | value = x }}
  {{Condition | operator = otherwise | mapping = {{TemplateMapping | mapToClass = Artist }} }}
| defaultMappings =
  {{PropertyMapping | templateProperty = born | ontologyProperty = birthDate }}
}}"""
PAGES = {
    "Mapping en:Infobox ferry": FERRY,
    "Mapping en:Infobox crew": CREW,
    "Mapping en:Infobox old ferry": "#REDIRECT [[Mapping en:Infobox ferry]]",
    "Mapping en:Infobox choir": "#redirect [[Mapping en:Infobox_crew]]",
    "Mapping en:Infobox self": "#REDIRECT [[Mapping en:Infobox self]]",
    "Mapping en:See": "{{TemplateMapping | mapToClass = owl:Thing}}",
    "Mapping en:Boat-stub": "TODO {{TemplateMapping | mapToClass = dbo:Ship}}",
    "Mapping en:Infobox comet": "{{TemplateMapping | mapToClass = Cometoid }}",
    "Mapping en:Infobox odd": "{{TemplateMapping | mapToClass = 3 things! }}",
    "Mapping en:Table/Crew": "{{TableMapping | mapToClass = Band }}",
    "Mapping en:Infobox none": "nothing here",
    "Template:Infobox ferry": "{{TemplateMapping | mapToClass = Wrong}}",
}


def export(pages: dict[str, str]) -> bytes:
    """Write pages as an export of a MediaWiki."""
    body = "".join(
        f"<page><title>{escape(title)}</title><ns>204</ns><revision><text>{escape(text)}</text></revision></page>"
        for title, text in pages.items()
    )
    return f'<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.8/">{body}</mediawiki>'.encode()


@pytest.fixture
def mappings(tmp_path: Path) -> InfoboxMappings:
    """The mappings of PAGES."""
    path = tmp_path / "Mapping_en.xml.bz2"
    path.write_bytes(bz2.compress(export(PAGES)))
    return read_mappings(path)


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("infobox_ferry ", "Infobox ferry"),
        ("Template: infobox ferry", "Infobox ferry"),
        ("subst:boat-stub", "Boat-stub"),
        ("Infobox song <!-- see -->", "Infobox song"),
        ("", ""),
    ],
)
def test_mappings_template_titles_are_normalised(name: str, title: str) -> None:
    assert template_title(name) == title


@pytest.mark.parametrize(
    ("template", "parameters", "cls"),
    [
        ("infobox_ferry", {}, "Ship"),
        ("Infobox FERRY", {}, "Ship"),
        ("Infobox old ferry", {}, "Ship"),
        ("boat-stub", {}, "Ship"),
        ("See", {}, None),
        ("Infobox unheard", {}, None),
        ("Infobox crew", {}, "Artist"),
        ("Infobox crew", {"members": "Jo, Al"}, "Band"),
        ("Infobox crew", {"members": "  "}, "Artist"),
        ("Infobox crew", {"job": "deck  hand"}, "Person"),
        ("Infobox crew", {"job": "Housepainter"}, "Painter"),
        ("Infobox crew", {"Job": "Housepainter"}, "Artist"),
        ("Infobox choir", {"job": "painter"}, "Band"),
        ("Infobox comet", {}, "Cometoid"),
    ],
)
def test_mappings_choose_a_class(
    mappings: InfoboxMappings, template: str, parameters: dict[str, str], cls: str | None
) -> None:
    assert mappings.class_of(template, parameters) == cls


def test_mappings_name_what_they_cannot_use(mappings: InfoboxMappings) -> None:
    said = "\n".join(mappings.problems)
    assert len(mappings.problems) == 5
    for part in ("startsWith", "has no mapping and is left out", "'3_things!'", "Infobox none", "Infobox self"):
        assert part in said
    assert mappings.is_conditional("infobox crew") and not mappings.is_conditional("Infobox ferry")
    assert mappings.unknown_classes(BUILTIN) == {"Cometoid": ("Infobox comet",)}
    assert mappings.mapped("Table/Crew") is None


def test_mappings_follow_the_redirects_of_a_dump_both_ways(mappings: InfoboxMappings) -> None:
    renamed = mappings.with_redirects(
        {"Ferry box": "Infobox ferry", "A": "B", "B": "A", "Infobox crew": "Infobox personnel", "Old": "Ferry box"}
    )
    assert renamed.class_of("ferry box") == renamed.class_of("Old") == "Ship"
    assert renamed.class_of("Infobox personnel", {"members": "x"}) == "Band"  # newer than the mappings
    assert renamed.class_of("A") is None and renamed.class_of("Infobox old ferry") == "Ship"
    assert mappings.class_of("Ferry box") is None


def test_mappings_refuse_what_is_none(tmp_path: Path) -> None:
    for name, data, says in (
        ("a.xml", b"<mediawiki><page>", "cannot be read as a MediaWiki export"),
        ("b.xml", export({"Ferry": FERRY}), "has no page"),
        ("c.xml.bz2", bz2.compress(export(PAGES))[:-30], "cut off or damaged"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(BadInput, match=says):
            read_mappings(tmp_path / name)
    with pytest.raises(BadInput, match="no such file"):
        read_mappings(tmp_path / "none.xml")


def test_mappings_of_the_real_wiki_are_read_whole(shared: Path) -> None:
    path = shared / "data" / "dbpedia" / "Mapping_en.xml.xz"
    if not path.is_file():
        pytest.skip(f"the mappings are not at {path}")
    real = read_mappings(path)
    # 764 pages: 3 are tables, 2 hold no mapping
    assert (len(real.cases), len(real.redirects), len(real.problems)) == (704, 55, 4)
    tree: ClassTree = read_ontology(shared / "data" / "dbpedia" / "ontology.owl.xz")
    assert real.unknown_classes(tree) == {}
    assert real.class_of("infobox musical artist", {"background": "solo_singer"}) == "MusicalArtist"
    assert real.class_of("Infobox musical artist", {"background": "group_or_band"}) == "Band"
    assert real.class_of("Infobox company", {"industry": "Financial services"}) == "Bank"
    assert real.class_of("Infobox Judge") == real.class_of("Infobox officeholder") is not None
    assert real.class_of("Infobox football biography", {"manageryears1": "1999"}) == "SoccerManager"
    assert real.class_of("Drugbox", {}) is not None and real.class_of("Authority control") is None
