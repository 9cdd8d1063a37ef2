"""Names, the class tree, the choice of a type, and the embedded file as a source."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from pyoxigraph import NamedNode, Store

from crossner_core.domains import Domain
from crossner_core.errors import BadInput
from crossner_core.gazetteer import lookup
from crossner_core.gazetteer.classes import specific_types
from crossner_core.gazetteer.lookup import SAMPLE, EmbeddedSource
from crossner_core.gazetteer.ontology import BUILTIN
from crossner_core.gazetteer.titles import detokenise, is_askable, resource_uri, strip_suffix, title_of
from tests.support.gazetteers.sparql_servers import (
    DBO,
    DBR,
    FOAF_NAME,
    RDF_TYPE,
    RDFS_LABEL,
    oxigraph,
    serve,
    source,
    triples,
)


def sample(path: Path, data: bytes) -> EmbeddedSource:
    """Write a gazetteer file and open it."""
    path.write_bytes(data)
    return EmbeddedSource(path)


@pytest.mark.parametrize(
    ("name", "uri"),
    [
        ("Queen (band)", "Queen_(band)"),
        ("queen  (band)", "Queen_(band)"),
        ("Who's Next", "Who's_Next"),
        ("AC/DC", "AC/DC"),
        ("What's Going On?", "What's_Going_On%3F"),
        ("100% Pure", "100%25_Pure"),
        ("Café", "Café"),
        ("Cafe\u0301", "Café"),
        ("\u00e9lan", "\u00c9lan"),
        ("\ufff0", "%EF%BF%B0"),
    ],
)
def test_gazetteer_resource_uri_follows_the_title_rule(name: str, uri: str) -> None:
    assert resource_uri(name) == DBR + uri


def test_gazetteer_titles_of_link_targets() -> None:
    assert title_of("queen_(band)#History") == "Queen (band)"
    assert title_of(":Category talk") == "Category talk"
    assert not is_askable("#History") and not is_askable("_ _")


@pytest.mark.parametrize(
    ("title", "alias"),
    [("Queen (band)", "Queen"), ("Queen", None), ("(What's the Story) Morning Glory?", None), ("()", None)],
)
def test_gazetteer_suffix_is_stripped_to_an_alias(title: str, alias: str | None) -> None:
    assert strip_suffix(title) == alias


@pytest.mark.parametrize(
    ("surface", "name"),
    [
        ("Wham !", "Wham!"),
        ("Los Angeles , California", "Los Angeles, California"),
        ("Sgt. Pepper 's", "Sgt. Pepper's"),
        ("( What ) Glory ?", "(What) Glory?"),
        ("Plain Name", "Plain Name"),
    ],
)
def test_gazetteer_spaces_of_a_corpus_are_undone(surface: str, name: str) -> None:
    assert detokenise(surface) == name


def test_gazetteer_class_tree_climbs_nearest_first() -> None:
    assert BUILTIN.ancestors("Guitarist")[:4] == ("Instrumentalist", "MusicalArtist", "Artist", "Person")
    assert BUILTIN.ancestors("Band") == ("Group", "Organisation", "Agent")
    assert BUILTIN.ancestors("NoSuchClass") == () and BUILTIN.ancestors("Agent") == ()


@pytest.mark.parametrize(
    ("classes", "types"),
    [
        (("Band", "Group", "Organisation", "Agent"), ("band",)),
        (("Agent", "Organisation", "MusicalArtist", "Person"), ("musicalartist", "organisation")),
        (("MusicalArtist", "Person", "Writer"), ("musicalartist",)),
        (("Guitarist",), ("musicalartist",)),
        (("Country", "PopulatedPlace", "Place"), ("country",)),
        (("Town",), ("location",)),
        (("Album", "Song", "Single"), ("song", "album")),
        (("Planet9", "Agent"), ()),
        ((), ()),
    ],
)
def test_gazetteer_most_specific_type_wins(classes: tuple[str, ...], types: tuple[str, ...], domain: Domain) -> None:
    assert specific_types((DBO + name for name in classes), domain) == types
    assert specific_types((DBO + name for name in reversed(classes)), domain) == types


DATA = triples(
    {"Velvet Harbour (band)": ("Band",), "Mira Olsen": ("MusicalArtist",), "Untyped Page": ()},
    redirects={"Olsen": "Mira Olsen"},
)


def test_gazetteer_embedded_file_answers_titles_redirects_and_aliases(tmp_path: Path) -> None:
    found = sample(tmp_path / "a.nt", DATA).lookup(
        ["Velvet Harbour", "Velvet Harbour (band)", "Olsen", "Untyped Page", 'x"}', "Velvet Harbour"]
    )
    assert {name: [(item.entity, item.via) for item in items] for name, items in found.items()} == {
        "Velvet Harbour": [(f"{DBR}Velvet_Harbour_(band)", "name")],
        "Velvet Harbour (band)": [(f"{DBR}Velvet_Harbour_(band)", "title")],
        "Olsen": [(f"{DBR}Mira_Olsen", "redirect")],
        "Untyped Page": [],
        'x"}': [],
    }


def test_gazetteer_embedded_file_may_be_turtle_with_untagged_labels(tmp_path: Path) -> None:
    data = (
        f'<{DBR}Q1> a <{DBO}Band> ; <{RDFS_LABEL}> "Night Owls", "Nachteulen"@de ; <{FOAF_NAME}> "The Owls (group)" .'
    )
    found = sample(tmp_path / "a.ttl", data.encode()).lookup(["Night Owls", "Nachteulen", "The Owls"])
    assert [[item.via for item in items] for items in found.values()] == [["label"], [], ["name"]]


def test_gazetteer_embedded_file_and_endpoint_answer_alike(tmp_path: Path) -> None:
    data = DATA + f'<{DBR}Velvet_Harbour_(band)> <{FOAF_NAME}> "Velvet Harbour"@en .\n'.encode()
    names = ["Velvet Harbour", "Velvet Harbour (band)", "Olsen", "Mira Olsen", "Nobody", "Untyped Page"]
    answer = oxigraph(data)
    with serve(lambda number, query: answer(query)) as endpoint:
        assert source(endpoint.url).lookup(names) == sample(tmp_path / "a.nt", data).lookup(names)


def test_gazetteer_embedded_file_is_loaded_once_and_again_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, loads = lookup._read, list[Path]()

    def counted(path: Path, language: str) -> Store:
        loads.append(path)
        return read(path, language)

    monkeypatch.setattr(lookup, "_read", counted)
    first = sample(tmp_path / "a.nt", DATA)
    assert loads == []  # lazily
    threads = [threading.Thread(target=first.lookup, args=(["Olsen"],)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert EmbeddedSource(tmp_path / "a.nt").lookup(["Olsen"])["Olsen"] and len(loads) == 1
    second = sample(tmp_path / "a.nt", triples({"Somebody Else": ("Person",)}))
    os.utime(second.path, ns=(1, 1))
    assert second.lookup(["Olsen", "Somebody Else"])["Olsen"] == () and len(loads) == 2


def test_gazetteer_embedded_file_that_is_unusable_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"cannot be read"):
        EmbeddedSource(tmp_path / "none.nt").lookup(["A"])
    with pytest.raises(BadInput, match=r"not a valid nt file"):
        sample(tmp_path / "bad.nt", b"<a> <b> .\n").lookup(["A"])
    with pytest.raises(BadInput, match=r"ends in \.nt or \.ttl"):
        EmbeddedSource(tmp_path / "a.csv")


@pytest.mark.alone
def test_gazetteer_sample_loads_in_less_than_a_second() -> None:
    started = time.perf_counter()
    store = lookup._read(SAMPLE, "en")
    assert time.perf_counter() - started < 1.0
    typed = {quad.subject for quad in store.quads_for_pattern(None, NamedNode(RDF_TYPE), None, None)}
    assert len(typed) >= 300
