"""Identical words: proposed in open sentences while a span asks for it, and never where somebody has decided."""

from __future__ import annotations

import datetime as dt
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings

from crossner_core.errors import InvalidSpan, NotFound
from crossner_core.schema import LabelledSentence, Sentence, Span, sentence_from_words
from crossner_core.suggest.identical import IDENTICAL, places, places_like
from db.engine import Store
from db.tables import Annotation, RejectedRow, SentenceRow, SpanRow, SuggestionRow, Task
from db.types import now
from tests.support.builders import Tab, make_campaign, make_people
from tests.support.postgres import fresh_store, needs_postgres
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns, sentences
from workbench.labelling import handout, screen
from workbench.runs.training_data import suggested_by_names
from workbench.suggestions import identical

People = dict[str, Actor]
Row = tuple[str, int, int, str]
TEXTS = (
    ("s1", "The Tin Gulls left Oslo , and Oslo missed The Tin Gulls .", "gulls.txt"),
    ("s2", "The Tin Gulls played .", "gulls.txt"),
    ("s3", "Nobody in Oslo knew The Tin Gulls or the tin gulls .", "other.txt"),
    ("s4", "The Tin Gullshaw played in Oslo .", "other.txt"),
    ("s5", "In Oslo they were The Tin Gulls .", None),
    ("s6", "A ship was called The Tin Gulls .", None),
)
BAND = (0, 3, "band")


def written(texts: tuple[tuple[str, str, str | None], ...] = TEXTS) -> list[Sentence]:
    return [sentence_from_words(text.split(), id=id, document=document) for id, text, document in texts]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def store(request: pytest.FixtureRequest, store: Store) -> Iterator[Store]:
    """A fresh store, on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        yield store
        return
    with fresh_store() as fresh:
        yield fresh


@pytest.fixture
def campaign(store: Store, people: People) -> int:
    """A campaign of the sentences above, in their order, without the builder's own."""
    made = make_campaign(store, people, name="Gulls")
    with store.write() as session:
        session.execute(sa.delete(SentenceRow))
    sentences.add_sentences(store, people["res"], made, written())
    return made


@pytest.fixture
def tab(store: Store, people: People, campaign: int) -> Tab:
    return Tab(store, people["ann1"], campaign, "annotate")


def asked(tab: Tab, item: dict[str, Any], *spans: tuple[int, int, str], kind: str = "draft", **changes: Any) -> None:
    """Save these spans, each proposed elsewhere."""
    event = tab.event(kind, item, spans, **changes)
    for span in event["work"]["spans"]:
        span["elsewhere"] = True
    assert tab.send(event).rejections == []


def proposed(store: Store) -> list[Row]:
    """Return what is proposed as identical words: sentence, tokens and type."""
    query = sa.select(SentenceRow.external_id, SuggestionRow.start, SuggestionRow.end, SuggestionRow.type)
    query = query.join(SentenceRow, SentenceRow.id == SuggestionRow.sentence_id)
    with store.read() as session:
        rows = session.execute(query.where(SuggestionRow.source == IDENTICAL.id))
        return sorted((id, start, end, kind) for id, start, end, kind in rows)


EVERYWHERE = [("s2", 0, 3, "band"), ("s3", 4, 7, "band"), ("s5", 4, 7, "band"), ("s6", 4, 7, "band")]


def test_places_are_whole_tokens_to_the_letter() -> None:
    sentence = sentence_from_words(["Ann", ",", "Anna", "and", "Ann", "Ann", "Ann"], id="x")
    assert list(places(sentence, "Ann")) == [(0, 1), (4, 5), (5, 6), (6, 7)]
    assert list(places(sentence, "Ann Ann")) == [(4, 6)]
    assert list(places(sentence, "ann")) == list(places(sentence, "nn")) == list(places(sentence, "")) == []


def test_places_within_a_longer_name_are_none_unless_the_span_stands_in_one_too() -> None:
    def found(text: str, span: tuple[int, int], other: str) -> list[tuple[int, int]]:
        made = [sentence_from_words(words.split(), id=words) for words in (text, other)]
        return list(places_like(made[0], span, made[1]))

    assert found("They met Labour there", (2, 3), "The Labour Party and Labour and New Labour") == [(4, 5)]
    assert found("They met Mr Smith", (3, 4), "Then Mr Smith and Ms Smith left") == [(2, 3)]
    assert found("In Oslo", (1, 2), "Near Oslo it rained") == [(1, 2)], "a sentence's first word has a capital anyway"


def test_words_are_proposed_in_open_sentences_and_shown_with_their_source(store: Store, tab: Tab) -> None:
    first = tab.items()[0]
    asked(tab, first, BAND)
    assert proposed(store) == EVERYWHERE
    second = tab.items()[1]
    (shown,) = second["suggestions"]
    assert (shown["start"], shown["end"], shown["type"], shown["sources"]) == (*BAND, ["identical"])
    assert not shown["hint"]


