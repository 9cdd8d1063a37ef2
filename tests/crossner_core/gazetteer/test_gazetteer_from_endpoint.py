"""A whole endpoint read class by class over HTTP: complete, or an error; never a gazetteer with holes."""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from crossner_core.errors import EndpointUnavailable, InvalidConfig
from crossner_core.gazetteer.endpoint import CircuitBreaker
from crossner_core.gazetteer.facts import Fact, Label, Redirect, Typed
from crossner_core.gazetteer.from_endpoint import EndpointConfig, EndpointFacts
from crossner_core.gazetteer.ontology import ClassTree
from tests.support.gazetteers.sparql_servers import DBO, DBR, RDF_TYPE, Behaviour, Reply, oxigraph, serve, triples

TREE = ClassTree.of(
    {"Agent": (), "Vessel": (), "Ferry": ("Vessel",), "Rowboat": ("Vessel",), "Person": ("Agent",)}, source="test"
)
TITLES = {
    **{f"Boat {n}": ("Vessel", "Ferry") if n % 3 == 0 else ("Vessel",) for n in range(60)},
    "Zürich (Schiff)": ("Vessel",),
    "みずほ丸": ("Vessel",),
    "O'Brien \\u0041": ("Person",),
    "Solo": ("Rowboat",),
}
REDIRECTS = {f"Boot {n}": f"Boat {n}" for n in range(0, 60, 2)}


def data(titles: dict[str, tuple[str, ...]] = TITLES, redirects: dict[str, str] = REDIRECTS) -> bytes:
    """The server's triples; a part of a page (`Boat_1__Crew__1`) and a foreign resource are among them."""
    plain = {title.replace("\\", "%5C"): classes for title, classes in titles.items()}
    more = f"<{DBR}Boat_1__Crew__1> <{RDF_TYPE}> <{DBO}Person> .\n<http://a.example/x> <{RDF_TYPE}> <{DBO}Vessel> .\n"
    return triples(plain, redirects=redirects) + more.encode()


answer = oxigraph(data())


def reader(url: str, **options: Any) -> EndpointFacts:
    """A reader that is quick to give up and knows no other test's breaker."""
    config = {"page_size": 25, "timeout": 2.0, "backoff": 0.01, "retries": 2, **options}
    breaker = config.pop("breaker", CircuitBreaker())
    sleep = config.pop("sleep", time.sleep)
    return EndpointFacts(
        url, EndpointConfig(**config), tree=TREE, rng=random.Random(0), on_problem=print, breaker=breaker, sleep=sleep
    )


def assert_complete(found: list[Fact]) -> None:
    """Check every fact of the test's data."""
    typed = Counter((fact.entity, fact.cls) for fact in found if isinstance(fact, Typed))
    assert typed == Counter((title, cls) for title, classes in TITLES.items() for cls in classes)
    assert {fact for fact in found if isinstance(fact, Redirect)} == {Redirect(*item) for item in REDIRECTS.items()}
    assert {fact.entity for fact in found if isinstance(fact, Label)} == set(TITLES)


def truthful(number: int, query: str) -> Reply:
    """Behave."""
    return answer(query)


def sometimes(reply: Reply) -> Behaviour:
    """Misbehave with every third request."""
    return lambda number, query: reply if number % 3 == 1 else answer(query)


def cut_rows(most: int, says: bool, of: Callable[[str], Reply] = answer) -> Behaviour:
    """Give no more than so many rows, and say so or not."""

    def behave(number: int, query: str) -> Reply:
        document = json.loads(of(query).body)
        rows = document["results"]["bindings"]
        if len(rows) < most:
            return of(query)
        document["results"]["bindings"] = rows[:most]
        return Reply(json.dumps(document).encode(), headers={"X-SPARQL-MaxRows": str(most)} if says else {})

    return behave


