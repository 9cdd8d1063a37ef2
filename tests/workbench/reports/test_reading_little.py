"""What reports read of a large campaign: the texts of sentences nobody worked on, and metadata, stay in the store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from db.engine import Store
from tests.support import builders
from workbench.accounts.actors import Actor
from workbench.reports import errors_browsing, overlaps
from workbench.reports.errors_browsing import SUGGESTED, Speaker
from workbench.reports.overview import overview

People = dict[str, Actor]


@pytest.fixture
def gold(store: Store, people: People, campaign: int) -> int:
    builders.make_gold(store, people, campaign)
    return campaign


@contextmanager
def _asked(store: Store) -> Iterator[list[str]]:
    """Collect the queries that read all sentences of a campaign: those that join no task or annotation."""
    queries: list[str] = []

    def keep(_connection: Any, _cursor: Any, query: str, *_rest: Any) -> None:
        if "FROM sentence" in query and "JOIN" not in query and "content_hash IN" not in query:
            queries.append(query)

    sa.event.listen(store.engine, "before_cursor_execute", keep)
    yield queries
    sa.event.remove(store.engine, "before_cursor_execute", keep)


def test_overview_reads_no_text_of_sentences_without_work(store: Store, people: People, gold: int) -> None:
    with _asked(store) as queries:
        overview(store, people["res"], gold)
    assert queries and not [query for query in queries if "sentence.text" in query or "sentence.tokens" in query]


def test_errors_of_suggestions_read_no_text_of_sentences_without_gold(store: Store, people: People, gold: int) -> None:
    with _asked(store) as queries:
        speaker = Speaker(source=SUGGESTED)
        (split, *_) = errors_browsing.splits_of(store, people["res"], gold, speaker)
        errors_browsing.errors_of(store, people["res"], gold, speaker, split=split)
    assert queries and not [query for query in queries if "sentence.text" in query or "sentence.tokens" in query]


def test_vocabulary_of_a_campaign_reads_words_alone_and_the_first_sentences(
    store: Store, people: People, campaign: int
) -> None:
    source = next(each for each in overlaps.text_sources(store, people["res"]) if each.kind == "campaign")
    with _asked(store) as queries:
        whole = overlaps.vocabulary_of(store, people["res"], source)
        one = overlaps.vocabulary_of(store, people["res"], source, most=1)
    assert not [query for query in queries if "sentence.meta" in query]
    assert 0 < one.tokens < whole.tokens
