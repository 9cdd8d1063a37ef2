"""An outside model that misbehaves in every way: what comes of it, what it costs, and that asking ends."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from typing import Any

import pytest

from crossner_core.errors import EndpointUnavailable, InvalidConfig
from crossner_core.outside import asking, sending
from crossner_core.outside.answers import INVENTED, MALFORMED, TOO_OFTEN, UNKNOWN, WITHIN
from crossner_core.outside.asking import Outcome, Spend, most_of
from crossner_core.schema import Sentence, sentence_from_words
from crossner_core.suggest.gliner import GlinerModel
from tests.support.builders import make_sentences
from tests.support.gazetteers.sparql_servers import MemoryCache, Reply
from tests.support.outside.servers import (
    KEY,
    VARIABLE,
    Purse,
    as_json,
    asker,
    chat,
    chat_model,
    entities,
    knows,
    sentence_in,
    serve_json,
)

SIX = make_sentences()
BAND = [("The Tin Gulls", "band")]
GOOD = knows({"The Tin Gulls": "band", "Mara Vell": "musical artist", "Oslo": "location"})


def only(behave: Any, sentence: Sentence = SIX[0], **changes: Any) -> tuple[Outcome, int]:
    """Ask a server about one sentence; return what became of it, and how many requests that took."""
    with serve_json(behave) as server:
        (outcome,) = asker(chat_model(server.url, **changes)).outcomes([sentence])
        return outcome, len(server.queries)


def spans(outcome: Outcome) -> list[tuple[int, int, str]]:
    return [(each.start, each.end, each.type) for each in outcome.suggestions or ()]


def test_a_well_behaved_service_is_asked_once_a_sentence_and_never_again() -> None:
    cache, purse = MemoryCache(), Purse()
    with serve_json(GOOD) as server:
        model = chat_model(server.url, at_once=4, input_price=1.0, output_price=10.0, key_variable=VARIABLE)
        outcomes = sorted(asker(model, key=KEY, cache=cache, budget=purse).outcomes(SIX), key=lambda each: each.index)
        assert len(server.queries) == 6 and set(server.paths) == {"/v1/chat/completions"}
        assert {headers["Authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
        assert {sentence_in(body) for body in server.queries} == {sentence.text for sentence in SIX}
        assert all(body["response_format"]["json_schema"]["strict"] is True for body in server.queries)
        again = list(asker(model, key=KEY, cache=cache, budget=purse).outcomes(SIX))
        assert len(server.queries) == 6 and all(each.from_cache for each in again)
        assert [each.suggestions for each in again] == [each.suggestions for each in outcomes]
        other = chat_model(server.url, model="other", key_variable=VARIABLE)
        list(asker(other, key=KEY, cache=cache, budget=purse).outcomes(SIX[:1]))
        assert len(server.queries) == 7  # another model is another question
    assert spans(outcomes[0]) == [(0, 2, "musicalartist"), (4, 7, "band"), (8, 9, "location")]
    assert outcomes[0].suggestions is not None and {each.source for each in outcomes[0].suggestions} == {"chat:own"}
    assert purse.requests == 7 and purse.tokens == 7 * 220
    assert purse.cost == pytest.approx(6 * (200 * 1 + 20 * 10) / 1e6)
    assert KEY not in json.dumps(list(cache.values.values()))


def test_offsets_strings_and_types_are_checked() -> None:
    named = [
        {"text": "The Tin Gulls", "type": "band", "start": 900, "end": 2}, {"text": "Abba", "type": "band"},
        {"text": "Tin Gull", "type": "band"}, {"text": "Oslo", "type": "city"}, {"text": "Oslo", "type": "location"},
        {"text": "Oslo", "type": "location"}, {"name": "Oslo"}, {"text": "x" * 100_000, "type": "y" * 100_000},
        {"text": "half \ud800", "type": "band"},
    ]  # fmt: skip
    outcome, _ = only(lambda _n, _b: chat({"entities": named}))
    assert spans(outcome) == [(4, 7, "band"), (8, 9, "location")]
    assert outcome.dropped == Counter({INVENTED: 2, WITHIN: 1, UNKNOWN: 2, TOO_OFTEN: 1, MALFORMED: 1})


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (chat('{"entities": [{"text": "The Tin Gu'), "not the JSON asked for"),
        (chat(entities(BAND), finish_reason="length"), "cut off"),
        (chat(entities(BAND), refusal="I cannot."), "refused"),
        (Reply(b"<html><h1>Hi</h1></html>", headers={"Content-Type": "text/html"}), "24 bytes of text/html"),
        (Reply(b"\xff\xfe", headers={"Content-Type": "application/json"}), "not JSON"),
        (Reply(json.dumps({"choices": []}).encode()), "no choice"),
        (Reply(b'{"choices": [', headers={"Content-Length": "5000"}), "ended in the middle"),
        (as_json({"error": {"message": "too long"}}, status=413), r"413 .*too long"),
        (as_json({"detail": "no such field"}, status=422), r"422 .*no such field"),
    ],
)  # fmt: skip
def test_an_answer_that_cannot_be_read_costs_its_sentence_alone_and_is_not_kept(reply: Reply, why: str) -> None:
    cache = MemoryCache()
    with serve_json(lambda number, body: reply if number == 0 else GOOD(number, body)) as server:
        first, second = asker(chat_model(server.url), cache=cache).outcomes(SIX[:2])
        assert first.suggestions is None and second.suggestions is not None
        assert len(server.queries) == 2 and len(cache.values) == 1
    assert re.search(why, first.why), first.why


def test_a_huge_answer_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "LARGEST_ANSWER", 10_000)
    outcome, requests = only(lambda _n, _b: chat(entities([("The Tin Gulls", "band")] * 1000)))
    assert outcome.suggestions is None and "longer than 10000 bytes" in outcome.why and requests == 1


def test_a_request_is_sent_again_after_429_and_5xx_as_the_service_asks() -> None:
    replies = [as_json({}, status=429), Reply(status=503), Reply(status=500)]
    outcome, requests = only(lambda number, body: replies[number] if number < 3 else GOOD(number, body), retries=3)
    assert spans(outcome) and requests == 4
    began = time.monotonic()
    asks = Reply(status=429, headers={"Retry-After": "1"})
    outcome, requests = only(lambda number, body: asks if number == 0 else GOOD(number, body))
    assert spans(outcome) and requests == 2 and time.monotonic() - began >= 1.0


def test_while_a_service_asks_to_wait_no_other_request_is_sent() -> None:
    sent: list[float] = []

    def behave(number: int, body: Any) -> Reply:
        sent.append(time.monotonic())
        return Reply(status=429, headers={"Retry-After": "1"}) if number == 0 else GOOD(number, body)

    with serve_json(behave) as server:
        assert len(list(asker(chat_model(server.url)).outcomes(SIX[:3]))) == 3
    assert len(sent) == 4 and sent[1] - sent[0] >= 1.0


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Reply(status=429), "429"),
        (Reply(status=503, body=b"<html>down</html>", headers={"Content-Type": "text/html"}), "503"),
        (Reply(status=429, headers={"Retry-After": "86400"}), "asks to wait 86,400 s; resume then"),
        (as_json({"error": {"message": "The model `tiny` does not exist"}}, status=404), "tiny. does not exist"),
        (as_json({"error": {"message": f"Incorrect API key provided: {KEY}"}}, status=401), "does not take the key"),
        (Reply(status=302, headers={"Location": "http://169.254.169.254/"}), "redirects are not followed"),
        (Reply(status=307, headers={"Location": "/elsewhere"}), "redirects are not followed"),
        (Reply(cut=0), "connection failed"),
    ],
)  # fmt: skip
def test_a_service_that_is_down_refuses_or_redirects_is_not_asked_further(reply: Reply, why: str) -> None:
    purse = Purse()
    with serve_json(lambda _n, _b: reply) as server:
        model = chat_model(server.url, key_variable=VARIABLE, retries=1)
        with pytest.raises(EndpointUnavailable, match=why) as caught:
            list(asker(model, key=KEY, budget=purse).outcomes(SIX))
        assert len(server.queries) <= 2
    assert KEY not in str(caught.value) and purse.tokens == 0  # nothing was answered, so nothing was charged
    assert all(KEY not in repr(error) for error in (caught.value.__cause__, caught.value.__context__))


def test_a_key_that_a_service_repeats_is_not_shown() -> None:
    complaint = as_json({"error": {"message": f"key {KEY} may not use \u001b[31m this\nmodel"}}, status=400)
    with serve_json(lambda _n, _b: complaint) as server:
        (outcome,) = asker(chat_model(server.url, key_variable=VARIABLE), key=KEY).outcomes(SIX[:1])
    assert outcome.why.endswith("(“key … may not use [31m this model”)")


def test_nothing_listens() -> None:
    with serve_json(GOOD) as server:
        address = server.url
    with pytest.raises(EndpointUnavailable, match="connection failed"):
        list(asker(chat_model(address, retries=0)).outcomes(SIX))


def test_silence_and_a_dripping_answer_end_with_the_time() -> None:
    purse = Purse()
    for reply in (Reply(hang=30), chat(entities(BAND))):
        slow = Reply(reply.body, headers=reply.headers, drip=0 if reply.hang else 0.5, hang=reply.hang)
        began = time.monotonic()
        with serve_json(lambda _n, _b, slow=slow: slow) as server:
            model = chat_model(server.url, timeout=1.0, retries=0)
            (outcome,) = asker(model, budget=purse).outcomes(SIX[:1])
        assert outcome.suggestions is None and "no complete answer within 1 s" in outcome.why
        assert time.monotonic() - began < 4
    assert purse.tokens > 2 * 1000  # it may have been answered and charged for: what was set aside stays spent


def test_after_five_sentences_without_a_usable_answer_no_further_one_is_sent() -> None:
    many = [sentence_from_words([*sentence.words, str(n)], id=str(n)) for n in range(4) for sentence in SIX]
    with serve_json(lambda _n, _b: chat("Sure! Here are the entities:")) as server:
        with pytest.raises(EndpointUnavailable, match="5 sentences in a row got no usable answer"):
            list(asker(chat_model(server.url)).outcomes(many))
        assert len(server.queries) == 5
    with serve_json(lambda _n, _b: chat(entities([("Abba", "band")]))) as server:  # answers for another sentence
        with pytest.raises(EndpointUnavailable, match="names nothing that stands in the sentence"):
            list(asker(chat_model(server.url)).outcomes(many))
        assert len(server.queries) == 5


def test_a_budget_of_requests_or_tokens_ends_asking_and_retries_count() -> None:
    with serve_json(GOOD) as server:
        purse = Purse(requests=3)
        asked = asker(chat_model(server.url, at_once=4), budget=purse)
        assert len(list(asked.outcomes(SIX))) == 3 and asked.budget_spent and len(server.queries) == 3
        model = chat_model(server.url)
        most = [most_of(model, model.request(asked.domain, sentence)) for sentence in SIX]
        purse = Purse(tokens=max(each.input_tokens + each.output_tokens for each in most) + 660)
        asked = asker(model, budget=purse)
        assert len(list(asked.outcomes(SIX))) == 4 and asked.budget_spent  # each was answered with 220 tokens
        assert purse.tokens == 4 * 220
    with serve_json(lambda _n, _b: Reply(status=503)) as server:
        asked = asker(chat_model(server.url, retries=5), budget=Purse(requests=2))
        assert list(asked.outcomes(SIX)) == [] and asked.budget_spent and len(server.queries) == 2


def test_what_a_service_says_it_took_is_believed_only_as_a_number() -> None:
    for usage in ({"prompt_tokens": -5, "completion_tokens": True}, {"prompt_tokens": "7"}, "none", []):
        purse = Purse()
        with serve_json(lambda _n, _b, usage=usage: chat(entities(BAND), usage=usage)) as server:
            model = chat_model(server.url)
            asked = asker(model, budget=purse)
            list(asked.outcomes(SIX[:1]))
            most = most_of(model, model.request(asked.domain, SIX[0]))
        assert purse.tokens == most.input_tokens + most.output_tokens


def test_no_more_requests_at_once_than_allowed() -> None:
    lock, now, most = threading.Lock(), [0], [0]

    def behave(number: int, body: Any) -> Reply:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.05)
        with lock:
            now[0] -= 1
        return GOOD(number, body)

    with serve_json(behave) as server:
        assert len(list(asker(chat_model(server.url, at_once=2)).outcomes(SIX))) == 6
    assert most[0] == 2


def test_asking_stops_within_moments_and_keeps_what_was_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "GRACE", 0.2)
    cache = MemoryCache()
    with serve_json(lambda number, body: GOOD(number, body) if number < 2 else Reply(hang=60)) as server:
        done: list[Outcome] = []
        began = time.monotonic()
        for outcome in asker(chat_model(server.url, timeout=60.0), cache=cache).outcomes(
            SIX, should_stop=lambda: len(server.queries) > 2
        ):
            done.append(outcome)
        assert len(done) == 2 == len(cache.values) and time.monotonic() - began < 5


def test_a_key_is_needed_and_must_fit_a_header() -> None:
    model = chat_model("http://127.0.0.1:9/v1", key_variable=VARIABLE)
    with pytest.raises(InvalidConfig, match=f"variable {VARIABLE} is not set"):
        asker(model)
    for key in ("sk-1\nX-Other: 1", "schlüssel", "two words"):
        with pytest.raises(InvalidConfig, match="no usable key") as caught:
            asker(model, key=key)
        assert key not in str(caught.value)


def test_a_zero_shot_tagger_is_asked_with_titles_as_labels() -> None:
    def behave(_number: int, body: Any) -> Reply:
        assert "musical artist" in body["labels"] and body["threshold"] == 0.5
        return as_json([{"start": 7, "end": 7, "text": "The Tin Gulls", "label": "band", "score": 0.9}])

    with serve_json(behave, path="/find") as server:
        model = GlinerModel(name="own", address=server.url, request_price=0.01)
        purse = Purse()
        (outcome,) = asker(model, source="gliner:own", budget=purse).outcomes(SIX[:1])
        assert server.paths == ["/find"]
    assert spans(outcome) == [(4, 7, "band")] and outcome.suggestions is not None
    assert outcome.suggestions[0].score == 0.9 and (purse.requests, purse.tokens, purse.cost) == (1, 0, 0.01)
    assert most_of(model, model.request(asker(model).domain, SIX[0])) == Spend(1, 0, 0, 0.01)