def test_endpoint_is_read_class_by_class_in_pages() -> None:
    with serve(truthful) as endpoint:
        assert_complete(list(reader(endpoint.url)))
        pages = [query for query in endpoint.queries if "ORDER BY" in query]
    assert len(pages) == 4 + 2 + 2 + 2  # vessels, ferries, persons, rowboats, each with an empty last page
    assert not any("OFFSET" in query for query in endpoint.queries)


def test_endpoint_gives_the_labels_of_a_class_once_where_a_class_above_has_all_its_members() -> None:
    with serve(truthful) as endpoint:
        found = list(reader(endpoint.url))
    assert Counter(fact.entity for fact in found if isinstance(fact, Label))["Boat 0"] == 1
    assert Label("Solo", "Solo") in found  # no vessel at this endpoint, which draws no conclusions


def test_endpoint_is_asked_only_for_the_classes_wanted() -> None:
    with serve(truthful) as endpoint:
        found = list(reader(endpoint.url, classes=("Ferry", "Submarine")))
        assert not any("Person>" in query or "Rowboat>" in query for query in endpoint.queries)
    assert {fact.cls for fact in found if isinstance(fact, Typed)} == {"Ferry"}
    with serve(truthful) as endpoint, pytest.raises(EndpointUnavailable, match="no resource"):
        list(reader(endpoint.url, classes=("Submarine",)))


@pytest.mark.parametrize(
    "reply",
    [
        Reply(status=429, headers={"Retry-After": "0"}),
        Reply(status=503),
        Reply(b"<html>busy</html>", headers={"Content-Type": "text/html"}),
        Reply(cut=0),
        Reply(b'{"results": {"bindings": []}}', cut=9),
        Reply(b'{"results": {"bindings": []}}', headers={"X-SQL-State": "S1TAT"}),
        Reply(status=500),
    ],
    ids=["429", "503", "html", "dropped", "cut", "partial", "costly"],
)
def test_endpoint_that_fails_in_passing_is_read_whole_or_refused(reply: Reply) -> None:
    with serve(sometimes(reply)) as endpoint:
        assert_complete(list(reader(endpoint.url)))


def test_endpoint_that_counts_nothing_readable_is_refused() -> None:
    reply = Reply(b'{"results": {"bindings": []}}')
    with (
        serve(lambda number, query: reply) as endpoint,
        pytest.raises(EndpointUnavailable, match="its answer to a count is not a number"),
    ):
        list(reader(endpoint.url))


@pytest.mark.parametrize("drip", [0.0, 0.02])
def test_endpoint_that_manages_only_small_pages_is_asked_for_less(drip: float) -> None:
    def slow(number: int, query: str) -> Reply:
        found = re.search(r"LIMIT (\d+)", query)
        if found and int(found[1]) > 12:
            return Reply(answer(query).body, drip=drip) if drip else Reply(hang=30)
        return answer(query)

    with serve(slow) as endpoint:
        assert_complete(list(reader(endpoint.url, timeout=0.3)))
        limits = [int(found[1]) for query in endpoint.queries if (found := re.search(r"LIMIT (\d+)", query))]
    assert limits[:2] == [25, 25] and set(limits[2:]) == {12}  # timed out twice, then less


@pytest.mark.parametrize("says", [True, False])
def test_endpoint_that_cuts_answers_is_still_read_whole(says: bool) -> None:
    with serve(cut_rows(15, says)) as endpoint:
        assert_complete(list(reader(endpoint.url, page_size=14 if not says else 25, max_rows=10_000 if says else 15)))


def test_endpoint_that_drops_rows_of_labels_in_silence_is_found_out() -> None:
    cut = cut_rows(9, says=False)
    with (
        serve(lambda number, query: answer(query) if "ORDER BY" in query else cut(number, query)) as endpoint,
        pytest.raises(EndpointUnavailable) as refused,
    ):
        list(reader(endpoint.url))
    assert re.search(r"class Vessel: it counts 62 labels but returned \d+; its data changed", str(refused.value))


