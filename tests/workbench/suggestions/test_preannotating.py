"""Pre-annotation: suggestions beside the sentences, an endpoint that is down, a cache, and models."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
import sqlalchemy as sa

from crossner_core.errors import Conflict, EndpointUnavailable, NotAllowed, UnknownType
from crossner_core.gazetteer.lookup import Resource
from crossner_core.schema import Span, Suggestion
from db.engine import Store
from db.tables import SentenceRow, SuggestionRow
from tests.support.builders import Tab
from tests.support.training_store import beat, when_asked, work
from workbench.accounts.actors import SYSTEM, Actor
from workbench.data import layers
from workbench.jobs import lease, queue
from workbench.jobs.context import JobContext
from workbench.suggestions import preannotating

People = dict[str, Actor]
ONTOLOGY = "http://dbpedia.org/ontology/"


class Known:
    """A gazetteer that knows one band, or is down."""

    name = "known"

    def __init__(self, *, down: bool = False) -> None:
        self.down = down

    def lookup(self, names: Iterable[str]) -> dict[str, tuple[Resource, ...]]:
        if self.down:
            raise EndpointUnavailable("http://nowhere does not answer.")
        band = Resource("http://dbpedia.org/resource/The_Tin_Gulls", (f"{ONTOLOGY}Band",), "title")
        return {name: (band,) if name == "The Tin Gulls" else () for name in names}


def _suggestions(store: Store) -> list[tuple[int, int, str, str]]:
    with store.read() as session:
        rows = session.scalars(sa.select(SuggestionRow).order_by(SuggestionRow.sentence_id, SuggestionRow.start))
        return [(row.start, row.end, row.type, row.source) for row in rows]


def test_preannotate_writes_suggestions_once(store: Store, people: People, campaign: int) -> None:
    report = preannotating.preannotate(store, people["res"], campaign, sources=[Known()])
    assert (report.sentences, report.suggestions, report.again, report.problems) == (6, 1, 0, ())
    assert _suggestions(store) == [(4, 7, "band", "link")]
    assert preannotating.preannotate(store, SYSTEM, campaign, sources=[Known()]).sentences == 0
    item = Tab(store, people["ann1"], campaign, "annotate").items(1)[0]
    assert item["suggestions"][0]["entity"] == "http://dbpedia.org/resource/The_Tin_Gulls"
    assert len(layers.layer(store, people["res"], campaign, "suggestions")) == 6


def test_preannotate_tries_again_when_an_endpoint_was_down(store: Store, people: People, campaign: int) -> None:
    report = preannotating.preannotate(store, people["res"], campaign, sources=[Known(down=True)])
    assert (report.sentences, report.again) == (6, 6) and "does not answer" in report.problems[0]
    assert "tried again" in str(report) and "does not answer" in str(report)
    tab = Tab(store, people["ann1"], campaign, "annotate")
    tab.do("submit", tab.items(1)[0])  # nothing is blocked
    assert preannotating.preannotate(store, people["res"], campaign, sources=[Known()]).sentences == 5
    assert _suggestions(store) == []  # the sentence with the band was begun without suggestions, and stays so


def test_preannotate_uses_the_bundled_sample_by_default(store: Store, people: People, campaign: int) -> None:
    report = preannotating.preannotate(store, people["res"], campaign, limit=2)
    assert report.sentences == 2 and report.problems == ()


def test_preannotate_stops_when_told_and_says_how_far_it_is(
    store: Store, people: People, campaign: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preannotating, "_CHUNK", 2)
    heard: list[float] = []
    report = preannotating.preannotate(
        store, people["res"], campaign, sources=[Known()], should_stop=lambda: len(heard) == 2, on_progress=heard.append
    )
    assert report.sentences == 4 and heard == [2 / 6, 4 / 6]
    assert preannotating.preannotate(store, people["res"], campaign, sources=[Known()]).sentences == 2


def test_suggestions_under_way_are_cancelled(store: Store, people: People, campaign: int, tmp_path: Path) -> None:
    with pytest.raises(Conflict, match="nothing to cancel"):
        queue.cancel_in_campaign(store, people["res"], campaign, "preannotate", "score_pool")
    first = queue.start_job(store, people["res"], "preannotate", campaign)
    claimed = lease.claim(store, worker="w")
    assert claimed is not None and claimed.id == first
    queue.start_job(store, people["res"], "score_pool", campaign)
    with pytest.raises(NotAllowed):
        queue.cancel_in_campaign(store, people["ann1"], campaign, "preannotate", "score_pool")
    assert queue.cancel_in_campaign(store, people["eva"], campaign, "preannotate", "score_pool") == [
        "running",
        "cancelled",
    ]
    found = [(one.kind, one.state, one.cancel_requested) for one in queue.list_jobs(store, people["res"], campaign)]
    assert found == [("score_pool", "cancelled", False), ("preannotate", "running", True)]


def test_suggestions_are_stopped_at_work(
    store: Store, people: People, campaign: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cancel_it(context: JobContext) -> None:
        assert queue.cancel_in_campaign(store, people["res"], campaign, "preannotate", "score_pool") == ["running"]
        beat(store, context)

    job_id = queue.start_job(store, people["res"], "preannotate", campaign)
    when_asked(monkeypatch, "preannotate", cancel_it)
    assert work(store, tmp_path) == 1
    assert queue.get_job(store, people["res"], job_id).state == "cancelled"
    assert preannotating.preannotate(store, SYSTEM, campaign, sources=[Known()]).sentences == 6


def test_store_cache_keeps_answers(store: Store) -> None:
    cache = preannotating.StoreCache(store)
    cache.put_many("http://e", {"a": {"n": 1}, "b": {"n": 2}})
    cache.put_many("http://e", {"a": {"n": 3}})
    assert cache.get_many("http://e", ["a", "b", "c"]) == {"a": {"n": 3}, "b": {"n": 2}}
    assert cache.get_many("http://other", ["a"]) == {}
    cache.put_many("http://e", {})


def test_model_suggestions_replace_older_ones_of_untouched_sentences(
    store: Store, people: People, campaign: int
) -> None:
    preannotating.preannotate(store, people["res"], campaign, sources=[Known()])
    with store.read() as session:
        ids = list(session.scalars(sa.select(SentenceRow.id).order_by(SentenceRow.position)))
        assert [id_ for id_, _ in preannotating.unlabelled_pool(session, campaign)] == ids
    add = {"run_id": 7, "suggestions": {id_: [Span(0, 2, "band")] for id_ in ids}}
    assert preannotating.add_model_suggestions(store, SYSTEM, campaign, **add) == 6
    Tab(store, people["ann1"], campaign, "annotate").items(1)
    add = {"run_id": 8, "suggestions": {id_: [Suggestion(0, 1, "song", "model:ab", 0.9)] for id_ in ids}}
    assert preannotating.add_model_suggestions(store, SYSTEM, campaign, **add) == 5
    found = _suggestions(store)
    assert found[:2] == [(0, 2, "band", "model"), (4, 7, "band", "link")]
    assert found[2:] == [(0, 1, "song", "model:ab")] * 5
    with pytest.raises(UnknownType, match="politician"):
        preannotating.add_model_suggestions(
            store, SYSTEM, campaign, run_id=9, suggestions={ids[-1]: [Span(0, 1, "politician")]}
        )


def test_pre_annotation_reads_each_sentence_once_however_many_chunks_there_are(
    store: Store, people: People, campaign: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preannotating, "_CHUNK", 1)
    read = list[int]()

    def count(row: SentenceRow, _context: object) -> None:
        read.append(row.id)

    sa.event.listen(SentenceRow, "load", count)
    try:
        report = preannotating.preannotate(store, people["res"], campaign, sources=[Known()])
    finally:
        sa.event.remove(SentenceRow, "load", count)
    assert report.sentences == len(read) == len(set(read)) == 6
