"""The SPARQL source against a real endpoint that behaves, and its look-ups, batches and cache."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.gazetteer.lookup import (
    Resource,
    label_query,
    read_answers,
    title_query,
)
from crossner_core.gazetteer.titles import is_askable
from tests.support.gazetteers.sparql_servers import (
    DBO,
    DBR,
    FOAF_NAME,
    Behaviour,
    MemoryCache,
    Reply,
    oxigraph,
    serve,
    source,
    triples,
)

DATA = triples(
    {
        "Velvet Harbour (band)": ("Band", "Group", "Organisation", "Agent"),
        "Mira Olsen": ("MusicalArtist", "Person"),
        "What Now?": ("Album", "Work"),
        "Caf\u00e9 Noir": ("Album",),
        "Untyped Page": (),
    },
    redirects={"Olsen": "Mira Olsen"},
)


def truthful(data: bytes = DATA) -> Behaviour:
    """Behave as a proper endpoint."""
    answer = oxigraph(data)
    return lambda number, query: answer(query)


def test_sparql_source_finds_titles_redirects_and_labels() -> None:
    data = DATA + f'<{DBR}Velvet_Harbour_(band)> <{FOAF_NAME}> "Velvet Harbour"@en .\n'.encode()
    with serve(truthful(data)) as endpoint:
        found = source(endpoint.url).lookup(["Mira Olsen", "Olsen", "Velvet Harbour", "Untyped Page", "Nobody"])
    olsen = (f"{DBO}MusicalArtist", f"{DBO}Person")
    assert found["Mira Olsen"] == (Resource(f"{DBR}Mira_Olsen", olsen, "title"),)
    assert found["Olsen"] == (Resource(f"{DBR}Mira_Olsen", olsen, "redirect"),)
    assert [(item.entity, item.via) for item in found["Velvet Harbour"]] == [(f"{DBR}Velvet_Harbour_(band)", "name")]
    assert found["Untyped Page"] == found["Nobody"] == ()


def test_sparql_source_finds_titles_that_a_uri_must_escape() -> None:
    data = DATA.replace(b"What_Now?", b"What_Now%3F")
    with serve(truthful(data)) as endpoint:
        found = source(endpoint.url).lookup(["What Now?", "Café Noir", "Cafe\u0301 Noir"])
    assert [item.entity for item in found["What Now?"]] == [f"{DBR}What_Now%3F"]
    assert found["Café Noir"] and found["Café Noir"] == found["Cafe\u0301 Noir"]


def test_sparql_source_sends_post_with_virtuosos_time_out() -> None:
    with serve(truthful()) as endpoint:
        source(endpoint.url, timeout=1.5).lookup(["Olsen"])
    assert endpoint.forms[0]["timeout"] == ["1500"]
    assert endpoint.forms[0]["format"] == ["json"]


def test_sparql_source_batches_names_and_asks_labels_only_of_the_rest() -> None:
    names = [f"Name {at}" for at in range(45)] + ["Mira Olsen"]
    with serve(truthful()) as endpoint:
        found = source(endpoint.url, batch_size=20).lookup(names + names)
    assert len(endpoint.queries) == 6  # three batches, each by title and by label
    assert '"Mira Olsen"@en' not in "".join(endpoint.queries)
    assert list(found) == names


def test_sparql_source_never_repeats_a_value_of_a_list() -> None:
    with serve(truthful()) as endpoint:
        found = source(endpoint.url).lookup(["olsen", "Olsen", "Olsen ", "nobody", "Nobody"])
    assert found["olsen"] == found["Olsen"] == found["Olsen "] != ()
    assert endpoint.queries[0].count(f"<{DBR}Olsen>") == 2  # one in each arm
    assert endpoint.queries[0].count(f"<{DBR}Nobody>") == 2


def test_sparql_source_caches_found_and_not_found() -> None:
    cache = MemoryCache()
    with serve(truthful()) as endpoint:
        first = source(endpoint.url, cache).lookup(["Mira Olsen", "Nobody"])
        asked = len(endpoint.queries)
        again = source(endpoint.url, cache)
        assert again.lookup(["Nobody", "Mira Olsen"]) == first
        assert again.cached(["Mira Olsen", "Never Asked"]) == {"Mira Olsen": first["Mira Olsen"]}
        assert len(endpoint.queries) == asked
        again.lookup(["Mira Olsen", "Somebody Else"])
        assert "Mira_Olsen" not in endpoint.queries[-1]


def test_sparql_source_asks_again_what_the_cache_holds_unreadably() -> None:
    cache = MemoryCache()
    with serve(truthful()) as endpoint:
        cache.put_many(endpoint.url, {"en:Mira Olsen": {"old": 1}})
        assert source(endpoint.url, cache).lookup(["Mira Olsen"])["Mira Olsen"]


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://example.org/sparql",
        "dbpedia.org/sparql",
        "http://",
        "",
        "http://a b/",
        "http://h:x/",
        "http://" + "a" * 70 + ".example/sparql",
    ],
)
def test_sparql_source_refuses_what_is_no_web_address(url: str) -> None:
    with pytest.raises(InvalidConfig, match="http or https"):
        source(url)


def test_sparql_source_refuses_a_password_in_the_url_without_repeating_it() -> None:
    with pytest.raises(InvalidConfig) as refused:
        source("https://me:secret@example.org/sparql")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("option", "value"), [("timeout", 0), ("deadline", -1), ("batch_size", 0), ("retries", -1), ("language", 'en" }')]
)
def test_sparql_source_refuses_options_out_of_range(option: str, value: Any) -> None:
    with pytest.raises(InvalidConfig):
        source("http://example.org/sparql", **{option: value})


ATTACKS = (
    'x"@en } } ; DROP ALL #',
    'x" } UNION { ?resource a ?class . BIND("x"@en AS ?label) } #',
    "x> } UNION { ?title a ?class } #",
    "x\\u0022@en } } UNION { ?resource a ?class } #",
    "x\\",
    "x\n} UNION { ?resource a ?class }",
    "\ud800",
    "%3E } #",
    "{|}^`<>",
    "",
    "#",
    " ",
    "x" * 400,
)


def test_sparql_queries_keep_hostile_names_inside_their_terms() -> None:
    with serve(truthful()) as endpoint:
        found = source(endpoint.url).lookup([*ATTACKS, "Mira Olsen"])
    assert {name for name, items in found.items() if items} == {"Mira Olsen"}
    assert not any(
        "\\u" in query or "DROP ALL" in query.replace('x\\"@en } } ; DROP ALL', "") for query in endpoint.queries
    )


@given(st.text(max_size=30))
def test_sparql_queries_are_valid_for_any_name(name: str) -> None:
    if not is_askable(name):
        return
    answer = oxigraph(DATA)
    for query in (title_query([name, "Mira Olsen"]), label_query([name, "Nobody Else"])):
        answer(query.text)  # a syntax error would raise
        assert query.text.count("VALUES") == 2 and name in query.names


def test_sparql_answers_leave_out_rows_that_nobody_asked_for() -> None:
    query = title_query(["Olsen"])
    rows = [
        {"title": f"{DBR}Somebody", "class": f"{DBO}Person"},
        {"title": f"{DBR}Olsen"},
        {"redirect": f"{DBR}Olsen", "resource": f"{DBR}Mira_Olsen", "class": f"{DBO}Person"},
    ]
    assert read_answers(query, rows) == {"Olsen": (Resource(f"{DBR}Mira_Olsen", (f"{DBO}Person",), "redirect"),)}


@pytest.mark.alone
def test_sparql_source_is_quick_with_a_full_batch() -> None:
    with serve(truthful()) as endpoint:
        started = time.perf_counter()
        source(endpoint.url).lookup([f"Name {at}" for at in range(200)])
        assert time.perf_counter() - started < 2.0
    assert len(endpoint.queries) == 2


def test_candidate_survives_json() -> None:
    candidate = Resource(f"{DBR}Olsen", (f"{DBO}Person",), "redirect")
    assert Resource.from_dict(candidate.to_dict()) == candidate
    with pytest.raises(BadInput, match="via"):
        Resource.from_dict({**candidate.to_dict(), "via": "rumour"})


def test_sparql_reply_builder_counts_requests() -> None:
    seen: list[int] = []

    def behave(number: int, query: str) -> Reply:
        seen.append(number)
        return Reply(b'{"results": {"bindings": []}}')

    with serve(behave) as endpoint:
        source(endpoint.url).lookup(["A B"])
    assert seen == [0, 1]