def test_endpoint_of_more_than_10_000_rows_is_read_whole() -> None:
    people = {f"Person {n}": ("Person",) for n in range(12_000)}
    store = oxigraph(triples(people, redirects={f"P {n}": f"Person {n % 9}" for n in range(10_500)}))
    with serve(cut_rows(10_000, says=True, of=store)) as endpoint:
        found = list(reader(endpoint.url, page_size=9_999, timeout=20.0, classes=("Agent",)))
    kinds = Counter(type(fact) for fact in found)
    assert kinds == {Typed: 12_000, Label: 12_000, Redirect: 10_500} and len(set(found)) == len(found)


def test_endpoint_that_cannot_sort_is_found_out() -> None:
    def unsorted(number: int, query: str) -> Reply:
        document = json.loads(answer(re.sub(r"LIMIT \d+", "", query)).body)
        if "ORDER BY" in query:
            rows = document["results"]["bindings"]
            random.Random(number).shuffle(rows)
            document["results"]["bindings"] = rows[:25]
        return Reply(json.dumps(document).encode())

    with serve(unsorted) as endpoint, pytest.raises(EndpointUnavailable, match="could not be read completely"):
        list(reader(endpoint.url))


def test_endpoint_that_never_ends_is_found_out() -> None:
    def endless(number: int, query: str) -> Reply:
        if "ORDER BY" not in query:
            return answer(query)
        rows = [{key: {"value": f"{DBR}N{number}_{n}"} for key in ("s", "k")} for n in range(25)]
        return Reply(json.dumps({"results": {"bindings": rows}}).encode())

    with serve(endless) as endpoint, pytest.raises(EndpointUnavailable, match="it counts"):
        list(reader(endpoint.url))


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (Reply(status=429, headers={"Retry-After": "60"}), "answers 429"),
        (Reply(status=503), "answers 503"),
        (Reply(status=403), "answers 403"),
        (Reply(b"<html></html>"), "not SPARQL JSON"),
        (Reply(cut=0), "connection failed"),
        (Reply(b'{"results": {"bindings": []}}', headers={"X-SQL-State": "S1TAT"}), "partial"),
        (Reply(hang=30), "no complete answer within"),
        (Reply(b'{"results": {"bindings": []}}', drip=0.1), "no complete answer within"),
    ],
    ids=["429", "503", "403", "html", "dropped", "partial", "silent", "drips"],
)
def test_endpoint_that_stays_broken_is_a_clear_error(reply: Reply, says: str) -> None:
    def behave(number: int, query: str) -> Reply:
        return reply if "ORDER BY" in query and "Ferry>" in query else answer(query)

    pauses: list[float] = []
    started = time.monotonic()
    with serve(behave) as endpoint, pytest.raises(EndpointUnavailable, match=says) as refused:
        list(reader(endpoint.url, timeout=0.2, sleep=pauses.append))
    assert time.monotonic() - started < 5.0
    assert pauses == [60.0, 60.0] if says == "answers 429" else not pauses or max(pauses) < 1
    assert endpoint.url in str(refused.value) and "class Ferry" in str(refused.value)
    assert "Nothing was built" in str(refused.value)


@pytest.mark.alone
def test_endpoint_deadline_holds_and_the_breaker_is_heeded() -> None:
    def slow(number: int, query: str) -> Reply:
        reply = answer(query)
        reply.hang = 0.1
        return reply

    with serve(slow) as endpoint:
        started = time.monotonic()
        with pytest.raises(EndpointUnavailable, match="no complete answer"):
            list(reader(endpoint.url, deadline=0.5))
        assert time.monotonic() - started < 2.0
    breaker = CircuitBreaker()
    breaker.failed("it answers 503")
    with pytest.raises(EndpointUnavailable, match="not asked again"):
        list(reader("http://127.0.0.1:9/sparql", breaker=breaker))


@pytest.mark.parametrize(
    "options",
    [{"page_size": 5}, {"page_size": 10_000}, {"deadline": 0.0}, {"timeout": 0.0}, {"retries": -1}, {"language": "?"}],
)
def test_endpoint_config_out_of_range_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfig):
        reader("http://a.example/sparql", **options)
