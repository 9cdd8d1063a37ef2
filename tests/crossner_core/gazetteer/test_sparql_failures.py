"""The SPARQL source against endpoints that misbehave: the right answer or a clear error, never a wrong "not found"."""

from __future__ import annotations

import email.utils
import json
import socket
import threading
import time
from collections.abc import Callable

import pytest

from crossner_core.errors import EndpointUnavailable
from crossner_core.gazetteer.endpoint import CircuitBreaker, breaker_for
from crossner_core.web import retry_after
from tests.support.gazetteers.sparql_servers import MemoryCache, Reply, oxigraph, serve, source, triples

NAMES = [f"Person {at}" for at in range(12)]
DATA = triples(dict.fromkeys(NAMES, ("Person", "Agent")))
answer = oxigraph(DATA)


def assert_all_found(url: str, **options: object) -> MemoryCache:
    """Look every name up and check each one's answer, in the cache too."""
    cache = MemoryCache()
    found = source(url, cache, **options).lookup([*NAMES, "Nobody"])
    assert all(found[name] for name in NAMES) and found["Nobody"] == ()
    assert {key[1]: len(value["candidates"]) for key, value in cache.values.items()} == {
        **{f"en:{name}": 1 for name in NAMES},
        "en:Nobody": 0,
    }
    return cache


def assert_unavailable(url: str, says: str, **options: object) -> None:
    """Look names up in vain: one clear line, in time, and nothing in the cache."""
    cache, started = MemoryCache(), time.monotonic()
    with pytest.raises(EndpointUnavailable, match=says) as failure:
        source(url, cache, **options).lookup(NAMES)
    assert time.monotonic() - started < 3.0
    assert url in str(failure.value) and "\n" not in str(failure.value)
    assert not cache.values


def first(reply: Reply, times: int = 1) -> Callable[[int, str], Reply]:
    """Misbehave for some requests, then answer."""
    return lambda number, query: reply if number < times else answer(query)


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_sparql_failures_that_pass_are_retried(status: int) -> None:
    with serve(first(Reply(status=status), times=2)) as endpoint:
        assert_all_found(endpoint.url)


@pytest.mark.parametrize("status", [429, 503])
def test_sparql_failures_that_stay_give_up_after_the_retries(status: int) -> None:
    with serve(lambda number, query: Reply(status=status)) as endpoint:
        assert_unavailable(endpoint.url, f"answers {status}", retries=2)
        assert len(endpoint.queries) == 3


def test_sparql_retries_wait_longer_each_time_with_jitter() -> None:
    pauses: list[float] = []
    with (
        serve(lambda number, query: Reply(status=503)) as endpoint,
        pytest.raises(EndpointUnavailable),
    ):
        source(endpoint.url, retries=3, backoff=0.1, sleep=pauses.append).lookup(["Olsen"])
    assert len(pauses) == 3
    for at, pause in enumerate(pauses):
        assert 0.05 * 2**at <= pause <= 0.15 * 2**at
    assert pauses[0] != 0.1


def test_sparql_retry_after_is_honoured() -> None:
    pauses: list[float] = []
    with serve(first(Reply(status=429, headers={"Retry-After": "2"}))) as endpoint:
        assert_all_found(endpoint.url, sleep=pauses.append)
    assert pauses == [2.0]


def test_sparql_retry_after_past_the_deadline_gives_up_at_once_and_opens_the_breaker() -> None:
    now = [0.0]
    breaker = CircuitBreaker(cooldown=5.0, clock=lambda: now[0])
    with serve(first(Reply(status=429, headers={"Retry-After": "60"}))) as endpoint:
        assert_unavailable(endpoint.url, "answers 429", breaker=breaker)
        now[0] = 59.0
        assert_unavailable(endpoint.url, "not asked again for 1 s", breaker=breaker)
        now[0] = 61.0
        assert_all_found(endpoint.url, breaker=breaker)


def test_sparql_retry_after_may_be_a_date_or_rubbish() -> None:
    later = email.utils.formatdate(time.time() + 30, usegmt=True)
    assert 25 < (retry_after(later) or 0) <= 31
    assert retry_after("soon") is None and retry_after("-5") == 0.0 and retry_after(None) is None
    assert retry_after("9" * 400) == retry_after("Fri, 31 Dec 9999 23:59:59 GMT") == 86_400.0


def test_sparql_silence_ends_at_the_time_out() -> None:
    with serve(lambda number, query: Reply(hang=30)) as endpoint:
        assert_unavailable(endpoint.url, "no complete answer within 0.2 s", timeout=0.2, retries=1)
        assert len(endpoint.queries) == 2


def test_sparql_a_dripping_body_ends_at_the_time_out() -> None:
    with serve(lambda number, query: Reply(answer(query).body, drip=0.05)) as endpoint:
        assert_unavailable(endpoint.url, "no complete answer within 0.3 s", timeout=0.3, retries=0)


