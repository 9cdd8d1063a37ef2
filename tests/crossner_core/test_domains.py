from __future__ import annotations

import lzma
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossner_core.domains import Domain, EntityType, builtin_domains, domain_to_toml, load_domain, parse_domain
from crossner_core.domains.loader import COLORS, KEYS
from crossner_core.errors import InvalidDomain, NotFound, UnknownType
from crossner_core.formats import open_file

TYPES = {
    "politics": "politician person organisation politicalparty event election country location misc",
    "science": "scientist person university organisation country location discipline enzyme protein chemicalelement "
    "chemicalcompound astronomicalobject academicjournal event theory award misc",
    "music": "musicgenre song band album musicalartist musicalinstrument award event country location organisation "
    "person misc",
    "literature": "book writer award poem event magazine literarygenre person location organisation country misc",
    "ai": "field task product algorithm researcher metrics programlang conference university country person "
    "organisation location misc",
    "conll2003": "person location organisation misc",
}
SMALL = 'name = "toys"\n[[types]]\nname = "doll"\nkey = "d"\n[[types]]\nname = "ragdoll"\nparent = "doll"\n'


def test_domains_builtin_ones_are_the_six() -> None:
    assert builtin_domains() == tuple(sorted(TYPES))


@pytest.mark.parametrize("name", sorted(TYPES))
def test_domains_types_are_those_of_the_release(name: str) -> None:
    domain = load_domain(name)
    assert domain.name == name
    assert sorted(domain.type_names) == sorted(TYPES[name].split())
    assert domain.description


@pytest.mark.parametrize("name", sorted(TYPES))
def test_domains_keys_colors_and_guidelines_are_complete(name: str) -> None:
    types = load_domain(name).types
    assert len({one.key for one in types}) == len({one.color for one in types}) == len(types)
    for one in types:
        assert one.key in KEYS and 0 <= one.color < COLORS
        assert one.dbpedia, one.name
        assert "[" in one.guideline, f"{one.name} has no example"
        assert 20 <= len(one.guideline.split()) <= 90, f"{one.name}: {len(one.guideline.split())}"
        assert len(re.findall(r"[.?!](?:\s|$)", one.guideline)) >= 2, one.name


def test_domains_share_colors_and_keep_specialised_types_under_general_ones() -> None:
    colors: dict[str, set[int]] = {}
    for name in builtin_domains():
        for one in load_domain(name).types:
            colors.setdefault(one.name, set()).add(one.color)
    assert {name: found for name, found in colors.items() if len(found) > 1} == {}
    parents = {
        "politics": {
            "politician": "person",
            "politicalparty": "organisation",
            "election": "event",
            "country": "location",
        },
        "science": {"scientist": "person", "university": "organisation", "enzyme": "protein"},
        "music": {"musicalartist": "person", "band": "organisation"},
        "literature": {"writer": "person"},
        "ai": {"researcher": "person", "university": "organisation"},
    }
    for name, expected in parents.items():
        domain = load_domain(name)
        assert {child: domain.type(child).parent for child in expected} == expected


@pytest.mark.parametrize("name", sorted(TYPES))
def test_domains_toml_round_trip(name: str) -> None:
    domain = load_domain(name)
    again = parse_domain(domain_to_toml(domain), origin="again")
    assert again == domain == parse_domain(f"\ufeff{domain_to_toml(domain)}", origin="with a byte order mark")
    assert again.hash == domain.hash


@given(
    st.text(),
    st.text(st.sampled_from('ab \\"\n\t\x7f\u2028'), max_size=300),
    st.lists(st.text(), max_size=20, unique=True),
)
def test_domains_any_text_survives_toml(title: str, guideline: str, classes: list[str]) -> None:
    kept = tuple(one for one in classes if not one.startswith(("dbo:", "http")))
    try:
        f"{title}{guideline}{kept}".encode()
    except UnicodeEncodeError:
        return
    domain = Domain("x", title, guideline, (EntityType("a", title, None, "a", 0, kept, guideline),))
    assert parse_domain(domain_to_toml(domain), origin="again") == domain


def test_domains_hash_tells_definitions_apart() -> None:
    assert len({load_domain(name).hash for name in builtin_domains()}) == len(TYPES)
    assert parse_domain(SMALL, origin="a").hash != parse_domain(SMALL + 'guideline = "Mark."\n', origin="a").hash