def test_undo_withdraws_what_nobody_has_decided(store: Store, people: People, tab: Tab) -> None:
    first, second, third, _ = tab.items()
    asked(tab, first, BAND)
    tab.do("submit", second, [BAND])
    tab.do("draft", third, [], parts={"rejected": [{"start": 4, "end": 7, "type": "band", "source": "identical"}]})
    tab.do("draft", first, [BAND], base=1)
    assert proposed(store) == EVERYWHERE[:2]
    asked(tab, first, BAND, base=2)
    assert proposed(store) == EVERYWHERE, "asked again, what was withdrawn comes back"


def test_a_span_that_goes_takes_its_proposals_with_it_unless_another_asks_for_them(
    store: Store, people: People, tab: Tab
) -> None:
    first = tab.items()[0]
    other = Tab(store, people["ann2"], tab.campaign_id, "annotate")
    (theirs,) = (item for item in other.items() if item["text"].startswith("A ship"))
    asked(tab, first, BAND)
    asked(other, theirs, (4, 7, "band"))
    tab.do("submit", first, [(0, 3, "organisation")], base=1)
    assert proposed(store) == EVERYWHERE[:3]
    handout.release(store, tab.actor, tab.campaign_id, "annotate")
    other.do("draft", theirs, [], base=1)
    assert proposed(store) == []


def test_nothing_is_proposed_in_anothers_hands_to_a_control_or_at_a_later_stage(
    store: Store, people: People, tab: Tab
) -> None:
    first, *_ = tab.items(2)
    Tab(store, people["ann2"], tab.campaign_id, "annotate").items(1)  # s3
    gold = LabelledSentence(written((("s7", "The Tin Gulls won .", None),))[0], (Span(0, 3, "band"),))
    sentences.add_sentences(store, people["res"], tab.campaign_id, [gold])
    with store.write() as session:
        session.execute(sa.update(SentenceRow).where(SentenceRow.external_id == "s5").values(control=True))
    asked(tab, first, BAND)
    assert proposed(store) == [("s2", 0, 3, "band"), ("s6", 4, 7, "band")]
    with store.write() as session:  # ann2 has gone home; whoever comes next begins afresh
        session.execute(
            sa.update(Task).where(Task.leased_to.is_not(None)).values(lease_expires=now() - dt.timedelta(1))
        )
    tab.do("draft", first, [BAND], base=1)
    asked(tab, first, BAND, base=2)
    assert ("s3", 4, 7, "band") in proposed(store)


def test_models_do_not_learn_from_them_as_from_names(store: Store, people: People, tab: Tab) -> None:
    with store.write() as session:
        session.execute(sa.update(SentenceRow).values(preannotated_at=now()))
    asked(tab, tab.items()[0], BAND)
    with store.read() as session:
        by_hash = suggested_by_names(session, tab.campaign_id, splits=("pool",))
    assert len(by_hash) == len(TEXTS) and not any(by_hash.values())


def test_a_campaign_without_suggestions_gets_none(store: Store, people: People, tab: Tab) -> None:
    campaigns.update_settings(store, people["adm"], tab.campaign_id, suggestions_on=False)
    first = tab.items()[0]
    asked(tab, first, BAND)
    assert proposed(store) == []
    counted = identical.occurrences(store, tab.actor, tab.campaign_id, first["task"], start=0, end=3)
    assert (counted.document, counted.campaign) == (0, 0)


def test_undo_withdraws_in_a_campaign_whose_suggestions_were_switched_off_since(
    store: Store, people: People, tab: Tab
) -> None:
    first = tab.items()[0]
    asked(tab, first, BAND)
    campaigns.update_settings(store, people["adm"], tab.campaign_id, suggestions_on=False)
    tab.do("draft", first, [BAND], base=1)
    assert proposed(store) == []


def test_occurrences_are_counted_by_document_and_campaign(store: Store, tab: Tab) -> None:
    first, *_ = tab.items()
    message = {"client": tab.client, "events": [], "look": {"task": first["task"], "start": 0, "end": 3}}
    counted = screen.answer(store, tab.actor, tab.campaign_id, "annotate", message).occurrences
    assert counted == identical.Occurrences(first["task"], 0, 3, document=1, campaign=3)
    asked(tab, first, BAND)
    assert screen.answer(store, tab.actor, tab.campaign_id, "annotate", message).occurrences == counted


def test_words_that_do_not_exist_are_refused_but_keep_no_event_from_its_answer(store: Store, tab: Tab) -> None:
    first, *_ = tab.items()
    with pytest.raises(InvalidSpan, match="outside"):
        identical.occurrences(store, tab.actor, tab.campaign_id, first["task"], start=0, end=99)
    with pytest.raises(NotFound, match="no task 99999"):
        identical.occurrences(store, tab.actor, tab.campaign_id, 99999, start=0, end=1)
    message = {"client": tab.client, "events": [tab.event("draft", first, [BAND])]}
    message |= {"look": {"task": 99999, "start": 0, "end": 1}}
    answer = screen.answer(store, tab.actor, tab.campaign_id, "annotate", message)
    assert (answer.acks, answer.occurrences) == ({tab.client: 1}, None)