@pytest.mark.parametrize(
    ("scheme", "data"),
    [("http", b"HTTP/1.1 200 OK\r\nX-Slow: " + b"z" * 200), ("https", b"\x16\x03\x03\x40\x00\x02" + bytes(200))],
    ids=["headers", "handshake"],
)
def test_sparql_dripping_before_the_answer_ends_at_the_time_out(scheme: str, data: bytes) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        peer, _ = listener.accept()
        with peer:
            try:
                for byte in data:
                    peer.sendall(bytes([byte]))
                    time.sleep(0.02)
            except OSError:
                return

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        url = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/sparql"
        assert_unavailable(url, "no complete answer within 0.3 s", timeout=0.3, retries=0)
    finally:
        thread.join()
        listener.close()


@pytest.mark.alone
def test_sparql_deadline_holds_over_all_batches_and_keeps_what_was_answered() -> None:
    def slow(number: int, query: str) -> Reply:
        reply = answer(query)
        reply.hang = 0.2
        return reply

    cache, breaker = MemoryCache(), CircuitBreaker()
    with serve(slow) as endpoint:
        started = time.monotonic()
        with pytest.raises(EndpointUnavailable, match=r"of 12 names"):
            source(endpoint.url, cache, batch_size=1, deadline=0.5, retries=0, breaker=breaker).lookup(NAMES)
        assert time.monotonic() - started < 1.5
    assert cache.values and all(value["candidates"] for value in cache.values.values())
    assert breaker.refusal() is None  # it answered, slowly


def test_sparql_answers_cut_at_a_number_of_rows_are_asked_again_in_halves() -> None:
    def cut(number: int, query: str) -> Reply:
        document = json.loads(answer(query).body)
        document["results"]["bindings"] = document["results"]["bindings"][:7]
        return Reply(json.dumps(document).encode(), headers={"X-SPARQL-MaxRows": "7"})

    with serve(cut) as endpoint:
        assert_all_found(endpoint.url)
        assert len(endpoint.queries) > 2


def test_sparql_answers_cut_without_a_word_are_known_by_their_number_of_rows() -> None:
    def cut(number: int, query: str) -> Reply:
        document = json.loads(answer(query).body)
        document["results"]["bindings"] = document["results"]["bindings"][:7]
        return Reply(json.dumps(document).encode())

    with serve(cut) as endpoint:
        assert_all_found(endpoint.url, max_rows=7)


@pytest.mark.parametrize("says", [True, False], ids=["with-header", "without-header"])
def test_sparql_answers_cut_at_10_000_rows_are_asked_again_in_halves(says: bool) -> None:
    names = [f"Page {at}" for at in range(200)]
    store, cut = oxigraph(triples(dict.fromkeys(names, tuple(f"C{at}" for at in range(60))))), []

    def behave(number: int, query: str) -> Reply:
        document = json.loads(store(query).body)
        if len(document["results"]["bindings"]) > 10_000:
            cut.append(len(document["results"]["bindings"]))
            document["results"]["bindings"] = document["results"]["bindings"][:10_000]
        return Reply(json.dumps(document).encode(), headers={"X-SPARQL-MaxRows": "10000"} if says and cut else {})

    cache = MemoryCache()
    with serve(behave) as endpoint:
        found = source(endpoint.url, cache, timeout=10.0, deadline=30.0).lookup(names)
    assert cut == [12_000]
    assert all(len(found[name]) == 1 and len(found[name][0].classes) == 60 for name in names)
    assert all(len(value["candidates"]) == 1 for value in cache.values.values()) and len(cache.values) == 200


def test_sparql_a_row_limit_of_nothing_or_nonsense_is_no_limit() -> None:
    for limit in ("0", "many", "9" * 5000):
        with serve(
            lambda number, query, limit=limit: Reply(answer(query).body, headers={"X-SPARQL-MaxRows": limit})
        ) as e:  # type: ignore[misc]
            assert_all_found(e.url)


def test_sparql_partial_answers_after_a_server_time_out_are_asked_again_in_halves() -> None:
    def partial(number: int, query: str) -> Reply:
        if query.count("Person_") > 8:  # more than four names, each in two arms
            return Reply(b'{"results": {"bindings": []}}', headers={"X-SQL-State": "S1TAT"})
        return answer(query)

    with serve(partial) as endpoint:
        assert_all_found(endpoint.url)


def test_sparql_answers_that_are_always_partial_are_an_error() -> None:
    reply = Reply(b'{"results": {"bindings": []}}', headers={"X-SQL-State": "S1TAT"})
    with serve(lambda number, query: reply) as endpoint:
        assert_unavailable(endpoint.url, "partial")