def test_domains_titles_tell_types_with_one_title_apart() -> None:
    kinds = [
        EntityType(name, title, None, key, color, (), "")
        for color, (name, title, key) in enumerate(
            (("act", "artist", "a"), ("band", "artist", "b"), ("song", "song", "s"))
        )
    ]
    titles = Domain("small", "Small", "", tuple(kinds)).titles
    assert titles == {"act": "artist (act)", "band": "artist (band)", "song": "song"}


def test_domains_choose_key_and_color_where_left_out() -> None:
    domain = parse_domain(SMALL, origin="toys.toml")
    assert [(one.key, one.color, one.title) for one in domain.types] == [("d", 0, "doll"), ("r", 1, "ragdoll")]
    assert domain.ancestors("ragdoll") == ("doll",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name = "toys"', "no types"),
        ("name = ", "not TOML"),
        (SMALL + "colour = 3\n", "unknown keys colour; valid are name, title, parent, key, color, dbpedia, guideline"),
        ('kind = "x"\n' + SMALL, "unknown keys kind; valid are name, title, description, types"),
        (SMALL + 'key = "d"\n', "doll and ragdoll have the same key 'd'"),
        (SMALL + 'key = "?"\n', "taken by a command .* allowed are a-z and 1-9"),
        (SMALL + 'key = "0"\n', "taken by a command"),
        (SMALL + "color = 20\n", "from 0 to 19"),
        (SMALL + 'color = "red"\n', "from 0 to 19"),
        (SMALL + "color = true\n", "from 0 to 19"),
        (SMALL.replace('parent = "doll"', 'parent = "bear"'), "unknown parent 'bear'; types are doll, ragdoll"),
        (SMALL.replace('key = "d"', 'parent = "ragdoll"'), "cycle: doll → ragdoll → doll"),
        (SMALL.replace('name = "ragdoll"', 'name = "Rag Doll"'), "only small letters a-z and digits"),
        (SMALL.replace('name = "ragdoll"', 'name = "doll"'), "same name 'doll'"),
        (SMALL.replace('"toys"', '"To-ys"'), "only small letters"),
        (SMALL + 'dbpedia = "Doll"\n', "list of class names"),
        (SMALL + "title = 3\n", "title must be a string"),
        ('types = 3\nname = "x"', r"\[\[types\]\] tables"),
        ('name = "x"\n[[types]]\ntitle = "y"', "a type has no name"),
    ],
)
def test_domains_refuse_bad_definitions(text: str, message: str) -> None:
    with pytest.raises(InvalidDomain, match=f"^toys.toml: .*{message}"):
        parse_domain(text, origin="toys.toml")


def test_domains_unknown_names_are_answered_with_the_known() -> None:
    with pytest.raises(UnknownType, match="'singer'; it has musicgenre, song, band"):
        load_domain("music").type("singer")
    with pytest.raises(NotFound, match="ai, conll2003, literature, music, politics, science"):
        load_domain("sports")


@pytest.mark.parametrize("name", ["Band", "dbo:Band", "http://dbpedia.org/ontology/Band"])
def test_domains_type_for_class_takes_name_and_address(name: str) -> None:
    assert load_domain("music").type_for_class(name) == "band"
    assert load_domain("politics").type_for_class("http://example.org/Nothing") is None


def test_domains_name_only_real_dbpedia_classes(shared: Path) -> None:
    path = shared / "data" / "dbpedia" / "ontology.owl.xz"
    text = lzma.decompress(path.read_bytes()).decode()
    known = set(re.findall(r'owl:Class rdf:about="http://dbpedia\.org/ontology/([^"]+)"', text))
    for name in builtin_domains():
        for one in load_domain(name).types:
            assert set(one.dbpedia) <= known, f"{name} {one.name}"


@pytest.mark.parametrize("name", ["politics", "music", "ai", "conll2003"])
def test_domains_types_equal_the_tags_of_the_shared_files(shared: Path, name: str) -> None:
    found = {kind for path in (shared / "data" / "ner" / name).iterdir() for kind in open_file(path).type_names}
    assert found == set(load_domain(name).type_names)


@pytest.mark.parametrize("name", builtin_domains())
def test_domains_guidelines_call_types_by_their_titles(name: str) -> None:
    domain = load_domain(name)
    others = [kind.name for kind in domain.types if kind.name != kind.title]
    assert not [
        (kind.name, other) for kind in domain.types for other in others if re.search(rf"\b{other}\b", kind.guideline)
    ]