WORDS = ("Oslo", "The", "Gulls", "sang", "oslo")
lines = st.lists(st.lists(st.sampled_from(WORDS), min_size=2, max_size=6), min_size=6, max_size=6)
spots = st.tuples(st.integers(0, 5), st.integers(1, 2), st.sampled_from(("band", "location")), st.booleans())
steps = st.tuples(
    st.sampled_from(("ann1", "ann2")),
    st.integers(0, 3),
    st.lists(spots, max_size=3),
    st.sampled_from(("none", "none", "reject")),
    st.sampled_from(("draft", "draft", "submit")),
)


def closed(store: Store, actor: Actor) -> set[str]:
    """Return the sentences in which nothing may be proposed on behalf of a person."""
    others = sa.and_(Task.state == "leased", Task.leased_to != actor.id)
    query = sa.select(SentenceRow.external_id).join(Task, Task.sentence_id == SentenceRow.id)
    barred = sa.or_(Task.stage != "annotate", Task.state.in_(("done", "parked")), others, SentenceRow.control)
    with store.read() as session:
        return set(session.scalars(query.where(barred)))


def decided(store: Store) -> set[tuple[str, int]]:
    """Return the tokens that somebody has marked or rejected a suggestion at."""
    tokens: set[tuple[str, int]] = set()
    with store.read() as session:
        for table in (SpanRow, RejectedRow):
            query = sa.select(SentenceRow.external_id, table.start, table.end).join(
                Task, Task.sentence_id == SentenceRow.id
            )
            query = query.join(Annotation, Annotation.task_id == Task.id)
            for id, start, end in session.execute(query.where(table.annotation_id == Annotation.id)):
                tokens |= {(id, token) for token in range(start, end)}
    return tokens


def take_step(tab: Tab, step: Any) -> list[dict[str, Any]]:
    """Do one step of a person; return the spans that ask for proposals."""
    _, place, marks, reject, kind = step
    items = tab.items()
    if not items:
        return []
    item = items[place % len(items)]
    size = len(item["tokens"])
    spans: list[tuple[int, int, str]] = []
    flags: list[bool] = []
    for start, length, type, elsewhere in sorted(marks):
        if start + length <= size and all(end <= start for _, end, _ in spans):
            spans.append((start, start + length, type))
            flags.append(elsewhere)
    parts: dict[str, Any] = {"no_entities": kind == "submit" and not spans}
    if reject == "reject":
        keys = ("start", "end", "type", "source")
        parts["rejected"] = [{key: suggestion[key] for key in keys} for suggestion in item["suggestions"]]
    event = tab.event(kind, item, spans, parts=parts)
    for span, flag in zip(event["work"]["spans"], flags, strict=True):
        span["elsewhere"] = flag
    for _ in range(2):  # as a browser that has not seen the acknowledgement
        assert tab.send(event).rejections == []
    return [span for span in event["work"]["spans"] if span["elsewhere"]]


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines, st.lists(steps, min_size=2, max_size=8), st.sets(st.integers(0, 5), max_size=2))
def test_proposals_never_reach_gold_decided_places_or_a_place_twice(
    store_template: Path, tmp_path: Path, texts: list[list[str]], acts: list[Any], special: set[int]
) -> None:
    path = tmp_path / "life.sqlite3"
    path.unlink(missing_ok=True)
    shutil.copyfile(store_template, path)
    store = Store(f"sqlite:///{path}")
    people = make_people(store)
    campaign_id = make_campaign(store, people)
    with store.write() as session:
        session.execute(sa.delete(SentenceRow))
    made = [sentence_from_words([*words, str(number)], id=str(number)) for number, words in enumerate(texts)]
    gold = [LabelledSentence(made[number], ()) for number in special]
    plain = [sentence for number, sentence in enumerate(made) if number not in special]
    sentences.add_sentences(store, people["res"], campaign_id, [*plain, *gold])
    by_id = {sentence.id: sentence for sentence in made}
    tabs = {name: Tab(store, people[name], campaign_id, "annotate") for name in ("ann1", "ann2")}
    for act in acts:
        tab = tabs[act[0]]
        tab.items()
        before, barred, taken = proposed(store), closed(store, tab.actor), decided(store)
        wanted = take_step(tab, act)
        after = proposed(store)
        assert len(set(after)) == len(after)
        new = Counter(after) - Counter(before)
        for id, start, end, kind in new:
            assert id not in barred
            assert not {(id, token) for token in range(start, end)} & taken
            assert (by_id[id].surface(start, end), kind) in {(span["surface"], span["type"]) for span in wanted}
        for id, start, end, _ in Counter(before) - Counter(after):
            assert id not in barred, "what somebody has before them, or has decided, stays"
            assert not {(id, token) for token in range(start, end)} & taken
    store.close()