def test_sparql_connection_dropped_before_the_answer_is_retried() -> None:
    with serve(first(Reply(cut=0), times=2)) as endpoint:
        assert_all_found(endpoint.url)


def test_sparql_connection_dropped_amid_the_body_is_asked_again() -> None:
    def drop(number: int, query: str) -> Reply:
        reply = answer(query)
        reply.cut = len(reply.body) // 2 if number == 0 else None
        return reply

    with serve(drop) as endpoint:
        assert_all_found(endpoint.url)


def test_sparql_connection_always_dropped_amid_the_body_is_an_error() -> None:
    def drop(number: int, query: str) -> Reply:
        reply = answer(query)
        reply.cut = len(reply.body) - 2
        return reply

    with serve(drop) as endpoint:
        assert_unavailable(endpoint.url, "middle of the answer")


@pytest.mark.parametrize(
    "body",
    [
        b"<html>Down for maintenance</html>",
        b"",
        b'{"error": "no"}',
        b"[]",
        b'{"results": {"bindings": [1]}}',
        b"\xff",
        b"[" * 100_000,
    ],
    ids=["html", "empty", "error", "list", "rows", "bytes", "brackets"],
)
def test_sparql_other_things_with_status_200_are_an_error(body: bytes) -> None:
    with serve(lambda number, query: Reply(body, headers={"Content-Type": "text/html"})) as endpoint:
        assert_unavailable(endpoint.url, "not SPARQL JSON")


def test_sparql_html_once_is_asked_again() -> None:
    with serve(first(Reply(b"<html></html>"))) as endpoint:
        assert_all_found(endpoint.url)


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_sparql_refusals_are_not_retried(status: int) -> None:
    with serve(lambda number, query: Reply(status=status)) as endpoint:
        assert_unavailable(endpoint.url, f"answers {status}")
        assert len(endpoint.queries) == 1


def test_sparql_redirects_are_told_and_not_followed() -> None:
    reply = Reply(status=302, headers={"Location": "http://127.0.0.1:9/private"})
    with serve(lambda number, query: reply) as endpoint:
        assert_unavailable(endpoint.url, "points to http://127.0.0.1:9/private")


def test_sparql_a_query_too_costly_is_asked_in_halves() -> None:
    with serve(lambda number, query: Reply(status=500) if query.count("Person_") > 8 else answer(query)) as endpoint:
        assert_all_found(endpoint.url)


def test_sparql_an_answer_without_end_is_not_read_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crossner_core.gazetteer.endpoint.LARGEST_ANSWER", 1000)
    with serve(lambda number, query: Reply(b" " * 5000)) as endpoint:
        assert_unavailable(endpoint.url, "longer than")


def test_sparql_an_endpoint_that_is_not_there_is_a_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}/sparql"
    assert_unavailable(url, "Connection refused", retries=1)


def test_sparql_breaker_leaves_a_failed_endpoint_alone_but_serves_the_cache() -> None:
    now, cache = [0.0], MemoryCache()
    breaker = CircuitBreaker(cooldown=10.0, clock=lambda: now[0])

    def up_down_up(number: int, query: str) -> Reply:
        return Reply(status=503) if number == 1 else answer(query)

    with serve(up_down_up) as endpoint:
        asker = source(endpoint.url, cache, retries=0, breaker=breaker)
        known = asker.lookup(NAMES[:1])
        with pytest.raises(EndpointUnavailable, match="answers 503"):
            asker.lookup(NAMES[1:2])
        asked = len(endpoint.queries)
        with pytest.raises(EndpointUnavailable, match="not asked again for 10 s after: it answers 503"):
            asker.lookup(NAMES[1:2])
        assert asker.lookup(NAMES[:1]) == known and len(endpoint.queries) == asked
        now[0] = 10.5
        assert asker.lookup(NAMES[1:2])[NAMES[1]]
        assert breaker.refusal() is None


def test_sparql_breaker_lets_one_caller_try_and_waits_longer_after_each_failure() -> None:
    now = [0.0]
    breaker = CircuitBreaker(cooldown=10.0, longest=30.0, clock=lambda: now[0])
    waits = []
    for _ in range(4):
        breaker.failed("it is down")
        start = now[0]
        while breaker.refusal():
            now[0] += 1.0
        waits.append(now[0] - start)
        assert breaker.refusal() is not None  # somebody is trying already
    assert waits == [10.0, 20.0, 30.0, 30.0]
    breaker.succeeded()
    assert breaker.refusal() is None and breaker.refusal() is None


def test_sparql_breakers_are_one_an_endpoint() -> None:
    assert breaker_for("http://a.example/sparql") is breaker_for("http://a.example/sparql")
    assert breaker_for("http://a.example/sparql") is not breaker_for("http://b.example/sparql")
